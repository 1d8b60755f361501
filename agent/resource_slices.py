"""ResourceSlices (resource.k8s.io) tell what is behind a device of Dynamic Resource Allocation.

Names of devices are not parsed: `gpu-0` was an index in older releases of NVIDIA's driver and is a minor number now
(kubernetes-sigs/dra-driver-nvidia-gpu 95932046, cmd/gpu-kubelet-plugin/deviceinfo.go:125). What counts is the
attribute `uuid` of the device in its slice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.device_ids import by_nvidia_uuid
from agent.devices import DraDevice, Gpu, MigInstance, MigSlice, NotGpu
from policy.text import shown
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Raw = dict[str, Any]


class Resolved(msgspec.Struct, frozen=True):
    """A GPU, or a MIG slice with its parent and its profile (such as `1g.10gb`) where the slice tells them."""

    device: Gpu | MigSlice | MigInstance
    parent: Gpu | None = None
    profile: str | None = None


Resolution = Resolved | NotGpu | Unreadable


class _Pool(msgspec.Struct, frozen=True):
    name: str
    generation: int
    resourceSliceCount: int = 1  # noqa: N815 - as written


class _Spec(msgspec.Struct, frozen=True):
    """`devices` are raw: one device that cannot be read leaves the others readable."""

    driver: str
    pool: _Pool
    devices: list[Any] | None = None


class _Slice(msgspec.Struct, frozen=True):
    spec: _Spec


def resolve(device: DraDevice, slices: Iterable[object]) -> Resolution:
    """Return what the device is, by the ResourceSlices of its node (raw JSON, resource.k8s.io/v1alpha3 or later).

    Of a pool only the slices of the highest generation count; older ones are about to be deleted. A device that a
    pool which is not wholly published does not name is Unreadable, as is one that two slices name differently.
    """
    reader = _DRIVERS.get(device.driver)
    if reader is None:
        return Unreadable(f"no driver is known that is called {shown(device.driver)}")
    specs = []
    for raw in slices:
        spec = _spec(raw)
        if isinstance(spec, Unreadable):
            return spec  # it may be the newest of this very pool
        if (spec.driver, spec.pool.name) == (device.driver, device.pool):
            specs.append(spec)
    newest = max((spec.pool.generation for spec in specs), default=0)
    current = [spec for spec in specs if spec.pool.generation == newest]
    named = [
        raw
        for spec in current
        for raw in spec.devices or ()
        if isinstance(raw, dict) and raw.get("name") == device.device
    ]
    if not named:
        return Unreadable(_absence(device, current))
    found = [reader(device, _attributes(device.driver, raw)) for raw in named]
    if any(other != found[0] for other in found):
        return Unreadable(f"two ResourceSlices differ about the device {_shown(device)}")
    return found[0]


def _spec(raw: object) -> _Spec | Unreadable:
    try:
        return msgspec.convert(raw, _Slice).spec
    except (msgspec.ValidationError, RecursionError) as error:
        return Unreadable(f"a ResourceSlice cannot be read: {error}")


def _absence(device: DraDevice, current: list[_Spec]) -> str:
    if not current:
        return f"no ResourceSlice is there for the pool of {_shown(device)}"
    expected = max(spec.pool.resourceSliceCount for spec in current)
    if len(current) < expected:
        return f"{len(current)} of {expected} ResourceSlices are there, none with {_shown(device)}"
    return f"no ResourceSlice names the device {_shown(device)}"


def _attributes(driver: str, raw: Raw) -> Mapping[str, Any]:
    """Return the attributes by name without the driver's own domain; up to v1beta1 they are under `basic`."""
    basic = raw.get("basic")
    written = (basic if isinstance(basic, dict) else raw).get("attributes")
    if not isinstance(written, dict):
        return {}
    # Both spellings of a name mean one attribute, which may then be there once only: the API refuses duplicates.
    return {str(name).removeprefix(f"{driver}/"): value for name, value in written.items()}


def _text(attributes: Mapping[str, Any], name: str) -> str | None:
    value = attributes.get(name)
    text = value.get("string") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def _nvidia_gpu(device: DraDevice, attributes: Mapping[str, Any]) -> Resolution:
    """Read a device of gpu.nvidia.com (deviceinfo.go:175-300, mig.go:140-150)."""
    kind, uuid = _text(attributes, "type"), _text(attributes, "uuid")
    if kind not in ("gpu", "mig"):
        # A GPU under vfio belongs to a virtual machine: NVML of the node does not see it.
        return Unreadable(f"the device {_shown(device)} is of type {shown(kind)}, which NVML does not show")
    if uuid is None:
        # With dynamic MIG the slice is made when the claim is prepared, and no ResourceSlice has its UUID.
        return Unreadable(f"the ResourceSlice has no uuid for the device {_shown(device)}")
    found = by_nvidia_uuid(uuid)
    if found is None or isinstance(found, Gpu) != (kind == "gpu"):
        return Unreadable(f"the device {_shown(device)} of type {kind} has the uuid {shown(uuid)}")
    if isinstance(found, Gpu):
        return Resolved(found)
    parent = by_nvidia_uuid(_text(attributes, "parentUUID") or "")
    return Resolved(found, parent if isinstance(parent, Gpu) else None, _text(attributes, "profile"))


def _no_gpu(device: DraDevice, attributes: Mapping[str, Any]) -> Resolution:  # noqa: ARG001 - as every reader
    return NotGpu()


def _shown(device: DraDevice) -> str:
    return shown(f"{device.driver}/{device.pool}/{device.device}")


# compute-domain.nvidia.com gives IMEX channels, which open the memory of other nodes and no GPU of this one.
_DRIVERS: Final[dict[str, Callable[[DraDevice, Mapping[str, Any]], Resolution]]] = {
    "gpu.nvidia.com": _nvidia_gpu,
    "compute-domain.nvidia.com": _no_gpu,
}
