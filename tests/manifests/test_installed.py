"""As the install page leaves a cluster: rendered objects, `gpufence certs init`, and a webhook with these settings."""

from __future__ import annotations

import base64
import copy
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from typer.testing import CliRunner

from cli.certs import app
from kube.config import Connection
from policy.default import DEFAULT_DOCUMENT
from sandbox.apiserver import ApiServer
from serve.settings import load_settings
from webhook.run import running
from webhook.settings import WebhookSettings, conflicts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    Object = dict[str, Any]
    One = Callable[..., Object]

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONTAINER = {"name": "main", "image": "busybox:1"}
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}


class Installed:
    """A cluster with gpufence. `ask` returns the status and the object of an answer."""

    def __init__(self, api: ApiServer, session: aiohttp.ClientSession, webhook: str) -> None:
        self.api = api
        self.session = session
        self.webhook = webhook

    async def post(self, path: str, body: Object) -> tuple[int, Object]:
        async with self.session.post(self.api.url + path, json=body) as answer:
            return answer.status, await answer.json()

    async def pod(self, namespace: str, **spec: Any) -> tuple[int, Object]:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "p-"},
            "spec": {"containers": [CONTAINER], **spec},
        }
        return await self.post(f"/api/v1/namespaces/{namespace}/pods", pod)


@pytest.fixture
async def installed(one: One, tmp_path: Path) -> AsyncIterator[Installed]:
    certs = tmp_path / "certs"
    assert CliRunner().invoke(app, ["init", str(certs)]).exit_code == 0
    for name, text in one("ConfigMap")["data"].items():
        (tmp_path / name).write_text(text)
    # What differs from the cluster: the port, and where the Secret is mounted.
    variables = {
        "GPUFENCE_LISTEN": "127.0.0.1:0",
        "GPUFENCE_METRICS_LISTEN": "127.0.0.1:0",
        "GPUFENCE_CERTIFICATES": str(certs),
    }
    settings = load_settings(WebhookSettings, tmp_path / "webhook.yaml", variables, conflicts)
    bundle = base64.b64encode((certs / "ca.crt").read_bytes()).decode()
    services = {"gpufence-system/gpufence-webhook": "https://127.0.0.1:1"}  # nobody, until the webhook runs
    async with (
        ApiServer(services=services) as api,
        running(settings, connection=Connection(server=api.url)) as webhook,
        aiohttp.ClientSession() as session,
    ):
        services["gpufence-system/gpufence-webhook"] = webhook.url
        await webhook.known()
        cluster = Installed(api, session, webhook.url)
        for name, labels in (("vision", {"gpufence.io/gpu": "true"}), ("web", {})):
            metadata = {"name": name, "labels": labels}
            await cluster.post(
                "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            configuration = copy.deepcopy(one(kind))
            for hook in configuration["webhooks"]:
                hook["clientConfig"]["caBundle"] = bundle
            assert (await cluster.post(f"{GROUP}/{kind.lower()}s", configuration))[0] == 201
        yield cluster


@pytest.mark.parametrize(("namespace", "entry"), [("vision", "gpu"), ("web", "void")])
async def test_a_pod_is_fixed_and_judged_once_by_the_entry_of_its_namespace(
    installed: Installed, namespace: str, entry: str
) -> None:
    code, pod = await installed.pod(namespace)
    assert code == 201, pod
    assert pod["spec"]["containers"][0]["env"] == [VOID]
    calls = [(call.webhook, call.error) for call in installed.api.calls]
    assert calls == [(f"{entry}.mutate.gpufence.io", ""), (f"{entry}.validate.gpufence.io", "")]


async def test_a_debug_container_is_fixed_too(installed: Installed) -> None:
    _, pod = await installed.pod("vision")
    path = f"/api/v1/namespaces/vision/pods/{pod['metadata']['name']}/ephemeralcontainers"
    patch = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox:1"}]}}
    kind = {"Content-Type": "application/strategic-merge-patch+json"}
    async with installed.session.patch(installed.api.url + path, json=patch, headers=kind) as answer:
        debugged = await answer.json()
        assert answer.status == 200, debugged
    assert debugged["spec"]["ephemeralContainers"][0]["env"] == [VOID]


async def test_an_object_of_every_other_entry_is_answered(installed: Installed) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    assert (await installed.post("/apis/apps/v1/namespaces/web/deployments", deployment))[0] == 201
    assert (await installed.post("/apis/gpufence.io/v1alpha1/gpupolicies", DEFAULT_DOCUMENT))[0] == 201
    assert [(call.webhook, call.error) for call in installed.api.calls] == [
        ("template.validate.gpufence.io", ""),
        ("policy.validate.gpufence.io", ""),
    ]


async def test_the_probes_are_answered(installed: Installed, one: One) -> None:
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE  # as the kubelet probes
    for probe in ("readinessProbe", "livenessProbe"):
        url = installed.webhook + container[probe]["httpGet"]["path"]
        async with installed.session.get(url, ssl=unverified) as answer:
            assert answer.status == 200
