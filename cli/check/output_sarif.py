"""`-o sarif`: SARIF 2.1.0, which code hosts show as annotations on the lines of a change."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from cli.check.lines import line_of
from cli.check.results import STDIN, Problem
from cli.version import version
from policy.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from cli.check.results import Judged, Summary
    from policy.catalogue import Rule, Severity
    from policy.model import Action, JudgedHit

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS: dict[Action, str] = {"denied": "error", "warned": "warning", "fixed": "note", "audited": "note"}
# The scale of CVSS, by which code hosts sort: critical from 9.0, high from 7.0, medium from 4.0.
_SECURITY_SEVERITY: dict[Severity, str] = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "3.0"}
_INDEX = {rule: index for index, rule in enumerate(RULES)}


def write(found: Iterable[Judged | Problem], summary: Summary, out: BinaryIO) -> None:
    """Write everything found as one run."""
    results: list[dict[str, Any]] = []
    notifications: list[dict[str, Any]] = []
    for outcome in found:
        if isinstance(outcome, Problem):
            notifications.append(_notification(outcome))
        else:
            results += [_result(outcome, hit) for hit in outcome.decision.hits]
    invocation = {
        "executionSuccessful": not summary.problems,
        "exitCode": summary.exit_code,
        "toolExecutionNotifications": notifications,
    }
    run = {
        "tool": {"driver": _driver()},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results,
    }
    out.write(msgspec.json.encode({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + b"\n")


def _driver() -> dict[str, Any]:
    return {"name": "gpufence", "version": version(), "rules": [_rule(rule) for rule in RULES.values()]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": f"{rule.why}\n\nFix: {rule.fix}\n\nSource: {rule.source}",
            "markdown": f"{rule.why}\n\n**Fix:** {rule.fix}\n\n**Source:** {rule.source}",
        },
        "properties": {
            "tags": ["security", "kubernetes", rule.family],
            "security-severity": _SECURITY_SEVERITY[rule.severity],
        },
    }


def _result(judged: Judged, found: JudgedHit) -> dict[str, Any]:
    hit = found.hit
    where = f"container {hit.container} of {judged.title}" if hit.container else judged.title
    because = f" ({found.because})" if found.because else ""
    text = f"{where}: {hit.message}. {found.action.capitalize()}{because}. Fix: {RULES[hit.rule].fix}"
    logical = f"{judged.kind}/{judged.namespace}/{judged.name}/{judged.path}{hit.path.replace('/', '.')}"
    return {
        "ruleId": hit.rule,
        "ruleIndex": _INDEX[hit.rule],
        "level": _LEVELS[found.action],
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": _physical(judged.source, line_of(judged, hit.path)),
                "logicalLocations": [{"fullyQualifiedName": logical, "kind": "object"}],
            }
        ],
        # Survives moves of the object within its file, so that a host does not report it anew.
        "partialFingerprints": {"gpufence/v1": _fingerprint(hit.rule, judged.source, logical)},
        "properties": {"mode": found.mode, "action": found.action, "document": judged.document},
    }


def _notification(problem: Problem) -> dict[str, Any]:
    return {
        "level": "error",
        "message": {"text": str(problem)},
        "locations": [{"physicalLocation": _physical(problem.source, None)}],
    }


def _physical(source: str, line: int | None) -> dict[str, Any]:
    uri = "stdin" if source == STDIN else quote(source)
    location: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if line is not None:
        location["region"] = {"startLine": line}
    return location


def _fingerprint(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
