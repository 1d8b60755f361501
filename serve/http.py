"""What every HTTP server of gpufence shares: TLS, the listening socket, health."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

from aiohttp import web

from policy.errors import WorldError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from aiohttp.typedefs import Handler, Middleware

    from serve.settings import Address

# Go's default transport closes an idle connection after 90 s. A server that closes first can meet a request
# that is already on its way, and that call fails; so ours waits longer.
KEEP_ALIVE_SECONDS = 120.0
# After an answer to a body that was not read to its end, aiohttp reads on for a while, so that a client which
# writes before it reads sees the answer. Its default of 10 s would let one stalled client hold up a shutdown
# for as long.
LINGER_SECONDS = 1.0
BACKLOG = 512


def tls_context(certificates: Path) -> ssl.SSLContext:
    """Return a server context for TLS 1.2 and later with the certificate of the directory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])  # kube-apiserver offers h2 too, which aiohttp does not speak
    try:
        context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
    except (OSError, ssl.SSLError) as error:
        raise WorldError(
            f"cannot serve TLS with {certificates}/tls.crt and tls.key: {error.strerror}"
        ) from error
    return context


def listening_socket(address: Address) -> socket.socket:
    """Return a socket that listens on the address; port 0 takes a free one.

    TCP_NODELAY is set here because Linux hands it on to every accepted connection: without it, an answer
    written in two small segments waits for a delayed acknowledgement, about 54 ms for each pod that is
    created (measured on a Kubernetes 1.21 API server).
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        # Python adds the address to the text once more.
        why = (error.strerror or type(error).__name__).partition(" (while attempting")[0]
        raise WorldError(f"cannot listen on {address}: {why}") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)
    return listener


class Drain:
    """Counts requests in flight, so that a server can stop without losing one.

    aiohttp's own shutdown drops what arrives on a connection once it has begun (`data_received` returns at
    once after `close`), so a request of which half has arrived would be lost. The order is therefore: stop
    listening, `wait`, and then aiohttp's shutdown.
    """

    def __init__(self, refused: Callable[[int], None] = lambda _code: None) -> None:
        """`refused` hears the code of every answer that is an HTTP error."""
        self.in_flight = 0
        self._refused = refused
        self._draining = False
        self._none_left = asyncio.Event()

    @property
    def begun(self) -> bool:
        """Whether the server is about to stop."""
        return self._draining

    def begin(self) -> None:
        """Say that the server is about to stop: requests are still answered, each on its last connection."""
        self._draining = True

    async def wait(self, seconds: float) -> None:
        """Wait, for so long at most, until no request is in flight; connections close after their answer."""
        self.begin()
        if self.in_flight:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._none_left.wait(), seconds)

    def middleware(self) -> Middleware:
        """Return the middleware that counts."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            self.in_flight += 1
            try:
                return self._last(await handler(request))
            except web.HTTPException as answer:
                self._refused(answer.status)
                self._last(answer)
                raise
            finally:
                self.in_flight -= 1
                if not self.in_flight and self._draining:
                    self._none_left.set()

        return count

    def _last(self, response: web.StreamResponse) -> web.StreamResponse:
        if self._draining:
            response.force_close()
        return response


async def healthz(_request: web.Request) -> web.Response:
    """Say that the process runs and its event loop turns."""
    return web.Response(text="ok\n")


def readyz(reasons_against: Callable[[], Sequence[str]]) -> Handler:
    """Return a handler that answers 503, with one reason a line, while there is any."""

    async def ready(_request: web.Request) -> web.Response:
        reasons = reasons_against()
        if reasons:
            return web.Response(status=503, text="".join(f"{reason}\n" for reason in reasons))
        return web.Response(text="ok\n")

    return ready
