"""Events (events.k8s.io/v1) about objects: few, and repeats count up one object rather than make new ones.

Facts: kubernetes pkg/apis/core/validation/events.go. Required on create are eventTime,
reportingController (a qualified name), reportingInstance, action, reason (each at most 128 bytes) and type;
note has at most 1024 bytes. Of an existing Event only `series` may change, with count >= 2 and
lastObservedTime. An Event about an object without a namespace lives in `default`. API servers drop Events after
an hour (--event-ttl): they inform people and are no record.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, deque
from datetime import UTC
from typing import TYPE_CHECKING, Literal

import msgspec

from kube.bucket import Buckets
from kube.client import path_of
from kube.errors import Conflict, NotFound
from kube.log import SparingLog, told
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kube.client import Client, Object
    from kube.log import Log

QUEUE_MAX = 256
# A namespace may have a burst of Events, then one every 6 s: a tenant who is denied in a loop writes no more. Objects
# without a namespace have a bucket of their own, though their Events are in `default`, where tenants may be.
BURST, PER_SECOND = 10.0, 1 / 6
_REMEMBERED_MAX = (
    1000  # series kept in mind; more than QUEUE_MAX, so that one in the queue is never forgotten
)
_ATTEMPTS = 3  # where another replica counts up the same Event at the same moment
_SHORT_MAX, _NOTE_MAX, _NAME_MAX = 128, 1024, 253
_DIGEST_CHARACTERS = 16


class Regarding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The object that an Event is about. With its uid, `kubectl describe` shows the Event."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be told. Notices with the same `key` about the same object are repeats of one Event.

    `key` is any text, such as a rule's id. `reason` is CamelCase; `action` is what was done, such as "Deny".
    Texts that are too long for the API are cut.
    """

    regarding: Regarding
    key: str
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


class _Series(msgspec.Struct):
    """One Event of ours: what the server has, and how many sightings it does not know of yet."""

    notice: Notice
    owed: int = 0
    queued: bool = False
    count: int = 0
    version: str = ""  # resourceVersion; "" where the Event is not known to exist


