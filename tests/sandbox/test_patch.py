"""The kinds of PATCH."""

from __future__ import annotations

from typing import Any


async def test_a_merge_patch_sets_and_removes(client: Any, kit: Any) -> None:
    await client.post("pods", kit.pod())
    await client.patch("pods/p", {"metadata": {"labels": {"a": "1", "b": "2"}}})
    patched = await client.patch("pods/p", {"metadata": {"labels": {"a": None, "c": "3"}}})
    assert patched.body["metadata"]["labels"] == {"b": "2", "c": "3"}


async def test_a_json_patch_is_applied_and_one_that_cannot_be_is_a_422(client: Any, kit: Any) -> None:
    await client.post("pods", kit.pod())
    add = [{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}]
    assert (await client.patch("pods/p", add, "json")).body["metadata"]["labels"] == {"a": "1"}
    code, status, _ = await client.patch("pods/p", [{"op": "remove", "path": "/metadata/none"}], "json")
    assert (code, status["reason"]) == (422, "Invalid")
    assert (await client.patch("pods/p", [{"op": "replace", "path": "", "value": 1}], "json")).code == 400


async def test_a_strategic_patch_merges_lists_by_name(client: Any) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    containers = [
        {"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}]},
        {"name": "b", "image": "y"},
    ]
    await client.post(
        path, {"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": containers}}}}
    )
    change = [
        {"name": "a", "env": [{"name": "F", "value": "2"}, {"name": "E", "$patch": "delete"}]},
        {"name": "c", "image": "z"},
    ]
    spec = {"$setElementOrder/containers": [{"name": "a"}], "containers": change}
    patched = await client.patch(f"{path}/d", {"spec": {"template": {"spec": spec}}}, "strategic-merge")
    assert patched.body["spec"]["template"]["spec"] == {
        "containers": [
            {"name": "a", "image": "x", "env": [{"name": "F", "value": "2"}]},
            {"name": "b", "image": "y"},
            {"name": "c", "image": "z"},
        ]
    }


async def test_volume_mounts_merge_by_path_and_lists_without_a_key_are_replaced(client: Any) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    mounts = [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]
    await client.post(path, {"metadata": {"name": "j"}, "spec": {"volumeMounts": mounts, "args": ["1"]}})
    spec = {"volumeMounts": [{"mountPath": "/b", "readOnly": True}], "args": ["2"]}
    patched = (await client.patch(f"{path}/j", {"spec": spec}, "strategic-merge")).body["spec"]
    assert patched["volumeMounts"] == [mounts[0], {**mounts[1], "readOnly": True}]
    assert patched["args"] == ["2"]


async def test_a_custom_resource_has_no_strategic_merge(client: Any) -> None:
    path = "/apis/gpufence.io/v1alpha1/gpupolicies"
    await client.post(path, {"metadata": {"name": "default"}, "spec": {}})
    assert (await client.patch(f"{path}/default", {"spec": {"a": 1}}, "strategic-merge")).code == 415
    assert (await client.patch(f"{path}/default", {"spec": {"a": 1}})).body["spec"] == {"a": 1}


async def test_a_patch_may_insist_on_a_version(client: Any, kit: Any) -> None:
    version = (await client.post("pods", kit.pod())).body["metadata"]["resourceVersion"]
    change = {"metadata": {"resourceVersion": version, "labels": {"a": "1"}}}
    assert (await client.patch("pods/p", change)).code == 200
    assert (await client.patch("pods/p", change)).code == 409


async def test_a_protobuf_or_yaml_body_is_a_415(client: Any) -> None:
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    assert (await client.ask("POST", "pods", {}, headers)).code == 415
