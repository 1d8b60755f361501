"""A copy of a collection that follows the API server: list in pages, then watch, and again where either ends."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kube.backoff import Backoff
from kube.errors import (
    Forbidden,
    KubeError,
    Malformed,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from kube.log import SparingLog, told
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kube.client import Client, Object
    from kube.log import Log

T = TypeVar("T")

PAGE = 500  # client-go's default page size
PAGES_MAX = 2000  # a million objects; a server that never ends a list would fill the memory
# A quiet watch and a dead connection look the same until the watch ends, so it ends soon: this bounds for how
# long a broken network hides changes. It costs the server one request a minute, served from its watch cache.
WATCH_SECONDS = 60
# client-go calls a watch "very short" below this, and so a failure: otherwise a proxy that closes every
# watch at once would make a loop without pause.
_STOOD_SECONDS = 1.0
# After these the last resourceVersion is still good. After anything else (410 above all; also 504 for a
# version from the future, after etcd was restored) only a new list helps.
_RESUMABLE = (Unreachable, Unavailable, Unauthorized, Forbidden, TooManyRequests)


class Cache(Generic[T]):
    """What `strip` keeps of each object of a collection, by key: "name" or "namespace/name".

    `strip` gets the object's JSON and may return anything but None; where it raises, the value of the object
    is Unreadable. `on_change` gets every key whose value changed, with its new value or None where the object
    is gone; it is called once after the first list even if that is empty, and then only when something
    changed. `query` holds selectors. `clock` is monotonic, in seconds. `log` gets each kind of failure at most
    once a minute.

    Content is never thrown away before its replacement is complete. `failures` counts what went wrong, and
    `trouble` says what did last, "" once the content is known to be current again.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        strip: Callable[[Object], T],
        *,
        log: Log,
        on_change: Callable[[Mapping[str, T | Unreadable | None]], None] | None = None,
        query: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        seconds: int = WATCH_SECONDS,
        page: int = PAGE,
    ) -> None:
        self.path = path
        self.failures = 0
        self.trouble = ""
        self._client = client
        self._strip = strip
        self._on_change = on_change
        self._query = dict(query or {})
        self._clock = clock
        self._sleep = sleep
        self._seconds = seconds
        self._page = page
        self._log = SparingLog(log, clock)
        self._backoff = Backoff(random or Random())  # noqa: S311 - spreads load, guards nothing
        self._items: dict[str, T | Unreadable] = {}
        self._version: str | None = None  # where the next watch begins; None: list first
        self._contact: float | None = None

    @property
    def synced(self) -> bool:
        """Whether there ever was a complete list."""
        return self._contact is not None

    def get(self, key: str) -> T | Unreadable | None:
        """Return the value of an object, None where there is none, Unreadable where nobody can say."""
        if self._contact is None:
            return Unreadable(f"{self.path} has not been listed yet")
        return self._items.get(key)

    def items(self) -> Mapping[str, T | Unreadable] | Unreadable:
        """Return a live view of everything, Unreadable before the first complete list."""
        if self._contact is None:
            return Unreadable(f"{self.path} has not been listed yet")
        return MappingProxyType(self._items)

    def age(self) -> float | Unreadable:
        """Return for how many seconds the content has not been known to be current.

        It goes back to 0 with each list, each event and each regular end of a watch, so that it reaches
        `seconds` where nothing happens.
        """
        if self._contact is None:
            return Unreadable(f"{self.path} has not been listed yet")
        return max(0.0, self._clock() - self._contact)

    async def run(self) -> None:
        """Follow the collection until cancelled. Raises nothing but CancelledError."""
        while True:
            try:
                if self._version is None:
                    self._version = await self._list()
                await self._watch(self._version)
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end the watching
                await self._sleep(self._failed(error))

    def _failed(self, error: Exception) -> float:
        """Take note of a failure and return how long to wait."""
        self.failures += 1
        if isinstance(error, TooLarge):
            self._page = max(1, self._page // 2)
        if not isinstance(error, _RESUMABLE):
            self._version = None
        delay = self._backoff.next(error.retry_after if isinstance(error, KubeError) else None)
        self.trouble = told(error)
        self._log("watch_failed", self.path, fault=self.trouble, again_in_seconds=round(delay, 1))
        return delay

    async def _list(self) -> str:
        """Take over a complete list and return its version."""
        found: dict[str, T | Unreadable] = {}
        more = ""
        for _ in range(PAGES_MAX):
            page = await self._client.list_page(self.path, limit=self._page, more=more, query=self._query)
            for obj in page.items:
                key = _key(self.path, obj)
                found[key] = self._value(key, obj)
            more = page.more
            if not more:
                break
        else:
            raise TooLarge(f"list {self.path}: more than {PAGES_MAX} pages")
        first, old = not self.synced, self._items
        self._items = found
        self._current()
        changed: dict[str, T | Unreadable | None] = {
            key: value for key, value in found.items() if key not in old or old[key] != value
        }
        changed.update((key, None) for key in old if key not in found)
        if changed or first:
            self._tell(changed)
        return page.version

    async def _watch(self, version: str) -> None:
        """Follow one watch to its regular end."""
        opened, events = self._clock(), 0
        stream = self._client.watch(self.path, version=version, seconds=self._seconds, query=self._query)
        try:
            async with aclosing(stream):
                async for kind, obj in stream:
                    self._apply(kind, obj)
                    events += 1
        finally:
            # Not by time alone: an attempt that fails after five seconds has stood for none.
            if events:
                self._backoff.reset()
        if not events and self._clock() - opened < _STOOD_SECONDS:
            raise Unreachable(f"watch {self.path}: ended at once")
        self._backoff.reset()
        self._current()

    def _apply(self, kind: str, obj: Object) -> None:
        version = _metadata(self.path, obj).get("resourceVersion")
        if not isinstance(version, str) or not version:
            raise Malformed(f"watch {self.path}: an event without a resourceVersion")
        if kind in ("ADDED", "MODIFIED"):
            key = _key(self.path, obj)
            self._set(key, self._value(key, obj))
        elif kind == "DELETED":
            key = _key(self.path, obj)
            if self._items.pop(key, None) is not None:
                self._tell({key: None})
        elif kind != "BOOKMARK":
            raise Malformed(f"watch {self.path}: an event of an unknown type")
        self._version = version
        self._current()

    def _current(self) -> None:
        """Note that the content is that of the server, as of now."""
        self._contact, self.trouble = self._clock(), ""

    def _set(self, key: str, value: T | Unreadable) -> None:
        if key in self._items and self._items[key] == value:
            return
        self._items[key] = value
        self._tell({key: value})

    def _value(self, key: str, obj: Object) -> T | Unreadable:
        try:
            return self._strip(obj)
        except Exception as error:  # noqa: BLE001 - one odd object must not stop the others
            self._log("object_cannot_be_read", f"{self.path} {key}", fault=told(error))
            return Unreadable(f"{self.path} {key}: {told(error)}")

    def _tell(self, changed: Mapping[str, T | Unreadable | None]) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(changed)
        except Exception as error:  # noqa: BLE001 - the content is right whatever its reader does
            self.failures += 1
            self._log("reader_of_a_change_failed", self.path, fault=told(error))


def _metadata(path: str, obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        raise Malformed(f"{path}: an object without metadata")
    return metadata


def _key(path: str, obj: Object) -> str:
    metadata = _metadata(path, obj)
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        raise Malformed(f"{path}: an object without a name")
    return f"{namespace}/{name}" if namespace else name
