"""Area 2 of the public cases, as far as the decision has a part in them, and the area 5 cases that are one."""

from datetime import UTC, datetime

import jsonpatch
import pytest

from policy.decide import judge_update
from policy.model import Context
from policy.pod import pod_view

TEAM = "gpufence.io/team"
CONTROLLER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train-7d9", "controller": True}]


@pytest.fixture
def update(judge):
    def judged(old, new, namespace="vision"):
        context = Context(namespace, datetime(2026, 1, 1, tzinfo=UTC), {}, "alice")
        return judge_update(pod_view(old), pod_view(new), judge.policy, context)

    return judged


def test_c05_parents_are_created_only_where_they_are_absent(judge):
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}
    paths = [operation["path"] for operation in judge(pod).patch]
    assert paths == ["/spec/containers/0/env", "/metadata/annotations"]


@pytest.mark.parametrize("empty", [None, {}])
def test_c05_a_parent_that_is_null_or_empty_is_not_lost(judge, empty):
    pod = {
        "metadata": {"name": "p", "labels": empty, "annotations": empty},
        "spec": {"containers": [{"name": "m", "env": None}]},
    }
    patched = judge.patched(pod)
    assert list(patched["metadata"]["annotations"]) == ["gpufence.io/decision"]
    assert patched["spec"]["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def test_c05_slashes_in_label_keys_are_escaped(judge, pod_with):
    pod = pod_with(gpus=1, metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}})
    paths = {operation["path"] for operation in judge(pod).patch}
    assert paths == {"/metadata/labels/gpufence.io~1team", "/metadata/annotations/gpufence.io~1decision"}


def test_c09_c10_an_update_that_removes_a_finalizer_is_allowed_whatever_the_spec(update):
    spec = {"containers": [{"name": "main", "securityContext": {"privileged": True}}], "hostPID": True}
    old = {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}, "spec": spec}
    decision = update(old, {"metadata": {"finalizers": []}, "spec": spec})
    assert decision.allowed
    assert decision.patch == ()


def test_c11_a_container_that_a_later_webhook_adds_is_refused_in_the_final_object(judge, pod_with, rules):
    patched = judge.patched(pod_with())
    assert judge.final(patched).allowed
    patched["spec"]["containers"].append({"name": "injected", "image": "cuda-side:1"})
    assert rules(judge.final(patched), "denied") == {"GF101"}


