"""`-o json`: one object, written as the results come, so that a cluster's worth of pods needs no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from cli.check.patched import patched
from cli.check.results import Problem
from policy.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from cli.check.results import Judged, Summary
    from policy.catalogue import Severity
    from policy.model import Action, JudgedHit, Mode

VERSION = 1


class FindingOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding. `path` is a JSON pointer into the pod; `because` says why mode and action differ."""

    rule: str
    severity: Severity
    mode: Mode
    action: Action
    container: str | None
    path: str
    message: str
    because: str = ""


class ResultOut(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One pod template. `object` is the pod after `patch`; for a denied pod there is none.

    `exempt` is the reason of an exemption, `notes` are things that could not be known; both only where there
    are any.
    """

    source: str
    document: int
    kind: str
    namespace: str
    name: str
    template_path: str
    verdict: Literal["allow", "deny"]
    team: str | None
    findings: list[FindingOut]
    warnings: list[str]
    patch: tuple[dict[str, Any], ...]
    object: dict[str, Any]
    exempt: str = ""
    notes: tuple[str, ...] = ()


def write(found: Iterable[Judged | Problem], summary: Summary, out: BinaryIO) -> None:
    """Write everything found; the summary is read at the end, when it is complete."""
    problems: list[Problem] = []
    out.write(b'{"version":%d,"results":[' % VERSION)
    separator = b"\n"
    for outcome in found:
        if isinstance(outcome, Problem):
            problems.append(outcome)
            continue
        out.write(separator + msgspec.json.encode(result(outcome)))
        separator = b",\n"
    tail = b'],\n"problems":%b,\n"summary":%b}\n'
    out.write(tail % (msgspec.json.encode(problems), msgspec.json.encode(summary)))


def result(judged: Judged) -> ResultOut:
    """Return a result as it is written."""
    decision = judged.decision
    return ResultOut(
        source=judged.source,
        document=judged.document,
        kind=judged.kind,
        namespace=judged.namespace,
        name=judged.name,
        template_path=judged.path,
        verdict=decision.verdict,
        team=decision.team,
        findings=[_finding(hit) for hit in decision.hits],
        warnings=[*judged.warnings, *decision.warnings],
        patch=decision.patch,
        object=patched(judged),
        exempt=decision.exempt,
        notes=decision.notes,
    )


def _finding(judged: JudgedHit) -> FindingOut:
    hit = judged.hit
    return FindingOut(
        rule=hit.rule,
        severity=RULES[hit.rule].severity,
        mode=judged.mode,
        action=judged.action,
        container=hit.container,
        path=hit.path,
        message=hit.message,
        because=judged.because,
    )
