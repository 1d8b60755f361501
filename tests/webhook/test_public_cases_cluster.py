"""Area 2 of the public cases that need an API server: other webhooks, pods from before, a rotated certificate."""

from __future__ import annotations

import base64
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import msgspec
import pytest
from aiohttp import web

from certs.authority import ServingNames, issue_serving, new_authority
from certs.store import write
from sandbox.apiserver import ApiServer
from sandbox.cluster import configuration

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/vision/pods"
VOID = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "scope": "Namespaced"}
CREATE = [{**RULE, "operations": ["CREATE"], "resources": ["pods"]}]
UPDATE = [{**RULE, "operations": ["CREATE", "UPDATE"], "resources": ["pods", "pods/ephemeralcontainers"]}]


class Cluster:
    """An API server and a client of it. `register` points it at our webhook."""

    def __init__(self, api, session):
        self.api = api
        self.session = session

    async def ask(self, method, path, body=None, kind="application/json"):
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": kind}
        async with self.session.request(method, path, data=data, headers=headers) as answer:
            return answer.status, await answer.json()

    async def merge(self, path, body):
        return await self.ask("PATCH", path, body, "application/merge-patch+json")

    async def register(self, url, bundle, *, mutating=CREATE, validating=UPDATE):
        both = (("Mutating", "mutate", mutating), ("Validating", "validate", validating))
        for phase, endpoint, rules in both:
            client = {"url": f"{url}/{endpoint}", "caBundle": base64.b64encode(bundle).decode()}
            await self.add(configuration(f"{phase}WebhookConfiguration", endpoint, client, rules))

    async def add(self, obj):
        code, body = await self.ask("POST", f"{REGISTRATION}/{obj['kind'].lower()}s", obj)
        assert code == 201, body


@pytest.fixture
async def cluster():
    async with ApiServer(namespaces=("vision",)) as api, aiohttp.ClientSession(api.url) as session:
        yield Cluster(api, session)


