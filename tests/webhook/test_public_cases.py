"""Area 2 of the public cases: what the webhook answers to the smallest input of each, at both endpoints."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec
import pytest

from policy.load import load_policy
from policy.unreadable import Unreadable

ENDPOINTS = ("mutate", "validate")
TEAM = "gpufence.io/team"
GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
CONTROLLER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train-7d9", "controller": True}]
NODE = {"username": "system:node:node-1", "groups": ["system:nodes", "system:authenticated"]}


def with_metadata(pod, **metadata):
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


def test_c05_a_pod_without_labels_annotations_env_and_resources_is_patched(review, answered, patched):
    bare = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}
    result = patched(answered(review(object=bare)), bare)
    assert result["spec"]["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert list(result["metadata"]["annotations"]) == ["gpufence.io/decision"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("fail_mode", ["allow", "deny"])
def test_c09_the_removal_of_a_finalizer_is_allowed_without_a_patch(
    review, answered, pod, endpoint, fail_mode
):
    old = with_metadata(pod(), finalizers=["batch.kubernetes.io/job-tracking"])
    update = review(operation="UPDATE", object=with_metadata(pod(), finalizers=[]), oldObject=old)
    response = answered(update, endpoint, fail_mode=fail_mode)
    assert response["allowed"]
    assert "patch" not in response
    assert not response.get("warnings")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_c10_a_pod_that_a_later_policy_would_refuse_can_still_lose_its_finalizer(
    review, answered, pod, endpoint
):
    strict = load_policy(
        {
            "apiVersion": "gpufence.io/v1alpha1",
            "kind": "GpuPolicy",
            "metadata": {"name": "default"},
            "spec": {"profile": "restricted"},
        }
    ).policy
    offender = pod(**GPU, securityContext={"privileged": True})
    assert not answered(review(object=offender), endpoint, policy=strict)["allowed"]
    old = with_metadata(offender, finalizers=["example.com/hold"])
    update = review(operation="UPDATE", object=with_metadata(offender, finalizers=[]), oldObject=old)
    response = answered(update, endpoint, policy=strict)
    assert response["allowed"]
    assert "patch" not in response


@pytest.mark.parametrize("name", ["", None, ...], ids=["empty", "null", "absent"])
def test_c18_a_pod_of_a_controller_without_any_name_is_fixed_and_judged(review, answered, patched, pod, name):
    nameless = {**pod(**GPU), "metadata": {"generateName": "train-", "ownerReferences": CONTROLLER}}
    asked = review(name=name, object=nameless)
    if name is ...:
        del asked["request"]["name"]
    result = patched(answered(asked), nameless)
    assert result["metadata"]["labels"] == {TEAM: "vision", "gpufence.io/workload": "train-7d9"}
    asked["request"]["object"] = result
    assert answered(asked, "validate")["allowed"]


def test_c19_a_team_name_that_is_no_label_value_labels_the_pod_and_refuses_nothing(
    review, answered, patched, pod
):
    raw = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": {"teams": [{"name": "ML Infra Team", "namespaces": ["vision"]}]},
    }
    policy = load_policy(raw).policy
    response = answered(review(object=pod(**GPU)), policy=policy)
    result = patched(response, pod(**GPU))
    assert result["metadata"]["annotations"][TEAM] == "ML Infra Team"
    assert " " not in result["metadata"]["labels"][TEAM]
    assert answered(review(object=result), "validate", policy=policy)["allowed"]


def test_c21_a_native_sidecar_and_fields_from_the_future_survive(review, answered, patched, pod):
    side = {
        "name": "side",
        "image": "i",
        "restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["true"]}},
        "fieldFromTheFuture": 1,
    }
    raw = pod()
    raw["spec"] |= {"initContainers": [side], "fieldFromTheFuture": {"x": None}}
    result = patched(answered(review(object=raw)), raw)
    assert result["spec"]["initContainers"][0].pop("env")
    assert result["spec"]["initContainers"][0] == side
    assert result["spec"]["fieldFromTheFuture"] == {"x": None}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("privileged", [False, True])
def test_c24_a_dry_run_gets_the_verdict_and_the_patch_of_the_real_run(
    review, answered, pod, endpoint, privileged
):
    wild = pod(**GPU, securityContext={"privileged": privileged})
    dry, real = (answered(review(object=wild, dryRun=dry), endpoint) for dry in (True, False))
    assert dry == real


def test_c26_while_the_labels_of_namespaces_are_unknown_a_gpu_pod_is_let_in_as_unassigned(
    review, answered, patched, pod
):
    raw = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": {"teams": [{"name": "t", "namespaceSelector": {"matchLabels": {"owner": "t"}}}]},
    }
    policy = load_policy(raw).policy

    def cold(_):
        return Unreadable("no namespace has been read yet")

    response = answered(review(object=pod(**GPU)), policy=policy, labels_of=cold)
    assert response["allowed"]
    assert any("GF301" in text for text in response["warnings"])
    result = patched(response, pod(**GPU))
    assert result["metadata"]["labels"][TEAM] == "unassigned"
    assert answered(review(object=result), "validate", policy=policy, labels_of=cold)["allowed"]


async def test_c26_a_burst_of_500_pods_is_answered_within_the_timeout_of_a_call(webhook, review):
    """All at once, where the report gives them two seconds. A call has three."""
    body = msgspec.json.encode(review())
    headers = {"Content-Type": "application/json"}
    call = aiohttp.ClientTimeout(total=None, sock_read=3)  # without the wait for a connection

    async with webhook() as (_, client):

        async def ask():
            async with client.post("/mutate", data=body, headers=headers, timeout=call) as answer:
                return (await answer.json())["response"]["allowed"]

        assert await asyncio.gather(*(ask() for _ in range(500))) == [True] * 500


MIRROR = {
    "annotations": {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.source": "file"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "node-1", "controller": True}],
}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_c57_a_mirror_pod_from_its_node_is_let_in_as_it_is_and_recorded(review, answered, pod, endpoint):
    static = with_metadata(pod(**GPU, securityContext={"privileged": True}), **MIRROR)
    response = answered(review(object=static, userInfo=NODE), endpoint)
    assert response["allowed"]
    assert "patch" not in response
    assert not response.get("warnings")
    assert "GF201" in response["auditAnnotations"]["rules"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize(
    "user",
    [
        {"username": "alice", "groups": ["system:authenticated"]},
        {"username": "alice", "groups": ["system:nodes"]},
        {"username": "system:node:node-1", "groups": ["system:authenticated"]},
        {"username": "system:serviceaccount:vision:system:node:", "groups": ["system:nodes"]},
    ],
    ids=lambda user: f"{user['username']} in {user['groups'][0]}",
)
def test_c57_the_annotation_of_a_mirror_pod_exempts_nobody_else(review, answered, pod, endpoint, user):
    static = with_metadata(pod(**GPU, securityContext={"privileged": True}), **MIRROR)
    assert not answered(review(object=static, userInfo=user), endpoint)["allowed"]
