"""The sender: requests on connections that stay, and one connection for each broken request.

TLS is done by hand over plain streams (ssl.MemoryBIO), because asyncio's own can neither say that no more comes nor
stop within a record.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from typing import TYPE_CHECKING, NamedTuple

from soak.judge import NotHttpError, Response, Seen, responses
from soak.wire import request

if TYPE_CHECKING:
    from soak.reviews import ReviewCase
    from soak.wire import WireCase

_READ = 1 << 16
_BRIEF = 0.2  # seconds that a request which may never end is listened for
_CLOSED = (OSError, ssl.SSLError, asyncio.IncompleteReadError, NotHttpError)


class Target(NamedTuple):
    """Where the webhook listens; `patience` is the longest time in seconds for any answer."""

    host: str
    port: int
    tls: ssl.SSLContext
    patience: float = 10.0


class NoAnswerError(Exception):
    """A request to which an answer is due got none: the connection was closed, or the time ran out."""


class Poster:
    """Posts reviews, one after the other, on one connection for as long as it stays open."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, case: ReviewCase) -> Response:
        """Return the answer. NoAnswerError where there is none."""
        data = request(case.body, line=f"POST /{case.endpoint} HTTP/1.1".encode())
        try:
            async with asyncio.timeout(self._target.patience):
                return await self._exchange(data)
        except TimeoutError:
            self.close()
            raise NoAnswerError("no answer in time") from None
        except (*_CLOSED, ValueError) as error:
            self.close()
            raise NoAnswerError(f"no answer ({type(error).__name__})") from error

    async def _exchange(self, data: bytes) -> Response:
        if self._streams is None:
            host, port, tls, _ = self._target
            self._streams = await asyncio.open_connection(host, port, ssl=tls)
        reader, writer = self._streams
        writer.write(data)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        length = int(lower.partition(b"content-length: ")[2].partition(b"\r")[0] or b"0")
        found, _ = responses(head + await reader.readexactly(length))
        if b"connection: close" in lower:
            self.close()
        return found[0]

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def exchange(target: Target, case: WireCase) -> Seen:
    """Send a broken request on a connection of its own; return what came back."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    seen = bytearray()
    stalled = False
    try:
        async with asyncio.timeout(target.patience):
            await _converse(_Session(reader, writer, target, case), case, seen)
    except TimeoutError:
        stalled = True
    except _CLOSED:
        pass  # the other side closed: what came before counts
    finally:
        if case.end == "abort":
            _reset(writer)
        writer.transport.abort()
    return Seen(bytes(seen), stalled)


async def _converse(session: _Session, case: WireCase, seen: bytearray) -> None:
    if case.layer in {"tls", "cut"}:
        await session.handshake()
    elif case.layer == "hello":
        await session.hello()
    for write in case.writes:
        await session.send(write)
    if case.end == "half":
        session.end()
    if case.end == "brief":
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BRIEF):
                await _listen(session, case, seen)
    elif case.end in {"wait", "half"}:
        await _listen(session, case, seen)


async def _listen(session: _Session, case: WireCase, seen: bytearray) -> None:
    while data := await session.receive():
        seen += data
        if case.end != "half" and len(responses(bytes(seen), bodies=case.bodies)[0]) >= case.answers:
            return


class _Session:
    """One connection, with as much of TLS as the case has."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Target, case: WireCase
    ) -> None:
        self._reader, self._writer, self._layer = reader, writer, case.layer
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = target.tls.wrap_bio(self._in, self._out, server_hostname=target.host)

    async def handshake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                self._in.write(await self._some())
            else:
                await self._flush()
                return

    async def hello(self) -> None:
        """Send the first half of the first message of the handshake."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            hello = self._out.read()
            self._writer.write(hello[: len(hello) // 2])
            await self._writer.drain()

    async def send(self, data: bytes) -> None:
        if self._layer == "plain":
            self._writer.write(data)
        else:
            self._tls.write(data)
            record = self._out.read()
            self._writer.write(record[:-20] if self._layer == "cut" else record)
        await self._writer.drain()

    def end(self) -> None:
        """Say that nothing more comes: by TLS where the session is whole, and by TCP."""
        if self._layer == "tls":
            try:
                self._tls.unwrap()
            except ssl.SSLWantReadError:
                self._writer.write(self._out.read())
        self._writer.write_eof()

    async def receive(self) -> bytes:
        """Return the next data, empty at the end."""
        if self._layer != "tls":
            return await self._reader.read(_READ)
        while True:
            try:
                return self._tls.read(_READ)
            except ssl.SSLWantReadError:
                self._in.write(await self._some())
            except ssl.SSLZeroReturnError:
                return b""

    async def _some(self) -> bytes:
        data = await self._reader.read(_READ)
        if not data:
            raise asyncio.IncompleteReadError(b"", None)
        return data

    async def _flush(self) -> None:
        self._writer.write(self._out.read())
        await self._writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Make the close that follows a reset instead of an end."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
