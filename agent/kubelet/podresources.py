"""The answer of PodResources List as values: what the kubelet says each container holds.

API: k8s.io/kubelet pkg/apis/podresources/v1. The values are those of the gRPC answer too; here they are filled from
its JSON form with the field names of the proto, in which empty fields are absent.

The answer is no list of live users, and the values say so rather than hide it:

- It has no pod uid: two pods of one name (a StatefulSet's, deleted and made again) look alike.
- Only app containers and sidecars are listed (`COVERS`); the devices of init containers are in the checkpoint.
- Up to 1.33 finished pods stay listed, with devices whose ids are given to others already, or (seen on 1.21.3)
  without any. So one id under two holders is no offence by itself, and a container that is listed with nothing is
  finished, never asked, or not known to the kubelet any more.
- The devices of an app container are listed while its init containers still run.
- Of a claim every prepared device is listed for each container that names the claim, though the container may have
  asked for one request of it only: an upper bound, hence `prepared`.
- An extended resource that is served by a claim shows as a claim and as no device.
- Order changes from call to call, and a resource comes in several entries: values are merged and sorted, so that
  equal answers are equal values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import msgspec

from agent.devices import DraDevice
from agent.kubelet.bounded import decode_part, decode_text
from policy.text import shown
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.pod import ContainerKind

COVERS: Final[frozenset[ContainerKind]] = frozenset({"app", "sidecar"})

# A pod with one GPU takes about 300 bytes; 500 pods with 64 replicas each take about 10 MB.
MAX_BYTES: Final = 32 * 1024 * 1024
# The same pods make about 100,000.
MAX_ELEMENTS: Final = 500_000
_WHAT: Final = "the answer of PodResources"


class Held(msgspec.Struct, frozen=True):
    """The ids of one resource, each once and sorted. What they name: agent.device_ids."""

    resource: str
    ids: tuple[str, ...]


class Prepared(msgspec.Struct, frozen=True):
    """One device of a claim. `names` is Unreadable up to 1.30, which lists CDI ids only.

    `cdi_so_far` are CDI ids of this device and of those before it: the kubelet accumulates them over a driver's
    devices (pkg/kubelet/cm, GetDynamicResources). They identify no device.
    """

    names: DraDevice | Unreadable
    cdi_so_far: tuple[str, ...] = ()


class Claim(msgspec.Struct, frozen=True):
    """A ResourceClaim that a container names. `prepared` is an upper bound of what the container has.

    Whether it was allocated with adminAccess, and so excludes nobody, is only in the claim's own status.
    """

    namespace: str
    name: str
    prepared: tuple[Prepared, ...]


class Container(msgspec.Struct, frozen=True):
    """What a container is listed with."""

    name: str
    held: tuple[Held, ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def empty(self) -> bool:
        """Listed with nothing: finished, never asked, or not known any more. Not the same as owning nothing."""
        return not self.held and not self.claims


class Pod(msgspec.Struct, frozen=True):
    """A pod that the kubelet knows, running or not."""

    namespace: str
    name: str
    containers: tuple[Container, ...] | Unreadable


class Listing(msgspec.Struct, frozen=True):
    """The answer, sorted. A pod whose name cannot be read is Unreadable: any id may then have one more holder."""

    pods: tuple[Pod, ...]
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every pod could be read: only then are the holders of a device all of them."""
        return not self.unreadable and not any(isinstance(pod.containers, Unreadable) for pod in self.pods)


class Holder(msgspec.Struct, frozen=True, order=True):
    """A container that is listed with a device."""

    namespace: str
    pod: str
    container: str


def container(
    name: str, devices: Iterable[tuple[str, Iterable[str]]], claims: Iterable[Claim] = ()
) -> Container:
    """Return a container in the one form that equal answers share: resources merged, everything sorted."""
    ids: defaultdict[str, set[str]] = defaultdict(set)
    for resource, some in devices:
        ids[resource].update(some)
    held = tuple(Held(resource, tuple(sorted(ids[resource]))) for resource in sorted(ids) if ids[resource])
    return Container(name, held, tuple(sorted(claims, key=_claim_order)))


def listing(pods: Iterable[Pod | Unreadable]) -> Listing:
    """Return the answer in the one form that equal answers share. Pods of the same name are all kept."""
    readable, unreadable = [], []
    for pod in pods:
        if isinstance(pod, Pod):
            readable.append(_sorted(pod))
        else:
            unreadable.append(pod)
    return Listing(tuple(sorted(readable, key=_order)), tuple(sorted(unreadable, key=repr)))


def holders(answer: Listing) -> dict[tuple[str, str], tuple[Holder, ...]]:
    """Return, for each (resource, id), the containers that are listed with it, sorted.

    Their pods may be finished, and there may be more of them unless the listing is `complete`.
    """
    found: defaultdict[tuple[str, str], set[Holder]] = defaultdict(set)
    for holder, one in _containers(answer):
        for held in one.held:
            for device in held.ids:
                found[held.resource, device].add(holder)
    return {key: tuple(sorted(some)) for key, some in sorted(found.items())}


