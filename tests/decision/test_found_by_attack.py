"""Ways around the policy that a review by attack found; each stays closed."""

import pytest

from policy.decide import judge_update
from policy.pod import pod_view
from policy.selectors import Patterns

TEAM = "gpufence.io/team"
NVD = "NVIDIA_VISIBLE_DEVICES"


@pytest.fixture
def update(judge):
    def judged(old, new):
        views = (pod_view({"metadata": metadata, "spec": {}}) for metadata in (old, new))
        return judge_update(*views, judge.policy, judge.context("vision", "eve", (), None))

    return judged


@pytest.mark.parametrize("profile", ["baseline", "restricted"])
def test_a_device_annotation_cannot_be_added_behind_a_scheduling_gate(judge_with, rules, profile):
    judge = judge_with(profile=profile)
    old, new = (
        pod_view({"metadata": {}}),
        pod_view({"metadata": {"annotations": {"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=all"}}}),
    )
    decision = judge_update(old, new, judge.policy, judge.context("vision", "eve", (), None))
    assert rules(decision, "denied") == {"GF107"}


def test_a_device_annotation_that_was_there_before_does_not_freeze_the_pod(update):
    before = {"annotations": {"cdi.k8s.io/x": "a"}, "finalizers": ["f"]}
    assert update(before, {**before, "finalizers": []}).allowed
    assert update(before, {"annotations": {}}).allowed
    assert not update(before, {"annotations": {"cdi.k8s.io/x": "b"}}).allowed


@pytest.mark.parametrize("key", [TEAM, "gpufence.io/cost-center", "gpufence.io/decision"])
def test_annotations_of_ours_cannot_be_changed_later(update, rules, key):
    assert rules(update({"annotations": {key: "a"}}, {"annotations": {key: "b"}}), "denied") == {"GF303"}
    assert rules(update({"annotations": {key: "a"}}, {}), "denied") == {"GF303"}


def test_a_full_name_that_a_tenant_writes_is_corrected(judge, pod_with):
    metadata = judge.patched(pod_with(gpus=1, metadata={"annotations": {TEAM: "rich"}}))["metadata"]
    assert metadata["annotations"][TEAM] == "vision"


def test_a_gpu_request_that_no_scheduler_sees_is_told_and_under_restricted_refused(
    judge, strict, pod_with, rules
):
    pod = pod_with(resources={"limits": {"nvidia.com/no-such": "1"}}, spec={"nodeName": "gpu-1"})
    assert rules(judge(pod), "warned") == {"GF116"}
    assert rules(strict(pod), "denied") == {"GF116"}
    assert "GF116" not in rules(strict(pod_with(spec={"nodeName": "gpu-1"})))


def test_the_node_of_a_pod_that_runs_is_the_work_of_the_scheduler(strict, pod_with, rules):
    pod = pod_view(pod_with(gpus=1, spec={"nodeName": "gpu-1"}), live=True)
    assert rules(strict(pod)) == set()


def test_priority_alone_is_no_share_of_a_gpu(judge, pod_with, rules):
    assert rules(judge(pod_with(resources={"limits": {"nvidia.com/priority": "1"}}))) == {"GF101"}


KAI = {"annotations": {"gpu-fraction": "0.5"}}
FROM_MINE = {"name": NVD, "valueFrom": {"configMapKeyRef": {"name": "mine", "key": "k"}}}


@pytest.fixture(scope="module")
def kai(judge_with):
    return judge_with(gpu={"sharingProviders": ["kai"]})


@pytest.mark.parametrize("value", ["", "0", "none", "-1"])
def test_an_annotation_that_asks_for_nothing_withholds_nothing(kai, pod_with, rules, value):
    pod = pod_with(metadata={"annotations": {"gpu-fraction": value}}, spec={"schedulerName": "kai-scheduler"})
    assert rules(kai(pod)) == {"GF101"}


def test_a_provider_does_not_serve_a_pod_that_names_its_node(kai, pod_with, rules):
    spec = {"schedulerName": "kai-scheduler", "nodeName": "gpu-1"}
    assert rules(kai(pod_with(metadata=KAI, spec=spec))) == {"GF101"}


def test_a_request_of_its_own_leaves_no_room_for_the_config_map_of_a_provider(kai, pod_with, rules):
    pod = pod_with(gpus=1, env=[FROM_MINE], metadata=KAI, spec={"schedulerName": "kai-scheduler"})
    assert rules(kai(pod), "denied") == {"GF104"}


def test_two_queue_labels_that_disagree_choose_no_team(judge_with, pod_with):
    teams = [{"name": t, "queues": [{"queue": f"q-{t}", "namespaces": ["shared"]}]} for t in ("a", "b")]
    judge = judge_with(teams=teams)
    labels = {"kueue.x-k8s.io/queue-name": "q-b", "volcano.sh/queue-name": "q-a"}
    assert judge(pod_with(gpus=1, metadata={"labels": labels}), namespace="shared").team is None
    labels["volcano.sh/queue-name"] = "q-b"
    assert judge(pod_with(gpus=1, metadata={"labels": labels}), namespace="shared").team == "b"


@pytest.mark.parametrize(
    "name", ["SRIOV_pool", "IB", "sf_pool", "macvlan", "resibp24s0", "rail-1", "ConnectX7", "a_nics"]
)
def test_network_cards_under_nvidia_names_do_not_withhold_void(judge, pod_with, rules, name):
    assert rules(judge(pod_with(resources={"limits": {f"nvidia.com/{name}": "1"}}))) == {"GF101"}


@pytest.mark.parametrize(
    "name", ["nvidia.com/a100", "nvidia.com/technical", "volcano.sh/gpu-memory", "elasticgpu.io/gpu-core"]
)
def test_gpus_with_unusual_names_withhold_it(judge, pod_with, rules, name):
    assert rules(judge(pod_with(resources={"limits": {name: "1"}}))) == set()


@pytest.mark.parametrize(
    "path",
    ["/etc/kubernetes/manifests", "/etc/kubernetes", "/etc/nvidia-container-runtime", "/etc/containerd"],
)
def test_paths_that_rewrite_the_node_are_guarded(judge, pod_with, rules, path):
    pod = pod_with(gpus=1, spec={"volumes": [{"name": "v", "hostPath": {"path": path}}]})
    assert rules(judge(pod), "denied") == {"GF203"}


@pytest.mark.parametrize(
    ("pattern", "fits", "other"),
    [
        ("a*b*c", ["abc", "aXbYc", "abbcbc"], ["ab", "bc", "abcd", "xabc"]),
        ("*-*", ["-", "a-b", "--"], ["", "ab"]),
        ("a**", ["a", "ab"], ["b", ""]),
        ("a*a", ["aa", "aXa"], ["a", "ab"]),
        ("*a*a*", ["aa", "baab"], ["a"]),
        ("a.c", ["a.c"], ["abc"]),
    ],
)
def test_a_pattern_means_what_a_shell_makes_of_its_stars(pattern, fits, other):
    patterns = Patterns([pattern])
    assert [name for name in [*fits, *other] if patterns.match(name)] == fits


def test_a_pattern_is_never_slow_whatever_a_tenant_writes():
    """Without atomic groups this takes longer than a test may (60 seconds)."""
    patterns = Patterns(["x/*-*-*-*-*-*-*-*-*y"])
    assert not patterns.match("x/" + "-" * 300)
    assert not patterns.match("x/" + "-" * 100_000)
