"""Watches: events after a resourceVersion, one JSON object a line, until the client goes or time is over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from sandbox.apiserver.reads import number_of, test_of
from sandbox.apiserver.status import Cause, expired, invalid
from sandbox.apiserver.storage import Event, HistoryExpiredError, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sandbox.apiserver.asks import Ask
    from sandbox.apiserver.resources import Object, Resource
    from sandbox.apiserver.selectors import Test


class Bell:
    """Wakes every watch after a write. `epoch` counts how often all watches were dropped."""

    def __init__(self) -> None:
        self.epoch = 0
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake all watches."""
        self._rung.set()
        self._rung = asyncio.Event()

    def drop(self) -> None:
        """Make all watches of now end."""
        self.epoch += 1
        self.ring()

    async def wait(self) -> None:
        """Wait for the next ring."""
        await self._rung.wait()


async def watch(request: web.Request, store: Store, bell: Bell, ask: Ask) -> web.StreamResponse:
    """Answer a watch. It ends after `timeoutSeconds`, with a bookmark where allowed, or abruptly if dropped.

    Too old a resourceVersion gives an ERROR event with a 410 Status. Without one, or with "0", the watch
    begins with an ADDED event for every object that there is.
    """
    if "sendInitialEvents" in ask.query:
        why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        raise invalid(
            ask.resource, "", [Cause("sendInitialEvents", "FieldValueForbidden", f"Forbidden: {why}")]
        )
    epoch, test, seconds = bell.epoch, test_of(ask), number_of(ask, "timeoutSeconds")
    position = number_of(ask, "resourceVersion")
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        async with asyncio.timeout(seconds or None):
            if not position:
                position = store.revision
                await _send(response, *_initial(store, ask, test))
            while epoch == bell.epoch:
                events = store.since(position)
                position = store.revision
                await _send(response, *_seen(events, ask, test))
                if position == store.revision:
                    await bell.wait()
    except HistoryExpiredError as error:
        await _send(response, {"type": "ERROR", "object": expired(str(error)).status})
    except TimeoutError:
        if ask.query.get("allowWatchBookmarks") in ("1", "true"):
            await _send(response, _bookmark(ask.resource, position))
    if epoch != bell.epoch and request.transport is not None:
        request.transport.abort()
    return response


def _initial(store: Store, ask: Ask, test: Test) -> Iterator[Object]:
    return ({"type": "ADDED", "object": obj} for obj in store.items(ask.resource, ask.namespace) if test(obj))


def _seen(events: Sequence[Event], ask: Ask, test: Test) -> Iterator[Object]:
    for event in events:
        if event.resource == ask.resource and ask.namespace in ("", _namespace(event)):
            yield from seen_as(event, test)


def seen_as(event: Event, test: Test) -> Iterator[Object]:
    """Yield what a selecting watch sees: ADDED when an object begins to match, DELETED when it ceases."""
    before = event.previous is not None and test(event.previous)
    after = event.type != "DELETED" and test(event.object)
    if before and not after and event.previous is not None:
        yield {"type": "DELETED", "object": _with_version(event.previous, event)}
    elif after:
        yield {"type": "MODIFIED" if before else "ADDED", "object": event.object}


def _with_version(obj: Object, event: Event) -> Object:
    if event.type == "DELETED":
        return event.object
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(event.revision)}}


def _namespace(event: Event) -> str:
    return str(event.object["metadata"].get("namespace", ""))


def _bookmark(resource: Resource, position: int) -> Object:
    metadata = {"resourceVersion": str(position)}
    return {
        "type": "BOOKMARK",
        "object": {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata},
    }


async def _send(response: web.StreamResponse, *events: Object) -> None:
    if events:
        await response.write(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
