"""GF401 to GF404: how many devices, of which kind, and whether that can work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.model import RuleHit
from policy.pointer import escape
from policy.quantity import is_whole
from policy.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from policy.facts import ContainerFacts, DeviceRequest, Facts
    from policy.model import Team
    from policy.selectors import Patterns

# Replica resources of the device plugin (NVIDIA/k8s-device-plugin api/config/v1/consts.go:26).
_SHARED_SUFFIX = ".shared"


def request_hits(facts: Facts, team: Team | None) -> list[RuleHit]:
    """Return the hits of the request rules. Limits and grants are those of the team, so none without a team."""
    if not facts.requests_device:
        return []
    hits: list[RuleHit] = []
    for container in facts.containers:
        if not container.requests:
            continue
        hits += _quantities(container)
        hits += _shapes(container)
        if team is not None and team.resources is not None:
            hits += _grants(container, team, team.resources)
    if team is not None:
        hits += _limits(facts, team)
    return hits


def pod_total(facts: Facts, patterns: Patterns) -> int:
    """Return how many devices of matching resources the pod holds at once.

    Ordinary init containers run one after another and hand their devices on; sidecars hold theirs from their start to
    the end of the pod (kubernetes/kubernetes pkg/kubelet/cm/devicemanager devicesToReuse, KEP-753).
    """
    sidecars = highest_init = 0
    apps = 0
    for container in facts.containers:
        count = _count(container, patterns)
        if container.view.kind == "init":
            highest_init = max(highest_init, sidecars + count)
        elif container.view.kind == "sidecar":
            sidecars += count
        else:
            apps += count
    return max(highest_init, sidecars + apps)


def _count(container: ContainerFacts, patterns: Patterns) -> int:
    amounts: dict[str, int] = {}
    for request in container.requests:
        if request.counted and request.amount is not None and patterns.match(request.resource):
            # A request that differs from its limit is listed too: the larger one counts.
            amounts[request.resource] = max(amounts.get(request.resource, 0), int(request.amount))
    return sum(amounts.values())


def _quantities(container: ContainerFacts) -> Iterator[RuleHit]:
    for request in container.requests:
        if request.amount is None or not is_whole(request.amount):
            message = f"requests {shown(request.written)} of {request.resource}, which is not a whole number of devices"
            yield RuleHit("GF401", "any", message, _pointer(container, request), container.view.name)


def _grants(container: ContainerFacts, team: Team, granted: Patterns) -> Iterator[RuleHit]:
    names = ", ".join(granted.written)
    for request in container.requests:
        if not granted.match(request.resource):
            message = f"requests {request.resource}, not granted to team {team.name}; granted: {names}"
            yield RuleHit("GF403", "any", message, _pointer(container, request), container.view.name)


def _limits(facts: Facts, team: Team) -> Iterator[RuleHit]:
    for written, patterns, limit in team.max_per_pod:
        total = pod_total(facts, patterns)
        if total > limit:
            message = f"the pod holds {total} of {written}; team {team.name} may have {limit} in one pod"
            yield RuleHit("GF402", "any", message, "/spec")


def _shapes(container: ContainerFacts) -> Iterator[RuleHit]:
    slices = _whole_sum(container, lambda name: "/mig-" in name and not name.endswith(_SHARED_SUFFIX))
    if slices > 1:
        message = f"requests {slices} MIG slices; a CUDA process uses one"
        yield RuleHit("GF404", "any", message, container.view.pointer + "/resources", container.view.name)
    replicas = _whole_sum(container, lambda name: name.endswith(_SHARED_SUFFIX))
    if replicas > 1:
        message = f"requests {replicas} replicas of shared GPUs; they may be the same card"
        yield RuleHit("GF404", "any", message, container.view.pointer + "/resources", container.view.name)


def _whole_sum(container: ContainerFacts, chosen: Callable[[str], bool]) -> int:
    amounts: dict[str, int | Fraction] = {}
    for request in container.requests:
        if request.amount is not None and chosen(request.resource):
            amounts[request.resource] = max(amounts.get(request.resource, 0), request.amount)
    return int(sum(amounts.values()))


def _pointer(container: ContainerFacts, request: DeviceRequest) -> str:
    key = escape(request.resource)
    limits = (container.view.raw.get("resources") or {}).get("limits") or {}
    kind = "limits" if limits.get(request.resource) == request.written else "requests"
    return f"{container.view.pointer}/resources/{kind}/{key}"
