"""The HTTP side of the webhook: from a request to the body for `answer`, and back.

Nothing in the path of a request calls an API or waits for a disk: policy and namespace labels are values in
memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from aiohttp import hdrs, web

from serve.faults import describe_fault
from serve.http import Drain, healthz, readyz
from webhook.answer import Answered, Terms, answer_body
from webhook.reviews import EXPECTED, NotAReviewError, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from policy.model import Policy
    from policy.unreadable import Unreadable
    from webhook.answer import Endpoint
    from webhook.settings import WebhookSettings

_JSON = "application/json"
_SMALL_BODY = 64 * 1024  # a review of a pod has 3 to 20 KB
_LARGE_AT_A_TIME = 4


# What hears of an answer, and of the seconds since the head of its request was there.
Tell = Callable[["Endpoint", Answered, float], None]


class Inputs(Protocol):
    """What decisions rest on, in memory; read anew for every request, because a reload swaps it."""

    @property
    def policy(self) -> Policy | Unreadable:
        """The policy in force."""

    def labels_of(self, namespace: str) -> dict[str, str] | Unreadable:
        """Return the labels of a namespace."""

    def not_ready(self, now: datetime) -> tuple[str, ...]:
        """Return why no request should come here, one line each."""


class Room:
    """Bounds the bytes of all bodies that are being read.

    A small one needs no leave: as many as there are connections take 32 MiB. Larger ones share room for four of the
    largest; a caller who says that it sends one, and does not, holds its part until the time for a body is over.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._left = _LARGE_AT_A_TIME * largest

    @contextmanager
    def for_body(self, length: int | None) -> Iterator[None]:
        """Hold room while a body is read; 429 where there is none. `length` is None where nobody says it."""
        needed = self._largest if length is None else length
        if needed <= _SMALL_BODY or needed > self._largest:  # the latter is refused for its size
            yield
            return
        if needed > self._left:
            text = "too many large bodies are being read\n"
            raise web.HTTPTooManyRequests(text=text, headers={"Retry-After": "1"})
        self._left -= needed
        try:
            yield
        finally:
            self._left += needed


def utc_now() -> datetime:
    """Return the time, aware of its zone."""
    return datetime.now(UTC)


def build_app(
    settings: WebhookSettings,
    inputs: Inputs,
    drain: Drain,
    tell: Tell,
    clock: Callable[[], datetime] = utc_now,
) -> web.Application:
    """Return the application with /mutate, /validate, /healthz and /readyz."""

    def not_ready() -> tuple[str, ...]:
        return ("the process is about to stop",) if drain.begun else inputs.not_ready(clock())

    room = Room(settings.max_body_bytes)

    def handler(endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            started = time.perf_counter()
            with room.for_body(request.content_length):
                body = await _body(request, settings)
            try:
                terms = Terms(inputs.policy, inputs.labels_of, clock(), settings.fail_mode)
                answered = answer_body(body, endpoint, terms)
            except NotAReviewError as error:
                raise web.HTTPBadRequest(text=f"{error}\n") from error
            response = web.Response(body=encode(answered.response), content_type=_JSON)
            # Before the answer is written: what was decoded of a body must not wait for the next turn of the loop, and
            # an answer that somebody got is counted, also by a worker that is killed right after it.
            tell(endpoint, answered, time.perf_counter() - started)
            return response

        return handle

    # No API server compresses a review, and 64 KB of a compressed body take 50 MB before anything counts them.
    app = web.Application(client_max_size=settings.max_body_bytes, handler_args={"auto_decompress": False})
    app.router.add_post("/mutate", handler("mutate"))
    app.router.add_post("/validate", handler("validate"))
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz(not_ready))
    return app


async def _body(request: web.Request, settings: WebhookSettings) -> bytes:
    """Return the body; raise the HTTP answer that says why it cannot be had."""
    if request.content_type != _JSON:
        raise web.HTTPUnsupportedMediaType(text=f"the content type must be {_JSON}; {EXPECTED}\n")
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise web.HTTPUnsupportedMediaType(text=f"the body must not be compressed; {EXPECTED}\n")
    limit = settings.max_body_bytes
    if (request.content_length or 0) > limit:
        raise _too_large(limit)  # before a byte of it is read
    try:
        if (
            request.content.is_eof()
        ):  # a small body comes with its head, and a timer would cost a tenth of the answer
            return await request.read()
        async with asyncio.timeout(settings.request_timeout_seconds):
            return await request.read()
    except TimeoutError as error:
        seconds = settings.request_timeout_seconds
        raise web.HTTPRequestTimeout(text=f"the body did not arrive within {seconds:g} seconds\n") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(limit) from error
    except (web.RequestPayloadError, ConnectionError) as error:
        # Chunks that do not decode, or a caller who left: then nobody reads this answer, and it only keeps aiohttp
        # from logging an error of ours. Its text may quote the body, so only its type is told.
        raise web.HTTPBadRequest(text=f"the body is broken ({describe_fault(error)})\n") from error


def _too_large(limit: int) -> web.HTTPRequestEntityTooLarge:
    return web.HTTPRequestEntityTooLarge(limit, text=f"the body is larger than {limit} bytes\n")
