"""An application that answers on a socket: aiohttp's server with our bounds on what a client can hold."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from policy.errors import InternalError
from serve.connections import Connections
from serve.http import BACKLOG, KEEP_ALIVE_SECONDS, LINGER_SECONDS

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator

    from serve.http import Drain


class Times(Protocol):
    """The settings that a server needs, in seconds."""

    @property
    def request_timeout_seconds(self) -> float:
        """For a handshake, for the head of a request, and for a client to take its answer."""

    @property
    def shutdown_timeout_seconds(self) -> float:
        """For the requests in flight, at the end."""


@asynccontextmanager
async def answering(
    app: web.Application,
    drain: Drain,
    listener: socket.socket,
    times: Times,
    *,
    most: int,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[None]:
    """Answer requests while the block runs, and at its end those that are in flight.

    `most` is how many connections there may be at a time.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=LINGER_SECONDS,  # the drain has waited for the requests; the rest is cancelled
    )
    connections = Connections(lambda: _protocol(runner), times.request_timeout_seconds, most)
    app.middlewares.extend((connections.middleware(), drain.middleware()))
    async with AsyncExitStack() as stack:
        stack.callback(connections.abort)  # last: those whose clients take no note of the end
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        # aiohttp's own site cannot be given a protocol around its own.
        site = await asyncio.get_running_loop().create_server(
            connections,
            sock=listener,
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=times.request_timeout_seconds if tls else None,
        )
        stack.push_async_callback(drain.wait, times.shutdown_timeout_seconds)
        stack.callback(site.close)
        yield


def _protocol(runner: web.AppRunner) -> asyncio.BaseProtocol:
    if runner.server is None:
        raise InternalError("a connection before the server was set up")
    return runner.server()
