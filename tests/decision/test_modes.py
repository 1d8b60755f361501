"""Modes, exemptions and exceptions: what the policy makes of a hit."""

from datetime import timedelta

import pytest

from policy.catalogue import RULES
from policy.decide import actions_of, mutate
from policy.model import Context, JudgedHit, RuleHit
from policy.pod import pod_view
from policy.wording import denial, warning

PRIVILEGED = {"securityContext": {"privileged": True}, "gpus": 1}
EXCEPTION = {
    "name": "legacy",
    "rules": ["GF201"],
    "namespaces": ["vision"],
    "reason": "driver test",
    "owner": "ops@example",
    "expires": "2026-12-31T00:00:00Z",
}


def test_a_mode_of_the_policy_beats_the_profile(judge_with, pod_with, rules):
    assert rules(judge_with(rules=[{"rule": "GF201", "mode": "warn"}])(pod_with(**PRIVILEGED)), "warned") == {
        "GF201"
    }


def test_a_rule_that_is_off_leaves_no_trace(judge_with, pod_with):
    decision = judge_with(rules=[{"rule": "GF101", "mode": "off"}])(pod_with())
    assert decision.hits == ()
    assert [operation["path"] for operation in decision.patch] == ["/metadata/annotations"]


def test_the_first_setting_that_fits_the_namespace_wins(judge_with, pod_with, rules):
    settings = [
        {"rule": "GF201", "mode": "audit", "namespaces": ["lab-*"]},
        {"rule": "GF201", "mode": "warn"},
    ]
    judge = judge_with(rules=settings)
    assert rules(judge(pod_with(**PRIVILEGED), namespace="lab-1"), "audited") == {"GF201"}
    assert "GF201" in rules(judge(pod_with(**PRIVILEGED)), "warned")


def test_a_setting_by_namespace_label_needs_the_labels_to_be_known(judge_with, pod_with, rules):
    selector = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["lab"]}]}
    judge = judge_with(rules=[{"rule": "GF201", "mode": "warn", "namespaceSelector": selector}])
    assert rules(judge(pod_with(**PRIVILEGED), labels={"tier": "lab"}), "warned") == {"GF201"}
    assert rules(judge(pod_with(**PRIVILEGED), labels={}), "denied") == {"GF201"}
    assert rules(judge(pod_with(**PRIVILEGED)), "denied") == {"GF201"}


def test_a_setting_can_name_one_case_of_a_rule(judge_with, pod_with, rules):
    judge = judge_with(rules=[{"rule": "GF201", "case": "other", "mode": "deny"}])
    assert rules(judge(pod_with(securityContext={"privileged": True})), "denied") == {"GF201"}


def test_a_mode_that_a_case_cannot_have_leaves_it_at_its_default(judge_with, pod_with, rules):
    judge = judge_with(rules=[{"rule": "GF302", "mode": "fix"}])
    owner = [{"kind": "Job", "name": "j", "controller": True}]
    pod = pod_with(gpus=1, metadata={"labels": {"gpufence.io/team": "x"}, "ownerReferences": owner})
    assert rules(judge(pod), "denied") == {"GF302"}


def test_what_can_be_fixed_can_be_refused_instead(judge_with, pod_with, rules):
    judge = judge_with(rules=[{"rule": "GF102", "mode": "deny"}])
    pod = pod_with(gpus=1, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
    assert rules(judge(pod), "denied") == {"GF102"}


@pytest.mark.parametrize(
    ("rule", "can_fix", "actions"),
    [
        ("GF101", True, {"fixed", "denied", "warned", "audited"}),
        ("GF101", False, {"denied", "warned", "audited"}),
        ("GF107", True, {"denied", "warned", "audited"}),
    ],
)
def test_what_a_rule_can_lead_to_follows_from_its_modes_and_from_who_judges(rule, can_fix, actions):
    assert set(actions_of(RULES[rule], can_fix=can_fix)) == actions


def test_a_fix_of_a_pod_that_is_denied_for_another_reason_is_not_called_fixed(judge, pod_with):
    decision = judge(
        pod_with(
            env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
            gpus=1,
            securityContext={"privileged": True},
        )
    )
    told = {judged.hit.rule: (judged.mode, judged.action) for judged in decision.hits}
    assert told == {"GF102": ("fix", "audited"), "GF201": ("deny", "denied")}


def test_an_exception_turns_a_denial_into_a_record_until_it_expires(judge_with, pod_with, rules):
    judge = judge_with(exceptions=[EXCEPTION])
    decision = judge(pod_with(**PRIVILEGED))
    assert rules(decision, "audited") == {"GF201"}
    assert decision.hits[0].because == "exception legacy until 2026-12-31: driver test"
    context = judge.context("vision", "alice", (), None)
    later = Context("vision", context.now + timedelta(days=60), {}, "alice")
    assert not mutate(pod_view(pod_with(**PRIVILEGED)), judge.policy, later).allowed


@pytest.mark.parametrize(
    "change", [{"namespaces": ["other"]}, {"rules": ["GF202"]}, {"serviceAccounts": ["legacy"]}]
)
def test_an_exception_covers_only_what_it_names(judge_with, pod_with, change):
    assert not judge_with(exceptions=[{**EXCEPTION, **change}])(pod_with(**PRIVILEGED)).allowed


def test_an_exempt_pod_gets_no_patch_and_audited_hits(judge_with, pod_with):
    judge = judge_with(
        exemptions=[{"namespaces": ["vision"], "serviceAccounts": ["probe"], "reason": "monitoring"}]
    )
    decision = judge(pod_with(**PRIVILEGED, spec={"serviceAccountName": "probe"}))
    assert (decision.allowed, decision.patch, decision.exempt) == (True, (), "monitoring")
    assert [judged.action for judged in decision.hits] == ["audited"]
    assert not judge(pod_with(**PRIVILEGED, spec={"serviceAccountName": "default"})).allowed


def test_the_deprecated_field_for_the_service_account_counts_as_the_api_server_counts_it(
    judge_with, pod_with
):
    judge = judge_with(
        exemptions=[{"namespaces": ["vision"], "serviceAccounts": ["probe"], "reason": "monitoring"}]
    )
    assert judge(pod_with(**PRIVILEGED, spec={"serviceAccount": "probe"})).exempt == "monitoring"


def test_a_denial_names_every_reason_with_place_and_fix(judge, pod_with):
    message = judge(pod_with(**PRIVILEGED, spec={"hostPID": True})).message
    assert message.splitlines()[0] == "2 reasons by gpufence:"
    assert "[GF201] container main is privileged" in message
    assert "(at /spec/hostPID). Fix: Remove hostPID." in message


def test_a_long_denial_is_cut_with_a_count():
    hit = JudgedHit(RuleHit("GF201", "gpu", "is privileged", "/spec"), "deny", "denied")
    assert denial([hit] * 11).splitlines()[-1].startswith("and 3 more")


def test_a_warning_is_never_longer_than_the_api_server_passes_on():
    hit = JudgedHit(RuleHit("GF205", "gpu", "é" * 400, "/spec"), "warn", "warned")
    assert len(warning(hit).encode()) <= 256


def test_every_default_mode_is_one_that_its_case_supports():
    for rule in RULES.values():
        for case in rule.cases:
            assert {case.baseline, case.restricted} <= set(case.modes), rule.id


def test_a_control_character_of_a_tenant_never_reaches_a_message(judge, pod_with):
    message = judge(pod_with(gpus="1\nforged: line\x1b[31m")).message
    assert "\x1b" not in message
    assert len(message.splitlines()) == 2
