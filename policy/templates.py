"""Where pods sit inside workloads.

The workloads of Kubernetes itself are read by path: there, a template that is missing or has the wrong
type is a problem. In every other kind a pod spec is found by its structure (an object whose `containers`
is a list of objects), which covers PyTorchJob, MPIJob, RayCluster, JobSet, LeaderWorkerSet,
LLMInferenceService, ... and those yet to come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

Raw = dict[str, Any]
Steps = tuple[str | int, ...]

# Deepest path that is searched. The deepest known (ClusterTrainingRuntime) has 9 steps.
MAX_DEPTH = 32
# Objects and lists that are looked at in one document. One in etcd has at most 1.5 MiB, so fewer than these.
MAX_VALUES = 500_000
MAX_LISTS = 8  # Lists within Lists

# What to do with a Helm chart.
RENDER = "Render it first: helm template CHART | gpufence check -f -"

# (API group, kind) -> path of the template {metadata, spec}. Pods themselves have the empty path.
_BY_PATH: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    **{
        (group, kind): ("spec", "template")
        for group in ("apps", "extensions")
        for kind in ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet")
    },
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}

# Objects of these groups describe pods without making any: patterns of other policies, schemas, measurements.
_NO_PODS = frozenset(
    {
        "apiextensions.k8s.io",
        "admissionregistration.k8s.io",
        "metrics.k8s.io",
        "kyverno.io",
        "policies.kyverno.io",
        "cli.kyverno.io",
        "templates.gatekeeper.sh",
        "constraints.gatekeeper.sh",
        "mutations.gatekeeper.sh",
    }
)


class Template(msgspec.Struct, frozen=True):
    """A pod that an object is, or will make.

    `path` is where the pod SPEC sits in the object, as people write it (`spec.template.spec`). `pod` is what
    is judged: the Pod itself, or {metadata, spec}. `controlled` says that a controller makes the pod.
    """

    kind: str
    name: str
    namespace: str  # empty where the object does not say
    path: str
    pod: Raw
    controlled: bool


class TemplateProblem(msgspec.Struct, frozen=True):
    """Why an object, or a part of it, cannot be judged: where, what, and how to fix it."""

    path: str
    message: str
    fix: str


class Item(msgspec.Struct, frozen=True):
    """An object with its kind. Items of a typed list (PodList) may leave both to the list."""

    value: Raw
    api_version: str
    kind: str


def unfold(document: object, *, kind: str = "", api_version: str = "") -> Iterator[Item | TemplateProblem]:
    """Yield the document itself, or the items of a List, PodList, DeploymentList, ..., however nested.

    `kind` and `api_version` stand in where the document leaves them out, as items of a typed list may.
    A plain list without a pod in it (a file of data) yields nothing.
    """
    yield from _unfold(document, kind, api_version, "", MAX_LISTS)


def item_kind(list_kind: str) -> str:
    """Return the kind that an item of a list has when it does not say: Pod for PodList, none for List."""
    return list_kind.removesuffix("List")


def _unfold(
    value: object, kind: str, api_version: str, path: str, lists_left: int
) -> Iterator[Item | TemplateProblem]:
    if type(value) is not dict:
        message = f"{path or 'the document'} is {type_name(value)}, not a Kubernetes object"
        if type(value) is not list or _by_structure(value):
            yield TemplateProblem(
                path, message, "Write an object with apiVersion and kind, or a List of them."
            )
        return
    identity = _identity(value, kind, api_version, path)
    if isinstance(identity, TemplateProblem):
        yield identity
        return
    api_version, kind = identity
    if not (kind.endswith("List") and type(value.get("items")) is list):
        yield Item(value, api_version, kind)
    elif lists_left == 0:
        yield TemplateProblem(
            path, f"lists are nested more than {MAX_LISTS} deep", "Put the items into one List."
        )
    else:
        inner = api_version if kind != "List" else ""
        for index, entry in enumerate(value["items"]):
            yield from _unfold(
                entry, item_kind(kind), inner, f"{path}.items[{index}]".lstrip("."), lists_left - 1
            )


def _identity(value: Raw, kind: str, api_version: str, path: str) -> tuple[str, str] | TemplateProblem:
    found = {"apiVersion": value.get("apiVersion") or api_version, "kind": value.get("kind") or kind}
    for field, content in found.items():
        if type(content) is not str:
            where = f"{path}.{field}".lstrip(".")
            return TemplateProblem(
                where, f"{where} is {type_name(content)}, not a string", "Put it in quotes."
            )
    if bool(found["apiVersion"]) != bool(found["kind"]):
        if _is_chart(value):
            return TemplateProblem(path, "this is the Chart.yaml of a Helm chart, not a manifest", RENDER)
        missing = "kind" if found["apiVersion"] else "apiVersion"
        where = f"{path}.{missing}".lstrip(".")
        return TemplateProblem(where, f"{where} is missing", f"Add {missing}: Kubernetes needs it.")
    return found["apiVersion"], found["kind"]


def _is_chart(value: Raw) -> bool:
    """Whether the object is a Chart.yaml: its apiVersion is v1 or v2, and it has a version of its own."""
    chart = value.get("apiVersion") in ("v1", "v2") and type(value.get("name")) is str
    return chart and "kind" not in value and "version" in value


def find(item: Item) -> tuple[list[Template], list[TemplateProblem]]:
    """Return the pods that the object is or will make, and what kept us from reading one.

    Both are empty for an object without pods, such as a Service.
    """
    group = item.api_version.rpartition("/")[0]
    path = _BY_PATH.get((group, item.kind))
    if path is not None:
        found = _by_path(item, path)
    elif group in _NO_PODS:
        return [], []
    else:
        found = _by_structure(item.value)
    pods = [entry for entry in found if not isinstance(entry, TemplateProblem)]
    problems = [entry for entry in found if isinstance(entry, TemplateProblem)]
    if pods:
        problems += _unusable_identity(item, pods[0][0])
    if problems or not pods:
        return [], problems
    metadata = item.value.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    namespace = metadata.get("namespace") or ""
    return [
        Template(item.kind, name, namespace, written(steps), pod, controlled=path != ())
        for steps, pod in pods
    ], []


Found = list[tuple[Steps, Raw] | TemplateProblem]


def _unusable_identity(item: Item, where: Steps) -> list[TemplateProblem]:
    """Return what is wrong with the object's own kind and metadata: nobody could say whose pod it is."""
    if not item.kind:
        message = f"{written(where)} is a pod spec in an object without apiVersion and kind"
        return [TemplateProblem(written(where), message, "Add apiVersion and kind (for a pod: v1 and Pod).")]
    metadata = item.value.get("metadata")
    if metadata is None:
        return []
    if type(metadata) is not dict:
        message = f"metadata is {type_name(metadata)}, not an object"
        return [TemplateProblem("metadata", message, "Write metadata as an object.")]
    wrong = {field: metadata.get(field) for field in ("name", "generateName", "namespace")}
    return [
        TemplateProblem(
            f"metadata.{field}", f"metadata.{field} is {type_name(value)}, not a string", "Quote it."
        )
        for field, value in wrong.items()
        if value is not None and type(value) is not str
    ]


