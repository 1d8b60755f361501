"""Two replicas behind a Service, and pods created without pause: nothing that a rollout does may fail one of them.

The API server, the Service and its endpoints are the sandbox's; the replicas are `gpufence webhook run`. Every
webhook has failurePolicy Fail, so a call that fails is a pod that is not created.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import ssl
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count

import aiohttp
import pytest

from certs.authority import ServingNames, issue_serving, new_authority
from certs.store import write
from sandbox.apiserver import ADMIN, ApiServer
from sandbox.cluster import configuration
from sandbox.kubeconfig import write_kubeconfig

SERVICE = "gpufence-system/gpufence-webhook"
NAMES = ServingNames(("gpufence-webhook.gpufence-system.svc",), ("127.0.0.1",))
HOOKS = "/apis/admissionregistration.k8s.io/v1"
POLICIES = "/apis/gpufence.io/v1alpha1/gpupolicies"
PODS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "scope": "Namespaced",
    "operations": ["CREATE"],
    "resources": ["pods"],
}
MERGE = {"Content-Type": "application/merge-patch+json"}
PROGRAM = "import sys; from cli.webhook import app; app(sys.argv[1:])"
# uvloop warns of a connection that was in the middle of its handshake (a probe) when the process ended, and does not
# close it where the warning is an error.
STRICT = ("-W", "error", "-W", "ignore::ResourceWarning")
ASKING = 8  # pods that are being created at any time


async def until(condition):
    """Wait for what other processes bring about; the time limit of the test ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 - there is no event for what happens in another process
        await asyncio.sleep(0.005)


class Endpoints(dict):
    """The Service: each call goes to the next replica that said it was ready when it was last probed."""

    def __init__(self):
        super().__init__()
        self.ready = {}
        self._turn = count()

    def get(self, name, default=None):
        urls = [url for url, ready in self.ready.items() if ready]
        return urls[next(self._turn) % len(urls)] if name == SERVICE and urls else default

    async def probe(self, session):
        """Ask every replica again and again, as kubelets do for the endpoints of a Service."""
        while True:
            for url in list(self.ready):
                try:
                    async with session.get(f"{url}/readyz", ssl=False) as answer:
                        self.ready[url] = answer.status == 200
                except aiohttp.ClientError:
                    self.ready[url] = False
            await asyncio.sleep(0.02)  # a period of a probe; nothing waits for it


class Cluster:
    """What the test moves. `created` counts pods; `refused` holds what went wrong with the others."""

    def __init__(self, folder, api, session, endpoints):
        self.folder, self.api, self.session, self.endpoints = folder, api, session, endpoints
        self.created, self.refused = 0, []
        self.replicas = {}
        self._numbers = count()

    async def ask(self, method, path, body, headers=None):
        async with self.session.request(method, self.api.url + path, json=body, headers=headers) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def load(self):
        """Create pods without pause, and look at each for what every pod must have."""
        while True:
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p-{next(self._numbers)}"},
                "spec": {"containers": [{"name": "main", "image": "i"}]},
            }
            async with self.session.post(f"{self.api.url}/api/v1/namespaces/vision/pods", json=pod) as answer:
                body = await answer.json()
            env = body.get("spec", {}).get("containers", [{}])[0].get("env")
            if answer.status != 201 or env != [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]:
                self.refused.append(body)
            self.created += 1

    async def more(self, pods=40):
        """Wait for so many more pods."""
        target = self.created + pods
        await until(lambda: self.created >= target)

    async def start(self):
        """Start a replica and wait until the Service has it."""
        config = self.folder / "webhook.yaml"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *STRICT, "-c", PROGRAM, "run", "--config", str(config)),
            stdout=asyncio.subprocess.PIPE,
            stderr=None,  # pytest shows it where a test fails
            env={name: value for name, value in os.environ.items() if not name.startswith("GPUFENCE_")},
        )
        url = (await process.stdout.readline()).decode().split()[-1]
        self.replicas[url] = process
        self.endpoints.ready[url] = False
        await until(lambda: self.endpoints.ready[url])
        return url

    async def stop(self, url):
        """End a replica as the kubelet does; it must leave with 0."""
        process = self.replicas.pop(url)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        del self.endpoints.ready[url]

    async def signal(self, number):
        for process in self.replicas.values():
            process.send_signal(number)

    async def trust(self, *authorities):
        """Let the API server trust these authorities, and no others, from its next call on."""
        bundle = base64.b64encode(b"".join(each.certificate_pem for each in authorities)).decode()
        for kind in ("mutating", "validating"):
            path = f"{HOOKS}/{kind}webhookconfigurations/gpufence"
            patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
            await self.ask("PATCH", path, patch, {"Content-Type": "application/json-patch+json"})

    def serve(self, authority):
        """Put a certificate into the directory as the kubelet does: a new folder, and `..data` renamed onto it."""
        folder = self.folder / "certs" / f"..{next(self._numbers)}"
        folder.mkdir(parents=True)
        leaf = issue_serving(authority, NAMES, datetime.now(UTC))
        write(folder, authority, leaf, keep_ca_key=False, replace_ca=True)
        (folder.parent / "..new").symlink_to(folder.name)
        (folder.parent / "..new").replace(folder.parent / "..data")

    async def shown(self, authority):
        """Wait until every replica shows a certificate of the authority."""
        trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        for url in self.replicas:
            port = int(url.rpartition(":")[2])
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
                except ssl.SSLCertVerificationError:
                    continue
                writer.close()
                break


