"""Delete: webhooks, preconditions, then removal, or the marks of an object that something still holds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from sandbox.apiserver.reads import number_of
from sandbox.apiserver.resources import NAMESPACES, PODS, Object, Resource, name_of, namespace_of
from sandbox.apiserver.reviews import Attributes
from sandbox.apiserver.shapes import DeleteOptions
from sandbox.apiserver.status import bad_request, conflict, not_found, success
from sandbox.apiserver.world import World, check_uid, forbidden, put, remove, stored, timestamp

if TYPE_CHECKING:
    from sandbox.apiserver.asks import Ask

IMMORTAL = ("default", "kube-system", "kube-public")
DONE = ("Succeeded", "Failed")


async def delete(world: World, ask: Ask) -> Object:
    """DELETE of one object. Returns the object where it stays for now, else a Status or it, by kind."""
    existing = stored(world, ask)
    options = _delete_options(ask)
    last = await _delete(world, ask, existing, options, ask.name)
    if last["metadata"].get("deletionTimestamp") or ask.resource.returns_deleted:
        return last
    return success(ask.resource, ask.name, existing["metadata"]["uid"])


async def delete_collection(world: World, ask: Ask, selected: list[Object]) -> list[Object]:
    """DELETE of the selected objects one by one. Their reviews carry no `name`, as in the real one."""
    options = _delete_options(ask)
    return [await _delete(world, ask, existing, options, "") for existing in selected]


def _delete_options(ask: Ask) -> Object:
    """Return the DeleteOptions of body and query."""
    body = ask.json() if ask.body else {}
    try:
        msgspec.convert(body, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"the body cannot be handled as DeleteOptions: {error}") from error
    options = {**body, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    if ask.dry_run:
        options["dryRun"] = ["All"]
    if "gracePeriodSeconds" in ask.query:
        options["gracePeriodSeconds"] = number_of(ask, "gracePeriodSeconds")
    return options


async def _delete(world: World, ask: Ask, existing: Object, options: Object, shown_name: str) -> Object:
    """Ask the webhooks, then remove the object or mark it."""
    resource, name = ask.resource, name_of(existing)
    if resource == NAMESPACES and name in IMMORTAL:
        raise forbidden(resource, name, "this namespace may not be deleted")
    namespace = namespace_of(existing)
    dry_run = bool(options.get("dryRun"))
    attributes = Attributes(
        resource, "DELETE", namespace, shown_name, ask.user, options, None, existing, dry_run=dry_run
    )
    attributes = await world.admission.mutate(attributes, ask.warnings)
    await world.admission.validate(attributes, ask.warnings)
    current = world.store.get(resource, namespace, name)
    if current is None:
        raise not_found(resource, name)
    _check_preconditions(resource, current, options.get("preconditions") or {})
    return _marked_or_removed(world, resource, current, options, dry_run=dry_run)


def _check_preconditions(resource: Resource, current: Object, wanted: Object) -> None:
    name, metadata = name_of(current), current["metadata"]
    check_uid(resource, name, wanted.get("uid"), metadata["uid"])
    version = wanted.get("resourceVersion")
    if version and version != metadata["resourceVersion"]:
        why = "Precondition failed: ResourceVersion in precondition"
        raise conflict(
            resource, name, f"{why}: {version}, ResourceVersion in object meta: {metadata['resourceVersion']}"
        )


def _marked_or_removed(
    world: World, resource: Resource, current: Object, options: Object, *, dry_run: bool
) -> Object:
    """Remove the object, or set deletionTimestamp where a finalizer or a grace period keeps it."""
    grace = _grace(resource, current, options)
    metadata = current["metadata"]
    if not grace and not metadata.get("finalizers"):
        return current if dry_run else remove(world, resource, current)
    if metadata.get("deletionTimestamp") and grace >= metadata.get("deletionGracePeriodSeconds", 0):
        return current
    end = timestamp(world.clock() + timedelta(seconds=grace))
    marks = {"deletionTimestamp": end, "deletionGracePeriodSeconds": grace}
    marked = {**current, "metadata": {**metadata, **marks}}
    return marked if dry_run else put(world, resource, marked)


def _grace(resource: Resource, current: Object, options: Object) -> int:
    """Return the seconds that the kubelet gets: only for a pod on a node that is not done."""
    if (
        resource != PODS
        or not current["spec"].get("nodeName")
        or current.get("status", {}).get("phase") in DONE
    ):
        return 0
    wanted: Any = options.get("gracePeriodSeconds")
    return int(current["spec"]["terminationGracePeriodSeconds"] if wanted is None else wanted)
