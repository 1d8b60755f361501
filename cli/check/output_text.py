"""`-o text`: for people. Denied pods first; a few results one by one, many grouped."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from cli.check.diff import diff_lines
from cli.check.lines import line_of
from cli.check.results import STDIN, Judged, Problem
from cli.terminal import clean
from policy.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cli.check.results import Summary
    from policy.model import Action, JudgedHit

    Print = Callable[[Text], None]

# More results than these are grouped: nobody reads on after some screens of them.
MANY = 25
_NAMES = 5  # objects named per group of denied ones
_EXAMPLES = 2  # objects named per rule of allowed ones
_INDENT = " " * 8

_STYLES: dict[str, str] = {"denied": "bold red", "warned": "yellow", "fixed": "cyan", "audited": "dim"}
_TITLES = {"denied": "DENIED", "warned": "WARNED", "fixed": "FIXED", "audited": "ok", "": "ok"}
_ORDER: tuple[Action, ...] = ("denied", "warned", "fixed", "audited")


class TextOutput:
    """Prints results through `show`. `width` is for prose; names, paths and diffs are never broken."""

    def __init__(self, show: Print, width: int, *, everything: bool = False) -> None:
        self._show = show
        self._width = width
        self._everything = everything
        self._explained: set[str] = set()

    def write(self, found: Iterable[Judged | Problem], summary: Summary) -> None:
        """Print everything found, then the summary. Problems are told on standard error, not here."""
        by_outcome: dict[str, list[Judged]] = {outcome: [] for outcome in (*_ORDER, "")}
        for judged in found:
            if isinstance(judged, Judged):
                by_outcome[outcome_of(judged)].append(judged)
        if self._everything or summary.allowed + summary.denied <= MANY:
            for outcome, results in by_outcome.items():
                for judged in results:
                    self._one(judged, outcome)
        else:
            self._denied_groups(by_outcome["denied"])
            self._allowed_groups([judged for outcome in _ORDER[1:] for judged in by_outcome[outcome]])
        results = [judged for group in by_outcome.values() for judged in group]
        for note in dict.fromkeys(note for judged in results for note in judged.decision.notes):
            self._prose(f"note: {note}. --namespaces FILE gives the labels.", "yellow")
        self._plain(_summary(summary, results))

    def _one(self, judged: Judged, outcome: str, others: Sequence[Judged] = ()) -> None:
        head = Text(f"{_TITLES[outcome]:<8}", style=_STYLES.get(outcome, "green"))
        head.append(clean(judged.title), style="bold")
        if outcome in ("audited", "") and not judged.warnings:
            head.append(f"  {_place(judged)}{_recorded(judged)}", style="dim")
            self._show(head)
            return
        self._show(head)
        self._plain(_INDENT + _place(judged), "dim")
        if others:
            names = ", ".join(clean(other.title) for other in others[:_NAMES])
            more = f", and {len(others) - _NAMES} more" if len(others) > _NAMES else ""
            self._prose(f"and {len(others)} more with the same findings: {names}{more}", "dim")
        for text in judged.warnings:
            self._prose(f"warning: {text}", "yellow")
        self._findings(judged)
        self._diff(judged)
        self._plain("")

    def _findings(self, judged: Judged) -> None:
        groups: dict[tuple[Action, str], list[JudgedHit]] = {}
        for found in judged.decision.hits:
            groups.setdefault((found.action, found.hit.rule), []).append(found)
        for action in _ORDER[:-1]:
            for (done, rule), hits in groups.items():
                if done == action:
                    self._rule(judged, rule, hits)
        for (done, rule), hits in groups.items():
            if done == "audited":
                self._recorded(rule, hits)

    def _recorded(self, rule: str, hits: list[JudgedHit]) -> None:
        """Print one line for hits without a consequence; a grave one must not hide behind a fix."""
        containers = ", ".join(dict.fromkeys(found.hit.container for found in hits if found.hit.container))
        where = f" ({containers})" if containers else ""
        because = f" ({hits[0].because})" if hits[0].because else ""
        lead = Text(f"  {rule} ", style=_STYLES["audited"])
        self._show(lead.append_text(self._wrapped(f"recorded: {RULES[rule].title}{where}{because}")))

    def _rule(self, judged: Judged, rule: str, hits: list[JudgedHit]) -> None:
        action = hits[0].action
        for found in hits:
            hit = found.hit
            subject = f"container {hit.container} " if hit.container else ""
            because = f" ({found.because})" if found.because else ""
            lead = Text(f"  {rule} ", style=_STYLES[action])
            self._show(lead.append_text(self._wrapped(f"{action}: {subject}{hit.message}{because}")))
            line = line_of(judged, hit.path)
            self._plain(f"{_INDENT}at {clean(hit.path)}" + (f" (line {line})" if line else ""), "dim")
        if rule not in self._explained:
            self._explained.add(rule)
            self._prose(f"why: {RULES[rule].why}")
        if action != "fixed":
            self._prose(f"fix: {RULES[rule].fix}", "green")

    def _diff(self, judged: Judged) -> None:
        if not any(hit.action == "fixed" for hit in judged.decision.hits):
            return  # only the stamps of gpufence itself
        for line in diff_lines(judged):
            style = {"+": "green", "-": "red", "@": "bold"}.get(line[:1], "dim")
            self._plain(_INDENT + clean(line), style)

    def _denied_groups(self, denied: list[Judged]) -> None:
        groups: dict[object, list[Judged]] = {}
        for judged in denied:
            groups.setdefault(_same(judged), []).append(judged)
        for group in sorted(groups.values(), key=len, reverse=True):
            self._one(group[0], "denied", group[1:])

    def _allowed_groups(self, allowed: list[Judged]) -> None:
        """Print, per rule and action, how many of the allowed templates it concerns."""
        found: dict[tuple[Action, str], list[Judged]] = {}
        for judged in allowed:
            for key in {(hit.action, hit.hit.rule) for hit in judged.decision.hits}:
                found.setdefault(key, []).append(judged)
        if not found:
            return
        self._plain("Allowed pod templates with findings:", "bold")
        for action, rule in sorted(found, key=lambda key: (_ORDER.index(key[0]), key[1])):
            group = found[action, rule]
            names = ", ".join(clean(judged.title) for judged in group[:_EXAMPLES])
            more = ", ..." if len(group) > _EXAMPLES else ""
            lead = Text(f"  {rule} ", style=_STYLES[action])
            text = f"{action} in {len(group):,}: {RULES[rule].title} ({names}{more})"
            self._show(lead.append_text(self._wrapped(text)))
        self._plain("")

    def _wrapped(self, text: str) -> Text:
        """Return prose for behind the indent of the first line, which the caller writes."""
        wrapper = textwrap.TextWrapper(
            self._width,
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return Text("\n".join(wrapper.wrap(clean(text)))[len(_INDENT) :])

    def _prose(self, text: str, style: str = "") -> None:
        wrapped = self._wrapped(text)
        wrapped.style = style
        self._show(Text(_INDENT).append_text(wrapped))

    def _plain(self, text: str, style: str = "") -> None:
        self._show(Text(text, style=style))


def outcome_of(judged: Judged) -> Action | str:
    """Return the gravest thing that was done; empty where there was no finding."""
    actions = {hit.action for hit in judged.decision.hits}
    return next((action for action in _ORDER if action in actions), "")


def _same(judged: Judged) -> object:
    hits = tuple(
        (hit.hit.rule, hit.action, hit.hit.container, hit.hit.message) for hit in judged.decision.hits
    )
    return judged.source, judged.namespace, hits


def _place(judged: Judged) -> str:
    line = line_of(judged)
    source = "standard input" if judged.source == STDIN else judged.source
    where = clean(source) + (f":{line}" if line else "")
    return f"{where}, document {judged.document}, {clean(judged.path)}"


def _recorded(judged: Judged) -> str:
    rules = sorted({hit.hit.rule for hit in judged.decision.hits})
    recorded = f", recorded: {', '.join(rules)}" if rules else ""
    return recorded + (", exempt" if judged.decision.exempt else "")


def _summary(summary: Summary, results: list[Judged]) -> str:
    allowed = [{hit.action for hit in judged.decision.hits} for judged in results if not judged.denied]
    parts = [f"{summary.denied:,} denied", f"{summary.allowed:,} allowed"]
    for action in _ORDER[1:-1]:
        number = sum(action in actions for actions in allowed)
        parts += [f"{number:,} of them {action}"] if number else []
    text = f"{_counted(summary.allowed + summary.denied, 'pod template')}: {', '.join(parts)}."
    if summary.skipped:
        text += f" {_counted(summary.skipped, 'document')} without a pod."
    if summary.problems:
        text += f" {_counted(summary.problems, 'input')} could not be judged (see standard error)."
    return text


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
