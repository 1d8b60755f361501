"""What webhooks are sent, when, and what their answers lead to: over TLS, with a real peer."""

from __future__ import annotations

import asyncio
import base64
import copy
from typing import Any

import pytest
import trustme
from aiohttp import web

LABEL = {"op": "add", "path": "/metadata/labels", "value": {"team": "speech"}}


async def test_the_mutating_review_of_a_create_is_complete(
    client: Any, kit: Any, api: Any, hook: Any
) -> None:
    await hook("mutating")
    await client.post("pods", kit.pod("a-"), fieldManager="tests")
    request = api.calls[0].request
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    obj = request.pop("object")
    assert len(request.pop("uid")) == 36
    assert request == {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "tests"},
    }
    assert obj["metadata"] == {"generateName": "a-", "namespace": "default"}
    assert obj["spec"]["restartPolicy"] == "Always"


async def test_the_validating_review_has_name_and_uid(client: Any, kit: Any, api: Any, hook: Any) -> None:
    await hook("validating")
    created = (await client.post("pods", kit.pod("a-"))).body["metadata"]
    request = api.calls[0].request
    assert request["name"] == request["object"]["metadata"]["name"] == created["name"]
    assert request["object"]["metadata"]["uid"] == created["uid"]
    assert request["object"]["metadata"]["creationTimestamp"] == created["creationTimestamp"]
    assert "resourceVersion" not in request["object"]["metadata"]


