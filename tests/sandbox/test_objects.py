"""Create, read, update and delete, without webhooks."""

from __future__ import annotations

from typing import Any

import pytest


async def test_a_pod_gets_a_uid_a_version_a_time_and_a_first_status(client: Any, kit: Any) -> None:
    code, created, _ = await client.post("pods", kit.pod())
    metadata = created["metadata"]
    assert code == 201
    assert metadata["namespace"] == "default"
    assert metadata["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 1
    assert created["status"] == {"phase": "Pending"}
    assert (await client.get("pods/p")).body == created


async def test_fields_that_the_server_owns_are_wiped_from_a_create(client: Any, kit: Any) -> None:
    pod = kit.pod()
    pod["metadata"] |= {"uid": "mine", "creationTimestamp": None, "generation": 7}
    pod["status"] = {"phase": "Running"}
    created = (await client.post("pods", pod)).body
    assert created["metadata"]["uid"] != "mine"
    assert created["metadata"]["generation"] == 1
    assert created["status"]["phase"] == "Pending"


async def test_a_generated_name_is_the_base_cut_to_58_characters_and_five_more(client: Any, kit: Any) -> None:
    base = "x" * 70 + "-"
    name = (await client.post("pods", kit.pod(base))).body["metadata"]["name"]
    assert len(name) == 63
    assert name.startswith("x" * 58)
    assert set(name[58:]) <= set("bcdfghjklmnpqrstvwxz2456789")


async def test_two_generated_names_differ(client: Any, kit: Any) -> None:
    names = [(await client.post("pods", kit.pod("a-"))).body["metadata"]["name"] for _ in range(2)]
    assert len(set(names)) == 2


async def test_a_taken_name_is_a_409(client: Any, kit: Any) -> None:
    await client.post("pods", kit.pod())
    code, status, _ = await client.post("pods", kit.pod())
    assert (code, status["reason"]) == (409, "AlreadyExists")
    assert status["message"] == 'pods "p" already exists'
    assert status["details"] == {"name": "p", "kind": "pods"}


async def test_an_unknown_object_is_a_404(client: Any) -> None:
    code, status, _ = await client.get("pods/none")
    assert (code, status["kind"], status["status"], status["code"]) == (404, "Status", "Failure", 404)
    assert (await client.get("gadgets")).code == 404
    assert (await client.get("pods/none/log")).code == 404
    assert (await client.get("/api/v1/pods/none")).code == 404


async def test_a_namespace_must_exist(client: Any, kit: Any) -> None:
    code, status, _ = await client.post("/api/v1/namespaces/nowhere/pods", kit.pod())
    assert (code, status["message"]) == (404, 'namespaces "nowhere" not found')


async def test_a_dry_run_stores_nothing(client: Any, kit: Any, api: Any) -> None:
    before = api.store.revision
    code, created, _ = await client.post("pods", kit.pod("a-"), dryRun="All")
    assert code == 201
    assert created["metadata"]["name"].startswith("a-")
    assert api.store.revision == before
    await client.post("pods", kit.pod())
    before = api.store.revision
    await client.patch("pods/p", {"metadata": {"labels": {"a": "b"}}}, dryRun="All")
    await client.delete("pods/p", dryRun="All")
    assert api.store.revision == before


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "p"}}, "v1, Kind=Secret"),
        ({"metadata": {"name": "p", "namespace": "other"}}, "namespace"),
        ({"metadata": {"name": "p"}, "spec": {"containers": "x"}}, "$.spec.containers"),
        ({"metadata": {"name": "p", "labels": []}}, "$.metadata.labels"),
        (["x"], "object"),
    ],
)
async def test_a_body_of_the_wrong_shape_is_a_400(client: Any, body: Any, text: str) -> None:
    code, status, _ = await client.post("pods", body)
    assert (code, status["reason"]) == (400, "BadRequest")
    assert text in status["message"]


async def test_a_stale_put_is_a_409_and_a_put_without_a_version_wins(client: Any, kit: Any) -> None:
    first = (await client.post("pods", kit.pod())).body
    await client.patch("pods/p", {"metadata": {"labels": {"a": "1"}}})
    code, status, _ = await client.put("pods/p", first)
    assert (code, status["reason"]) == (409, "Conflict")
    assert "the object has been modified" in status["message"]
    del first["metadata"]["resourceVersion"]
    assert (await client.put("pods/p", first)).code == 200


