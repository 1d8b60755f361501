"""The kubelet's device checkpoint as values: /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint.

It has what PodResources lacks, the pod's uid and the devices of init containers, and it goes stale: the entry of a
freed pod stays until the next allocation, and an init container and an app container of one pod may both hold an
id (seen on 1.21.3). So it is a second opinion, and no proof that a pod still has a device.

Shape: kubernetes pkg/kubelet/cm/devicemanager/checkpoint, as of 1.8 with `Data` and `Checksum`. `AllocResp` holds
the environment that the plugin set; it is never kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.kubelet.bounded import decode_part, decode_text
from policy.text import shown
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from policy.pod import ContainerKind

# An entry takes about 400 bytes, mostly AllocResp (2 kB with many mounts); 500 pods with four entries make 4 MB.
MAX_BYTES: Final = 8 * 1024 * 1024
# 500 pods with 64 ids each, all of them registered too, make about 100,000.
MAX_ELEMENTS: Final = 250_000

# What kinds of containers have entries; ephemeral ones may not request resources.
COVERS: Final[frozenset[ContainerKind]] = frozenset({"init", "sidecar", "app"})

_WHAT: Final = "the checkpoint"

NO_TOPOLOGY: Final = -1  # the key that the kubelet writes for a device without a NUMA node


class Placed(msgspec.Struct, frozen=True):
    """Ids of one NUMA node. `node` is None in the flat form (up to 1.19), and NO_TOPOLOGY where a device has none."""

    node: int | None
    ids: tuple[str, ...]


class Allocation(msgspec.Struct, frozen=True):
    """What one container was given of one resource, at some time. A device with two NUMA nodes is placed twice."""

    pod_uid: str
    container: str
    resource: str
    placed: tuple[Placed, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Each id once, sorted."""
        return tuple(sorted({device for place in self.placed for device in place.ids}))


class Registered(msgspec.Struct, frozen=True):
    """The ids that the plugin of a resource had registered, sorted. They may be gone by now, or unhealthy."""

    resource: str
    ids: tuple[str, ...] | Unreadable


class Checkpoint(msgspec.Struct, frozen=True):
    """The file. Each allocation and each resource is readable or not by itself.

    `checksum` is carried, to tell two versions of the file apart, and proves nothing: it is FNV-32a over Go's dump of
    the data, which differs between releases of the kubelet and can be had only with its printer. A file that was torn
    is not JSON; one that was forged would have a right checksum. `boot_id` is written by the newest kubelets.
    """

    allocations: tuple[Allocation | Unreadable, ...]
    registered: tuple[Registered, ...] | Unreadable
    checksum: int | Unreadable
    boot_id: str | None = None


class _Outer(msgspec.Struct):
    Data: msgspec.Raw
    Checksum: msgspec.Raw = msgspec.Raw(b"null")
    BootID: msgspec.Raw = msgspec.Raw(b"null")


class _Data(msgspec.Struct):
    """Go writes null for an empty list, and leaves no key out: an absent key is another format."""

    PodDeviceEntries: list[msgspec.Raw] | None
    RegisteredDevices: msgspec.Raw


class _Entry(msgspec.Struct):
    PodUID: str
    ContainerName: str
    ResourceName: str
    DeviceIDs: list[str] | dict[str, list[str] | None] | None


def read_checkpoint(text: bytes) -> Checkpoint | Unreadable:
    """Return the checkpoint; Unreadable where the text as a whole is none. Never raises."""
    outer = decode_text(text, _Outer, _WHAT, max_bytes=MAX_BYTES, max_elements=MAX_ELEMENTS)
    if isinstance(outer, Unreadable):
        return outer
    data = decode_part(outer.Data, _Data, _WHAT)
    if isinstance(data, Unreadable):
        return data
    checksum = decode_part(outer.Checksum, int, _WHAT)
    boot_id = decode_part(outer.BootID, str | None, _WHAT)
    return Checkpoint(
        tuple(_allocation(raw) for raw in data.PodDeviceEntries or ()),
        _registered(data.RegisteredDevices),
        checksum,
        None if isinstance(boot_id, Unreadable) else boot_id,
    )


def _allocation(raw: msgspec.Raw) -> Allocation | Unreadable:
    entry = decode_part(raw, _Entry, _WHAT)
    if isinstance(entry, Unreadable):
        return entry
    if not (entry.PodUID and entry.ContainerName and entry.ResourceName):
        return Unreadable("an entry of the checkpoint lacks its pod, container or resource")
    placed = _placed(entry.DeviceIDs)
    if isinstance(placed, Unreadable):
        return placed
    return Allocation(entry.PodUID, entry.ContainerName, entry.ResourceName, placed)


def _placed(written: list[str] | dict[str, list[str] | None] | None) -> tuple[Placed, ...] | Unreadable:
    if written is None:
        return ()
    places: list[tuple[int | None, list[str]]] = []
    if isinstance(written, list):
        places.append((None, written))
    else:
        for key, ids in written.items():
            node = _node(key)
            if node is None:
                return Unreadable(f"the checkpoint has the NUMA node {shown(key)}")
            places.append((node, ids or []))
    if any("" in ids for _, ids in places):
        return Unreadable("the checkpoint has an empty device id")
    return tuple(
        Placed(node, tuple(sorted(set(ids))))
        for node, ids in sorted(places, key=lambda place: NO_TOPOLOGY if place[0] is None else place[0])
    )


def _node(key: str) -> int | None:
    """Return the key as Go prints an int64, or None."""
    try:
        node = int(key[:20])
    except ValueError:
        return None
    return node if str(node) == key and node >= NO_TOPOLOGY else None


def _registered(raw: msgspec.Raw) -> tuple[Registered, ...] | Unreadable:
    written = decode_part(raw, dict[str, msgspec.Raw] | None, _WHAT)
    if isinstance(written, Unreadable):
        return written
    return tuple(Registered(name, _ids(ids)) for name, ids in sorted((written or {}).items()))


def _ids(raw: msgspec.Raw) -> tuple[str, ...] | Unreadable:
    ids = decode_part(raw, list[str] | None, _WHAT)
    if isinstance(ids, Unreadable):
        return ids
    return (
        Unreadable("a registered device has an empty id")
        if "" in (ids or ())
        else tuple(sorted(set(ids or ())))
    )
