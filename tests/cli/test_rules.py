"""`gpufence rules`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policy.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_list_has_every_rule_with_its_severity_and_title(gpufence: Callable[..., Any]) -> None:
    lines = gpufence("rules").out.splitlines()
    for rule in RULES.values():
        assert f"  {rule.id}  {rule.severity:<8}  {rule.title}" in lines


def test_one_rule_is_shown_in_full(gpufence: Callable[..., Any]) -> None:
    out = " ".join(gpufence("rules", "gf105").out.split())
    rule = RULES["GF105"]
    for text in (rule.title, rule.why, rule.fix, rule.source):
        assert " ".join(text.split()) in out
    assert (
        "no-prefix: there is no prefix baseline warn, restricted deny; possible: deny, warn, audit, off"
        in out
    )


def test_an_unknown_rule_is_refused(gpufence: Callable[..., Any]) -> None:
    ran = gpufence("rules", "GF999")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "gpufence: there is no rule 'GF999'. Fix: name one that `gpufence rules` lists.\n"


def test_json_has_the_catalogue(gpufence: Callable[..., Any]) -> None:
    whole = json.loads(gpufence("rules", "-o", "json").out)
    assert whole["version"] == 1
    assert [rule["id"] for rule in whole["rules"]] == list(RULES)
    (one,) = json.loads(gpufence("rules", "GF203", "-o", "json").out)["rules"]
    assert one["cases"][0]["baseline"] == RULES["GF203"].cases[0].baseline
    assert set(one) == {"id", "family", "title", "severity", "why", "source", "fix", "cases"}
