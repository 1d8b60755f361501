"""Create, in the order of k8s.io/apiserver registry/generic/registry/store.go.

Decode, defaults, built-in plugins, mutating webhooks, name and system fields, validation, validating
webhooks, storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sandbox.apiserver.defaults import admit_pod, apply_defaults
from sandbox.apiserver.resources import NAMESPACES, PODS, Object, Resource, name_of
from sandbox.apiserver.reviews import Attributes
from sandbox.apiserver.status import already_exists, bad_request, failure, not_found
from sandbox.apiserver.world import World, check, forbidden, new_uid, put, suffix, timestamp

if TYPE_CHECKING:
    from sandbox.apiserver.asks import Ask

BASE_MAX = 58


async def create(world: World, ask: Ask) -> Object:
    """POST of an object. Returns it as stored, or as it would be in a dry run."""
    obj = _fresh(world, ask)
    attributes = Attributes(
        ask.resource,
        "CREATE",
        ask.namespace,
        name_of(obj),
        ask.user,
        ask.options("CreateOptions"),
        obj,
        dry_run=ask.dry_run,
    )
    attributes = await world.admission.mutate(attributes, ask.warnings)
    new = _completed(world, ask.resource, attributes.object or {})
    check(ask.resource, new, creating=True)
    await world.admission.validate(
        msgspec.structs.replace(attributes, object=new, name=name_of(new)), ask.warnings
    )
    if world.store.get(ask.resource, ask.namespace, name_of(new)) is not None:
        raise already_exists(ask.resource, name_of(new))
    return new if ask.dry_run else put(world, ask.resource, new)


def seed(world: World, resource: Resource, obj: Object) -> Object:
    """Store an object without asking any webhook: what a cluster has from its first moment."""
    apply_defaults(resource, obj)
    return put(world, resource, _completed(world, resource, obj))


def _fresh(world: World, ask: Ask) -> Object:
    """Return the object as the first webhook sees it: without uid and times, with defaults."""
    obj = ask.object()
    metadata = obj["metadata"]
    if metadata.get("resourceVersion"):
        raise failure(500, "", "resourceVersion should not be set on objects to be created")
    for key in (
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    ):
        metadata.pop(key, None)
    _check_namespace(world, ask, name_of(obj))
    apply_defaults(ask.resource, obj)
    if ask.resource == PODS:
        admit_pod(obj, lambda: suffix(world))
    return obj


def _check_namespace(world: World, ask: Ask, name: str) -> None:
    """Refuse what the NamespaceLifecycle plugin refuses."""
    if not ask.resource.namespaced:
        return
    if not ask.namespace:
        raise bad_request("an empty namespace may not be set during creation")
    namespace = world.store.get(NAMESPACES, "", ask.namespace)
    if namespace is None:
        raise not_found(NAMESPACES, ask.namespace)
    if namespace["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {ask.namespace} because it is being terminated"
        raise forbidden(ask.resource, name, why)


def _completed(world: World, resource: Resource, obj: Object) -> Object:
    """Return a copy with what the server sets: name, uid, time, generation, first status."""
    metadata = dict(obj["metadata"])
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"][:BASE_MAX] + suffix(world)
    metadata["uid"] = new_uid(world)
    metadata["creationTimestamp"] = timestamp(world.clock())
    if "spec" in obj or "webhooks" in obj:
        metadata["generation"] = 1
    new = {**obj, "metadata": metadata}
    if resource == PODS:
        new["status"] = {"phase": "Pending"}
    elif resource == NAMESPACES:
        new["status"] = {"phase": "Active"}
    elif "status" in resource.subresources and not resource.keeps_status:
        new.pop("status", None)
    return new
