"""The subresource `scale`, and what webhooks see of it."""

from __future__ import annotations

from typing import Any

import pytest

PATH = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
async def deployment(client: Any) -> Any:
    spec = {"selector": {"matchLabels": {"b": "2", "a": "1"}}, "template": {"spec": {"containers": []}}}
    return (await client.post(PATH, {"metadata": {"name": "d"}, "spec": spec})).body


async def test_it_shows_the_replicas_and_the_selector(client: Any, deployment: Any) -> None:
    code, scale, _ = await client.get(f"{PATH}/d/scale")
    assert (code, scale["kind"], scale["apiVersion"]) == (200, "Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"]["selector"] == "a=1,b=2"
    assert scale["metadata"]["resourceVersion"] == deployment["metadata"]["resourceVersion"]


@pytest.mark.parametrize("kind", ["merge", "json", "put"])
async def test_it_changes_the_replicas_and_nothing_else(client: Any, deployment: Any, kind: str) -> None:
    scale = (await client.get(f"{PATH}/d/scale")).body
    if kind == "put":
        answer = await client.put(f"{PATH}/d/scale", {**scale, "spec": {"replicas": 3}})
    elif kind == "json":
        operations = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
        answer = await client.patch(f"{PATH}/d/scale", operations, "json")
    else:
        answer = await client.patch(f"{PATH}/d/scale", {"spec": {"replicas": 3}})
    assert (answer.code, answer.body["spec"]) == (200, {"replicas": 3})
    now = (await client.get(f"{PATH}/d")).body
    assert now["spec"] == {**deployment["spec"], "replicas": 3}
    assert now["metadata"]["generation"] == 2


async def test_a_dry_run_and_the_same_number_store_nothing(client: Any, api: Any, deployment: Any) -> None:
    before = api.store.revision
    assert (await client.patch(f"{PATH}/d/scale", {"spec": {"replicas": 3}}, dryRun="All")).code == 200
    assert (await client.patch(f"{PATH}/d/scale", {"spec": {"replicas": 1}})).code == 200
    assert api.store.revision == before


@pytest.mark.parametrize("replicas", [-1, "3"])
async def test_a_number_that_is_none_is_a_422(client: Any, deployment: Any, replicas: Any) -> None:
    assert (await client.patch(f"{PATH}/d/scale", {"spec": {"replicas": replicas}})).code == 422


async def test_an_old_version_is_a_409_and_what_is_absent_a_404(client: Any, deployment: Any) -> None:
    old = (await client.get(f"{PATH}/d/scale")).body
    await client.patch(f"{PATH}/d/scale", {"spec": {"replicas": 2}})
    assert (await client.put(f"{PATH}/d/scale", old)).code == 409
    assert (await client.get(f"{PATH}/none/scale")).code == 404
    assert (await client.delete(f"{PATH}/d/scale")).code == 405
    assert (await client.get("/apis/apps/v1/namespaces/default/daemonsets/d/scale")).code == 404


async def test_only_a_rule_that_names_it_sees_it_and_as_a_scale(
    client: Any, api: Any, hook: Any, deployment: Any
) -> None:
    rule = {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"]}
    await hook("validating", rules=[{**rule, "resources": ["deployments"]}])
    await client.patch(f"{PATH}/d/scale", {"spec": {"replicas": 2}})
    assert api.calls == []
    await hook("validating", name="b.gpufence.io", rules=[{**rule, "resources": ["*/scale"]}])
    await client.patch(f"{PATH}/d/scale", {"spec": {"replicas": 3}})
    (call,) = api.calls
    assert call.request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert call.request["resource"]["resource"] == "deployments"
    assert (call.request["oldObject"]["spec"], call.request["object"]["spec"]) == (
        {"replicas": 2},
        {"replicas": 3},
    )
