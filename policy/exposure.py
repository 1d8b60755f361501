"""GF201 to GF207: ways around the visibility variable through the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.gpu import GPU_NODE_PREFIXES, MPS_PIPE_PATHS, MPS_PIPE_VARIABLE
from policy.model import RuleHit
from policy.paths import node_path, touches, within
from policy.text import shown
from policy.visibility import is_device_annotation, is_device_mount, is_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.facts import ContainerFacts, Facts
    from policy.model import Policy
    from policy.pod import ContainerView, PodView

_ADMIN_CAPABILITIES = {"SYS_ADMIN", "ALL"}


def exposure_hits(facts: Facts, policy: Policy) -> list[RuleHit]:
    """Return the hits of the exposure rules on the judged containers and, for a whole pod, its host access."""
    case = _CaseOf(facts, policy)
    hits = [hit for container in facts.containers for hit in _container_hits(container, case)]
    if facts.pod.whole:
        hits += _host_namespaces(facts.pod, case)
        hits += _host_paths(facts.pod, policy, case)
        hits += _runtime_class(facts, policy)
    return hits


def asks_for_devices(pod: PodView, policy: Policy) -> bool:
    """Whether the pod asks for devices without requesting them.

    That is a non-void visibility value, a device annotation or mount, or a hostPath to a GPU node, /dev or /.
    """
    return (
        any(is_device_annotation(key, policy) for key in pod.annotations)
        or any(_container_asks(container, policy) for container in pod.all_containers)
        or any(_leads_to_gpu_nodes(path) for _, _, path in pod.host_paths())
    )


def _container_asks(view: ContainerView, policy: Policy) -> bool:
    if any(entry["name"] in policy.visibility and is_request(entry) for entry in view.env):
        return True
    paths = (mount.get("mountPath") for mount in view.mounts)
    return any(isinstance(path, str) and is_device_mount(path) for path in paths)


def _leads_to_gpu_nodes(path: str) -> bool:
    path = node_path(path)
    return path in {"/", "/dev"} or path.startswith(GPU_NODE_PREFIXES)


class _CaseOf:
    """The case of a hit, worked out at the first hit: most pods have none, and then nothing is scanned."""

    def __init__(self, facts: Facts, policy: Policy) -> None:
        self._facts = facts
        self._policy = policy
        self._pod_case = ""

    def pod(self) -> str:
        """Return `gpu` where the pod requests a GPU or asks for devices, `other` where it does not."""
        if not self._pod_case:
            gpu = self._facts.requests_gpu or asks_for_devices(self._facts.pod, self._policy)
            self._pod_case = "gpu" if gpu else "other"
        return self._pod_case

    def container(self, container: ContainerFacts) -> str:
        """Return the case of one container: `gpu` for a debug container, whose pod may be unknown."""
        return "gpu" if container.view.kind == "ephemeral" else self.pod()


def _container_hits(container: ContainerFacts, case: _CaseOf) -> Iterator[RuleHit]:
    view = container.view
    if view.privileged:
        path = view.pointer + "/securityContext/privileged"
        yield RuleHit(
            "GF201",
            case.container(container),
            "is privileged: every GPU of the node is open to it",
            path,
            view.name,
        )
    for index, capability in enumerate(view.capabilities):
        if capability.upper().removeprefix("CAP_") in _ADMIN_CAPABILITIES:
            path = f"{view.pointer}/securityContext/capabilities/add/{index}"
            message = f"adds capability {shown(capability)}, which the NVIDIA toolkit takes for privileged"
            yield RuleHit("GF202", case.container(container), message, path, view.name)
    if MPS_PIPE_VARIABLE in view.env_names:
        message = f"sets {MPS_PIPE_VARIABLE}: the pipe of an MPS server that was not allocated to it"
        yield RuleHit("GF207", "any", message, view.pointer + "/env", view.name)


def _host_namespaces(pod: PodView, case: _CaseOf) -> Iterator[RuleHit]:
    if pod.flag("hostPID"):
        yield RuleHit(
            "GF204", case.pod(), "hostPID shows the processes of every tenant of the node", "/spec/hostPID"
        )
    if pod.flag("hostIPC"):
        yield RuleHit(
            "GF205",
            case.pod(),
            "hostIPC shares the memory of MPS and NCCL clients of the node",
            "/spec/hostIPC",
        )


def _host_paths(pod: PodView, policy: Policy, case: _CaseOf) -> Iterator[RuleHit]:
    for pointer, volume, written in pod.host_paths():
        path = node_path(written)
        if any(within(path, mps) for mps in MPS_PIPE_PATHS):
            message = f"volume {shown(volume)} is the pipe directory {shown(path)} of an MPS server"
            yield RuleHit("GF207", "any", message, pointer)
        if any(within(path, audited) for audited in policy.audited_paths):
            message = f"volume {shown(volume)} mounts {shown(path)} of the node"
            yield RuleHit("GF203", "audited-path", message, pointer)
        elif guarded := _guarded(path, policy):
            message = (
                f"volume {shown(volume)} mounts {shown(path)} of the node, which {_relation(path, guarded)}"
            )
            yield RuleHit("GF203", case.pod(), message, pointer)


def _guarded(path: str, policy: Policy) -> str:
    return next((guarded for guarded in policy.guarded_paths if touches(path, guarded)), "")


def _relation(path: str, guarded: str) -> str:
    if path == guarded:
        return "is guarded"
    return f"is below {guarded}" if within(path, guarded) else f"contains {guarded}"


def _runtime_class(facts: Facts, policy: Policy) -> Iterator[RuleHit]:
    name = facts.pod.text("runtimeClassName")
    if name in policy.runtime_classes and not facts.requests_gpu:
        message = f"runs under runtime class {shown(name)} and requests no GPU"
        yield RuleHit("GF206", "any", message, "/spec/runtimeClassName")
