"""Whose pod it is."""

import pytest

from policy.decide import judge_update
from policy.pod import pod_view

TEAM = "gpufence.io/team"
CONTROLLER = {"ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]}


@pytest.fixture
def team_by(judge_with, pod_with):
    """Return the team label that a GPU pod gets under one team with these claims, after a team that never matches."""

    def label(claims, *, metadata=None, spec=None, **where):
        judge = judge_with(teams=[{"name": "other", "namespaces": ["other"]}, {"name": "mine", **claims}])
        patched = judge.patched(pod_with(gpus=1, metadata=metadata, spec=spec), **where)
        return patched["metadata"]["labels"][TEAM]

    return label


def test_a_namespace_claims_by_name_and_by_pattern(team_by):
    assert team_by({"namespaces": ["a", "b-*"]}, namespace="a") == "mine"
    assert team_by({"namespaces": ["a", "b-*"]}, namespace="b-1") == "mine"
    assert team_by({"namespaces": ["a", "b-*"]}, namespace="b") == "unassigned"


def test_a_namespace_claims_by_label(team_by):
    claims = {"namespaceSelector": {"matchLabels": {"team": "m"}}}
    assert team_by(claims, labels={"team": "m"}) == "mine"
    assert team_by(claims, labels={"team": "x"}) == "unassigned"


def test_unknown_labels_match_nothing_and_are_told(judge_with, pod_with):
    judge = judge_with(teams=[{"name": "mine", "namespaceSelector": {"matchLabels": {"team": "m"}}}])
    decision = judge(pod_with(gpus=1))
    assert decision.team is None
    assert "labels of namespace vision are unknown" in decision.notes[0]


def test_a_mode_that_hangs_on_unknown_labels_is_told(judge_with, pod_with):
    selector = {"matchLabels": {"tier": "lab"}}
    judge = judge_with(rules=[{"rule": "GF201", "mode": "warn", "namespaceSelector": selector}])
    assert "not applied are the mode of GF201" in judge(pod_with()).notes[0]
    assert judge(pod_with(), labels={}).notes == ()


def test_a_service_account_claims_with_its_namespace(team_by):
    claims = {"serviceAccounts": ["shared/mine-*"]}
    assert team_by(claims, namespace="shared", spec={"serviceAccountName": "mine-ci"}) == "mine"
    assert team_by(claims, namespace="elsewhere", spec={"serviceAccountName": "mine-ci"}) == "unassigned"
    assert team_by(claims, namespace="shared") == "unassigned"


@pytest.mark.parametrize(
    "label", ["kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "volcano.sh/queue-name"]
)
def test_a_queue_claims_only_in_namespaces_bound_to_it(team_by, label):
    claims = {"queues": [{"queue": "q", "namespaces": ["shared"]}]}
    metadata = {"labels": {label: "q"}}
    assert team_by(claims, metadata=metadata, namespace="shared") == "mine"
    assert team_by(claims, metadata=metadata, namespace="tenant") == "unassigned"


def test_a_group_claims_only_pods_that_people_create_directly(team_by):
    claims = {"groups": ["oidc:mine"]}
    assert team_by(claims, groups=("oidc:mine",)) == "mine"
    assert team_by(claims, groups=("oidc:other",)) == "unassigned"
    # An owner reference that a person writes is no controller.
    assert team_by(claims, groups=("oidc:mine",), metadata=CONTROLLER) == "mine"
    assert (
        team_by(claims, groups=("oidc:mine",), user="system:serviceaccount:kube-system:job-controller")
        == "unassigned"
    )


def test_the_group_of_whoever_applies_a_template_does_not_claim_its_pods(judge_with, pod_with):
    judge = judge_with(teams=[{"name": "mine", "groups": ["g"]}])
    assert judge(pod_view(pod_with(gpus=1), controlled=True), groups=("g",)).team is None


def test_the_first_team_in_the_policy_wins(judge_with, pod_with):
    teams = [{"name": "first", "groups": ["g"]}, {"name": "second", "namespaces": ["vision"]}]
    judge = judge_with(teams=teams)
    assert judge(pod_with(gpus=1), groups=("g",)).team == "first"
    assert judge(pod_with(gpus=1)).team == "second"


def test_a_gpu_pod_without_a_team_is_warned_about_and_labelled_unassigned(judge, pod_with, rules):
    decision = judge(pod_with(gpus=1), namespace="elsewhere")
    assert rules(decision, "warned") == {"GF301"}
    assert judge.patched(pod_with(gpus=1), namespace="elsewhere")["metadata"]["labels"][TEAM] == "unassigned"


def test_a_pod_without_a_team_cannot_claim_one(judge, pod_with, rules):
    pod = pod_with(gpus=1, metadata={"labels": {TEAM: "vision"}})
    assert rules(judge(pod, namespace="elsewhere"), "fixed") == {"GF302"}


def test_restricted_refuses_a_gpu_pod_without_a_team_but_not_a_claim_that_may_be_for_a_network_card(
    strict, pod_with, rules
):
    assert rules(strict(pod_with(gpus=1), namespace="elsewhere"), "denied") == {"GF301"}
    assert strict(pod_with(spec={"resourceClaims": [{"name": "nic"}]}), namespace="elsewhere").allowed


@pytest.mark.parametrize("resource", ["amd.com/gpu", "gpu.intel.com/i915", "amd.com/cpx_nps4"])
def test_gpus_of_other_vendors_are_attributed_too(judge, pod_with, resource):
    patched = judge.patched(pod_with(resources={"limits": {resource: 1}}))
    assert patched["metadata"]["labels"][TEAM] == "vision"


def test_a_pod_without_a_gpu_gets_no_team_label(judge, pod_with):
    assert "labels" not in judge.patched(pod_with())["metadata"]


def test_the_cost_center_is_stamped_in_full_where_no_label_can_hold_it(judge_with, pod_with):
    judge = judge_with(teams=[{"name": "vision", "namespaces": ["vision"], "costCenter": "CC 4711 / R&D"}])
    metadata = judge.patched(pod_with(gpus=1))["metadata"]
    assert metadata["annotations"]["gpufence.io/cost-center"] == "CC 4711 / R&D"
    assert metadata["labels"]["gpufence.io/cost-center"].startswith("CC-4711-R-D-")


def test_a_claimed_cost_center_is_corrected_or_refused_like_a_team(judge_with, pod_with, rules):
    judge = judge_with(teams=[{"name": "vision", "namespaces": ["vision"], "costCenter": "cc-1"}])
    labels = {"labels": {"gpufence.io/cost-center": "cc-2"}}
    assert (
        judge.patched(pod_with(gpus=1, metadata=labels))["metadata"]["labels"]["gpufence.io/cost-center"]
        == "cc-1"
    )
    assert rules(judge(pod_with(gpus=1, metadata=labels | CONTROLLER)), "denied") == {"GF302"}


@pytest.mark.parametrize("namespace", ["vision", "elsewhere"])
def test_a_cost_center_cannot_be_claimed_where_the_policy_gives_none(judge, pod_with, namespace):
    pod = pod_with(gpus=1, metadata={"labels": {"gpufence.io/cost-center": "cc-2"}})
    labels = judge.patched(pod, namespace=namespace)["metadata"]["labels"]
    assert labels["gpufence.io/cost-center"] == "unassigned"


@pytest.mark.parametrize(
    ("metadata", "workload"),
    [
        (
            {
                "ownerReferences": [{"kind": "ReplicaSet", "name": "llm-9fb", "controller": True}],
                "labels": {"pod-template-hash": "9fb"},
            },
            "llm",
        ),
        ({"ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]}, "train"),
        ({"labels": {"jobset.sigs.k8s.io/jobset-name": "js", "job-name": "js-0"}}, "js"),
        ({"labels": {"ray.io/cluster": "ray-1"}}, "ray-1"),
        ({}, None),
        ({"ownerReferences": [{"kind": "Node", "name": "n"}]}, None),
    ],
)
def test_the_workload_is_the_one_above_the_pod(judge, pod_with, metadata, workload):
    labels = judge.patched(pod_with(gpus=1, metadata=metadata))["metadata"]["labels"]
    assert labels.get("gpufence.io/workload") == workload


@pytest.mark.parametrize("key", [TEAM, "gpufence.io/cost-center"])
def test_a_final_gpu_pod_without_a_label_that_says_who_pays_is_refused(judge_with, pod_with, rules, key):
    judge = judge_with(teams=[{"name": "vision", "namespaces": ["vision"], "costCenter": "cc-1"}])
    patched = judge.patched(pod_with(gpus=1))
    assert judge.final(patched).allowed
    del patched["metadata"]["labels"][key]
    assert rules(judge.final(patched), "denied") == {"GF302"}


KAI = {"annotations": {"gpu-fraction": "0.5"}}
KAI_SPEC = {"schedulerName": "kai-scheduler"}
FROM_KAI = {
    "name": "NVIDIA_VISIBLE_DEVICES",
    "valueFrom": {"configMapKeyRef": {"name": "kai", "key": "NVIDIA_VISIBLE_DEVICES"}},
}


@pytest.fixture(scope="module")
def kai(judge_with):
    return judge_with(gpu={"sharingProviders": ["kai"]})


def test_an_enabled_sharing_provider_keeps_its_config_map_and_gets_no_void(kai, pod_with):
    pod = pod_with(env=[FROM_KAI], metadata=KAI, spec=KAI_SPEC)
    patched = kai.patched(pod)
    assert patched["spec"]["containers"][0]["env"] == [FROM_KAI]
    assert patched["metadata"]["labels"][TEAM] == "vision"


def test_a_sharing_provider_that_is_not_enabled_changes_nothing(judge, pod_with, rules):
    assert rules(judge(pod_with(env=[FROM_KAI], metadata=KAI, spec=KAI_SPEC))) == {"GF104"}


def test_the_annotation_alone_without_the_scheduler_of_the_provider_withholds_nothing(kai, pod_with, rules):
    assert rules(kai(pod_with(metadata=KAI))) == {"GF101"}


def test_the_provider_serves_the_named_container_only(kai):
    annotations = {"gpu-fraction": "0.5", "gpu-fraction-container-name": "b"}
    pod = {
        "metadata": {"annotations": annotations},
        "spec": {**KAI_SPEC, "containers": [{"name": "a"}, {"name": "b"}]},
    }
    first, second = kai.patched(pod)["spec"]["containers"]
    assert first["env"][0]["value"] == "void"
    assert "env" not in second


def test_a_literal_value_beside_a_provider_is_removed(kai, pod_with):
    pod = pod_with(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], metadata=KAI, spec=KAI_SPEC)
    assert kai.patched(pod)["spec"]["containers"][0]["env"] == []


@pytest.fixture
def relabel(judge_with):
    """Judge an update of the labels of a pod in namespace shared, where two queues belong to two teams."""
    queues = [
        {"name": team, "queues": [{"queue": f"q-{team}", "namespaces": ["shared"]}]} for team in ("a", "b")
    ]
    judge = judge_with(teams=[*queues, {"name": "g", "groups": ["g"]}])

    def judged(before, after, groups=()):
        old, new = (pod_view({"metadata": {"labels": labels}, "spec": {}}) for labels in (before, after))
        return judge_update(old, new, judge.policy, judge.context("shared", "eve", groups, None))

    return judged


QUEUE = "kueue.x-k8s.io/queue-name"


def test_a_bill_does_not_move_with_the_queue_label(relabel, rules):
    """Neither in one update nor in two: the queue label alone may be changed first."""
    one = relabel({QUEUE: "q-a", TEAM: "a"}, {QUEUE: "q-b", TEAM: "b"})
    assert rules(one, "denied") == {"GF303"}
    assert relabel({QUEUE: "q-a", TEAM: "a"}, {QUEUE: "q-b", TEAM: "a"}).allowed
    assert rules(relabel({QUEUE: "q-b", TEAM: "a"}, {QUEUE: "q-b", TEAM: "b"}), "denied") == {"GF303"}


def test_the_groups_of_whoever_updates_a_pod_claim_nothing(relabel, rules):
    assert rules(relabel({TEAM: "a"}, {TEAM: "g"}, groups=("g",)), "denied") == {"GF303"}
    assert rules(relabel({}, {TEAM: "g"}, groups=("g",)), "denied") == {"GF303"}


@pytest.mark.parametrize("before", [{}, {TEAM: "unassigned"}])
def test_a_pod_that_nobody_pays_for_may_get_the_label_of_the_policy(relabel, rules, before):
    assert relabel({QUEUE: "q-a", **before}, {QUEUE: "q-a", TEAM: "a"}).allowed
    assert rules(relabel({QUEUE: "q-a", **before}, {QUEUE: "q-a", TEAM: "b"}), "denied") == {"GF303"}