async def test_an_update_shows_both_objects(client: Any, kit: Any, api: Any, hook: Any, peer: Any) -> None:
    created = (await client.post("pods", kit.pod())).body
    rule = {"operations": ["UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    await hook("validating", rules=[rule])
    await client.patch("pods/p", {"metadata": {"labels": {"a": "b"}}})
    request = api.calls[0].request
    assert (request["name"], request["operation"]) == ("p", "UPDATE")
    assert request["oldObject"] == created
    assert request["object"]["metadata"]["labels"] == {"a": "b"}
    assert request["options"] == {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}


async def test_a_delete_shows_the_old_object_and_can_be_denied(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    created = (await client.post("pods", kit.pod())).body
    rule = {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    await hook("validating", rules=[rule])
    peer.answer = lambda _: {"allowed": False}
    code, status, _ = await client.delete("pods/p", {"gracePeriodSeconds": 3})
    request = api.calls[0].request
    assert (request["object"], request["oldObject"], request["name"]) == (None, created, "p")
    assert request["options"]["gracePeriodSeconds"] == 3
    assert code == 400
    assert status["message"].endswith("denied the request without explanation")
    await client.delete("pods")
    assert "name" not in api.calls[1].request


async def test_a_patch_is_applied_and_the_defaults_again(client: Any, kit: Any, hook: Any, peer: Any) -> None:
    extra = {"name": "side", "image": "busybox"}
    peer.answer = lambda _: kit.patching(LABEL, {"op": "add", "path": "/spec/containers/-", "value": extra})
    await hook("mutating")
    created = (await client.post("pods", kit.pod())).body
    assert created["metadata"]["labels"] == {"team": "speech"}
    assert created["spec"]["containers"][1]["imagePullPolicy"] == "Always"
    assert (await client.get("pods/p")).body == created


async def test_mutating_webhooks_run_by_configuration_name_and_see_the_patches_before(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    peer.answer = lambda request: (
        {"allowed": True} if "labels" in request["object"]["metadata"] else kit.patching(LABEL)
    )
    await hook("mutating", name="b.gpufence.io")
    await hook("mutating", name="a.gpufence.io")
    await client.post("pods", kit.pod())
    assert [(call.webhook, call.round) for call in api.calls] == [("a.gpufence.io", 0), ("b.gpufence.io", 0)]
    assert api.calls[1].request["object"]["metadata"]["labels"] == {"team": "speech"}


async def test_a_webhook_runs_again_when_a_later_one_changed_the_object(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    names = iter(["a", "b", "a again"])

    def answer(_: Any) -> Any:
        which = next(names)
        return kit.patching(LABEL) if which == "b" else {"allowed": True}

    peer.answer = answer
    await hook("mutating", name="a.gpufence.io", reinvocationPolicy="IfNeeded")
    await hook("mutating", name="b.gpufence.io", reinvocationPolicy="IfNeeded")
    await client.post("pods", kit.pod())
    calls = [(call.webhook, call.round) for call in api.calls]
    assert calls == [("a.gpufence.io", 0), ("b.gpufence.io", 0), ("a.gpufence.io", 1)]


async def test_a_webhook_that_never_asked_for_it_does_not_run_again(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    peer.answer = lambda _: kit.patching(LABEL)
    await hook("mutating", name="a.gpufence.io")
    await hook("mutating", name="b.gpufence.io")
    await client.post("pods", kit.pod())
    assert [call.round for call in api.calls] == [0, 0]


async def test_the_final_object_is_what_validating_webhooks_judge(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    peer.answer = lambda _: kit.patching(LABEL)
    await hook("mutating")
    await hook("validating")
    peer.answer = lambda request: (
        {"allowed": True} if "uid" in request["object"]["metadata"] else kit.patching(LABEL)
    )
    created = (await client.post("pods", kit.pod())).body
    assert [call.phase for call in api.calls] == ["mutating", "validating"]
    final = api.calls[1].request["object"]
    assert final == {**created, "metadata": {**final["metadata"]}}
    assert final["metadata"]["labels"] == {"team": "speech"}


async def test_validation_comes_between_the_two_phases(client: Any, kit: Any, api: Any, hook: Any) -> None:
    await hook("mutating")
    await hook("validating")
    code, status, _ = await client.post("pods", kit.pod("UPPER"))
    assert (code, status["reason"]) == (422, "Invalid")
    assert [call.phase for call in api.calls] == ["mutating"]


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ({"code": 403, "reason": "Forbidden", "message": "no GPU for you"}, 403, ": no GPU for you"),
        ({"code": 200, "message": "odd"}, 400, ": odd"),
        ({"reason": "Forbidden"}, 400, ": Forbidden"),
        (None, 400, " without explanation"),
    ],
)
@pytest.mark.parametrize("phase", ["mutating", "validating"])
async def test_a_denial_is_the_webhooks_status_with_a_prefix(
    *, client: Any, kit: Any, hook: Any, peer: Any, phase: str, status: Any, code: int, text: str
) -> None:
    await hook(phase)
    peer.answer = lambda _: {"allowed": False, "status": status}
    got, body, _ = await client.post("pods", kit.pod())
    assert (got, body["code"], body["status"]) == (code, code, "Failure")
    assert body["message"] == 'admission webhook "a.gpufence.io" denied the request' + text
    assert (await client.get("pods/p")).code == 404


async def test_warnings_become_headers_also_of_a_denial(client: Any, kit: Any, hook: Any, peer: Any) -> None:
    await hook("validating")
    warnings = ['say "x"', 'say "x"', "two\nlines", "plain"]
    peer.answer = lambda _: {"allowed": True, "warnings": warnings}
    created = await client.post("pods", kit.pod())
    assert created.warnings == ['299 - "say \\"x\\""', '299 - "plain"']
    peer.answer = lambda _: {"allowed": False, "warnings": ["why"]}
    assert (await client.post("pods", kit.pod("q"))).warnings == ['299 - "why"']


async def test_every_call_is_kept_with_its_time_and_audit_annotations(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    await hook("validating")
    answer = {"allowed": True, "auditAnnotations": {"team": "x", "a/b": "lost"}}
    peer.answer = lambda _: answer
    await client.post("pods", kit.pod())
    (call,) = api.calls
    assert (call.webhook, call.configuration, call.phase, call.error) == (
        "a.gpufence.io",
        "a",
        "validating",
        "",
    )
    assert call.milliseconds == 5.0
    assert call.response == {"uid": call.request["uid"], **answer}
    assert call.audit_annotations == {"a.gpufence.io/team": "x"}


async def test_the_record_of_a_call_is_a_copy(client: Any, kit: Any, api: Any, hook: Any) -> None:
    created = (await client.post("pods", kit.pod())).body
    rule = {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    await hook("validating", rules=[rule])
    await client.put("pods/p", created)
    api.calls[0].request["oldObject"]["metadata"].clear()
    assert (await client.get("pods/p")).body == created


async def test_a_dry_run_is_told_to_the_webhook(client: Any, kit: Any, api: Any, hook: Any) -> None:
    await hook("mutating")
    assert (await client.post("pods", kit.pod(), dryRun="All")).code == 201
    request = api.calls[0].request
    assert request["dryRun"] is True
    assert request["options"]["dryRun"] == ["All"]


async def test_the_time_limit_is_told_in_the_query(client: Any, kit: Any, hook: Any, peer: Any) -> None:
    await hook("mutating", timeoutSeconds=3)
    await client.post("pods", kit.pod())
    assert peer.queries == ["timeout=3s"]


async def _fails(
    client: Any, kit: Any, api: Any, hook: Any, text: str, *, phase: str = "mutating", **spec: Any
) -> None:
    """With Fail the request is a 500 of the known text; with Ignore it passes; the record tells why."""
    await hook(phase, **spec)
    code, status, _ = await client.post("pods", kit.pod())
    assert (code, status["reason"]) == (500, "InternalError")
    assert status["message"].startswith('Internal error occurred: failed calling webhook "a.gpufence.io": ')
    assert text in status["message"]
    assert text in api.calls[-1].error
    path = f"/apis/admissionregistration.k8s.io/v1/{phase}webhookconfigurations/a"
    await client.patch(
        path, [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}], "json"
    )
    assert (await client.post("pods", kit.pod())).code == 201
    assert text in api.calls[-1].error


BROKEN = [
    ("mutating", {"uid": "other", "allowed": True}, "expected response.uid="),
    ("mutating", {"allowed": True, "patch": "W10="}, "response.patch but not response.patchType"),
    ("mutating", {"allowed": True, "patchType": "JSONPatch"}, "response.patchType but not response.patch"),
    ("mutating", {"allowed": True, "patch": "W10=", "patchType": "Merge"}, 'unsupported patch type "Merge"'),
    ("mutating", {"allowed": True, "patch": "e30=", "patchType": "JSONPatch"}, "undecodable patch"),
    (
        "validating",
        {"allowed": True, "patch": "W10=", "patchType": "JSONPatch"},
        "may not return response.patch",
    ),
    ("validating", {"allowed": True, "patchType": "JSONPatch"}, "may not return response.patchType"),
    ("validating", {"allowed": "yes"}, "could not decode"),
]


@pytest.mark.parametrize(("phase", "answer", "text"), BROKEN)
async def test_an_answer_that_breaks_the_rules_is_a_failed_call(
    *, client: Any, kit: Any, api: Any, hook: Any, peer: Any, phase: str, answer: Any, text: str
) -> None:
    peer.answer = lambda _: answer
    await _fails(client, kit, api, hook, text, phase=phase)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ("{}", 200, "webhook response was absent"),
        ("no json", 200, "could not decode"),
        (
            '{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{}}',
            200,
            "expected response.uid",
        ),
        ("", 503, "the server responded with the status code 503"),
        ('{"message":"busy"}', 429, "failed to call webhook: busy"),
        ("", 307, "status code 307"),
    ],
)
async def test_an_answer_that_is_no_review_is_a_failed_call(
    *, client: Any, kit: Any, api: Any, hook: Any, peer: Any, body: str, status: int, text: str
) -> None:
    async def reply(_: web.Request) -> web.Response:
        return web.Response(text=body, status=status, headers={"Location": "/admit"})

    peer.reply = reply
    await _fails(client, kit, api, hook, text, phase="validating")


async def test_an_answer_of_another_version_is_a_failed_call(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    async def reply(request: web.Request) -> web.Response:
        uid = (await request.json())["request"]["uid"]
        return web.json_response({"kind": "AdmissionReview", "response": {"uid": uid, "allowed": True}})

    peer.reply = reply
    await _fails(client, kit, api, hook, "expected webhook response of admission.k8s.io/v1")


async def test_a_late_answer_is_a_failed_call(client: Any, kit: Any, api: Any, hook: Any, peer: Any) -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    peer.reply = never
    await _fails(client, kit, api, hook, "context deadline exceeded", timeoutSeconds=1)


async def test_a_webhook_whose_certificate_another_ca_signed_is_not_called(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    bundle = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    service = {"name": "hook", "namespace": "gpufence", "path": "/admit"}
    config = {"service": service, "caBundle": bundle}
    await _fails(client, kit, api, hook, "certificate verify failed", clientConfig=config)
    assert peer.queries == []


async def test_the_certificate_must_be_for_the_services_name(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    """The peer's certificate is for hook.gpufence.svc; the service `other` is at the same address."""
    config = {"service": {"name": "other", "namespace": "gpufence"}, "caBundle": peer.bundle}
    await _fails(client, kit, api, hook, "certificate verify failed", clientConfig=config)


@pytest.mark.parametrize("bundle", ["", "bm90IHBlbQ==", "!"])
async def test_without_a_usable_bundle_the_call_fails(
    *, client: Any, kit: Any, api: Any, hook: Any, peer: Any, bundle: str
) -> None:
    service = {"name": "hook", "namespace": "gpufence", "path": "/admit"}
    config = {"service": service, "caBundle": bundle}
    await _fails(client, kit, api, hook, "", phase="validating", clientConfig=config)
    assert api.calls[0].error


async def test_an_unknown_service_is_a_failed_call(client: Any, kit: Any, api: Any, hook: Any) -> None:
    config = {"service": {"name": "none", "namespace": "gpufence"}}
    await _fails(client, kit, api, hook, 'service "none" not found', clientConfig=config)


async def test_a_webhook_can_be_at_a_url(client: Any, kit: Any, api: Any, hook: Any, peer: Any) -> None:
    config = {"url": f"{peer.url}/admit", "caBundle": peer.bundle}
    await hook("mutating", clientConfig=config)
    assert (await client.post("pods", kit.pod())).code == 201
    assert api.calls[0].error == ""


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/metadata/none"},
        {"op": "add", "path": "/metadata/labels/team", "value": "x"},
        {"op": "test", "path": "/kind", "value": "Node"},
        {"op": "invent", "path": "/a"},
        {"op": "replace", "path": "/spec/containers", "value": "x"},
    ],
)
async def test_a_patch_that_cannot_be_applied_is_a_500_whatever_the_policy(
    *, client: Any, kit: Any, hook: Any, peer: Any, policy: str, operation: Any
) -> None:
    peer.answer = lambda _: kit.patching(operation)
    await hook("mutating", failurePolicy=policy)
    code, status, _ = await client.post("pods", kit.pod())
    assert (code, status["reason"]) == (500, "InternalError")
    assert (await client.get("pods/p")).code == 404


async def test_a_patch_of_a_delete_is_a_500(client: Any, kit: Any, hook: Any, peer: Any) -> None:
    await client.post("pods", kit.pod())
    rule = {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    peer.answer = lambda _: kit.patching(LABEL)
    await hook("mutating", rules=[rule])
    code, status, _ = await client.delete("pods/p")
    assert code == 500
    assert "attempted to modify the object" in status["message"]


async def test_an_empty_patch_changes_nothing(client: Any, kit: Any, hook: Any, peer: Any) -> None:
    peer.answer = lambda _: kit.patching()
    await hook("mutating")
    assert (await client.post("pods", kit.pod())).code == 201


async def test_two_writers_during_a_slow_webhook_both_win(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    """A PATCH whose object changed while a webhook thought about it is tried again on the new object."""
    await client.post("pods", kit.pod())
    rule = {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    await hook("validating", rules=[rule])
    plain = peer.handle

    async def reply(request: web.Request) -> web.Response:
        peer.reply = None
        await client.patch("pods/p", {"metadata": {"annotations": {"second": "writer"}}})
        return await plain(request)

    peer.reply = reply
    patched = (await client.patch("pods/p", {"metadata": {"labels": {"first": "writer"}}})).body
    assert patched["metadata"]["labels"] == {"first": "writer"}
    assert patched["metadata"]["annotations"] == {"second": "writer"}


async def test_a_put_whose_object_changed_meanwhile_is_a_conflict(
    client: Any, kit: Any, hook: Any, peer: Any
) -> None:
    created = (await client.post("pods", kit.pod())).body
    rule = {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    await hook("validating", rules=[rule])
    plain = peer.handle

    async def reply(request: web.Request) -> web.Response:
        peer.reply = None
        await client.patch("pods/p", {"metadata": {"annotations": {"second": "writer"}}})
        return await plain(request)

    peer.reply = reply
    changed = copy.deepcopy(created)
    changed["metadata"]["labels"] = {"first": "writer"}
    assert (await client.put("pods/p", changed)).code == 409


async def test_an_ephemeral_container_arrives_on_its_subresource_with_the_whole_pod(
    client: Any, kit: Any, api: Any, hook: Any, peer: Any
) -> None:
    await client.post("pods", kit.pod())
    rule = {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"]}
    await hook("mutating", rules=[{**rule, "resources": ["pods/ephemeralcontainers"]}])
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    path = "/spec/ephemeralContainers/0/env"
    peer.answer = lambda _: kit.patching(
        {"op": "add", "path": path, "value": env},
        {"op": "add", "path": "/metadata/labels", "value": {"not": "kept"}},
    )
    debug = {"name": "dbg", "image": "busybox"}
    change = {"spec": {"ephemeralContainers": [debug]}}
    stored = (await client.patch("pods/p/ephemeralcontainers", change, "strategic-merge")).body
    request = api.calls[0].request
    assert (request["subResource"], request["requestSubResource"]) == (
        "ephemeralcontainers",
        "ephemeralcontainers",
    )
    assert (request["kind"]["kind"], request["operation"], request["name"]) == ("Pod", "UPDATE", "p")
    assert request["object"]["spec"]["containers"] == stored["spec"]["containers"]
    assert request["oldObject"]["spec"].get("ephemeralContainers") is None
    assert stored["spec"]["ephemeralContainers"][0]["env"] == env
    assert stored["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "Always"
    assert "labels" not in stored["metadata"]
