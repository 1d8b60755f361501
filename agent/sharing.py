"""Schedulers that share GPUs on their own account: what their annotations and labels say, as values.

HAMi (Project-HAMi/HAMi 4707fb02, pkg/device/devices.go) writes the GPUs of a pod into an annotation, and the id in
PodResources only counts. KAI (kai-scheduler/KAI-Scheduler d5bc503a, pkg/common/constants, pkg/binder/common) lets
a reservation pod hold the GPU, and joins it to the pods that use it by a label.

Tenants can write both. They count only where the policy enables the scheduler, and then as what the owner says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from agent.device_ids import by_nvidia_uuid
from agent.devices import Gpu, MigInstance, MigSlice
from policy.text import shown
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

HAMI_ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
HAMI_TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"  # emptied device by device as containers start
HAMI_NODE: Final = "hami.io/node-nvidia-register"  # on a node: HAMi's plugin serves its GPUs

KAI_GROUP: Final = "runai-gpu-group"
KAI_GROUP_PREFIX: Final = KAI_GROUP + "/"  # one label for each GPU of a pod that uses several
KAI_RESERVATIONS: Final = "kai-resource-reservation"  # the default name of the namespace

_LONGEST_ANNOTATION: Final = 256 * 1024  # the API server's limit for all annotations of an object
_FIELDS: Final = 4
_COUNT: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_TEMPLATE: Final = re.compile(r"(GPU-[0-9a-f-]{36})\[(0|[1-9][0-9]{0,8})-(0|[1-9][0-9]{0,8})\]")


class HamiSlot(msgspec.Struct, frozen=True):
    """A MIG slice that HAMi makes on demand, `GPU-<uuid>[<template>-<position>]`: a place in a layout of HAMi's.

    Which slice it became is in no annotation.
    """

    gpu: Gpu
    template: int
    position: int


class HamiShare(msgspec.Struct, frozen=True):
    """A share of a device. `memory` is in MiB, `cores` in percent of the device; 0 cores mean no limit."""

    device: Gpu | MigSlice | MigInstance | HamiSlot
    type: str
    memory: int
    cores: int


def hami_shares(annotation: str) -> tuple[tuple[HamiShare, ...], ...] | Unreadable:
    """Return the shares of each container, in the order of the annotation; an entry may be empty.

    The form is `UUID,Type,MiB,percent:` for each device and `;` after each container. Entries stand for the pod's
    containers by position: newer releases count its init containers first, older ones leave them out, and only the
    number of entries tells. One field that cannot be read makes the whole Unreadable: half an owner is a wrong one. A
    tenant can write nonsense here, so Unreadable says nothing in favour of the pod.
    """
    if len(annotation) > _LONGEST_ANNOTATION:
        return Unreadable(f"the HAMi annotation has {len(annotation)} characters")
    containers: list[tuple[HamiShare, ...]] = []
    for text in annotation.removesuffix(";").split(";") if annotation else ():
        shares: list[HamiShare] = []
        for written in text.removesuffix(":").split(":") if text else ():
            share = _share(written)
            if share is None:
                return Unreadable(f"the HAMi annotation has a device in an unknown form: {shown(written)}")
            shares.append(share)
        containers.append(tuple(shares))
    return tuple(containers)


def _share(written: str) -> HamiShare | None:
    fields = written.split(",")
    if len(fields) != _FIELDS:
        return None
    name, kind, memory, cores = fields
    device = by_nvidia_uuid(name) or _slot(name)
    if device is None or not _COUNT.fullmatch(memory) or not _COUNT.fullmatch(cores):
        return None
    return HamiShare(device, kind, int(memory), int(cores))


def _slot(name: str) -> HamiSlot | None:
    found = _TEMPLATE.fullmatch(name)
    gpu = by_nvidia_uuid(found[1]) if found else None
    return HamiSlot(gpu, int(found[2]), int(found[3])) if found and isinstance(gpu, Gpu) else None


def kai_groups(labels: Mapping[str, str]) -> frozenset[str]:
    """Return the GPU groups of a pod, empty for a pod of none.

    The owners of a GPU are the pods of the group that its reservation pod is in. Only values are read, as KAI reads
    them (pkg/binder/common): of a pod with several GPUs the labels are `runai-gpu-group/<group>: <group>`.
    """
    return frozenset(
        value
        for key, value in labels.items()
        if value and (key == KAI_GROUP or key.startswith(KAI_GROUP_PREFIX))
    )


def kai_reservation(
    namespace: str, labels: Mapping[str, str], reservations: str = KAI_RESERVATIONS
) -> str | Unreadable | None:
    """Return the GPU group that a reservation pod holds its GPU for; None for a pod that is no reservation.

    Only the namespace makes it one: a label alone is anybody's. `reservations` is the namespace's name, where the
    installation has changed it.
    """
    if namespace != reservations:
        return None
    groups = kai_groups(labels)
    if len(groups) != 1:
        return Unreadable(f"a reservation pod is in {len(groups)} GPU groups, not in one")
    return next(iter(groups))
