"""A fake API server, a webhook as its peer, and a client: all real sockets on loopback."""

from __future__ import annotations

import base64
import itertools
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import msgspec
import pytest
import trustme
from aiohttp import web

from sandbox.apiserver import ApiServer, User

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SERVICE = {"name": "hook", "namespace": "gpufence", "path": "/admit"}
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Answer(NamedTuple):
    code: int
    body: Any
    warnings: list[str]


class Client:
    """`await client.post("pods", obj, dryRun="All")`; a path that begins with no slash is in `default`."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any
    ) -> Answer:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", **(headers or {})}
        async with self.session.request(
            method, self.full(path), data=data, headers=headers, params=query
        ) as answer:
            content = msgspec.json.decode(await answer.read())
            return Answer(answer.status, content, answer.headers.getall("Warning", []))

    def full(self, path: str) -> str:
        return self.url + (path if path.startswith("/") else f"/api/v1/namespaces/default/{path}")

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.ask("GET", path, **query)

    async def post(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.ask("POST", path, body, **query)

    async def put(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.ask("PUT", path, body, **query)

    async def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        return await self.ask("DELETE", path, body, **query)

    async def patch(self, path: str, body: Any, kind: str = "merge", **query: Any) -> Answer:
        headers = {"Content-Type": f"application/{kind}-patch+json"}
        return await self.ask("PATCH", path, body, headers, **query)

    async def watch(self, path: str, **query: Any) -> AsyncIterator[Any]:
        async with self.session.get(self.full(path), params={"watch": "1", **query}) as answer:
            assert answer.status == 200
            async for line in answer.content:
                yield msgspec.json.decode(line)


class Peer:
    """A webhook. `answer` gets the AdmissionReview's request and returns the response without its uid.

    Set `reply` to answer something else altogether.
    """

    def __init__(self, ca: trustme.CA) -> None:
        self.ca = ca
        self.url = ""
        self.answer: Callable[[Any], dict[str, Any]] = lambda _: {"allowed": True}
        self.reply: Callable[[web.Request], Awaitable[web.Response]] | None = None
        self.queries: list[str] = []

    @property
    def bundle(self) -> str:
        return base64.b64encode(self.ca.cert_pem.bytes()).decode()

    async def handle(self, request: web.Request) -> web.Response:
        self.queries.append(request.query_string)
        if self.reply is not None:
            return await self.reply(request)
        review = msgspec.json.decode(await request.read())
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    def configuration(self, phase: str, **spec: Any) -> dict[str, Any]:
        """One webhook for pods CREATE, in a configuration named after the webhook's first segment."""
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        webhook = {
            "name": "a.gpufence.io",
            "rules": [rule],
            "clientConfig": {"service": SERVICE, "caBundle": self.bundle},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **spec,
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{phase.title()}WebhookConfiguration",
            "metadata": {"name": webhook["name"].partition(".")[0]},
            "webhooks": [webhook],
        }


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A small pod; a name that ends in "-" becomes generateName."""
    key = "generateName" if name.endswith("-") else "name"
    container = {"name": "main", "image": "busybox:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: name},
        "spec": {"containers": [container], **spec},
    }


def patching(*operations: dict[str, Any]) -> dict[str, Any]:
    """A mutating answer."""
    patch = base64.b64encode(msgspec.json.encode(operations)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


class Kit(NamedTuple):
    """What the tests call; given by fixture, since test folders are no packages."""

    pod: Callable[..., dict[str, Any]] = pod
    patching: Callable[..., dict[str, Any]] = patching
    start: datetime = START


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def peer(authority: trustme.CA) -> AsyncIterator[Peer]:
    peer = Peer(authority)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hook.gpufence.svc", "127.0.0.1").configure_cert(tls)
    app = web.Application()
    app.router.add_post("/admit", peer.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    peer.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield peer
    await runner.cleanup()


def _ticking() -> Callable[[], datetime]:
    ticks = itertools.count()
    return lambda: START + timedelta(milliseconds=5 * next(ticks))


def _counting() -> Callable[[int], bytes]:
    numbers = itertools.count()
    return lambda size: bytes(next(numbers) % 251 for _ in range(size))


@pytest.fixture
async def api(peer: Peer) -> AsyncIterator[ApiServer]:
    tokens = {"alice-token": User("alice", ("speech", "system:authenticated"), "u-1")}
    services = {"gpufence/hook": peer.url, "gpufence/other": peer.url}
    async with ApiServer(services=services, tokens=tokens, clock=_ticking(), entropy=_counting()) as server:
        yield server


@pytest.fixture
async def client(api: ApiServer) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(session, api.url)


@pytest.fixture
def hook(client: Client, peer: Peer) -> Callable[..., Awaitable[Answer]]:
    """Give a function that creates a webhook configuration: `await hook("mutating", timeoutSeconds=3)`."""

    async def create(phase: str, **spec: Any) -> Answer:
        path = f"/apis/admissionregistration.k8s.io/v1/{phase}webhookconfigurations"
        return await client.post(path, peer.configuration(phase, **spec))

    return create
