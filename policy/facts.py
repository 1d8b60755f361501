"""What the rule families agree on about a pod, worked out once: who requests which devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from policy.gpu import SHARING_PROVIDERS
from policy.quantity import parse_quantity

if TYPE_CHECKING:
    from fractions import Fraction

    from policy.gpu import SharingProvider
    from policy.model import Policy, ResourceGroup, Vendor
    from policy.pod import ContainerView, PodView


class DeviceRequest(msgspec.Struct, frozen=True, gc=False):
    """One GPU resource that a container names.

    `counted`: the name means devices (not a share such as gpumem). `amount` is None where what is written is no
    quantity; `written` is that text.
    """

    resource: str
    vendor: Vendor
    counted: bool
    amount: int | Fraction | None
    written: Any


class ContainerFacts(msgspec.Struct, frozen=True):
    """A container and its right to a GPU.

    `gpu` withholds `void`: an NVIDIA device plugin may serve one of its resources, or an enabled sharing provider
    gives it a share. Claims (DRA) and other vendors' resources do not: CDI sets `void` by itself.
    """

    view: ContainerView
    requests: tuple[DeviceRequest, ...]
    gpu: bool
    provided: bool


class Facts(msgspec.Struct, frozen=True):
    """A pod with the rights of its judged containers. `requests_gpu` covers every vendor, shares and claims."""

    pod: PodView
    containers: tuple[ContainerFacts, ...]
    requests_gpu: bool
    requests_device: bool  # the same without claims, which may be for something else


_NO_FACTS: tuple[DeviceRequest, ...] = ()


def facts_of(pod: PodView, policy: Policy) -> Facts:
    """Work out the rights of each container of the pod."""
    provided = provided_container(pod, policy)
    containers = tuple([_container_facts(view, policy, view.name == provided) for view in pod.containers])
    everyone = (
        containers
        if pod.whole
        else tuple(_container_facts(v, policy, v.name == provided) for v in pod.all_containers)
    )
    requests_device = any([facts.requests or facts.provided for facts in everyone])
    return Facts(pod, containers, requests_device or pod.has_claims(), requests_device)


def _container_facts(view: ContainerView, policy: Policy, provided: bool) -> ContainerFacts:
    requests = device_requests(view, policy) if view.resources else _NO_FACTS
    # A container that requests a device by itself gets it from the device plugin, and no leave for a ConfigMap.
    provided = provided and view.kind != "ephemeral" and not requests
    gpu = provided or any([request.vendor == "nvidia" for request in requests])
    return ContainerFacts(view, requests, gpu, provided)


def device_requests(view: ContainerView, policy: Policy) -> tuple[DeviceRequest, ...]:
    """Return the GPU resources that the container names with a quantity that is not zero."""
    found = []
    for resource, written in view.resources:
        group = resource_group(resource, policy)
        if group is None:
            continue
        amount = parse_quantity(written)
        if amount != 0:
            counted = not group.attributes.match(resource)
            found.append(DeviceRequest(resource, group.vendor, counted, amount, written))
    return tuple(found)


def resource_group(resource: str, policy: Policy) -> ResourceGroup | None:
    """Return the group of GPU resources that the name belongs to, or None where it is no GPU."""
    for group in policy.resources:
        if group.devices.match(resource) or group.attributes.match(resource):
            return None if policy.not_gpu.match(resource.lower()) else group
    return None


def provided_container(pod: PodView, policy: Policy) -> str | None:
    """Return the name of the container that an enabled sharing provider gives a GPU, or None."""
    for name in policy.sharing_providers:
        provider = SHARING_PROVIDERS[name]
        if _provider_serves(pod, provider):
            named = pod.annotations.get(provider.container_annotation)
            return named or _first_app_container(pod)
    return None


def _provider_serves(pod: PodView, provider: SharingProvider) -> bool:
    """Whether the provider's scheduler will place the pod and give it what the annotation asks for."""
    asked = any(_is_amount(pod.annotations.get(annotation)) for annotation in provider.annotations)
    return asked and pod.text("schedulerName") in provider.schedulers and not pod.placed


def _is_amount(text: str | None) -> bool:
    amount = parse_quantity(text) if text else None
    return amount is not None and amount > 0


def _first_app_container(pod: PodView) -> str | None:
    return next((view.name for view in pod.all_containers if view.kind == "app"), None)
