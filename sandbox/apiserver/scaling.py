"""The subresource `scale`: the number of replicas of a workload, seen as an autoscaling/v1 Scale.

Webhooks are asked about the Scale, never about the workload (registry/apps/deployment/storage, ScaleREST).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sandbox.apiserver.patches import apply_patch
from sandbox.apiserver.resources import SCALE, Object, name_of
from sandbox.apiserver.reviews import Attributes
from sandbox.apiserver.status import invalid, invalid_value
from sandbox.apiserver.updating import check_version, next_generation
from sandbox.apiserver.world import World, put, stored

if TYPE_CHECKING:
    from sandbox.apiserver.asks import Ask

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(workload: Object) -> Object:
    """Return the Scale of a workload. Its `status.replicas` is the wanted number: no controller counts pods."""
    replicas = workload["spec"].get("replicas", 1)
    labels = workload["spec"].get("selector", {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {key: value for key, value in workload["metadata"].items() if key in _SHOWN},
        "spec": {"replicas": replicas},
        "status": {"replicas": replicas, "selector": selector},
    }


async def rescale(world: World, ask: Ask) -> Object:
    """PUT or PATCH of a Scale. Returns the new one."""
    workload = stored(world, ask)
    old = scale_of(workload)
    about = msgspec.structs.replace(ask, resource=SCALE)
    patched = apply_patch(SCALE, ask.content_type, old, ask.json()) if _is_patch(ask) else ask.json()
    submitted = about.fitted(patched)
    attributes = Attributes(
        ask.resource,
        "UPDATE",
        ask.namespace,
        ask.name,
        ask.user,
        ask.options("UpdateOptions"),
        submitted,
        old,
        ask.subresource,
        ask.dry_run,
        kind=SCALE,
    )
    attributes = await world.admission.mutate(attributes, ask.warnings)
    scale = attributes.object or {}
    check_version(ask.resource, scale, workload)
    new = {**workload, "spec": {**workload["spec"], "replicas": _replicas(scale)}}
    new = next_generation(new, workload)
    await world.admission.validate(msgspec.structs.replace(attributes, object=scale_of(new)), ask.warnings)
    return scale_of(new if ask.dry_run or new == workload else put(world, ask.resource, new))


def _is_patch(ask: Ask) -> bool:
    return ask.content_type.endswith("patch+json")


def _replicas(scale: Object) -> int:
    wanted: Any = scale.get("spec", {}).get("replicas", 0)
    if not isinstance(wanted, int) or wanted < 0:
        cause = invalid_value("spec.replicas", wanted, "must be greater than or equal to 0")
        raise invalid(SCALE, name_of(scale), [cause])
    return wanted
