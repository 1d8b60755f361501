"""What /validate says of objects that are no pods: a bad GpuPolicy is refused, a workload is warned about its pods.

A template is never refused and never patched: the object is its owner's, and tools that compare it with a file would
find a difference. Its pods are judged when they are made; the warning says early what will come of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from policy.decide import mutate
from policy.default import NAME
from policy.errors import MalformedPod, PolicyError
from policy.load import load_policy
from policy.pod import controller_of, pod_view
from policy.templates import Item, find
from policy.unreadable import Unreadable
from policy.wording import of_template

if TYPE_CHECKING:
    from policy.model import Context, Policy
    from webhook.reviews import AdmissionRequest

# (API group, resource) -> kind of the workloads of Kubernetes itself that hold a pod template.
_WORKLOADS = {
    ("apps", "deployments"): "Deployment",
    ("apps", "statefulsets"): "StatefulSet",
    ("apps", "daemonsets"): "DaemonSet",
    ("apps", "replicasets"): "ReplicaSet",
    ("batch", "jobs"): "Job",
    ("batch", "cronjobs"): "CronJob",
}
_POLICIES = ("gpufence.io", "gpupolicies")
_BUILT_IN_FOLLOWS = "without this GpuPolicy the built-in policy is in force: profile baseline, no teams"
_PROBLEMS_TOLD = 20  # kubectl prints the message as one block; `gpufence policy check` lists all


class Opinion(msgspec.Struct, frozen=True):
    """Whether the object may be stored, why not, and what its author should know.

    `policy_version` is that of a GpuPolicy, empty where it cannot be put in force; None for other objects.
    """

    allowed: bool = True
    message: str = ""
    warnings: tuple[str, ...] = ()
    policy_version: str | None = None


NONE = Opinion()


def is_workload(request: AdmissionRequest) -> bool:
    """Whether the request is about a workload: then nothing, not even a fault of ours, refuses it."""
    resource = request.resource
    return resource is not None and (resource.group or "", resource.resource or "") in _WORKLOADS


def opinion(request: AdmissionRequest, policy: Policy | Unreadable, context: Context) -> Opinion:
    """Return the opinion on a GpuPolicy, or on a CREATE or UPDATE of a workload; NONE on everything else.

    A GpuPolicy is judged without any policy in force too: it may be the one that mends that.
    """
    resource, raw = request.resource, request.object
    if resource is None or request.sub_resource:
        return NONE
    if is_policy_request(request):
        return _of_policy_request(request)
    if request.operation not in {"CREATE", "UPDATE"}:
        return NONE
    asked = (resource.group or "", resource.resource or "")
    if asked in _WORKLOADS and isinstance(raw, dict) and not isinstance(policy, Unreadable):
        return _of_workload(Item(raw, f"{asked[0]}/{resource.version}", _WORKLOADS[asked]), policy, context)
    return NONE


def is_policy_request(request: AdmissionRequest) -> bool:
    """Whether the request is about a GpuPolicy or a part of one."""
    resource = request.resource
    return resource is not None and (resource.group or "", resource.resource or "") == _POLICIES


def _of_policy_request(request: AdmissionRequest) -> Opinion:
    if request.operation in {"CREATE", "UPDATE"}:
        return _of_policy(request.object)
    if request.operation == "DELETE" and request.name == NAME:
        return Opinion(warnings=(_BUILT_IN_FOLLOWS,), policy_version="")
    return NONE


def _of_policy(raw: object) -> Opinion:
    try:
        loaded = load_policy(raw)
    except PolicyError as error:
        lines = [str(problem) for problem in error.problems[:_PROBLEMS_TOLD]]
        if len(error.problems) > _PROBLEMS_TOLD:
            lines.append(
                f"and {len(error.problems) - _PROBLEMS_TOLD} more: gpufence policy check FILE lists all of them"
            )
        message = "\n".join(["the GpuPolicy cannot be put in force:", *lines])
        return Opinion(allowed=False, message=message, policy_version="")
    told = tuple(str(warning) for warning in loaded.warnings)
    return Opinion(warnings=told, policy_version=loaded.policy.version)


def _is_made_by_a_controller(raw: dict[str, Any]) -> bool:
    metadata = raw.get("metadata")
    try:
        return isinstance(metadata, dict) and controller_of(metadata) is not None
    except MalformedPod:
        return False  # the API server refuses the object itself


def _of_workload(item: Item, policy: Policy, context: Context) -> Opinion:
    if _is_made_by_a_controller(item.value):
        return NONE  # from an object that was warned about
    templates, _ = find(item)
    warnings: list[str] = []
    for template in templates:
        try:
            decision = mutate(pod_view(template.pod, controlled=True), policy, context)
        except MalformedPod:
            continue  # the API server refuses the object itself
        warnings += of_template(decision)
    return Opinion(warnings=tuple(warnings))
