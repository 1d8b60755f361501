"""`kubectl apply`, `diff` and dry runs: what a user of files and a GitOps tool see of the webhook's patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

Object = dict[str, Any]

VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
MAIN = {"name": "main", "image": "busybox:1"}
POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"app": "p"}},
    "spec": {"containers": [MAIN]},
}
GPU: Object = {**MAIN, "resources": {"limits": {"nvidia.com/gpu": 1}}}
GPU_POD: Object = {**POD, "spec": {"containers": [GPU]}}
CLIENT_SIDE, SERVER_SIDE = (), ("--server-side",)
BOTH = pytest.mark.parametrize("side", [CLIENT_SIDE, SERVER_SIDE], ids=["client-side", "server-side"])


def with_image(pod: Object, image: str) -> Object:
    changed = copy.deepcopy(pod)
    changed["spec"]["containers"][0]["image"] = image
    return changed


@BOTH
async def test_c23_apply_diff_and_apply_again_find_no_difference_made_by_the_patch(
    cluster: Any, side: tuple[str, ...]
) -> None:
    apply = ("apply", *side, "-f", "-")
    done = "serverside-applied" if side else "created"
    assert await cluster.ok(*apply, stdin=GPU_POD) == f"pod/p {done}\n"
    first = await cluster.get("pod", "p")
    assert first["metadata"]["labels"] == {"app": "p", "gpufence.io/team": "vision"}
    assert await cluster.ok("diff", *side, "-f", "-", stdin=GPU_POD) == ""
    again = "serverside-applied" if side else "unchanged"
    assert await cluster.ok(*apply, stdin=GPU_POD) == f"pod/p {again}\n"
    assert await cluster.get("pod", "p") == first


@BOTH
async def test_c23_a_change_in_the_file_is_the_only_difference_and_keeps_what_was_added(
    cluster: Any, side: tuple[str, ...]
) -> None:
    await cluster.ok("apply", *side, "-f", "-", stdin=POD)
    ended = await cluster("diff", *side, "-f", "-", stdin=with_image(POD, "busybox:2"))
    changed = [line for line in ended.out.splitlines() if line.startswith(("+ ", "- "))]
    assert ended.code == 1
    assert [line.split() for line in changed if "generation" not in line] == [
        ["-", "-", "image:", "busybox:1"] if "- image" in changed[0] else ["-", "image:", "busybox:1"],
        ["+", "-", "image:", "busybox:2"] if "- image" in changed[0] else ["+", "image:", "busybox:2"],
    ]
    await cluster.ok("apply", *side, "-f", "-", stdin=with_image(POD, "busybox:2"))
    (container,) = (await cluster.get("pod", "p"))["spec"]["containers"]
    assert container["image"] == "busybox:2"
    assert container["env"] == [VOID]


@BOTH
async def test_c24_a_dry_run_by_the_server_shows_the_patch_and_stores_nothing(
    cluster: Any, side: tuple[str, ...]
) -> None:
    before = cluster.api.store.revision
    shown = await cluster.ok("apply", *side, "--dry-run=server", "-o", "yaml", "-f", "-", stdin=POD)
    assert yaml.safe_load(shown)["spec"]["containers"][0]["env"] == [VOID]
    assert {call.request["dryRun"] for call in cluster.api.calls} == {True}
    assert cluster.api.store.revision == before


async def test_c24_a_dry_run_by_the_server_is_denied_as_the_real_run_is(cluster: Any) -> None:
    bad = {**GPU_POD, "spec": {"containers": [{**GPU, "securityContext": {"privileged": True}}]}}
    dry = await cluster("apply", "--dry-run=server", "-f", "-", stdin=bad)
    real = await cluster("apply", "-f", "-", stdin=bad)
    assert dry.code == real.code == 1
    assert dry.err == real.err
    assert (await cluster("get", "pod", "p")).err.startswith("Error from server (NotFound)")


async def test_a_dry_run_by_the_client_never_asks_the_webhook(cluster: Any) -> None:
    shown = await cluster.ok("apply", "--dry-run=client", "-o", "yaml", "-f", "-", stdin=POD)
    assert "env" not in yaml.safe_load(shown)["spec"]["containers"][0]
    assert cluster.api.calls == []


async def test_c05_a_bare_pod_of_kubectl_run_is_fixed(cluster: Any) -> None:
    assert await cluster.ok("run", "bare", "--image=busybox:1") == "pod/bare created\n"
    (container,) = (await cluster.get("pod", "bare"))["spec"]["containers"]
    assert container["env"] == [VOID]


async def test_c23_the_order_of_the_users_variables_stays_and_ours_is_added_once(cluster: Any) -> None:
    mine = [{"name": "Z", "value": "1"}, {"name": "A", "value": "$(Z)"}]
    pod = {**POD, "spec": {"containers": [{**MAIN, "env": mine}]}}
    await cluster.ok("apply", "-f", "-", stdin=pod)
    await cluster.ok("apply", "-f", "-", stdin=pod)
    env = (await cluster.get("pod", "p"))["spec"]["containers"][0]["env"]
    assert [each for each in env if each != VOID] == mine
    assert env.count(VOID) == 1


async def test_the_object_that_kubectl_prints_can_be_created_again_without_a_change(cluster: Any) -> None:
    """`get -o yaml`, edit, `create`: the patch is in the file already, so there is none to make."""
    await cluster.ok("apply", "-f", "-", stdin=GPU_POD)
    printed = await cluster.get("pod", "p")
    metadata = {key: printed["metadata"][key] for key in ("labels", "annotations")}
    cluster.api.calls.clear()
    await cluster.ok("create", "-f", "-", stdin={**printed, "metadata": {**metadata, "name": "q"}})
    mutating = [call for call in cluster.api.calls if call.phase == "mutating"]
    assert [call.response.get("patch") for call in mutating if call.response] == [None]


@BOTH
async def test_a_file_that_names_the_right_team_itself_is_no_difference(
    cluster: Any, side: tuple[str, ...]
) -> None:
    named = {**GPU_POD, "metadata": {"name": "p", "labels": {"gpufence.io/team": "vision"}}}
    await cluster.ok("apply", *side, "-f", "-", stdin=named)
    first = await cluster.get("pod", "p")
    assert await cluster.ok("diff", *side, "-f", "-", stdin=named) == ""
    await cluster.ok("apply", *side, "-f", "-", stdin=named)
    assert await cluster.get("pod", "p") == first


async def test_c56_a_file_that_names_another_team_is_corrected_once_and_refused_when_it_insists(
    cluster: Any,
) -> None:
    wrong = {**GPU_POD, "metadata": {"name": "p", "labels": {"gpufence.io/team": "speech"}}}
    await cluster.ok("apply", "-f", "-", stdin=wrong)
    assert (await cluster.get("pod", "p"))["metadata"]["labels"] == {"gpufence.io/team": "vision"}
    again = await cluster("apply", "-f", "-", stdin=wrong)
    assert again.code == 1
    assert "[GF303]" in again.err
    assert "Fix: Leave the label alone" in again.err


async def test_a_file_that_sets_the_reserved_variable_applies_once_since_a_pod_cannot_change(
    cluster: Any,
) -> None:
    """As with every webhook that corrects a value of a bare pod. Templates stay as written: no such difference."""
    asks = {**POD, "spec": {"containers": [{**MAIN, "env": [{**VOID, "value": "all"}]}]}}
    await cluster.ok("apply", "-f", "-", stdin=asks)
    assert (await cluster.get("pod", "p"))["spec"]["containers"][0]["env"] == [VOID]
    again = await cluster("apply", "-f", "-", stdin=asks)
    assert again.code == 1
    assert "pod updates may not change fields" in again.err


POLICY: Object = {
    "apiVersion": "gpufence.io/v1alpha1",
    "kind": "GpuPolicy",
    "metadata": {"name": "default"},
    "spec": {"teams": [{"name": "vision", "namespaces": ["vision"]}]},
}


@BOTH
async def test_a_bad_policy_is_refused_with_a_line_for_every_problem_also_in_a_dry_run(
    cluster: Any, side: tuple[str, ...]
) -> None:
    bad = {**POLICY, "spec": {"profile": "loose", "rules": [{"rule": "GF999", "mode": "deny"}]}}
    for dry in ((), ("--dry-run=server",)):
        ended = await cluster("apply", *side, *dry, "-f", "-", stdin=bad)
        assert ended.code == 1
        lines = ended.err.splitlines()
        assert [line for line in lines if line.startswith("spec.profile")]
        assert [line for line in lines if line.startswith("spec.rules[0].rule")]
    await cluster.ok("apply", *side, "-f", "-", stdin=POLICY)
    assert await cluster.ok("diff", *side, "-f", "-", stdin=POLICY) == ""