class EventWriter:
    """Writes Events from a bounded queue. `emit` returns at once and never fails; `run` is the task that writes.

    `controller` is a qualified name ("gpufence.io/webhook"), `instance` the pod. `clock` is monotonic, in
    seconds; `now` returns an aware datetime. `terminating(namespace)` says whether a namespace is being
    deleted, Unreadable where unknown: then the Event is tried.

    `written` counts requests that told the server something. `dropped` counts notices by why they were not
    told: "queue" (it is full), "rate", "terminating". `failed` counts writes that the server refused or that
    did not reach it; they are not tried again. What was dropped by rate or queue, or failed, is still counted
    in the series once a later repeat is written.
    """

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str,
        terminating: Callable[[str], bool | Unreadable],
        clock: Callable[[], float],
        now: Callable[[], datetime],
        log: Log,
    ) -> None:
        self.written = 0
        self.failed = 0
        self.dropped: Counter[str] = Counter(queue=0, rate=0, terminating=0)
        self._client = client
        self._controller = controller
        self._instance = _cut(instance, _SHORT_MAX)
        self._terminating = terminating
        self._clock = clock
        self._now = now
        self._log = SparingLog(log, clock)
        self._buckets = Buckets(BURST, PER_SECOND)
        self._series: dict[str, _Series] = {}
        self._queue: deque[str] = deque()
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def depth(self) -> int:
        """How many Events are still to be written."""
        return len(self._queue)

    def emit(self, notice: Notice) -> None:
        """Take a notice. It is written later, counted into one that waits, or dropped and counted."""
        try:
            self._take(notice)
        except Exception as error:  # noqa: BLE001 - whoever tells of a denial must not fail by it
            self.failed += 1
            self._log("event_lost", notice.reason, fault=told(error))

    async def run(self) -> None:
        """Write what is queued until cancelled. Raises nothing but CancelledError."""
        while True:
            if not self._queue:
                self._idle.set()
                self._filled.clear()
                await self._filled.wait()
            await self._write_next()

    async def drained(self) -> None:
        """Wait until the queue is empty and the last write is over; give it a time limit at shutdown."""
        await self._idle.wait()

    def _take(self, notice: Notice) -> None:
        namespace = _home(notice)
        if self._gone(namespace):
            self.dropped["terminating"] += 1
            return
        name = event_name(notice)
        series = self._remember(name, notice)
        series.owed += 1
        if series.queued:
            return
        if len(self._queue) >= QUEUE_MAX:
            self.dropped["queue"] += 1
        elif not self._buckets.take(notice.regarding.namespace, self._clock()):
            self.dropped["rate"] += 1
        else:
            series.queued = True
            self._queue.append(name)
            self._idle.clear()
            self._filled.set()

    def _remember(self, name: str, notice: Notice) -> _Series:
        """Return the series of a name, as the one that was used last."""
        series = self._series.pop(name, None) or _Series(notice)
        self._series[name] = series
        if len(self._series) > _REMEMBERED_MAX:
            oldest = next(key for key, each in self._series.items() if not each.queued)
            del self._series[oldest]
        return series

    def _gone(self, namespace: str) -> bool:
        terminating = self._terminating(namespace)
        return not isinstance(terminating, Unreadable) and terminating

    async def _write_next(self) -> None:
        name = self._queue.popleft()
        series = self._series[name]
        series.queued = False
        namespace = _home(series.notice)
        try:
            if self._gone(namespace):  # it may have begun to end while the notice waited
                self.dropped["terminating"] += 1
                return
            await self._write(path_of("/apis/events.k8s.io/v1/namespaces", namespace, "events"), name, series)
            self.written += 1
        except Exception as error:  # noqa: BLE001 - one Event that cannot be written must not stop the others
            self.failed += 1
            self._log("event_not_written", namespace, reason=series.notice.reason, fault=told(error))

    async def _write(self, path: str, name: str, series: _Series) -> None:
        """Create the Event, or count it up where it exists; what fails stays owed to the next repeat."""
        owed, series.owed = series.owed, 0
        try:
            await self._settle(path, name, series, owed)
        except BaseException:
            series.owed += owed
            raise

    async def _settle(self, path: str, name: str, series: _Series, owed: int) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                await self._attempt(path, name, series, owed)
            except (Conflict, NotFound) as error:
                # Taken by another replica, counted up by one, or expired: look again.
                if attempt == _ATTEMPTS - 1:
                    raise
                await self._look(path, name, series, exists=not isinstance(error, NotFound))
            else:
                return

    async def _attempt(self, path: str, name: str, series: _Series, owed: int) -> None:
        if not series.version:
            found = await self._client.create(path, self._event(name, series.notice, owed))
        else:
            patch = {
                "metadata": {"resourceVersion": series.version},
                "series": self._counted(series.count + owed),
            }
            found = await self._client.patch(path_of(path, name), patch)
        _learn(series, found)

    async def _look(self, path: str, name: str, series: _Series, *, exists: bool) -> None:
        series.version = ""
        if exists:
            try:
                _learn(series, await self._client.get(path_of(path, name)))
            except NotFound:
                return  # it expired just now: create it

    def _event(self, name: str, notice: Notice, count: int) -> Object:
        series = {"series": self._counted(count)} if count > 1 else {}
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": _home(notice)},
            "eventTime": _micro_time(self._now()),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": _cut(notice.action, _SHORT_MAX),
            "reason": _cut(notice.reason, _SHORT_MAX),
            "regarding": {
                key: value for key, value in msgspec.to_builtins(notice.regarding).items() if value
            },
            "note": _cut(notice.note, _NOTE_MAX),
            "type": notice.type,
            **series,
        }

    def _counted(self, count: int) -> Object:
        return {"count": count, "lastObservedTime": _micro_time(self._now())}


def event_name(notice: Notice) -> str:
    """Return the name of the notice's Event: every replica finds the same, so they count up one object."""
    about = notice.regarding
    parts = (about.api_version, about.kind, about.namespace, about.name, about.uid, notice.key)
    digest = hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:_DIGEST_CHARACTERS]
    # The usual form is "<object>.<hex>". Names of RBAC objects may have characters that an Event's may not.
    readable = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "-" for c in about.name.lower())
    segments = [part.strip("-") for part in readable[: _NAME_MAX - _DIGEST_CHARACTERS - 1].split(".")]
    return ".".join([*(part for part in segments if part), digest])


def _learn(series: _Series, found: Object) -> None:
    """Take over what the server has: an Event without a series was seen once."""
    series.version = str(found["metadata"]["resourceVersion"])
    series.count = int((found.get("series") or {}).get("count") or 1)


def _home(notice: Notice) -> str:
    return notice.regarding.namespace or "default"


def _cut(text: str, most: int) -> str:
    """Cut to so many bytes of UTF-8, between characters: Go's len, which the limits are in, counts bytes."""
    return text.encode()[:most].decode(errors="ignore")


def _micro_time(at: datetime) -> str:
    """Return metav1.MicroTime of an aware datetime."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
