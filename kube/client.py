"""The verbs of the Kubernetes API on raw JSON: paths and objects in, objects or a KubeError out.

    async with Client(connection) as client:
        namespace = await client.get("/api/v1/namespaces/default")

Every call has a time limit and a size limit. Nothing is retried here.
"""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from yarl import URL

from kube.errors import Malformed, TooLarge, Unreachable, error_of, error_of_event
from kube.lines import Lines, TooLongError
from kube.transport import api_client, trust_again

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from kube.config import Connection

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_JSON = "application/json"
_OK, _BEYOND_OK = 200, 300
_ERROR_MAX = 64 * 1024  # bytes of an error's body; a Status is rarely over 1 KiB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, sizes in bytes.

    An object in etcd has at most 1.5 MiB (etcd's --max-request-bytes), so a line of a watch stays far below
    `line`; a page of 500 pods of 30 KiB has 15 MiB. `silence` is how long after the time that a watch was
    asked for the server may take to end it.
    """

    connect: float = 5.0
    request: float = 30.0
    silence: float = 10.0
    body: int = 64 * 1024 * 1024
    line: int = 8 * 1024 * 1024


LIMITS = Limits()


class Page(msgspec.Struct, frozen=True):
    """A page of a list. `more` is the continue token, "" on the last page."""

    items: list[Object]
    version: str
    more: str


class _Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    seconds: float
    query: Mapping[str, str] = {}
    body: Any = None
    content_type: str = _JSON

    @property
    def what(self) -> str:
        """For messages."""
        return f"{'watch' if self.query.get('watch') else self.method} {self.path}"


def path_of(collection: str, *parts: str) -> str:
    """Return the path below a collection: an object, or with two parts one of its subresources."""
    return "/".join([collection, *(quote(part, safe="") for part in parts)])


class Client:
    """Talks to one API server, over as many connections as there are calls at a time."""

    def __init__(self, connection: Connection, limits: Limits = LIMITS) -> None:
        self._connection = connection
        self._limits = limits
        self._api = api_client(connection)

    async def __aenter__(self) -> Self:
        """Return itself; connections are opened when they are needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await self._api.close()

    async def get(self, path: str) -> Object:
        """GET an object."""
        return await self._ask("GET", path)

    async def list_page(
        self, path: str, *, limit: int, more: str = "", query: Mapping[str, str] | None = None
    ) -> Page:
        """GET a page of a collection; `query` holds selectors. Gone where `more` is too old."""
        asked = {**(query or {}), "limit": str(limit), **({"continue": more} if more else {})}
        found = await self._ask("GET", path, query=asked)
        try:
            listed = msgspec.convert(found, _List)
        except msgspec.ValidationError as error:
            raise Malformed(f"GET {path}: the answer is no list: {error}") from error
        return Page(listed.items or [], listed.metadata.version, listed.metadata.more)

    async def create(self, path: str, obj: Object) -> Object:
        """POST an object to a collection. AlreadyExists where the name is taken."""
        return await self._ask("POST", path, body=obj)

    async def patch(self, path: str, patch: Any, kind: str = MERGE_PATCH) -> Object:
        """PATCH an object. A merge patch with metadata.resourceVersion is a Conflict where that is old."""
        return await self._ask("PATCH", path, body=patch, content_type=kind)

    async def put(self, path: str, obj: Object) -> Object:
        """PUT an object."""
        return await self._ask("PUT", path, body=obj)

    async def delete(self, path: str, options: Object | None = None) -> Object:
        """DELETE an object; returns it, or a Status, as the server answers."""
        return await self._ask("DELETE", path, body=options)

    async def watch(
        self, path: str, *, version: str, seconds: int, query: Mapping[str, str] | None = None
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Yield (type, object) of what happens after `version`, bookmarks included, until the server ends it.

        The server is asked to end it after `seconds`; one that has not `limits.silence` later is Unreachable.
        An ERROR event raises its error: Gone where `version` is too old. Close it (contextlib.aclosing) where
        it is left early.
        """
        asked = {
            **(query or {}),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        request = _Request("GET", path, seconds + self._limits.silence, asked)
        async with self._answer(request) as response:
            lines = Lines(self._limits.line)
            async for chunk in response.content.iter_any():
                for line in lines.feed(chunk):
                    yield _event(request.what, line)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = _JSON,
    ) -> Object:
        request = _Request(method, path, self._limits.request, query or {}, body, content_type)
        async with self._answer(request) as response:
            content = await _read(response, self._limits.body)
        try:
            return msgspec.json.decode(content, type=Object)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Malformed(f"{request.what}: the answer is no JSON object") from None

    @asynccontextmanager
    async def _answer(self, request: _Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; the block reads the answer, which is a success. KubeError for anything else."""
        try:
            # A whole answer has given its connection back by the time it is closed; half of one breaks it.
            with closing(await self._send(request)) as response:
                if not _OK <= response.status < _BEYOND_OK:
                    body = await _read(response, _ERROR_MAX)
                    retry_after = response.headers.get("Retry-After")
                    raise error_of(request.what, response.status, body, retry_after)
                yield response
        except TooLongError:
            raise TooLarge(f"{request.what}: the answer is too large") from None
        except TimeoutError:
            raise Unreachable(f"{request.what}: no whole answer within {request.seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                trust_again(self._api, self._connection)
            raise Unreachable(f"{request.what}: {_why(error)}") from error

    async def _send(self, request: _Request) -> aiohttp.ClientResponse:
        text = self._connection.server + request.path
        query = urlencode(request.query, quote_via=quote)
        token = self._connection.bearer()
        sent = await self._api.call_api(
            request.method,
            URL(f"{text}?{query}" if query else text, encoded=True),
            header_params={
                "Accept": _JSON,
                "Content-Type": request.content_type,
                "User-Agent": "gpufence",
                **({"Authorization": f"Bearer {token}"} if token else {}),
            },
            body=request.body,
            _request_timeout=aiohttp.ClientTimeout(total=request.seconds, sock_connect=self._limits.connect),
        )
        response: aiohttp.ClientResponse = sent.response
        return response


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion")
    more: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[Object] | None = None


class _Event(msgspec.Struct):
    type: str
    object: Object


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read a body of bounded size; the size is that after decompression."""
    parts, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > most:
            raise TooLongError
        parts.append(chunk)
    return b"".join(parts)


def _event(what: str, line: bytes) -> tuple[str, Object]:
    try:
        event = msgspec.json.decode(line, type=_Event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Malformed(f"{what}: a line is no event") from None
    if event.type == "ERROR":
        raise error_of_event(what, event.object)
    return event.type, event.object


def _why(error: BaseException) -> str:
    """Say what failed without the bytes that it failed on, which aiohttp quotes."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        verdict = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else ""
        return f"the certificate does not verify: {verdict or type(cause).__name__}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {error.os_error.strerror or type(error.os_error).__name__}"
    return f"the connection broke: {type(error).__name__}"
