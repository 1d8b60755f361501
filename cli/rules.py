"""`gpufence rules`: the catalogue."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from policy.catalogue import Case, Rule


class RulesFormat(StrEnum):
    """Forms of the output."""

    text = "text"
    json = "json"


def rules(
    rule: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Show this rule in full, as in GF203.")
    ] = None,
    *,
    output: Annotated[
        RulesFormat, typer.Option("--output", "-o", help="Form of the output.")
    ] = RulesFormat.text,
) -> None:
    """List the rules, or show one: what it looks for, why, how to mend it, and what each profile does."""
    from policy.catalogue import RULES

    wanted = list(RULES.values()) if rule is None else [_named(rule)]
    if output is RulesFormat.json:
        import msgspec

        typer.echo(msgspec.json.encode({"version": 1, "rules": wanted}).decode())
        return
    from cli.terminal import console, prose_width, show

    terminal = console()
    lines = _list(wanted) if rule is None else _whole(wanted[0], prose_width(terminal))
    for line in lines:
        show(terminal)(line)


def _named(wanted: str) -> Rule:
    from policy.catalogue import RULES
    from policy.errors import CallerError

    found = RULES.get(wanted.strip().upper())
    if found is None:
        raise CallerError(f"there is no rule {wanted!r}. Fix: name one that `gpufence rules` lists.")
    return found


def _list(wanted: list[Rule]) -> Iterator[Text]:
    from rich.text import Text

    family = ""
    for rule in wanted:
        if rule.family != family:
            family = rule.family
            yield Text(f"{family}", style="bold")
        yield Text(f"  {rule.id}  {rule.severity:<8}  ").append(rule.title)
    yield Text("\nShow one in full: gpufence rules GF203", style="dim")


def _whole(rule: Rule, width: int) -> Iterator[Text]:
    import textwrap

    from rich.text import Text

    yield Text(f"{rule.id}  {rule.title}", style="bold")
    yield Text(f"{rule.family}, severity {rule.severity}\n", style="dim")
    for label, text in (("Why", rule.why), ("Fix", rule.fix), ("Source", rule.source)):
        lead = f"{label + ':':<8}"
        yield Text(textwrap.fill(text, width, initial_indent=lead, subsequent_indent=" " * 8))
    yield Text("\nWhat happens, by case and profile", style="bold")
    for case in rule.cases:
        yield Text(
            textwrap.fill(f"{case.name}: {case.when}", width, initial_indent="  ", subsequent_indent="    ")
        )
        yield Text(f"    {modes(case)}", style="dim")


def modes(case: Case) -> str:
    """Return the modes of a case on one line."""
    return f"baseline {case.baseline}, restricted {case.restricted}; possible: {', '.join(case.modes)}"
