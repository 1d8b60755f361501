"""C03: no replica answers. The rendered configurations, in a fake API server, with a Service that leads nowhere."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from policy.default import DEFAULT_DOCUMENT
from sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    Object = dict[str, Any]
    One = Callable[..., Object]

GROUP = "/apis/admissionregistration.k8s.io/v1"
LEFT_OUT = ("kube-system", "gpufence-system", "gpu-operator")


class Down:
    """A cluster whose gpufence is installed and does not run."""

    def __init__(self, api: ApiServer, session: aiohttp.ClientSession) -> None:
        self.api = api
        self._session = session

    async def ask(self, method: str, path: str, body: Object, **headers: str) -> tuple[int, Object]:
        content = {"Content-Type": "application/json", **headers}
        async with self._session.request(
            method, self.api.url + path, data=json.dumps(body), headers=content
        ) as answer:
            return answer.status, await answer.json()

    async def create(self, namespace: str, spec: Object, **metadata: Any) -> tuple[int, Object]:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "p-", **metadata},
            "spec": spec,
        }
        return await self.ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod)


@pytest.fixture
def unreachable() -> str:
    """A port of loopback that was free a moment ago: a connection to it is refused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"https://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
async def down(one: One, unreachable: str) -> AsyncIterator[Down]:
    services = {"gpufence-system/gpufence-webhook": unreachable}
    async with ApiServer(services=services) as api, aiohttp.ClientSession() as session:
        cluster = Down(api, session)
        labels = {"vision": {"gpufence.io/gpu": "true"}, "web": {}, "gpufence-system": {}, "gpu-operator": {}}
        for name, own in labels.items():
            namespace = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": own},
            }
            assert (await cluster.ask("POST", "/api/v1/namespaces", namespace))[0] == 201
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            code, body = await cluster.ask("POST", f"{GROUP}/{kind.lower()}s", one(kind))
            assert code == 201, body
        yield cluster


SPEC = {"containers": [{"name": "main", "image": "busybox:1"}]}


@pytest.mark.parametrize("namespace", LEFT_OUT)
async def test_a_pod_that_the_cluster_needs_is_created_without_asking(down: Down, namespace: str) -> None:
    code, body = await down.create(namespace, {**SPEC, "hostNetwork": True})
    assert code == 201, body
    assert down.api.calls == []


async def test_the_webhook_s_own_pod_is_created_without_asking(down: Down, one: One) -> None:
    template = one("Deployment")["spec"]["template"]
    code, body = await down.create("gpufence-system", template["spec"], labels=template["metadata"]["labels"])
    assert code == 201, body
    assert down.api.calls == []


async def test_a_pod_of_another_namespace_is_let_in_after_two_calls_that_failed(down: Down) -> None:
    code, body = await down.create("web", SPEC)
    assert code == 201, body
    calls = [(call.webhook, bool(call.error)) for call in down.api.calls]
    assert calls == [("void.mutate.gpufence.io", True), ("void.validate.gpufence.io", True)]


async def test_a_pod_of_a_gpu_namespace_is_not_let_in(down: Down) -> None:
    code, body = await down.create("vision", SPEC)
    assert code == 500
    assert body["message"].startswith(
        'Internal error occurred: failed calling webhook "gpu.mutate.gpufence.io": failed to call webhook: Post'
    )
    assert [call.webhook for call in down.api.calls] == ["gpu.mutate.gpufence.io"]


async def test_no_label_of_a_pod_changes_that(down: Down) -> None:
    labels = {"gpufence.io/gpu": "false", "kubernetes.io/metadata.name": "kube-system"}
    assert (await down.create("vision", SPEC, labels=labels))[0] == 500


async def test_a_namespace_cannot_pass_for_another(down: Down) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "sly",
            "labels": {"kubernetes.io/metadata.name": "kube-system", "gpufence.io/gpu": "true"},
        },
    }
    await down.ask("POST", "/api/v1/namespaces", namespace)
    assert (await down.create("sly", SPEC))[0] == 500


async def test_a_finalizer_of_a_gpu_pod_can_be_removed(down: Down, one: One) -> None:
    """C09, in the worst case: the pod is older than gpufence, which is down."""
    path = f"{GROUP}/mutatingwebhookconfigurations/gpufence"
    await down.ask("DELETE", path, {})
    await down.ask("DELETE", path.replace("mutating", "validating"), {})
    code, pod = await down.create("vision", SPEC, finalizers=["batch.kubernetes.io/job-tracking"])
    assert code == 201, pod
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        await down.ask("POST", f"{GROUP}/{kind.lower()}s", one(kind))
    patch = {"metadata": {"finalizers": None}}
    path = f"/api/v1/namespaces/vision/pods/{pod['metadata']['name']}"
    merge = {"Content-Type": "application/merge-patch+json"}
    code, changed = await down.ask("PATCH", path, patch, **merge)
    assert code == 200, changed
    assert "finalizers" not in changed["metadata"]
    assert [call.webhook for call in down.api.calls] == ["update.validate.gpufence.io"]


async def test_a_policy_can_still_be_relaxed(down: Down) -> None:
    code, body = await down.ask("POST", "/apis/gpufence.io/v1alpha1/gpupolicies", DEFAULT_DOCUMENT)
    assert code == 201, body
    assert [call.webhook for call in down.api.calls] == ["policy.validate.gpufence.io"]


async def test_a_workload_can_still_be_applied(down: Down) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": SPEC},
        },
    }
    code, body = await down.ask("POST", "/apis/apps/v1/namespaces/vision/deployments", deployment)
    assert code == 201, body
    assert [call.webhook for call in down.api.calls] == ["template.validate.gpufence.io"]
