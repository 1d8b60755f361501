"""Update and patch, in the order of k8s.io/apiserver registry/generic/registry/store.go.

Mutating webhooks, resourceVersion, fields that may not change, validation, validating webhooks, storage.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import msgspec

from sandbox.apiserver.defaults import apply_defaults
from sandbox.apiserver.patches import apply_patch
from sandbox.apiserver.resources import Object, Resource, name_of
from sandbox.apiserver.reviews import Attributes
from sandbox.apiserver.status import bad_request, conflict, invalid, invalid_value
from sandbox.apiserver.world import World, check, check_uid, put, remove, stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.apiserver.asks import Ask

ATTEMPTS = 5
_SYSTEM_FIELDS = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


async def replace(world: World, ask: Ask) -> Object:
    """PUT of an object or of one of its subresources."""
    body = ask.object()
    if name_of(body) not in ("", ask.name):
        raise bad_request(
            f"the name of the object ({name_of(body)}) does not match the name on the URL ({ask.name})"
        )
    body["metadata"]["name"] = ask.name
    return await change(world, ask, lambda _: copy.deepcopy(body))


async def patch(world: World, ask: Ask) -> Object:
    """PATCH of an object or of one of its subresources."""
    operations = ask.json()
    return await change(
        world,
        ask,
        lambda existing: ask.fitted(apply_patch(ask.resource, ask.content_type, existing, operations)),
    )


async def change(world: World, ask: Ask, changed: Callable[[Object], Object]) -> Object:
    """Change the stored object; start again where somebody else wrote meanwhile, as GuaranteedUpdate does."""
    for _ in range(ATTEMPTS):
        existing = stored(world, ask)
        new = await _admitted_update(world, ask, changed(existing), existing)
        if world.store.get(ask.resource, ask.namespace, ask.name) is existing:
            return new if ask.dry_run or new == existing else _store_update(world, ask.resource, new)
    raise conflict(ask.resource, ask.name)


async def _admitted_update(world: World, ask: Ask, submitted: Object, existing: Object) -> Object:
    apply_defaults(ask.resource, submitted)
    attributes = Attributes(
        ask.resource,
        "UPDATE",
        ask.namespace,
        ask.name,
        ask.user,
        ask.options("UpdateOptions"),
        submitted,
        existing,
        ask.subresource,
        ask.dry_run,
    )
    attributes = await world.admission.mutate(attributes, ask.warnings)
    submitted = attributes.object or {}
    check_version(ask.resource, submitted, existing)
    new = _prepared(ask, submitted, existing)
    check(ask.resource, new, creating=False, old=existing, subresource=ask.subresource)
    await world.admission.validate(msgspec.structs.replace(attributes, object=new), ask.warnings)
    return new


def check_version(resource: Resource, submitted: Object, existing: Object) -> None:
    """Raise a 409 where the client saw another version or another object of the same name."""
    metadata, current, name = submitted["metadata"], existing["metadata"], name_of(existing)
    version = metadata.get("resourceVersion") or ""
    if not version and resource.conditional:
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource, name, [cause])
    if version and version != current["resourceVersion"]:
        raise conflict(resource, name)
    check_uid(resource, name, metadata.get("uid"), current["uid"])


def _prepared(ask: Ask, submitted: Object, existing: Object) -> Object:
    """Return the object to store: what this request may not change is as it was (PrepareForUpdate)."""
    if ask.subresource == "status":
        return {**existing, "status": submitted.get("status") or {}}
    if ask.subresource == "ephemeralcontainers":
        ephemeral = submitted["spec"].get("ephemeralContainers") or []
        return next_generation(
            {**existing, "spec": {**existing["spec"], "ephemeralContainers": ephemeral}}, existing
        )
    kept = {key: existing["metadata"][key] for key in _SYSTEM_FIELDS if key in existing["metadata"]}
    free = {key: value for key, value in submitted["metadata"].items() if key not in _SYSTEM_FIELDS}
    new = {**submitted, "metadata": {**free, **kept}}
    if "status" in ask.resource.subresources:
        new.pop("status", None)
        new |= {key: existing[key] for key in ("status",) if key in existing}
    return next_generation(new, existing)


def next_generation(new: Object, existing: Object) -> Object:
    """Return `new` with the next generation where more than metadata and status changed."""
    generation = existing["metadata"].get("generation")
    if generation is None or _content(new) == _content(existing):
        return new
    return {**new, "metadata": {**new["metadata"], "generation": generation + 1}}


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _store_update(world: World, resource: Resource, new: Object) -> Object:
    metadata = new["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    if metadata.get("deletionTimestamp") and not waits:
        return remove(world, resource, new)
    return put(world, resource, new)