@pytest.fixture
def authority():
    return new_authority("first", datetime.now(UTC))


@pytest.fixture
async def cluster(tmp_path, authority):
    (tmp_path / "webhook.yaml").write_text(
        "listen: 127.0.0.1:0\ncertificates: certs\nkubeconfig: kubeconfig\nstopDelaySeconds: 0.3\nfailMode: deny\n"
    )
    endpoints = Endpoints()
    async with (
        ApiServer(services=endpoints, tokens={"t": ADMIN}, namespaces=("default", "vision")) as api,
        aiohttp.ClientSession() as session,
    ):
        write_kubeconfig(tmp_path / "kubeconfig", api.url, None, "t")
        running = Cluster(tmp_path, api, session, endpoints)
        running.serve(authority)
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (tmp_path / "certs" / name).symlink_to(f"..data/{name}")
        bundle = base64.b64encode(authority.certificate_pem).decode()
        for kind, endpoint in (
            ("MutatingWebhookConfiguration", "mutate"),
            ("ValidatingWebhookConfiguration", "validate"),
        ):
            service = {
                "namespace": "gpufence-system",
                "name": "gpufence-webhook",
                "path": f"/{endpoint}",
                "port": 443,
            }
            hook = configuration(kind, endpoint, {"service": service, "caBundle": bundle}, [PODS])
            await running.ask("POST", f"{HOOKS}/{kind.lower()}s", hook)
        async with loaded(running, session):
            yield running


@asynccontextmanager
async def loaded(cluster, session):
    """Start two replicas and the load; at the end nothing must have gone wrong at any time."""
    tasks = [asyncio.create_task(cluster.endpoints.probe(session))]
    try:
        await cluster.start()
        await cluster.start()
        tasks += [asyncio.create_task(cluster.load()) for _ in range(ASKING)]
        await cluster.more()
        yield
        await cluster.more()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for process in cluster.replicas.values():
            process.kill()
            await process.wait()
    assert [body.get("message", body) for body in cluster.refused[:3]] == []
    assert [call.error for call in cluster.api.calls if call.error] == []
    for task in tasks:
        assert task.cancelled()


async def test_a_rolling_restart_fails_no_pod(cluster):
    for old in list(cluster.replicas):
        await cluster.start()
        await cluster.more()
        await cluster.stop(old)
        await cluster.more()
    assert len(cluster.replicas) == 2


async def test_a_new_certificate_and_a_new_authority_fail_no_pod(cluster, authority):
    cluster.serve(authority)
    await cluster.signal(signal.SIGHUP)  # sooner than they would look by themselves
    await cluster.more()
    other = new_authority("second", datetime.now(UTC))
    await cluster.trust(authority, other)
    await cluster.more()
    cluster.serve(other)
    await cluster.signal(signal.SIGHUP)
    await cluster.shown(other)
    await cluster.trust(other)
    await cluster.more()


async def test_a_changed_policy_fails_no_pod_and_is_soon_in_force_in_every_replica(cluster):
    seen = set()
    for mode in ("warn", "audit", "deny"):
        before = len(cluster.api.calls)
        method, path = ("PATCH", f"{POLICIES}/default") if seen else ("POST", POLICIES)
        spec = {"profile": "baseline", "rules": [{"rule": "GF107", "mode": mode}]}
        policy = {
            "apiVersion": "gpufence.io/v1alpha1",
            "kind": "GpuPolicy",
            "metadata": {"name": "default"},
            "spec": spec,
        }
        await cluster.ask(method, path, policy, MERGE if seen else None)
        found = set()
        while len(found) != 1 or found <= seen:  # the last calls of all replicas agree on a new version
            await cluster.more(10)
            answered = [call for call in cluster.api.calls[before:] if call.response]
            found = {version_of(call) for call in answered[-12:]}
        seen |= found
    assert len(seen) == 3


def version_of(call):
    return call.response["auditAnnotations"]["decision"].partition(".")[0]


async def test_after_a_replica_was_killed_nothing_fails_from_the_next_probe_on(cluster):
    """SIGKILL is no rollout: what it was answering fails, and what comes until somebody notices."""
    (victim, *_) = cluster.replicas
    cluster.replicas.pop(victim).kill()
    await until(lambda: not cluster.endpoints.ready[victim])
    await cluster.more()  # whatever was on its way has ended
    cluster.refused.clear()
    cluster.api.calls.clear()
    await cluster.more()
