"""Pods through kubectl: denials as a user reads them, labels, debug, delete."""

from __future__ import annotations

from typing import Any

import pytest

Object = dict[str, Any]

VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
GPU: Object = {"name": "main", "image": "cuda:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}


def pod(name: str = "p", container: Object = GPU, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [container]},
    }


async def test_a_denial_says_which_rule_where_and_how_to_mend_it(cluster: Any) -> None:
    wild = {**GPU, "securityContext": {"privileged": True}}
    ended = await cluster("create", "-f", "-", stdin=pod(container=wild))
    assert ended.code == 1
    head, reason = ended.err.strip().splitlines()
    assert 'admission webhook "gpu.mutate.gpufence.io" denied the request: 1 reason by gpufence:' in head
    assert reason.startswith("[GF201] container main is privileged")
    assert "(at /spec/containers/0/securityContext/privileged). Fix: " in reason


@pytest.mark.parametrize("change", ["gpufence.io/team=speech", "gpufence.io/team-"])
async def test_c56_a_change_of_the_team_label_is_refused_with_the_way_out(cluster: Any, change: str) -> None:
    await cluster.ok("create", "-f", "-", stdin=pod())
    ended = await cluster("label", "--overwrite", "pod", "p", change)
    assert ended.code == 1
    assert "[GF303]" in ended.err
    assert "Fix: Leave the label alone; delete the pod and create it in the namespace" in ended.err
    assert (await cluster.get("pod", "p"))["metadata"]["labels"] == {"gpufence.io/team": "vision"}


async def test_c09_labels_annotations_and_finalizers_of_others_change_freely(cluster: Any) -> None:
    await cluster.ok("create", "-f", "-", stdin=pod(finalizers=["example.com/hold"]))
    await cluster.ok("label", "pod", "p", "app=a")
    await cluster.ok("annotate", "pod", "p", "note=b")
    await cluster.ok("set", "image", "pod/p", "main=cuda:2")
    await cluster.ok("delete", "pod", "p", "--wait=false")
    await cluster.ok("patch", "pod", "p", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    assert (await cluster("get", "pod", "p")).err.startswith("Error from server (NotFound)")


async def test_c22_debug_hides_the_gpus_in_the_new_container_only(cluster: Any) -> None:
    await cluster.ok("create", "-f", "-", stdin=pod())
    before = (await cluster.get("pod", "p"))["spec"]["containers"]
    debug = ("debug", "p", "--image=busybox:1", "--profile=general", "-c")
    await cluster.ok(*debug, "one")
    await cluster.ok(*debug, "two")
    spec = (await cluster.get("pod", "p"))["spec"]
    assert spec["containers"] == before
    assert "env" not in spec["containers"][0]
    assert [(each["name"], each["env"]) for each in spec["ephemeralContainers"]] == [
        ("one", [VOID]),
        ("two", [VOID]),
    ]


async def test_c22_debug_with_the_profile_sysadmin_is_refused(cluster: Any) -> None:
    await cluster.ok("create", "-f", "-", stdin=pod())
    ended = await cluster("debug", "p", "--image=busybox:1", "--profile=sysadmin", "-c", "root")
    if "unknown profile" in ended.err:
        pytest.skip("this kubectl is from before the profile sysadmin, which came with 1.30")
    assert ended.code == 1
    assert "container root is privileged" in ended.err
    assert "ephemeralContainers" not in (await cluster.get("pod", "p"))["spec"]


def check_copy(made: Object, copied: Object) -> None:
    """A copy has the spec and the annotations of the pod, none of its labels, and one more container."""
    assert copied["metadata"]["labels"] == {"gpufence.io/team": "vision"}
    stamp = "gpufence.io/decision"
    assert copied["metadata"]["annotations"][stamp] != made["metadata"]["annotations"][stamp]
    assert [each.get("env") for each in copied["spec"]["containers"]] == [None, [VOID]]


async def test_c22_a_copy_of_a_pod_is_judged_as_a_new_pod(cluster: Any) -> None:
    await cluster.ok("create", "-f", "-", stdin=pod())
    debug = ("debug", "p", "--copy-to=copy", "--image=busybox:1", "--profile=general", "-c", "debugger")
    ended = await cluster(*debug)
    if "UnsupportedMediaType" in ended.err:
        pytest.skip("this kubectl sends the copy as protobuf, which the sandbox does not read")
    assert ended.code == 0, ended.err
    check_copy(await cluster.get("pod", "p"), await cluster.get("pod", "copy"))


async def test_c22_what_a_copy_is_made_of_is_judged_as_a_new_pod(cluster: Any) -> None:
    """The same for every kubectl: what `debug --copy-to` sends, as JSON."""
    await cluster.ok("create", "-f", "-", stdin=pod())
    made = await cluster.get("pod", "p")
    added = {"name": "debugger", "image": "busybox:1"}
    copy = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "copy", "annotations": made["metadata"]["annotations"]},
        "spec": {**made["spec"], "containers": [*made["spec"]["containers"], added]},
    }
    await cluster.ok("create", "-f", "-", stdin=copy)
    check_copy(made, await cluster.get("pod", "copy"))


async def test_describe_and_yaml_show_what_was_added(cluster: Any) -> None:
    plain = {"name": "main", "image": "busybox:1"}
    await cluster.ok("create", "-f", "-", stdin=pod(container=plain))
    described = await cluster.ok("describe", "pod", "p")
    assert "NVIDIA_VISIBLE_DEVICES:  void" in described
    assert "gpufence.io/decision" in described
    assert "value: void" in await cluster.ok("get", "pod", "p", "-o", "yaml")


async def test_delete_never_asks_the_webhook(cluster: Any) -> None:
    await cluster.ok("create", "-f", "-", stdin=pod())
    cluster.api.calls.clear()
    assert "deleted" in await cluster.ok("delete", "pod", "p", "--timeout=5s")
    assert cluster.api.calls == []


AUDIT = {
    "profile": "baseline",
    "enforcement": "audit",
    "teams": [{"name": "vision", "namespaces": ["vision"]}],
}


@pytest.mark.parametrize("policy", [AUDIT], ids=["audit"])
async def test_c71_in_audit_mode_the_user_reads_would_be_denied_and_gets_the_pod(
    cluster: Any, policy: Object
) -> None:
    wild = {**GPU, "securityContext": {"privileged": True}}
    ended = await cluster("create", "-f", "-", stdin=pod(container=wild))
    assert (ended.code, ended.out) == (0, "pod/p created\n")
    assert ended.err.startswith("Warning: ")
    assert "would be denied" in ended.err
    made = await cluster.get("pod", "p")
    assert "labels" not in made["metadata"]
    assert "annotations" not in made["metadata"]
