"""Server-side apply: who owns a field, what a second apply removes, when two appliers are in conflict."""

from __future__ import annotations

from typing import Any

import pytest

Object = dict[str, Any]

MAIN = {"name": "main", "image": "busybox:1"}


def configuration(*containers: Object, **metadata: Any) -> Object:
    spec = {"containers": list(containers) or [MAIN]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": spec}


@pytest.fixture
def apply(client: Any) -> Any:
    async def send(body: Any, path: str = "pods/p", manager: str = "m", **query: str) -> Any:
        headers = {"Content-Type": "application/apply-patch+yaml"}
        return await client.ask("PATCH", path, body, headers, fieldManager=manager, **query)

    return send


def owners(obj: Object) -> dict[str, Object]:
    return {each["manager"]: each["fieldsV1"] for each in obj["metadata"]["managedFields"]}


async def test_what_is_absent_is_made_and_its_fields_belong_to_the_manager(apply: Any) -> None:
    code, made, _ = await apply(configuration(labels={"a": "1"}))
    assert code == 201
    assert owners(made)["m"] == {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}, "f:name": {}, "f:image": {}}}},
    }


async def test_the_same_again_changes_nothing(apply: Any) -> None:
    made = (await apply(configuration())).body
    code, again, _ = await apply(configuration())
    assert (code, again) == (200, made)


async def test_what_is_no_longer_applied_is_removed_and_what_others_wrote_stays(
    apply: Any, client: Any
) -> None:
    await apply(configuration(labels={"a": "1", "b": "2"}, annotations={"c": "3"}))
    await client.patch("pods/p", {"metadata": {"labels": {"other": "x"}}})
    metadata = (await apply(configuration(labels={"a": "1"}))).body["metadata"]
    assert metadata["labels"] == {"a": "1", "other": "x"}
    assert "annotations" not in metadata


async def test_an_entry_of_a_list_goes_with_its_applier(apply: Any) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments/d"

    def deployment(*names: str) -> Object:
        containers = [{"name": name, "image": "i"} for name in names]
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"template": {"spec": {"containers": containers}}},
        }

    await apply(deployment("a", "b"), path)
    code, body, _ = await apply(deployment("b"), path)
    assert code == 200
    assert [each["name"] for each in body["spec"]["template"]["spec"]["containers"]] == ["b"]


async def test_two_appliers_of_one_value_share_it_and_one_of_another_is_in_conflict(apply: Any) -> None:
    await apply(configuration())
    assert (await apply(configuration(), manager="n")).code == 200
    changed = configuration({**MAIN, "image": "busybox:2"})
    code, status, _ = await apply(changed, manager="n")
    assert (code, status["reason"]) == (409, "Conflict")
    where = '.spec.containers[name="main"].image'
    assert status["message"] == f'Apply failed with 1 conflict: conflict with "m": {where}'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "m"', "field": where}
    ]


async def test_force_takes_the_field(apply: Any) -> None:
    await apply(configuration())
    code, body, _ = await apply(configuration({**MAIN, "image": "busybox:2"}), manager="n", force="true")
    assert (code, body["spec"]["containers"][0]["image"]) == (200, "busybox:2")
    key = 'k:{"name":"main"}'
    assert "f:image" not in owners(body)["m"]["f:spec"]["f:containers"][key]
    assert "f:image" in owners(body)["n"]["f:spec"]["f:containers"][key]


async def test_what_a_webhook_adds_belongs_to_nobody_and_outlives_the_next_apply(
    apply: Any, hook: Any, peer: Any, kit: Any
) -> None:
    peer.answer = lambda _: kit.patching({"op": "add", "path": "/metadata/labels", "value": {"team": "x"}})
    await hook("mutating")
    made = (await apply(configuration())).body
    assert "f:metadata" not in owners(made)["m"]
    assert (await apply(configuration())).body["metadata"]["labels"] == {"team": "x"}


async def test_a_dry_run_stores_nothing(apply: Any, client: Any) -> None:
    assert (await apply(configuration(), dryRun="All")).code == 201
    assert (await client.get("pods/p")).code == 404


@pytest.mark.parametrize(
    ("body", "manager"),
    [
        (configuration(), ""),
        (configuration(name="q"), "m"),
        (configuration(managedFields=[{}]), "m"),
        ([], "m"),
    ],
    ids=["no manager", "another name", "managedFields", "no object"],
)
async def test_a_broken_apply_is_a_400(apply: Any, body: Any, manager: str) -> None:
    assert (await apply(body, manager=manager)).code == 400


async def test_yaml_that_is_not_json_is_said_not_to_be_emulated(client: Any) -> None:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    url = client.full("pods/p?fieldManager=m")
    async with client.session.patch(url, data="kind: Pod", headers=headers) as answer:
        assert answer.status == 400
        assert "not emulated" in (await answer.json())["message"]


async def test_a_custom_resource_is_applied_too(apply: Any) -> None:
    body = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": {"profile": "baseline"},
    }
    path = "/apis/gpufence.io/v1alpha1/gpupolicies/default"
    assert (await apply(body, path)).code == 201
    code, found, _ = await apply({**body, "spec": {"enforcement": "audit"}}, path)
    assert (code, found["spec"]) == (200, {"enforcement": "audit"})