def test_c11_privilege_that_a_later_webhook_adds_is_refused_in_the_final_object(judge, pod_with, rules):
    patched = judge.patched(pod_with(gpus=1))
    patched["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    assert rules(judge.final(patched), "denied") == {"GF201"}


def test_c18_a_pod_without_a_name_is_judged_and_no_label_is_made_from_it(judge):
    pod = {
        "metadata": {"generateName": "train-", "ownerReferences": CONTROLLER},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
    }
    labels = judge.patched(pod)["metadata"]["labels"]
    assert labels == {TEAM: "vision", "gpufence.io/workload": "train-7d9"}


@pytest.mark.parametrize("name", ["ML Infra Team", "a,b", "-ops", "v1.2+build", "équipe", "研究", "x" * 64])
def test_c19_a_team_name_that_is_no_label_value_never_refuses_a_pod(judge_with, pod_with, name, rules):
    judge = judge_with(teams=[{"name": name, "namespaces": ["vision"]}])
    pod = pod_with(gpus=1)
    assert rules(judge(pod), "fixed") == {"GF304"}
    metadata = judge.patched(pod)["metadata"]
    assert metadata["annotations"][TEAM] == name
    assert 0 < len(metadata["labels"][TEAM]) <= 63
    assert judge.final(judge.patched(pod)).allowed


def test_c21_unknown_fields_survive(judge):
    side = {
        "name": "side",
        "restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["true"]}},
        "fieldFromTheFuture": 1,
    }
    pod = {
        "metadata": {"name": "p"},
        "spec": {"initContainers": [side], "containers": [{"name": "main"}], "new": {"x": []}},
    }
    patched = judge.patched(pod)
    del patched["spec"]["initContainers"][0]["env"]
    assert patched["spec"]["initContainers"][0] == side
    assert patched["spec"]["new"] == {"x": []}


def test_c23_only_entries_of_ours_are_ever_removed(judge, pod_with):
    pod = pod_with(
        gpus=1, env=[{"name": "A"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}, {"name": "A"}]
    )
    removed = [operation["path"] for operation in judge(pod).patch if operation["op"] == "remove"]
    assert removed == ["/spec/containers/0/env/1"]


MIRROR = {
    "annotations": {"kubernetes.io/config.mirror": "abc"},
    "ownerReferences": [{"kind": "Node", "name": "n"}],
}


def test_c57_a_mirror_pod_from_its_node_is_allowed_without_a_patch(judge, pod_with):
    pod = pod_with(securityContext={"privileged": True}, gpus=1, metadata=MIRROR)
    decision = judge(pod, user="system:node:node-1", groups=("system:nodes", "system:authenticated"))
    assert decision.allowed
    assert decision.patch == ()
    assert "mirror" in decision.exempt


@pytest.mark.parametrize(
    ("user", "groups"), [("alice", ("system:nodes",)), ("system:node:n", ()), ("alice", ())]
)
def test_c57_the_mirror_annotation_of_anyone_else_exempts_nothing(judge, pod_with, user, groups):
    pod = pod_with(securityContext={"privileged": True}, gpus=1, metadata=MIRROR)
    assert not judge(pod, user=user, groups=groups).allowed


def test_c56_a_claim_of_another_team_is_corrected_on_a_bare_pod(judge, pod_with, rules):
    pod = pod_with(gpus=1, metadata={"labels": {TEAM: "speech"}})
    assert judge.patched(pod)["metadata"]["labels"][TEAM] == "vision"
    assert rules(judge(pod), "fixed") == {"GF302"}


def test_c56_a_claim_of_another_team_is_refused_on_a_pod_of_a_controller(judge, pod_with, rules):
    pod = pod_with(gpus=1, metadata={"labels": {TEAM: "speech"}, "ownerReferences": CONTROLLER})
    assert rules(judge(pod), "denied") == {"GF302"}


def test_c56_a_claim_is_corrected_on_a_pod_without_a_gpu_too(judge, pod_with):
    assert (
        judge.patched(pod_with(metadata={"labels": {TEAM: "speech"}}))["metadata"]["labels"][TEAM] == "vision"
    )


def test_c56_the_team_label_cannot_be_changed_or_removed_later(update, rules):
    def labelled(labels):
        return {"metadata": {"labels": labels}, "spec": {}}

    assert rules(update(labelled({TEAM: "vision"}), labelled({TEAM: "speech"})), "denied") == {"GF303"}
    assert rules(update(labelled({TEAM: "vision"}), labelled({})), "denied") == {"GF303"}
    assert rules(update(labelled({}), labelled({TEAM: "speech"})), "denied") == {"GF303"}
    assert update(labelled({TEAM: "vision"}), labelled({TEAM: "vision", "a": "b"})).allowed
    assert update(labelled({}), labelled({TEAM: "vision"})).allowed
    assert update(labelled({}), labelled({})).allowed


def test_c71_in_audit_mode_the_pod_passes_unchanged_and_the_warning_says_would_be_denied(
    judge_with, pod_with
):
    judge = judge_with(enforcement="audit")
    decision = judge(pod_with(gpus=1, securityContext={"privileged": True}))
    assert decision.allowed
    assert decision.patch == ()
    assert ["would be denied" in text for text in decision.warnings] == [True]
    assert judge.final(pod_with(gpus=1, securityContext={"privileged": True})).allowed


def test_the_patch_of_a_patched_pod_is_empty(judge, pod_with):
    patched = judge.patched(pod_with(gpus=1, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]))
    assert judge(patched).patch == ()
    assert jsonpatch.apply_patch(patched, []) == patched