def claimants(answer: Listing) -> dict[DraDevice, tuple[Holder, ...]]:
    """Return, for each device of a claim, the containers that may have it, sorted: several may, and rightly."""
    found: defaultdict[DraDevice, set[Holder]] = defaultdict(set)
    for holder, one in _containers(answer):
        for claim in one.claims:
            for prepared in claim.prepared:
                if isinstance(prepared.names, DraDevice):
                    found[prepared.names].add(holder)
    return {device: tuple(sorted(some)) for device, some in found.items()}


def same_names(answer: Listing) -> frozenset[tuple[str, str]]:
    """Return the (namespace, name) that more than one pod is listed under: which is which, only the uid would say."""
    listed = Counter((pod.namespace, pod.name) for pod in answer.pods)
    return frozenset(key for key, times in listed.items() if times > 1)


class _ClaimResource(msgspec.Struct):
    cdi_devices: list[dict[str, str]] | None = None
    driver_name: str = ""
    pool_name: str = ""
    device_name: str = ""
    share_id: str | None = None


class _DynamicResource(msgspec.Struct):
    claim_name: str = ""
    claim_namespace: str = ""
    claim_resources: list[_ClaimResource] | None = None


class _Devices(msgspec.Struct):
    """`topology` is not read: no verdict needs the NUMA node."""

    resource_name: str = ""
    device_ids: list[str] | None = None


class _Container(msgspec.Struct):
    name: str = ""
    devices: list[_Devices] | None = None
    dynamic_resources: list[_DynamicResource] | None = None


class _Pod(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    containers: msgspec.Raw = msgspec.Raw(b"null")


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    """Another form of JSON (camelCase) must not pass for an answer without pods."""

    pod_resources: list[msgspec.Raw] | None = None


def read_listing(text: bytes) -> Listing | Unreadable:
    """Return the listing; Unreadable where the text as a whole is none. Never raises."""
    answer = decode_text(text, _Answer, _WHAT, max_bytes=MAX_BYTES, max_elements=MAX_ELEMENTS)
    if isinstance(answer, Unreadable):
        return answer
    return listing(_pod(raw) for raw in answer.pod_resources or ())


def _pod(raw: msgspec.Raw) -> Pod | Unreadable:
    pod = decode_part(raw, _Pod, _WHAT)
    if isinstance(pod, Unreadable):
        return pod
    if not (pod.name and pod.namespace):
        return Unreadable("a pod of PodResources lacks its name or namespace")
    written = decode_part(pod.containers, list[_Container] | None, _WHAT)
    containers = written if isinstance(written, Unreadable) else _all_of(written or [])
    return Pod(pod.namespace, pod.name, containers)


def _all_of(written: list[_Container]) -> tuple[Container, ...] | Unreadable:
    found = []
    for one in written:
        devices = [(entry.resource_name, entry.device_ids or []) for entry in one.devices or ()]
        if not one.name or any(not name or "" in ids for name, ids in devices):
            return Unreadable(
                f"the container {shown(one.name)} has a name, resource or device id that is empty"
            )
        claims = [_claim(entry) for entry in one.dynamic_resources or ()]
        found.append(container(one.name, devices, claims))
    return tuple(found)


def _claim(written: _DynamicResource) -> Claim:
    prepared = (_prepared(entry) for entry in written.claim_resources or ())
    # The kubelet goes through the drivers of a claim in the order of a Go map, which is none.
    return Claim(written.claim_namespace, written.claim_name, tuple(sorted(prepared, key=_prepared_order)))


def _prepared(written: _ClaimResource) -> Prepared:
    cdi = tuple(entry.get("name", "") for entry in written.cdi_devices or ())
    if not (written.driver_name and written.pool_name and written.device_name):
        return Prepared(Unreadable("the kubelet does not name the claim's device (before 1.31)"), cdi)
    names = DraDevice(written.driver_name, written.pool_name, written.device_name, written.share_id or "")
    return Prepared(names, cdi)


def _containers(answer: Listing) -> Iterable[tuple[Holder, Container]]:
    for pod in answer.pods:
        if not isinstance(pod.containers, Unreadable):
            for one in pod.containers:
                yield Holder(pod.namespace, pod.name, one.name), one


def _sorted(pod: Pod) -> Pod:
    if isinstance(pod.containers, Unreadable):
        return pod
    return Pod(pod.namespace, pod.name, tuple(sorted(pod.containers, key=lambda one: one.name)))


def _order(pod: Pod) -> tuple[str, str, str]:
    return pod.namespace, pod.name, repr(pod.containers)  # the last one for pods of one name


def _claim_order(claim: Claim) -> tuple[str, str, str]:
    return (
        claim.namespace,
        claim.name,
        repr(claim.prepared),
    )  # the last one where a container names a claim twice


def _prepared_order(prepared: Prepared) -> tuple[str, str, str, str, tuple[str, ...]]:
    names = prepared.names
    if isinstance(names, Unreadable):
        return "", "", "", "", prepared.cdi_so_far
    return names.driver, names.pool, names.device, names.share, prepared.cdi_so_far
