"""What the writing functions share: the world they work on, and the last step of every write."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from sandbox.apiserver.resources import NAMESPACES, RESOURCES, Object, Resource, name_of
from sandbox.apiserver.status import StatusError, conflict, failure, invalid, not_found
from sandbox.apiserver.validation import validate, validate_update

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.apiserver.admission import Admission
    from sandbox.apiserver.asks import Ask
    from sandbox.apiserver.storage import Store

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # of generated suffixes: k8s.io/apimachinery util/rand


class World(msgspec.Struct, frozen=True):
    """What the registry works on. `clock` returns an aware datetime, `entropy(n)` returns n random bytes.

    `changed` is called after every write.
    """

    store: Store
    admission: Admission
    clock: Callable[[], datetime]
    entropy: Callable[[int], bytes]
    changed: Callable[[], None]


def stored(world: World, ask: Ask) -> Object:
    """Return the object that a request names; 404 where there is none."""
    existing = world.store.get(ask.resource, ask.namespace, ask.name)
    if existing is None:
        raise not_found(ask.resource, ask.name)
    return existing


def put(world: World, resource: Resource, obj: Object) -> Object:
    """Store an object, wake the watches, and return it with its new resourceVersion."""
    stored = world.store.put(resource, obj)
    world.changed()
    return stored


def remove(world: World, resource: Resource, obj: Object) -> Object:
    """Remove an object, and a namespace with its content (the only work of a controller done here)."""
    if resource == NAMESPACES:
        for kind in (each for each in RESOURCES if each.namespaced):
            for content in world.store.items(kind, name_of(obj)):
                world.store.remove(kind, content)
    last = world.store.remove(resource, obj)
    world.changed()
    return last


def check(
    resource: Resource, new: Object, *, creating: bool, old: Object | None = None, subresource: str = ""
) -> None:
    """Raise a 422 with every reason why the object may not be stored, if there are any."""
    causes = validate(resource, new, creating=creating)
    if old is not None:
        causes += validate_update(resource, new, old, subresource)
    if causes:
        raise invalid(resource, name_of(new), causes)


def check_uid(resource: Resource, name: str, wanted: str | None, current: str) -> None:
    """Raise a 409 where a client means another object of the same name."""
    if wanted and wanted != current:
        why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {current}"
        raise conflict(resource, name, why)


def suffix(world: World) -> str:
    """Return five random characters, as in generated names."""
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in world.entropy(5))


def new_uid(world: World) -> str:
    """Return a random UUID."""
    return str(uuid.UUID(bytes=world.entropy(16), version=4))


def timestamp(moment: datetime) -> str:
    """Return a time as the API writes it: RFC 3339, whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def forbidden(resource: Resource, name: str, why: str) -> StatusError:
    """Return the 403 of a built-in admission plugin."""
    details = {"name": name, "kind": resource.plural}
    return failure(403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {why}', details)
