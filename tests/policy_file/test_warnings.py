"""What is right by the schema and probably not meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from policy.labels import short_form
from policy.load import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    Written = Callable[..., dict[str, Any]]


def _warned(document: object) -> list[tuple[str, str]]:
    return [(problem.path, problem.message) for problem in load_policy(document).warnings]


def test_a_policy_of_another_name_is_not_in_force(written: Written) -> None:
    document = {**written(), "metadata": {"name": "trial"}}
    assert _warned(document) == [("metadata.name", "only the GpuPolicy named default is in force")]


class TestTeamNames:
    """Pods carry a team's name as a label, which not every name can be."""

    @pytest.mark.parametrize("name", ["Forschung & Entwicklung", "研究", "x" * 64, "-a"])
    def test_a_name_that_is_no_label_value_gets_a_short_form_and_no_warning(
        self, written: Written, name: str
    ) -> None:
        loaded = load_policy(written(teams=[{"name": name, "namespaces": ["a"], "costCenter": "CC 1"}]))
        assert loaded.warnings == ()
        assert loaded.policy.teams[0].name == name
        assert loaded.policy.teams[0].label == short_form(name)
        assert loaded.policy.teams[0].cost_center_label == short_form("CC 1")

    def test_a_name_that_is_a_label_value_is_carried_as_it_is(self, written: Written) -> None:
        loaded = load_policy(written(teams=[{"name": "Vision_1.x", "namespaces": ["a"]}]))
        assert loaded.warnings == ()
        assert loaded.policy.teams[0].label == "Vision_1.x"


class TestTeamsThatOwnNothing:
    """The first team in the list that claims a pod owns it."""

    def test_a_team_that_claims_nothing(self, written: Written) -> None:
        assert _warned(written(teams=[{"name": "a"}])) == [("spec.teams[0]", "claims no pod")]

    def test_a_team_whose_claims_an_earlier_one_has(self, written: Written) -> None:
        teams = [
            {"name": "a", "namespaces": ["vision", "speech"], "groups": ["oidc:ml"]},
            {"name": "b", "groups": ["oidc:ml"], "namespaces": ["vision"]},
        ]
        message = "never applies: spec.teams[0] comes first and claims all that it claims"
        assert _warned(written(teams=teams)) == [("spec.teams[1]", message)]

    def test_a_team_whose_claims_several_earlier_ones_share(self, written: Written) -> None:
        selector = {"matchLabels": {"team": "x"}}
        same = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["x"]}]}
        teams = [
            {"name": "a", "namespaceSelector": selector},
            {"name": "b", "queues": [{"queue": "q", "namespaces": ["n", "m"]}]},
            {"name": "c", "namespaceSelector": same, "queues": [{"queue": "q", "namespaces": ["m"]}]},
        ]
        ((path, message),) = _warned(written(teams=teams))
        assert path == "spec.teams[2]"
        assert "spec.teams[0] and spec.teams[1]" in message

    def test_one_claim_of_its_own_is_enough(self, written: Written) -> None:
        teams = [
            {"name": "a", "namespaces": ["vision"]},
            {"name": "b", "namespaces": ["vision"], "serviceAccounts": ["shared/b"]},
        ]
        assert _warned(written(teams=teams)) == []

    def test_equal_names_of_different_kinds_are_different_claims(self, written: Written) -> None:
        teams = [{"name": "a", "namespaces": ["vision"]}, {"name": "b", "groups": ["vision"]}]
        assert _warned(written(teams=teams)) == []

    @pytest.mark.parametrize(
        ("earlier", "later"),
        [
            ({"namespaces": ["vision*"]}, {"namespaces": ["vision", "vision-*"]}),
            ({"namespaces": ["vision-*"]}, {"serviceAccounts": ["vision-a/*"]}),
            ({"namespaces": ["vision"]}, {"queues": [{"queue": "q", "namespaces": ["vision"]}]}),
            ({"serviceAccounts": ["a/*"]}, {"serviceAccounts": ["a/train-*"]}),
            (
                {"queues": [{"queue": "q", "namespaces": ["a*"]}]},
                {"queues": [{"queue": "q", "namespaces": ["a"]}]},
            ),
        ],
    )
    def test_a_team_behind_a_wildcard_that_covers_it(
        self, written: Written, earlier: dict[str, Any], later: dict[str, Any]
    ) -> None:
        teams = [{"name": "a", **earlier}, {"name": "b", **later}]
        message = "never applies: spec.teams[0] comes first and claims all that it claims"
        assert _warned(written(teams=teams)) == [("spec.teams[1]", message)]

    @pytest.mark.parametrize(
        ("earlier", "later"),
        [
            ({"namespaces": ["vision-*"]}, {"namespaces": ["vision"]}),
            ({"namespaces": ["vision-a"]}, {"namespaces": ["vision-*"]}),
            ({"namespaces": ["a*c"]}, {"namespaces": ["a*"]}),
            ({"serviceAccounts": ["vision/*"]}, {"namespaces": ["vision"]}),
            ({"namespaces": ["vision"]}, {"groups": ["vision"]}),
            (
                {"queues": [{"queue": "p", "namespaces": ["a*"]}]},
                {"queues": [{"queue": "q", "namespaces": ["a"]}]},
            ),
        ],
    )
    def test_a_team_behind_a_wildcard_that_leaves_it_something(
        self, written: Written, earlier: dict[str, Any], later: dict[str, Any]
    ) -> None:
        assert _warned(written(teams=[{"name": "a", **earlier}, {"name": "b", **later}])) == []

    def test_teams_behind_one_that_claims_every_pod_are_told_of_once(self, written: Written) -> None:
        teams = [{"name": name, "namespaces": [name]} for name in ("*", "b", "c")]
        teams[0]["name"] = "a"
        assert [path for path, _ in _warned(written(teams=teams))] == ["spec.teams[0]"]

    def test_a_policy_of_many_claims_is_judged_in_a_moment(self, written: Written) -> None:
        teams = [
            {"name": f"t{team}", "namespaces": [f"a{team}-{number}*" for number in range(256)]}
            for team in range(100)
        ]
        assert _warned(written(teams=teams)) == []


