"""docs/rules.md, from the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.catalogue import Rule

_HEAD = """\
<!-- Generated from policy/catalogue.py; do not edit. To change it: make generate -->

# Rules

A rule looks for one fault in a pod. It has one or more cases, because the same fault calls for different
answers in different places. What happens is the mode of the case: `fix` (the pod is corrected), `deny`,
`warn` (the author is told), `audit` (only recorded) or `off`. The profile of the GpuPolicy gives the default;
`spec.rules` sets another mode, for all namespaces or for some. A mode that a case does not list cannot be
set.

`baseline` never refuses ordinary cluster software, but for node agents that mount `/` or `/dev` (see
[decision 0008](decisions/0008-what-baseline-refuses-of-node-agents.md)): it is laxer than the Pod Security
Standard of the same name. `restricted` refuses every way to a GPU that was not allocated and that the pod
shows, in every namespace that is not exempt; what no admission check can see is in
[decision 0007](decisions/0007-restricted-keeps-the-promise.md).

`gpufence rules` prints the same on the command line.
"""


def rule_reference() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_table(), "", *(line for rule in RULES.values() for line in _section(rule))])


def _table() -> Iterator[str]:
    yield "| rule | title | severity | baseline | restricted |"
    yield "|---|---|---|---|---|"
    for rule in RULES.values():
        baseline = ", ".join(dict.fromkeys(case.baseline for case in rule.cases))
        restricted = ", ".join(dict.fromkeys(case.restricted for case in rule.cases))
        anchor = f"[{rule.id}](#{rule.id.lower()})"
        yield f"| {anchor} | {_cell(rule.title)} | {rule.severity} | {baseline} | {restricted} |"


def _section(rule: Rule) -> Iterator[str]:
    yield f"## {rule.id}"
    yield ""
    yield f"**{_prose(rule.title)}** ({rule.family}, {rule.severity})"
    yield ""
    yield _prose(rule.why)
    yield ""
    yield f"Fix: {_prose(rule.fix)}"
    yield ""
    yield "| case | when | baseline | restricted | possible |"
    yield "|---|---|---|---|---|"
    for case in rule.cases:
        possible = ", ".join(case.modes)
        yield f"| `{case.name}` | {_cell(case.when)} | {case.baseline} | {case.restricted} | {possible} |"
    yield ""
    yield f"Source: {_prose(rule.source)}"
    yield ""


def _prose(text: str) -> str:
    """Return text as Markdown: stars and brackets stand for themselves outside of code."""
    parts = text.split("`")
    escaped = [part if index % 2 else _escaped(part) for index, part in enumerate(parts)]
    return "`".join(escaped)


def _escaped(text: str) -> str:
    for character in "\\*<[":
        text = text.replace(character, "\\" + character)
    return text


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")
