"""SARIF and JUnit, for machines of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from policy.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def parsed(xml: str) -> ET.Element:
    return ET.fromstring(xml)  # noqa: S314 - our own output


def run_of(ran: Any) -> dict[str, Any]:
    log = ran.json()
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return dict(run)


def test_sarif_describes_every_rule_of_the_catalogue(check: Callable[..., Any], pod: str) -> None:
    driver = run_of(check(pod, "-o", "sarif"))["tool"]["driver"]
    assert driver["name"] == "gpufence"
    assert [rule["id"] for rule in driver["rules"]] == list(RULES)
    for rule in driver["rules"]:
        assert RULES[rule["id"]].fix in rule["help"]["text"]
        assert rule["shortDescription"]["text"] == RULES[rule["id"]].title


def test_sarif_points_at_the_line_and_grades_by_action(
    gpufence: Callable[..., Any], pod: str, privileged: str, tmp_path: Path
) -> None:
    (tmp_path / "my pods.yaml").write_text(f"{pod}---\n{privileged}")
    run = run_of(gpufence("check", "-f", "my pods.yaml", "-o", "sarif"))
    found = {result["ruleId"]: result for result in run["results"]}
    (location,) = found["GF201"]["locations"]
    physical = location["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "my%20pods.yaml"}, "region": {"startLine": 20}}
    assert unquote(physical["artifactLocation"]["uri"]) == "my pods.yaml"
    assert found["GF201"]["level"] == "error"
    assert found["GF301"]["level"] == "warning"
    assert found["GF101"]["level"] == "note"
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]


def test_sarif_results_keep_their_fingerprint_when_the_object_moves(
    check: Callable[..., Any], pod: str, privileged: str
) -> None:
    def prints(text: str) -> set[str]:
        run = run_of(check(text, "-o", "sarif"))
        return {each["partialFingerprints"]["gpufence/v1"] for each in run["results"]}

    assert prints(privileged) <= prints(f"{pod}---\n\n\n{privileged}")
    assert len(prints(f"{pod}---\n{privileged}")) == len(prints(pod)) + len(prints(privileged))


def test_sarif_carries_problems_as_notifications(check: Callable[..., Any]) -> None:
    ran = check("a: b: c", "-o", "sarif")
    (invocation,) = run_of(ran)["invocations"]
    assert (ran.code, invocation["executionSuccessful"], invocation["exitCode"]) == (2, False, 2)
    (notification,) = invocation["toolExecutionNotifications"]
    assert "not valid YAML" in notification["message"]["text"]


def test_junit_has_a_case_per_template_and_a_failure_per_denied_one(
    check: Callable[..., Any], pod: str, privileged: str
) -> None:
    root = parsed(check(f"{pod}---\n{privileged}---\na: b: c\n", "-o", "junit").out)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    (suite,) = root
    assert (suite.get("name"), suite.get("tests")) == ("standard input", "3")
    allowed, denied, broken = suite.findall("testcase")
    assert allowed.get("name") == "Pod vision/web spec (document 0)"
    assert allowed.find("failure") is None
    failure = denied.find("failure")
    assert failure is not None
    assert failure.get("message") == "denied by GF201"
    assert "Fix: Remove securityContext.privileged" in (failure.text or "")
    assert broken.find("error") is not None


def test_junit_escapes_and_drops_what_xml_cannot_hold(check: Callable[..., Any]) -> None:
    text = (
        '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"<&\\"\\u0001\\uffff"},'
        '"spec":{"containers":[{"name":"]]>"}]}}'
    )
    (case,) = parsed(check(text, "-o", "junit").out).iter("testcase")
    assert case.get("name") == 'Pod default/<&"?? spec (document 0)'
