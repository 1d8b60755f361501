"""A cluster as the install page leaves it, and a real kubectl that talks to it over TLS.

The kubectl is the one on PATH, or the one that GPUFENCE_TEST_KUBECTL names: so the tests run against any version.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import os
import re
import secrets
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import pytest
import yaml

from certs.authority import ServingNames, issue_serving, new_authority
from certs.store import write
from kube.config import Connection
from sandbox.apiserver import ADMIN, ApiServer
from sandbox.kubeconfig import write_kubeconfig
from serve.settings import load_settings
from webhook.run import running
from webhook.settings import WebhookSettings, conflicts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Object = dict[str, Any]

BASE = Path(__file__).parents[2] / "manifests" / "kustomize" / "base"
GROUP = "/apis/admissionregistration.k8s.io/v1"
SERVICE = "gpufence-webhook.gpufence-system.svc"
TEAMS = [{"name": "vision", "namespaces": ["vision"]}]
OLDEST = 29  # the first that asks for OpenAPI v3, which is what the sandbox serves


def _version(path: str) -> int:
    """Return the minor version of a kubectl, 0 where it does not say."""
    asked = subprocess.run(
        [path, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False
    )
    minor = json.loads(asked.stdout or "{}").get("clientVersion", {}).get("minor", "0")
    return int(re.sub(r"\D", "", minor) or 0)


@pytest.fixture(scope="session")
def binary() -> str:
    path = os.environ.get("GPUFENCE_TEST_KUBECTL") or shutil.which("kubectl")
    if path is None or _version(path) < OLDEST:
        pytest.skip(f"kubectl 1.{OLDEST} or later is not installed")
    return path


@pytest.fixture(scope="session")
def rendered(binary: str) -> list[Object]:
    """The manifests of the base."""
    done = subprocess.run([binary, "kustomize", str(BASE)], capture_output=True, check=True, timeout=50)
    return list(yaml.safe_load_all(done.stdout))


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Cluster:
    """A cluster with gpufence. `await cluster("get", "pods")` runs kubectl in the namespace `vision`."""

    api: ApiServer
    binary: str
    directory: Path

    async def __call__(self, *arguments: str, stdin: Object | None = None) -> Ended:
        """Run kubectl; `stdin` is an object for `-f -`."""
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory),
            "KUBECONFIG": str(self.directory / "kubeconfig"),
        }
        process = await asyncio.create_subprocess_exec(
            self.binary,
            "--namespace=vision",
            *arguments,
            cwd=self.directory,
            env=variables,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(json.dumps(stdin).encode() if stdin else None)
        return Ended(process.returncode or 0, out.decode(), err.decode())

    async def ok(self, *arguments: str, stdin: Object | None = None) -> str:
        """Run kubectl, which must succeed; return what it printed."""
        ended = await self(*arguments, stdin=stdin)
        assert ended.code == 0, ended.err
        return ended.out

    async def get(self, *what: str) -> Object:
        """Return an object as `kubectl get -o json` shows it."""
        return dict(json.loads(await self.ok("get", *what, "-o", "json")))


@pytest.fixture
def policy() -> Object:
    """`spec` of the GpuPolicy; a test that wants another parametrizes it."""
    return {"profile": "baseline", "teams": TEAMS}


@pytest.fixture
async def cluster(
    binary: str, rendered: list[Object], policy: Object, tmp_path: Path
) -> AsyncIterator[Cluster]:
    certs = tmp_path / "certs"
    certs.mkdir()
    now = datetime.now(UTC)  # TLS looks at the real clock
    authority = new_authority("test CA", now)
    leaf = issue_serving(authority, ServingNames((SERVICE,), ("127.0.0.1",)), now)
    write(certs, authority, leaf, keep_ca_key=False, replace_ca=False)
    (text,) = (each["data"]["webhook.yaml"] for each in rendered if each["kind"] == "ConfigMap")
    (tmp_path / "webhook.yaml").write_text(text)
    # What differs from the cluster: the ports, and where the Secret is mounted.
    variables = {
        "GPUFENCE_LISTEN": "127.0.0.1:0",
        "GPUFENCE_METRICS_LISTEN": "127.0.0.1:0",
        "GPUFENCE_CERTIFICATES": str(certs),
    }
    settings = load_settings(WebhookSettings, tmp_path / "webhook.yaml", variables, conflicts)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certs / "tls.crt", certs / "tls.key")
    token = secrets.token_urlsafe(16)
    services: dict[str, str] = {}
    hooks = _hooks(rendered, (certs / "ca.crt").read_bytes())
    async with ApiServer(tls=tls, tokens={token: ADMIN}, services=services) as api:
        connection = Connection(server=api.url, ca_file=certs / "ca.crt", token=token)
        await _post(connection, _vision(), _policy(policy))
        async with running(settings, connection=connection) as webhook:
            await webhook.known()
            services["gpufence-system/gpufence-webhook"] = webhook.url
            await _post(connection, *hooks)
            write_kubeconfig(tmp_path / "kubeconfig", api.url, certs / "ca.crt", token)
            yield Cluster(api, binary, tmp_path)


def _vision() -> tuple[str, Object]:
    metadata = {"name": "vision", "labels": {"gpufence.io/gpu": "true"}}
    return "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _policy(spec: Object) -> tuple[str, Object]:
    header = {"apiVersion": "gpufence.io/v1alpha1", "kind": "GpuPolicy", "metadata": {"name": "default"}}
    return "/apis/gpufence.io/v1alpha1/gpupolicies", {**header, "spec": spec}


def _hooks(rendered: list[Object], ca: bytes) -> list[tuple[str, Object]]:
    """Return the rendered webhook configurations, each with its path, with the authority of the test."""
    found = []
    for each in rendered:
        if each["kind"].endswith("WebhookConfiguration"):
            configuration = copy.deepcopy(each)
            for hook in configuration["webhooks"]:
                hook["clientConfig"]["caBundle"] = base64.b64encode(ca).decode()
            found.append((f"{GROUP}/{each['kind'].lower()}s", configuration))
    return found


async def _post(connection: Connection, *objects: tuple[str, Object]) -> None:
    trusting = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(connection.ca_file)))
    headers = {"Authorization": f"Bearer {connection.token}"}
    async with aiohttp.ClientSession(connection.server, connector=trusting, headers=headers) as session:
        for path, obj in objects:
            async with session.post(path, json=obj) as answer:
                assert answer.status == 201, await answer.text()
