"""Connections of an HTTP server that no client can hold for longer than it is given.

aiohttp bounds what one connection may queue (32 requests) and how long it may idle; it has no limit on the
time in which the head of a request must arrive, on the time in which an answer must be taken, or on the
number of connections. They are here, in a protocol around aiohttp's own, with public interfaces only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, cast

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler, Middleware


class Connections:
    """Makes the protocols of a server, and knows which of its connections are held by whom.

    `seconds` is the time for the head of a request, from its first byte on, and for a client to take what was written.
    A new connection over `most` takes the place of another: of the address that has most of them, the one that has
    said nothing for longest. So whoever opens many, and sends nothing or sends slowly, shuts out nobody but itself.
    Connections in the middle of a TLS handshake are not known here; they end with it or after the handshake's timeout.
    """

    def __init__(self, make: Callable[[], asyncio.BaseProtocol], seconds: float, most: int) -> None:
        self._make = make
        self._seconds = seconds
        self._most = most
        self._open: dict[asyncio.BaseProtocol, _Connection] = {}  # the longest silent one first

    def __len__(self) -> int:
        return len(self._open)

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol for a new connection, as `loop.create_server` asks for it."""
        # aiohttp's Server says BaseProtocol of what is a Protocol.
        return _Connection(cast("asyncio.Protocol", self._make()), self, self._seconds)

    def middleware(self) -> Middleware:
        """Return the middleware that says when the head of a request is there. It must be the outermost one.

        An error answer is the last on its connection: its body may not have been read, and what is left of it must not
        be taken for the next request.
        """

        @web.middleware
        async def arrived(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._open.get(cast("asyncio.BaseProtocol", request.protocol))
            if connection is None:  # it was lost in between
                return await handler(request)
            connection.begin()
            try:
                return await handler(request)
            except web.HTTPException as answer:
                answer.force_close()
                raise
            finally:
                connection.end()

        return arrived

    def abort(self) -> None:
        """Close every connection that is left, without waiting for its client."""
        for connection in list(self._open.values()):
            connection.abort()

    def opened(self, connection: _Connection) -> None:
        """Take a connection in, in place of another where there are too many."""
        if len(self._open) >= self._most:
            (greediest, _), *_ = Counter(each.peer for each in self._open.values()).most_common(1)
            last = next(each for each in self._open.values() if each.peer == greediest)
            del self._open[last.inner]
            last.abort()
        self._open[connection.inner] = connection

    def heard(self, connection: _Connection) -> None:
        """Note that the client of a connection has sent something."""
        if self._open.pop(connection.inner, None) is not None:
            self._open[connection.inner] = connection

    def closed(self, connection: _Connection) -> None:
        """Forget a connection."""
        self._open.pop(connection.inner, None)


class _Connection(asyncio.Protocol):
    """aiohttp's protocol with two deadlines: one for the head of a request, one for a client that does not read."""

    def __init__(self, inner: asyncio.Protocol, owner: Connections, seconds: float) -> None:
        self.inner = inner
        self.peer = ""
        self.busy = False
        self._owner = owner
        self._seconds = seconds
        self._transport: asyncio.Transport | None = None
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        self.inner.connection_made(transport)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        self._owner.heard(self)
        if self._head is None and not self.busy:
            self._head = asyncio.get_running_loop().call_later(self._seconds, self.abort)
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        self._unread = asyncio.get_running_loop().call_later(self._seconds, self.abort)
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        _cancel(self._unread)
        self._unread = None
        self.inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        _cancel(self._head)
        _cancel(self._unread)
        self._owner.closed(self)
        self.inner.connection_lost(error)

    def begin(self) -> None:
        """Note that the head of a request has arrived. Its body has a deadline of its own."""
        self.busy = True
        _cancel(self._head)
        self._head = None

    def end(self) -> None:
        """Note that a request was answered."""
        self.busy = False

    def abort(self) -> None:
        """Close without waiting for the client to take what is left."""
        if self._transport is not None:
            self._transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