async def test_a_lease_can_only_be_updated_with_its_version(client: Any) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    created = (await client.post(path, lease)).body
    code, status, _ = await client.put(f"{path}/l", lease)
    assert (code, status["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    created["spec"]["holderIdentity"] = "b"
    assert (await client.put(f"{path}/l", created)).body["spec"] == {"holderIdentity": "b"}


async def test_an_update_that_changes_nothing_is_no_write(client: Any, kit: Any) -> None:
    created = (await client.post("pods", kit.pod())).body
    assert (await client.put("pods/p", created)).body == created


async def test_system_fields_survive_an_update(client: Any, kit: Any) -> None:
    created = (await client.post("pods", kit.pod())).body
    changed = kit.pod()
    changed["metadata"]["labels"] = {"a": "b"}
    changed["spec"] = created["spec"]
    metadata = (await client.put("pods/p", changed)).body["metadata"]
    assert metadata["uid"] == created["metadata"]["uid"]
    assert metadata["generation"] == 1
    assert metadata["labels"] == {"a": "b"}


async def test_the_generation_counts_changes_of_the_spec(client: Any) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    await client.post(path, {"metadata": {"name": "d"}, "spec": {"replicas": 1}})
    await client.patch(f"{path}/d", {"metadata": {"labels": {"a": "b"}}})
    assert (await client.get(f"{path}/d")).body["metadata"]["generation"] == 1
    patched = await client.patch(f"{path}/d", {"spec": {"replicas": 2}})
    assert patched.body["metadata"]["generation"] == 2


async def test_the_status_subresource_changes_the_status_alone_and_the_object_never_does(
    client: Any, kit: Any
) -> None:
    created = (await client.post("pods", kit.pod())).body
    created["status"] = {"phase": "Running"}
    created["metadata"]["labels"] = {"a": "b"}
    stored = (await client.put("pods/p/status", created)).body
    assert stored["status"] == {"phase": "Running"}
    assert "labels" not in stored["metadata"]
    await client.patch("pods/p", {"status": {"phase": "Failed"}})
    assert (await client.get("pods/p/status")).body["status"] == {"phase": "Running"}


async def test_a_node_keeps_the_status_it_registers_with(client: Any) -> None:
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    assert (await client.post("/api/v1/nodes", node)).body["status"] == node["status"]


async def test_every_resource_of_the_table_can_be_created_listed_and_deleted(client: Any) -> None:
    groups = [("/api/v1", "/api/v1")]
    for group in (await client.get("/apis")).body["groups"]:
        path = f"/apis/{group['preferredVersion']['groupVersion']}"
        groups.append((path, path))
    for path, _ in groups:
        for resource in (await client.get(path)).body["resources"]:
            if "/" in resource["name"] or "list" not in resource["verbs"] or resource["name"] == "pods":
                continue
            where = f"{path}/namespaces/default" if resource["namespaced"] else path
            assert (await client.post(f"{where}/{resource['name']}", {"metadata": {"name": "x"}})).code == 201
            found = (await client.get(f"{where}/{resource['name']}")).body
            assert found["kind"] == f"{resource['kind']}List"
            assert "x" in [item["metadata"]["name"] for item in found["items"]]
            assert (await client.delete(f"{where}/{resource['name']}/x")).code == 200


async def test_a_deleted_pod_is_the_answer_and_for_other_kinds_a_status_is(client: Any, kit: Any) -> None:
    await client.post("pods", kit.pod())
    assert (await client.delete("pods/p")).body["kind"] == "Pod"
    created = (await client.post("configmaps", {"metadata": {"name": "c"}})).body
    status = (await client.delete("configmaps/c")).body
    details = {"name": "c", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    assert (status["status"], status["details"]) == ("Success", details)
    assert (await client.delete("configmaps/c")).code == 404


async def test_a_finalizer_holds_a_deleted_object_until_it_is_removed(client: Any) -> None:
    await client.post("configmaps", {"metadata": {"name": "c", "finalizers": ["a.io/x"]}})
    held = (await client.delete("configmaps/c")).body
    assert held["metadata"]["deletionTimestamp"]
    assert (await client.delete("configmaps/c")).body["metadata"] == held["metadata"]
    await client.patch("configmaps/c", {"metadata": {"finalizers": None}})
    assert (await client.get("configmaps/c")).code == 404


async def test_a_pod_on_a_node_terminates_gracefully(client: Any, kit: Any) -> None:
    await client.post("pods", kit.pod(nodeName="n"))
    marked = (await client.delete("pods/p")).body["metadata"]
    assert (marked["deletionTimestamp"], marked["deletionGracePeriodSeconds"]) == ("2026-01-02T03:04:35Z", 30)
    await client.patch("pods/p", {"metadata": {"labels": {"a": "b"}}})
    assert (await client.get("pods/p")).code == 200
    await client.delete("pods/p", {"gracePeriodSeconds": 0})
    assert (await client.get("pods/p")).code == 404


async def test_a_finished_pod_on_a_node_goes_at_once(client: Any, kit: Any) -> None:
    await client.post("pods", kit.pod(nodeName="n"))
    await client.patch("pods/p/status", {"status": {"phase": "Succeeded"}})
    await client.delete("pods/p")
    assert (await client.get("pods/p")).code == 404


@pytest.mark.parametrize("precondition", [{"uid": "another"}, {"resourceVersion": "1"}])
async def test_a_delete_may_insist_on_a_uid_and_a_version(client: Any, kit: Any, precondition: Any) -> None:
    created = (await client.post("pods", kit.pod())).body["metadata"]
    code, status, _ = await client.delete("pods/p", {"preconditions": precondition})
    assert code == 409
    assert "Precondition failed" in status["message"]
    right = {"preconditions": {"uid": created["uid"], "resourceVersion": created["resourceVersion"]}}
    assert (await client.delete("pods/p", right)).code == 200


async def test_a_collection_is_deleted_by_selector(client: Any, kit: Any) -> None:
    for name, team in (("a", "x"), ("b", "x"), ("c", "y")):
        pod = kit.pod(name)
        pod["metadata"]["labels"] = {"team": team}
        await client.post("pods", pod)
    deleted = (await client.delete("pods", labelSelector="team=x")).body
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in (await client.get("pods")).body["items"]] == ["c"]


async def test_a_namespace_takes_its_content_with_it(client: Any, kit: Any) -> None:
    created = (await client.post("/api/v1/namespaces", {"metadata": {"name": "n"}})).body
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert created["status"] == {"phase": "Active"}
    await client.post("/api/v1/namespaces/n/pods", kit.pod())
    assert (await client.delete("/api/v1/namespaces/n")).code == 200
    assert (await client.get("/api/v1/namespaces/n/pods/p")).code == 404


async def test_nothing_is_created_in_a_namespace_that_is_going(client: Any, kit: Any) -> None:
    await client.post("/api/v1/namespaces", {"metadata": {"name": "n", "finalizers": ["a.io/x"]}})
    await client.delete("/api/v1/namespaces/n")
    code, status, _ = await client.post("/api/v1/namespaces/n/pods", kit.pod())
    assert code == 403
    assert "because it is being terminated" in status["message"]


async def test_the_first_namespaces_may_not_be_deleted(client: Any) -> None:
    assert (await client.delete("/api/v1/namespaces/default")).code == 403


@pytest.mark.parametrize("query", [{"dryRun": "true"}, {"gracePeriodSeconds": "soon"}])
@pytest.mark.parametrize("body", [None, ["x"], {"dryRun": ["true"]}, {"gracePeriodSeconds": "soon"}])
async def test_unreadable_delete_options_delete_nothing(client: Any, kit: Any, query: Any, body: Any) -> None:
    await client.post("pods", kit.pod())
    assert (await client.delete("pods/p", body, **query)).code == 400
    assert body is None or (await client.delete("pods/p", body)).code == 400
    assert (await client.get("pods/p")).code == 200


async def test_a_misspelt_dry_run_stores_nothing(client: Any, kit: Any) -> None:
    assert (await client.post("pods", kit.pod(), dryRun="true")).code == 400
    assert (await client.get("pods/p")).code == 404


async def test_an_object_without_metadata_has_no_name(client: Any) -> None:
    assert (await client.post("configmaps", {})).body["details"]["causes"][0]["field"] == "metadata.name"


async def test_the_wrong_verb_is_a_405_and_a_version_on_create_is_refused(client: Any, kit: Any) -> None:
    assert (await client.post("pods/p", kit.pod())).code == 405
    assert (await client.put("pods", kit.pod())).code == 405
    pod = kit.pod()
    pod["metadata"]["resourceVersion"] = "5"
    assert (await client.post("pods", pod)).code == 500