def _by_path(item: Item, path: tuple[str, ...]) -> Found:
    steps = (*path, "spec")
    around: Any = item.value
    at: Any = item.value
    for index, step in enumerate(steps):
        around, at = at, at.get(step)
        if type(at) is not dict:
            where = written(steps[: index + 1])
            what = "is missing" if at is None else f"is {type_name(at)}, not an object"
            fix = f"A {item.kind} needs {written((*steps, 'containers'))}."
            return [TemplateProblem(where, f"{where} {what}", fix)]
    return [(steps, around)]


def _by_structure(root: Raw | list[Any]) -> Found:
    """Return every pod spec below the root, in the order of the document."""
    # Entries are (path, value, the object around it). It is a stack: children go on in reverse.
    stack: list[tuple[Steps, Any, Any]] = _children((), root)
    stack = [entry for entry in stack if entry[0][0] not in ("metadata", "status")]
    found: Found = []
    for _ in range(MAX_VALUES):
        if not stack:
            return found
        steps, value, around = stack.pop()
        if type(value) is dict and _is_pod_spec(value):
            found.append((steps, {"metadata": _metadata_beside(steps, around), "spec": value}))
        elif len(steps) < MAX_DEPTH:
            stack.extend(_children(steps, value))
    message = f"the document has more than {MAX_VALUES} objects and lists"
    return [TemplateProblem("", message, "Split the document.")]


def _children(steps: Steps, value: Raw | list[Any]) -> list[tuple[Steps, Any, Any]]:
    pairs: list[tuple[str | int, Any]] = [*value.items()] if isinstance(value, dict) else [*enumerate(value)]
    return [((*steps, key), child, value) for key, child in reversed(pairs) if type(child) in (dict, list)]


def _is_pod_spec(value: Raw) -> bool:
    containers = value.get("containers")
    return type(containers) is list and bool(containers) and all(type(entry) is dict for entry in containers)


def _metadata_beside(steps: Steps, around: Any) -> Raw:
    """Return the template's metadata; none where the spec stands alone.

    A spec at the top of the document stands alone too: the metadata beside it is that of the object.
    """
    if steps[-1] != "spec" or len(steps) == 1:
        return {}
    metadata = around.get("metadata")
    return metadata if type(metadata) is dict else {}


def written(steps: Steps) -> str:
    """Return a path as people write it: `spec.tasks[0].template.spec`."""
    text = "".join(f"[{step}]" if type(step) is int else f".{step}" for step in steps)
    return text.removeprefix(".")


def type_name(value: object) -> str:
    """Return the JSON type of a value, in words."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")
