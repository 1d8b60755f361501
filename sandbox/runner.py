"""Plays scenes against a cluster and compares what comes back with what must."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from policy.errors import InternalError

if TYPE_CHECKING:
    from sandbox.apiserver import Call
    from sandbox.cluster import Cluster
    from sandbox.scene import Expected, Scene, Step

_OK = 400  # HTTP: everything below is a success


class Outcome(msgspec.Struct, frozen=True):
    """What came back for one step. `differences` are the expectations that were not met, in words.

    `changed` are the operations of the patches that were applied, `pod` the object that came back (empty where it was
    denied); `rules` are those that hit in either call, because what /mutate fixed no longer hits in /validate.
    """

    step: Step
    allowed: bool
    message: str
    rules: tuple[str, ...]
    changed: tuple[dict[str, Any], ...]
    pod: dict[str, Any]
    warnings: tuple[str, ...]
    differences: tuple[str, ...]


async def play(scene: Scene, cluster: Cluster) -> list[Outcome]:
    """Play the steps of a scene one after another."""
    return [await _play(step, cluster) for step in scene.steps]


async def _play(step: Step, cluster: Cluster) -> Outcome:
    before = len(cluster.api.calls)
    status, body, warnings = await _request(step, cluster)
    calls = cluster.api.calls[before:]
    allowed = status < _OK
    rules = _rules(calls)
    pod = body if allowed else {}
    message = "" if allowed else str(body.get("message", body))
    return Outcome(
        step=step,
        allowed=allowed,
        message=message,
        rules=rules,
        changed=tuple(operation for call in calls for operation in _patch(call)),
        pod=pod,
        warnings=warnings,
        differences=tuple(_differences(step.expect, allowed, message, rules, pod, warnings)),
    )


async def _request(step: Step, cluster: Cluster) -> tuple[int, dict[str, Any], tuple[str, ...]]:
    method, path, content_type, body = _http(step)
    headers = [("Content-Type", content_type), ("Impersonate-User", step.user)]
    headers += [("Impersonate-Group", group) for group in step.groups]
    query = "?dryRun=All" if step.dry_run else ""
    async with cluster.session.request(
        method, cluster.url + path + query, data=msgspec.json.encode(body), headers=headers
    ) as response:
        return response.status, await response.json(), tuple(response.headers.getall("Warning", []))


def _http(step: Step) -> tuple[str, str, str, Any]:
    """Return method, path, content type and body of the request that the step stands for."""
    if step.create is not None:
        namespace = step.create["metadata"]["namespace"]
        pod = {"apiVersion": "v1", "kind": "Pod", **step.create}
        return "POST", f"/api/v1/namespaces/{namespace}/pods", "application/json", pod
    if step.label is not None:
        path = f"/api/v1/namespaces/{step.label.namespace}/pods/{step.label.pod}"
        return "PATCH", path, "application/merge-patch+json", {"metadata": {"labels": step.label.labels}}
    if step.debug is None:
        raise InternalError(f"step {step.asked!r} asks for nothing")
    path = f"/api/v1/namespaces/{step.debug.namespace}/pods/{step.debug.pod}/ephemeralcontainers"
    patch = {"spec": {"ephemeralContainers": [step.debug.container]}}
    return "PATCH", path, "application/strategic-merge-patch+json", patch


def _rules(calls: list[Call]) -> tuple[str, ...]:
    found: set[str] = set()
    for call in calls:
        annotations = (call.response or {}).get("auditAnnotations") or {}
        found.update(filter(None, annotations.get("rules", "").split(",")))
    return tuple(sorted(found))


def _patch(call: Call) -> list[dict[str, Any]]:
    encoded = (call.response or {}).get("patch")
    if not encoded:
        return []
    operations: list[dict[str, Any]] = msgspec.json.decode(base64.b64decode(encoded))
    return operations


def _differences(
    expected: Expected,
    allowed: bool,
    message: str,
    rules: tuple[str, ...],
    pod: dict[str, Any],
    warnings: tuple[str, ...],
) -> list[str]:
    found = []
    if allowed != expected.allowed:
        wanted, got = ("allowed", "denied") if expected.allowed else ("denied", "allowed")
        found.append(
            f"expected {wanted}, was {got}: {message}" if message else f"expected {wanted}, was {got}"
        )
    if not allowed and "denied the request" not in message:
        found.append(f"refused, but not by gpufence: {message}")
    if missing := set(expected.rules) - set(rules):
        found.append(f"no hit of {', '.join(sorted(missing))}; hits: {', '.join(rules) or 'none'}")
    if missing := {rule for rule in expected.warnings if not any(f"[{rule}]" in text for text in warnings)}:
        found.append(f"no warning about {', '.join(sorted(missing))}")
    if allowed:
        found += _pod_differences(expected, pod)
    return found


def _pod_differences(expected: Expected, pod: dict[str, Any]) -> list[str]:
    found = []
    labels = pod["metadata"].get("labels") or {}
    for key, value in expected.labels.items():
        if labels.get(key) != value:
            found.append(f"label {key} is {labels.get(key)!r}, expected {value!r}")
    spec = pod["spec"]
    containers = {
        container["name"]: container
        for kind in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(kind) or []
    }
    for name, variables in expected.env.items():
        if name not in containers:
            found.append(f"there is no container {name}")
            continue
        actual = {entry["name"]: entry.get("value") for entry in containers[name].get("env") or []}
        if actual != variables:
            found.append(f"container {name} has env {actual}, expected {variables}")
    return found
