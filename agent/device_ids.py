"""Device ids as plugins register them with the kubelet: one table from resource name to parser.

This is the only place that knows which plugin writes which id. Sources, at the commits read: DP is
NVIDIA/k8s-device-plugin 1b826acc, GKE is GoogleCloudPlatform/container-engine-accelerators 992db812, HAMI is
Project-HAMi/HAMi 4707fb02, AMD is ROCm/k8s-device-plugin 0821507d, INTEL is
intel/intel-device-plugins-for-kubernetes 01b5fb2b, DCGMX is NVIDIA/dcgm-exporter d5e5f510.

An id is read only as exactly what a plugin writes: no spaces, no upper-case hex, no leading zeros. So two ids that
differ are never the same value, and an id that nobody is known to write is Unreadable, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

import msgspec

from agent.devices import (
    DeviceId,
    EveryGpu,
    Gpu,
    GpuIndex,
    GpuMinor,
    MigInstance,
    MigSlice,
    NotGpu,
    Replica,
    SchedulerSlot,
    Unverifiable,
)
from policy.gpu import NOT_GPU
from policy.text import shown
from policy.unreadable import Unreadable

# Returns None for an id whose form it does not know.
Parser = Callable[[str], DeviceId | None]

# The longest id known is an old MIG id of a replica, 60 characters; NVML's own buffer has 96.
LONGEST_ID: Final = 256

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NUMBER = r"(0|[1-9][0-9]{0,8})"

_GPU: Final = re.compile(rf"GPU-{_UUID}")
_MIG: Final = re.compile(rf"MIG-{_UUID}")
_OLD_MIG: Final = re.compile(rf"MIG-(GPU-{_UUID})/{_NUMBER}/{_NUMBER}")
_REPLICA: Final = re.compile(rf"(.+)::{_NUMBER}")
_SLOT: Final = re.compile(rf"((?:GPU|MIG)-{_UUID})-{_NUMBER}")
_GKE: Final = re.compile(rf"nvidia{_NUMBER}(?:/gi{_NUMBER})?(?:/vgpu{_NUMBER})?")
_PATH: Final = re.compile(rf"/dev/nvidia{_NUMBER}")
_INDEX: Final = re.compile(_NUMBER)
_AMD: Final = re.compile(
    r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|amdgpu_xcp_(?:0|[1-9][0-9]{0,8}))"
    rf"(?:-slice-{_NUMBER})?"
)
_INTEL: Final = re.compile(rf"(card(?:0|[1-9][0-9]{{0,8}}))-{_NUMBER}")


class Entry(msgspec.Struct, frozen=True):
    """A row of the table. In `resources` a `*` stands for any characters, as in the policy's tables."""

    resources: str
    parser: Parser


def parse(resource: str, device_id: str, table: tuple[Entry, ...] | None = None) -> DeviceId | Unreadable:
    """Return what the id names, by the first row whose `resources` the resource matches.

    Unreadable where no row matches, and where the row's plugin writes no such id. A plugin of one's own is one row
    more: `parse(resource, device_id, (Entry("example.com/gpu", by_index), *TABLE))`.
    """
    row = _built_in_row(resource) if table is None else _row(resource, table)
    if row is None:
        return Unreadable(f"no device plugin is known for the resource {shown(resource)}")
    found = row.parser(device_id) if len(device_id) <= LONGEST_ID else None
    if found is None:
        return Unreadable(f"no known plugin of {shown(resource)} writes the device id {shown(device_id)}")
    return found


def _row(resource: str, table: tuple[Entry, ...]) -> Entry | None:
    # NOT_GPU is in lower case: admins name those resources themselves.
    return next((row for row in table if fnmatchcase(resource.lower(), row.resources)), None)


@lru_cache(maxsize=256)  # a node has a handful of resources, and hundreds of ids of each
def _built_in_row(resource: str) -> Entry | None:
    return _row(resource, TABLE)


def by_nvidia_uuid(device_id: str) -> Gpu | MigSlice | MigInstance | None:
    """Read a UUID as NVML writes it: GPU, MIG since R470, MIG before (`MIG-GPU-<uuid>/<gi>/<ci>`)."""
    if _GPU.fullmatch(device_id):
        return Gpu(device_id)
    if _MIG.fullmatch(device_id):
        return MigSlice(device_id)
    if old := _OLD_MIG.fullmatch(device_id):
        return MigInstance(Gpu(old[1]), int(old[2]), int(old[3]))
    return None


