"""What a device is called: the values that ids are read as. Shapes only.

A value names a device and promises nothing about it: whether there is such a device is for NVML to say. Two values
may name one device (a MIG slice by its own UUID, and by parent and instances); only the list of devices can tell.
"""

from __future__ import annotations

import msgspec

from policy.unreadable import Unreadable


class Gpu(msgspec.Struct, frozen=True):
    """A whole GPU by UUID: `GPU-` and 36 characters, in lower case as NVML writes it (nvml.h, nvmlDeviceGetUUID)."""

    uuid: str


class GpuMinor(msgspec.Struct, frozen=True):
    """A whole GPU by device minor: the N of /dev/nvidiaN, which is not the index that NVML counts by."""

    minor: int


class GpuIndex(msgspec.Struct, frozen=True):
    """A whole GPU by NVML index. The order is by PCI address and may differ after a reboot."""

    index: int


class EveryGpu(msgspec.Struct, frozen=True):
    """Each GPU of the node: the id `all`."""


class MigSlice(msgspec.Struct, frozen=True):
    """A MIG slice by UUID: `MIG-` and 36 characters, since driver R470.

    Whether the UUID stays when the slice is destroyed and made again is not documented: never keep it over cycles.
    """

    uuid: str


class MigInstance(msgspec.Struct, frozen=True):
    """A MIG slice by its parent and instances; `compute_instance` is None where the id names the GPU instance only."""

    parent: Gpu | GpuMinor
    gpu_instance: int
    compute_instance: int | None = None


Physical = Gpu | GpuMinor | GpuIndex | EveryGpu | MigSlice | MigInstance


class Replica(msgspec.Struct, frozen=True):
    """One of several ids for one device (time-slicing, MPS, GKE sharing): the device then has a set of owners.

    `number` counts from 0 and is for display: no replica is a part of the device of its own.
    """

    of: Physical
    number: int


class SchedulerSlot(msgspec.Struct, frozen=True):
    """An id that only counts (HAMi): the device in use is in the pod's annotation and may be another than `hint`."""

    hint: Gpu | MigSlice
    number: int


class Unverifiable(msgspec.Struct, frozen=True):
    """A device whose form is known and whose users NVML cannot list. `replica` is None where it is not shared."""

    vendor: str
    device: str
    replica: int | None = None


class NotGpu(msgspec.Struct, frozen=True):
    """A device that is none of a GPU, such as a network card under nvidia.com/."""


class DraDevice(msgspec.Struct, frozen=True):
    """A device of Dynamic Resource Allocation: only ResourceSlices say what is behind the names.

    `share` is the share_id of a device that several claims hold (since 1.35), empty where there is none.
    """

    driver: str
    pool: str
    device: str
    share: str = ""


DeviceId = Physical | Replica | SchedulerSlot | Unverifiable | NotGpu


def physical(device: DeviceId) -> Physical | Unreadable:
    """Return the device that NVML can be asked about; two replicas of one device give equal values.

    Unreadable where the id does not say: a verdict that needs the device is then withheld.
    """
    match device:
        case Replica(of=of):
            return of
        case SchedulerSlot():
            return Unreadable("the id only counts; the pod's hami.io annotation names the device in use")
        case Unverifiable(vendor=vendor):
            return Unreadable(f"NVML does not list the processes of {vendor} devices")
        case NotGpu():
            return Unreadable("the device is no GPU")
        case _:
            return device