class TestExceptions:
    """Leave to break rules."""

    def test_a_rule_that_is_there_twice(self, written: Written) -> None:
        row = {
            "name": "e",
            "namespaces": ["a"],
            "reason": "r",
            "owner": "o",
            "expires": "2999-01-01T00:00:00Z",
        }
        document = written(exceptions=[{**row, "rules": ["GF201", "GF202", "GF201"]}])
        assert _warned(document) == [("spec.exceptions[0].rules[2]", "is in the list twice")]


class TestClaimsOfEverybody:
    """A claim that every tenant meets, or can meet by writing a label."""

    def test_a_queue_that_is_bound_to_every_namespace(self, written: Written) -> None:
        teams = [{"name": "a", "queues": [{"queue": "q", "namespaces": ["n", "*"]}]}]
        ((path, message),) = _warned(written(teams=teams))
        assert path == "spec.teams[0].queues[0].namespaces[1]"
        assert message.startswith("lets every tenant become this team")

    @pytest.mark.parametrize("group", ["system:authenticated", "system:serviceaccounts"])
    def test_a_group_that_everybody_is_in(self, written: Written, group: str) -> None:
        teams = [{"name": "a", "groups": ["oidc:a", group]}]
        assert _warned(written(teams=teams)) == [("spec.teams[0].groups[1]", "holds people of every team")]


class TestRulesThatNeverApply:
    """For each case and namespace the first entry counts."""

    @pytest.mark.parametrize(
        ("earlier", "later"),
        [
            ({"mode": "warn"}, {"mode": "deny", "namespaces": ["a"]}),
            ({"mode": "warn"}, {"mode": "deny", "case": "other"}),
            ({"mode": "warn", "case": "gpu"}, {"mode": "deny", "case": "gpu"}),
            ({"mode": "warn", "namespaces": ["a"]}, {"mode": "deny", "namespaces": ["a"], "case": "gpu"}),
        ],
    )
    def test_an_entry_behind_one_that_covers_it(
        self, written: Written, earlier: dict[str, Any], later: dict[str, Any]
    ) -> None:
        rules = [{"rule": "GF201", **earlier}, {"rule": "GF201", **later}]
        assert _warned(written(rules=rules)) == [
            ("spec.rules[1]", "never applies: spec.rules[0] comes first and covers it")
        ]

    @pytest.mark.parametrize(
        ("earlier", "later"),
        [
            ({"mode": "warn", "namespaces": ["a"]}, {"mode": "deny"}),
            ({"mode": "warn", "case": "gpu"}, {"mode": "deny"}),
            ({"mode": "warn", "case": "gpu"}, {"mode": "deny", "case": "other"}),
            ({"mode": "warn", "namespaceSelector": {}}, {"mode": "deny", "namespaces": ["a"]}),
        ],
    )
    def test_an_entry_that_still_has_something_to_say(
        self, written: Written, earlier: dict[str, Any], later: dict[str, Any]
    ) -> None:
        rules = [{"rule": "GF201", **earlier}, {"rule": "GF201", **later}]
        assert _warned(written(rules=rules)) == []

    def test_a_mode_that_a_case_does_not_support_leaves_it_to_the_next_entry(self, written: Written) -> None:
        rules = [{"rule": "GF104", "mode": "fix"}, {"rule": "GF104", "case": "request", "mode": "warn"}]
        assert _warned(written(rules=rules)) == []

    def test_entries_for_different_rules_have_nothing_to_do_with_each_other(self, written: Written) -> None:
        rules = [{"rule": "GF201", "mode": "warn"}, {"rule": "GF202", "mode": "warn"}]
        assert _warned(written(rules=rules)) == []
