"""Objects, one global revision, and a bounded history of what happened. Pure: no clock, no asyncio, no HTTP.

Stored objects are never changed in place; whoever wants to change one copies it first. Revisions count up
by one with every write, as etcd's do, and are the objects' resourceVersion.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal

import msgspec

from sandbox.apiserver.resources import Object, Resource, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
Key = tuple[str, str]  # namespace, name


class Event(msgspec.Struct, frozen=True):
    """One write. `previous` is the object before it, None for an ADDED."""

    revision: int
    type: EventType
    resource: Resource
    object: Object
    previous: Object | None


class HistoryExpiredError(Exception):
    """A revision from before the kept history was asked for."""


class Store:
    """The objects and the last `window` events."""

    def __init__(self, window: int) -> None:
        self.revision = 1
        self._objects: dict[Resource, dict[Key, Object]] = {}
        self._events: deque[Event] = deque(maxlen=window)
        self._oldest = 1  # the earliest revision whose events are all still known

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return the object, None where there is none."""
        return self._objects.get(resource, {}).get((namespace, name))

    def items(self, resource: Resource, namespace: str = "") -> list[Object]:
        """Return all objects of a resource, by namespace and name; `namespace` "" means all namespaces."""
        return _sorted(self._objects.get(resource, {}), namespace)

    def items_at(self, revision: int, resource: Resource, namespace: str = "") -> list[Object]:
        """Return what `items` returned at a revision. HistoryExpiredError where that is forgotten."""
        objects = dict(self._objects.get(resource, {}))
        for event in reversed(self.since(revision)):
            if event.resource == resource:
                _undo(objects, event)
        return _sorted(objects, namespace)

    def since(self, revision: int) -> Sequence[Event]:
        """Return the events after a revision, oldest first. HistoryExpiredError where some are forgotten."""
        if revision < self._oldest:
            raise HistoryExpiredError(f"too old resource version: {revision} ({self._oldest})")
        return [event for event in self._events if event.revision > revision]

    def put(self, resource: Resource, obj: Object) -> Object:
        """Store an object, new or changed, and return it with its new resourceVersion."""
        objects = self._objects.setdefault(resource, {})
        key = (namespace_of(obj), name_of(obj))
        previous = objects.get(key)
        stored = self._stamped(obj)
        objects[key] = stored
        self._record(Event(self.revision, "MODIFIED" if previous else "ADDED", resource, stored, previous))
        return stored

    def remove(self, resource: Resource, obj: Object) -> Object:
        """Remove a stored object and return its last state, with the revision of its removal."""
        previous = self._objects[resource].pop((namespace_of(obj), name_of(obj)))
        last = self._stamped(obj)
        self._record(Event(self.revision, "DELETED", resource, last, previous))
        return last

    def forget(self) -> None:
        """Drop the whole history: every older watch and continue token is then too old."""
        self._events.clear()
        self.revision += 1
        self._oldest = self.revision

    def _stamped(self, obj: Object) -> Object:
        self.revision += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}

    def _record(self, event: Event) -> None:
        if len(self._events) == self._events.maxlen:
            self._oldest = self._events[0].revision
        self._events.append(event)


def _undo(objects: dict[Key, Object], event: Event) -> None:
    key = (namespace_of(event.object), name_of(event.object))
    if event.previous is None:
        del objects[key]
    else:
        objects[key] = event.previous


def _sorted(objects: dict[Key, Object], namespace: str) -> list[Object]:
    keys = sorted(key for key in objects if namespace in ("", key[0]))
    return [objects[key] for key in keys]
