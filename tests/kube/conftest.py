"""The fake API server over TLS on loopback, the client, and a cache with a clock and a sleep of its own."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from kube.client import Client
from kube.config import Connection
from kube.watch import Cache
from sandbox.apiserver import ApiServer, User
from sandbox.apiserver.resources import find

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAPS = "/api/v1/configmaps"
IN_DEFAULT = "/api/v1/namespaces/default/configmaps"


class Follower:
    """A running cache, and what it did: `changes`, `slept` (seconds), `lines` (its log).

    `now` is its clock, which goes on by `tick` whenever it is read.
    """

    def __init__(self, client: Any, path: str, **options: Any) -> None:
        self.now = 1000.0
        self.tick = options.pop("tick", 0.0)
        self.changes: list[dict[str, Any]] = []
        self.slept: list[float] = []
        self.lines: list[dict[str, Any]] = []
        self._moved = asyncio.Event()
        strip = options.pop("strip", lambda obj: (obj.get("data") or {}).get("v"))
        self.cache: Cache[Any] = Cache(
            client,
            path,
            strip,
            log=lambda event, **fields: self.lines.append({"event": event, **fields}),
            on_change=self._changed,
            clock=self._clock,
            random=Random(7),
            sleep=self._sleep,
            **options,
        )

    def _clock(self) -> float:
        self.now += self.tick
        return self.now

    def _changed(self, changed: Any) -> None:
        self.changes.append(dict(changed))
        self._moved.set()

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._moved.set()
        await asyncio.sleep(0)

    async def until(self, holds: Any) -> None:
        """Wait until a condition holds that a change or a failure brings about."""
        async with asyncio.timeout(20):
            while not holds():
                self._moved.clear()
                await self._moved.wait()

    @property
    def content(self) -> dict[str, Any]:
        return dict(self.cache.items())


@asynccontextmanager
async def following(client: Any, path: str = MAPS, **options: Any) -> AsyncIterator[Follower]:
    """Run a cache while the block runs. It must not have ended by itself."""
    follower = Follower(client, path, **options)
    task = asyncio.create_task(follower.cache.run())
    try:
        yield follower
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def config_map(name: str, value: str = "1") -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"v": value}}


def stored(api: ApiServer) -> dict[str, str]:
    """What the server has, as the cache should."""
    found = api.store.items(find("", "v1", "configmaps"))
    return {f"{obj['metadata']['namespace']}/{obj['metadata']['name']}": obj["data"]["v"] for obj in found}


class Kit:
    """What the tests call; given by fixture, since test folders are no packages."""

    MAPS = MAPS
    IN_DEFAULT = IN_DEFAULT
    following = staticmethod(following)
    config_map = staticmethod(config_map)
    stored = staticmethod(stored)


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "api.test").configure_cert(context)
    return context


@pytest.fixture
async def api(tls: ssl.SSLContext) -> AsyncIterator[ApiServer]:
    async with ApiServer(tls=tls, tokens={"new-token": User("gpufence", ())}) as server:
        yield server


@pytest.fixture
def connection(api: ApiServer, authority: trustme.CA) -> Connection:
    return Connection(server=api.url, ca_data=authority.cert_pem.bytes().decode())


@pytest.fixture
async def client(connection: Connection) -> AsyncIterator[Client]:
    async with Client(connection) as client:
        yield client


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