def by_nvidia_plugin(device_id: str) -> DeviceId | None:
    """Read an id of NVIDIA's plugin: a UUID, `all` under WSL, or a replica of one, `<uuid>::<n>`.

    DP internal/rm/devices.go:249-255. With time-slicing and with MPS alike. DEVICE_ID_STRATEGY=index changes what
    the runtime gets, not what the kubelet gets (DP internal/plugin/server.go), so that a bare index is not read.
    """
    shared = _REPLICA.fullmatch(device_id)
    name = shared[1] if shared else device_id
    device = EveryGpu() if name == "all" else by_nvidia_uuid(name)
    return Replica(device, int(shared[2])) if device and shared else device


def by_gke(device_id: str) -> DeviceId | None:
    """Read an id of GKE's plugin: `nvidia0`, `nvidia0/gi3`, `nvidia0/vgpu1`, `nvidia0/gi0/vgpu0`; N is the minor.

    GKE pkg/gpu/nvidia/manager.go:195, gpusharing/gpusharing.go:58-75; DCGMX reads gi as the GPU instance.
    """
    found = _GKE.fullmatch(device_id)
    if found is None:
        return None
    minor, instance, share = found.groups()
    gpu = GpuMinor(int(minor))
    device = gpu if instance is None else MigInstance(gpu, int(instance))
    return device if share is None else Replica(device, int(share))


def by_hami(device_id: str) -> DeviceId | None:
    """Read an id of HAMi: `<uuid>-<n>`. It says that a share was given, not of which GPU (agent.sharing does).

    HAMI pkg/device-plugin/nvidiadevice. A MIG slice may be registered with its bare UUID, as NVIDIA's plugin does.
    """
    found = _SLOT.fullmatch(device_id)
    if found is None:
        return by_nvidia_uuid(device_id)
    hint = Gpu(found[1]) if found[1].startswith("GPU-") else MigSlice(found[1])
    return SchedulerSlot(hint, int(found[2]))


def by_any_nvidia(device_id: str) -> DeviceId | None:
    """Read an id of whichever plugin serves nvidia.com/ on this node: their forms exclude each other."""
    return by_nvidia_plugin(device_id) or by_gke(device_id) or by_hami(device_id)


def by_index(device_id: str) -> DeviceId | None:
    """Read a bare NVML index. No plugin in the table writes it: for a row of one's own."""
    return GpuIndex(int(device_id)) if _INDEX.fullmatch(device_id) else None


def by_path(device_id: str) -> DeviceId | None:
    """Read the path of a device node, /dev/nvidiaN. No plugin in the table writes it: for a row of one's own."""
    found = _PATH.fullmatch(device_id)
    return GpuMinor(int(found[1])) if found else None


def by_amd(device_id: str) -> DeviceId | None:
    """Read an id of AMD's plugin: a PCI address or `amdgpu_xcp_<n>`, either with `-slice-<n>`.

    AMD amdgpu.go, timeslice.go.
    """
    found = _AMD.fullmatch(device_id)
    return Unverifiable("AMD", found[1], _number(found[2])) if found else None


def by_intel(device_id: str) -> DeviceId | None:
    """Read an id of Intel's plugin: `card<N>-<i>`, i from 0 to the number of shares less one.

    INTEL cmd/gpu_plugin/gpu_plugin.go, scan().
    """
    found = _INTEL.fullmatch(device_id)
    return Unverifiable("Intel", found[1], int(found[2])) if found else None


def by_intel_monitor(device_id: str) -> DeviceId | None:
    """Read the id of a monitoring resource: `all`, with access to each GPU of the node (INTEL gpu_plugin.go)."""
    return Unverifiable("Intel", "all") if device_id == "all" else None


def no_gpu(device_id: str) -> DeviceId | None:  # noqa: ARG001 - the same signature as every parser
    """Read any id of a resource that is no GPU."""
    return NotGpu()


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


# First match wins. Renamed and shared resources of NVIDIA's plugin are under nvidia.com/ too (DP internal/resource,
# api/config/v1/consts.go:26), and GKE's plugin and HAMi serve nvidia.com/gpu themselves.
TABLE: Final = (
    *(Entry(name, no_gpu) for name in NOT_GPU),
    Entry("nvidia.com/*", by_any_nvidia),
    Entry("alpha.kubernetes.io/nvidia-gpu", by_any_nvidia),
    Entry("hami.io/*", by_hami),
    Entry("amd.com/gpu", by_amd),
    Entry("amd.com/gpu_*", by_amd),
    Entry("amd.com/*_nps*", by_amd),
    Entry("gpu.intel.com/*_monitoring", by_intel_monitor),
    Entry("gpu.intel.com/*", by_intel),
)
