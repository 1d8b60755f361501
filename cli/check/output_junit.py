"""`-o junit`: a test suite per file and a test case per pod template."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from cli.check.results import STDIN, Problem
from policy.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from cli.check.results import Judged, Summary
    from policy.model import JudgedHit

# Characters that XML 1.0 cannot hold, not even escaped (2.2 Characters).
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(found: Iterable[Judged | Problem], summary: Summary, out: BinaryIO) -> None:
    """Write everything found as one report."""
    root = Element("testsuites", name="gpufence check")
    suites: dict[str, Element] = {}
    for outcome in found:
        suite = suites.get(outcome.source)
        if suite is None:
            name = "standard input" if outcome.source == STDIN else outcome.source
            suite = suites[outcome.source] = SubElement(root, "testsuite", name=_xml(name))
        if isinstance(outcome, Problem):
            _problem(suite, outcome)
        else:
            _case(suite, outcome)
    for suite in suites.values():
        _count(suite)
    root.set("tests", str(summary.allowed + summary.denied + summary.problems))
    root.set("failures", str(summary.denied))
    root.set("errors", str(summary.problems))
    indent(root)
    out.write(tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _count(suite: Element) -> None:
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))


def _problem(suite: Element, problem: Problem) -> None:
    place = "file" if problem.document is None else f"document {problem.document}"
    case = SubElement(suite, "testcase", classname=_xml(problem.source), name=place)
    SubElement(case, "error", message=_xml(problem.message), type="unusable input").text = _xml(problem.fix)


def _case(suite: Element, judged: Judged) -> None:
    name = f"{judged.title} {judged.path} (document {judged.document})"
    case = SubElement(suite, "testcase", classname=_xml(judged.source), name=_xml(name))
    refused = [hit for hit in judged.decision.hits if hit.action == "denied"]
    if refused:
        rules = ", ".join(sorted({hit.hit.rule for hit in refused}))
        failure = SubElement(case, "failure", message=_xml(f"denied by {rules}"), type=rules)
        lines = [f"{_line(hit)} (at {hit.hit.path}). Fix: {RULES[hit.hit.rule].fix}" for hit in refused]
        failure.text = _xml("\n".join(lines))
    others = [f"{_line(hit)} ({hit.action})" for hit in judged.decision.hits if hit.action != "denied"]
    if others or judged.warnings:
        SubElement(case, "system-out").text = _xml("\n".join([*others, *judged.warnings]))


def _line(judged: JudgedHit) -> str:
    container = f"{judged.hit.container}: " if judged.hit.container else ""
    return f"[{judged.hit.rule}] {container}{judged.hit.message}"


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)
