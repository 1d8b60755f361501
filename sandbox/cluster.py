"""A cluster on loopback: the fake API server, the real webhook and the configurations that join them over TLS."""

from __future__ import annotations

import base64
import secrets
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import aiohttp

from audit.record import decode
from certs.authority import ServingNames, issue_serving, new_authority
from certs.store import CA, CHAIN, KEY, write
from kube.config import Connection
from policy.errors import InternalError
from sandbox.apiserver import ADMIN, ApiServer
from sandbox.kubeconfig import write_kubeconfig
from serve.documents import parse_documents, read_text
from serve.settings import Address
from webhook.run import running
from webhook.settings import WebhookSettings
from webhook.sources import NAMESPACES_PATH, POLICIES_PATH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from audit.record import Record

_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "scope": "Namespaced"}
_CREATE = {**_PODS, "operations": ["CREATE"], "resources": ["pods"]}
_UPDATE = {**_PODS, "operations": ["UPDATE"], "resources": ["pods"]}
_OTHERS = [
    {
        "apiGroups": ["gpufence.io"],
        "apiVersions": ["v1alpha1"],
        "scope": "Cluster",
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["gpupolicies"],
    },
    {
        "apiGroups": ["apps", "batch"],
        "apiVersions": ["v1"],
        "scope": "Namespaced",
        "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs"],
    },
]
_DEBUG = {**_PODS, "operations": ["UPDATE"], "resources": ["pods/ephemeralcontainers"]}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster. `session` talks to the API server at `url` and trusts its certificate."""

    api: ApiServer
    session: aiohttp.ClientSession
    webhook_url: str
    ca: Path
    kubeconfig: Path
    records: list[Record]
    """What the webhook recorded so far."""

    @property
    def url(self) -> str:
        """The address of the API server."""
        return self.api.url


@asynccontextmanager
async def cluster(
    directory: Path, policy: Path, namespaces: Path, *, port: int = 0
) -> AsyncIterator[Cluster]:
    """Run a cluster while the block runs; its certificates and a kubeconfig are written to `directory`.

    The API server and the webhook have certificates of the same throw-away authority.
    """
    _issue(directory)
    token = secrets.token_urlsafe(16)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(directory / CHAIN, directory / KEY)
    client_tls = ssl.create_default_context(cafile=directory / CA)
    settings = WebhookSettings(listen=Address("127.0.0.1", 0), certificates=directory)
    kept = _Kept()
    connector = aiohttp.TCPConnector(ssl=client_tls)
    async with (
        ApiServer(tls=tls, port=port, tokens={token: ADMIN}) as api,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        await _fill(api, session, policy, namespaces)
        connection = Connection(server=api.url, ca_file=directory / CA, token=token)
        async with running(settings, connection=connection, sink=kept) as webhook:
            await webhook.known()
            kubeconfig = write_kubeconfig(directory / "kubeconfig", api.url, directory / CA, token)
            running_cluster = Cluster(api, session, webhook.url, directory / CA, kubeconfig, kept.records)
            await _join(running_cluster)
            yield running_cluster


class _Kept:
    """An AuditSink that keeps records in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def append(self, records: Sequence[bytes]) -> None:
        self.records += map(decode, records)


def _issue(directory: Path) -> None:
    now = datetime.now(UTC)
    authority = new_authority("gpufence sandbox", now, 2)
    leaf = issue_serving(authority, ServingNames(("localhost",), ("127.0.0.1",)), now, 1)
    write(directory, authority, leaf, keep_ca_key=False, replace_ca=True)


async def _fill(api: ApiServer, session: aiohttp.ClientSession, policy: Path, namespaces: Path) -> None:
    for path, collection in ((namespaces, NAMESPACES_PATH), (policy, POLICIES_PATH)):
        for document in parse_documents(read_text(path), str(path)):
            await _post(session, api.url + collection, document)


async def _join(running_cluster: Cluster) -> None:
    bundle = base64.b64encode(running_cluster.ca.read_bytes()).decode("ascii")
    group = f"{running_cluster.url}/apis/admissionregistration.k8s.io/v1"
    for kind, endpoint, rules in (
        ("MutatingWebhookConfiguration", "mutate", [_CREATE, _DEBUG]),
        ("ValidatingWebhookConfiguration", "validate", [_CREATE, _UPDATE, _DEBUG, *_OTHERS]),
    ):
        client = {"url": f"{running_cluster.webhook_url}/{endpoint}", "caBundle": bundle}
        hook = configuration(kind, endpoint, client, rules)
        await _post(running_cluster.session, f"{group}/{kind.lower()}s", hook)


def configuration(
    kind: str, endpoint: str, client: dict[str, Any], rules: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a webhook configuration with one webhook, every defaulted field written out."""
    hook = {
        "name": f"{endpoint}.gpufence.io",
        "clientConfig": client,
        "rules": rules,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 3,
        "namespaceSelector": {},
        "objectSelector": {},
    }
    if kind.startswith("Mutating"):
        hook["reinvocationPolicy"] = "IfNeeded"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "gpufence"},
        "webhooks": [hook],
    }


async def _post(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
    async with session.post(url, json=body) as response:
        if response.status >= 400:  # noqa: PLR2004 - HTTP
            raise InternalError(f"the sandbox refuses its own {body.get('kind')}: {await response.text()}")