@pytest.fixture
def another(files):
    """Run a second mutating webhook, which comes after ours by its name: it answers with these operations."""

    @asynccontextmanager
    async def run(*operations):
        async def handle(request):
            uid = (await request.json())["request"]["uid"]
            patch = base64.b64encode(msgspec.json.encode(operations)).decode()
            response = {"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": patch}
            return web.json_response(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            )

        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(files / "tls.crt", files / "tls.key")
        app = web.Application()
        app.router.add_post("/", handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        try:
            bundle = base64.b64encode((files / "ca.crt").read_bytes()).decode()
            client = {"url": f"https://127.0.0.1:{runner.addresses[0][1]}/", "caBundle": bundle}
            late = configuration("MutatingWebhookConfiguration", "z", client, CREATE)
            late["metadata"]["name"] = "zz-later-than-gpufence"
            late["webhooks"][0] |= {"name": "late.example.com", "reinvocationPolicy": "Never"}
            yield late
        finally:
            await runner.cleanup()

    return run


def rounds(cluster):
    return [(call.webhook, call.round) for call in cluster.api.calls]


async def test_c11_a_sidecar_that_a_later_webhook_injects_is_fixed_by_the_second_call(
    cluster, webhook, another, files, pod
):
    side = {"name": "injected", "image": "registry.example/cuda-side:1"}
    inject = {"op": "add", "path": "/spec/containers/-", "value": side}
    async with webhook() as (server, _), another(inject) as late:
        await cluster.register(server.url, (files / "ca.crt").read_bytes())
        await cluster.add(late)
        code, made = await cluster.ask("POST", PODS, pod())
    assert code == 201, made
    assert [each["env"] for each in made["spec"]["containers"]] == [VOID, VOID]
    assert rounds(cluster) == [
        ("mutate.gpufence.io", 0),
        ("late.example.com", 0),
        ("mutate.gpufence.io", 1),
        ("validate.gpufence.io", 0),
    ]


async def test_c11_privilege_that_a_later_webhook_adds_to_a_gpu_pod_is_refused(
    cluster, webhook, another, files, pod
):
    privilege = {"op": "add", "path": "/spec/containers/0/securityContext", "value": {"privileged": True}}
    gpu = pod(resources={"limits": {"nvidia.com/gpu": 1}})
    async with webhook() as (server, _), another(privilege) as late:
        await cluster.register(server.url, (files / "ca.crt").read_bytes())
        await cluster.add(late)
        code, status = await cluster.ask("POST", PODS, gpu)
    assert code == 403
    assert "[GF201]" in status["message"]


async def test_c11_what_a_later_webhook_undoes_is_refused_where_nobody_calls_us_again(
    cluster, webhook, another, files, pod
):
    undo = {"op": "remove", "path": "/spec/containers/0/env"}
    async with webhook() as (server, _), another(undo) as late:
        await cluster.register(server.url, (files / "ca.crt").read_bytes())
        path = f"{REGISTRATION}/mutatingwebhookconfigurations/gpufence"
        never = [{"op": "replace", "path": "/webhooks/0/reinvocationPolicy", "value": "Never"}]
        await cluster.ask("PATCH", path, never, "application/json-patch+json")
        await cluster.add(late)
        code, status = await cluster.ask("POST", PODS, pod())
    assert code == 403
    assert "[GF101]" in status["message"]


@pytest.mark.parametrize(
    "mutating", [CREATE, UPDATE], ids=["registered for CREATE", "registered for UPDATE too"]
)
async def test_c09_c10_a_pod_from_before_the_webhook_can_be_finished_and_deleted(
    cluster, webhook, files, pod, mutating
):
    old = pod(securityContext={"privileged": True}, resources={"limits": {"nvidia.com/gpu": 1}})
    old["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    assert (await cluster.ask("POST", PODS, old))[0] == 201
    async with webhook(fail_mode="deny") as (server, _):
        await cluster.register(server.url, (files / "ca.crt").read_bytes(), mutating=mutating)
        assert (await cluster.merge(f"{PODS}/p", {"metadata": {"annotations": {"a": "b"}}}))[0] == 200
        assert (await cluster.ask("DELETE", f"{PODS}/p"))[0] == 200
        code, body = await cluster.merge(f"{PODS}/p", {"metadata": {"finalizers": None}})
    assert code == 200, body
    assert (await cluster.ask("GET", f"{PODS}/p"))[0] == 404


def renew(files, authority):
    """Put a new certificate of an authority into the directory, as a rotation does."""
    leaf = issue_serving(authority, ServingNames(("localhost",), ("127.0.0.1",)), datetime.now(UTC))
    write(files, authority, leaf, keep_ca_key=False, replace_ca=True)


async def test_c25_with_both_authorities_in_the_bundle_no_call_fails_while_the_certificate_changes(
    cluster, webhook, files, pod
):
    old = (files / "ca.crt").read_bytes()
    new = new_authority("new CA", datetime.now(UTC))
    async with webhook() as (before, _), webhook() as (after, _):
        renew(files, new)
        assert await after.reload() == ()
        both = old + (files / "ca.crt").read_bytes()
        for server, name in ((before, "served-old"), (after, "served-new")):
            await cluster.register(server.url, both)
            body = pod()
            body["metadata"]["name"] = name
            code, made = await cluster.ask("POST", PODS, body)
            assert code == 201, made
            for phase in ("mutating", "validating"):
                await cluster.ask("DELETE", f"{REGISTRATION}/{phase}webhookconfigurations/gpufence")
    assert [call.error for call in cluster.api.calls] == [""] * 4


async def test_c25_a_bundle_without_the_new_authority_fails_the_call_and_says_why(
    cluster, webhook, files, pod
):
    old = (files / "ca.crt").read_bytes()
    async with webhook() as (server, _):
        await cluster.register(server.url, old)
        renew(files, new_authority("new CA", datetime.now(UTC)))
        assert await server.reload() == ()
        code, status = await cluster.ask("POST", PODS, pod())
    assert code == 500
    assert 'failed calling webhook "mutate.gpufence.io"' in status["message"]
    assert "certificate verify failed" in status["message"]
