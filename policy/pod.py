"""The one reader of pod JSON.

Works on the raw object, so that fields this version does not know survive. Every field that a rule reads is checked
for its JSON type here, once; the rules can then rely on it. Malformed input raises MalformedPod with the pointer.
"""

from __future__ import annotations

from typing import Any, Literal

from policy.errors import MalformedPod
from policy.gpu import MIRROR_ANNOTATION
from policy.pointer import escape

ContainerKind = Literal["init", "sidecar", "app", "ephemeral"]
Raw = dict[str, Any]

# An object in etcd has at most 1.5 MiB and a container takes some 40 bytes; a pod beyond this bound is an attack.
MAX_CONTAINERS = 10_000

_NO_OBJECTS: list[Raw] = []
_NO_ENV: tuple[list[Raw], frozenset[str]] = (_NO_OBJECTS, frozenset())
_NO_PRIVILEGE: tuple[bool, tuple[str, ...]] = (False, ())


class ContainerView:
    """One container of a pod. `pointer` is its JSON pointer; `env` and `mounts` are checked lists of objects.

    `env_names` answers at once what most containers are asked most often: no, they do not set that variable.
    """

    __slots__ = (
        "capabilities",
        "env",
        "env_from",
        "env_names",
        "kind",
        "mounts",
        "name",
        "pointer",
        "privileged",
        "raw",
        "resources",
    )

    def __init__(self, raw: Raw, kind: ContainerKind, pointer: str) -> None:
        self.raw = raw
        self.kind = kind
        self.pointer = pointer
        self.name = _text(raw, "name", pointer)
        # Every test for None saves a call, on a path that is walked for each container of each pod of the cluster.
        self.env, self.env_names = _NO_ENV if raw.get("env") is None else _env(raw, pointer)
        self.env_from = _NO_OBJECTS if raw.get("envFrom") is None else _objects(raw, "envFrom", pointer)
        self.mounts = (
            _NO_OBJECTS if raw.get("volumeMounts") is None else _objects(raw, "volumeMounts", pointer)
        )
        unread = kind == "ephemeral" or raw.get("resources") is None  # debug containers may have no resources
        self.resources = () if unread else _resources(raw, pointer)
        self.privileged, self.capabilities = (
            _NO_PRIVILEGE if raw.get("securityContext") is None else _privilege(raw, pointer)
        )


class PodView:
    """A pod as the rules see it.

    `containers` are those to be judged: all of them, or only the new ephemeral ones. `whole` says whether the rest of
    the pod is judged (and may be patched) too; `known` whether it was sent at all: up to Kubernetes 1.21 a debug
    container arrives without its pod. `templated`: it is a template, and a controller will make the pod; `controlled`:
    that, or it names a controller as its owner. `placed`: it names its node, so that no scheduler sees it.
    """

    __slots__ = (
        "all_containers",
        "annotations",
        "containers",
        "controlled",
        "known",
        "labels",
        "metadata",
        "placed",
        "raw",
        "service_account",
        "spec",
        "templated",
        "whole",
    )

    def __init__(
        self,
        raw: Raw,
        *,
        all_containers: tuple[ContainerView, ...],
        containers: tuple[ContainerView, ...] | None = None,
        controlled: bool = False,
        known: bool = True,
        live: bool = False,
    ) -> None:
        self.raw = raw
        self.metadata = _object(raw, "metadata", "")
        self.spec = _object(raw, "spec", "")
        self.labels = _string_map(self.metadata, "labels", "/metadata")
        self.annotations = _string_map(self.metadata, "annotations", "/metadata")
        # `serviceAccount` is the deprecated alias, which the API server copies to the other (core/v1 conversion.go).
        self.service_account = (
            _text(self.spec, "serviceAccountName", "/spec")
            or _text(self.spec, "serviceAccount", "/spec")
            or "default"
        )
        self.placed = not live and bool(_text(self.spec, "nodeName", "/spec"))
        self.templated = controlled
        self.controlled = controlled or controller_of(self.metadata) is not None
        self.all_containers = all_containers
        self.containers = all_containers if containers is None else containers
        self.whole = containers is None
        self.known = known

    def host_paths(self) -> list[tuple[str, str, str]]:
        """Return (JSON pointer of the path, volume name, path as written) of every hostPath volume."""
        found = []
        for index, volume in enumerate(_objects(self.spec, "volumes", "/spec")):
            if volume.get("hostPath") is not None:
                pointer = f"/spec/volumes/{index}"
                host_path = _object(volume, "hostPath", pointer)
                path = _text(host_path, "path", pointer + "/hostPath")
                found.append((pointer + "/hostPath/path", _text(volume, "name", pointer), path))
        return found

    def flag(self, name: str) -> bool:
        """Return a boolean of the spec such as hostPID; absent is False."""
        value = self.spec.get(name)
        if value is not None and type(value) is not bool:
            raise MalformedPod(f"/spec/{name}", "a boolean", value)
        return bool(value)

    def text(self, name: str) -> str:
        """Return a string of the spec such as runtimeClassName; absent is the empty string."""
        return _text(self.spec, name, "/spec")

    def has_claims(self) -> bool:
        """Whether the pod declares resource claims (DRA)."""
        return bool(_objects(self.spec, "resourceClaims", "/spec"))

    def is_mirror(self) -> bool:
        """Whether the pod says that it is the picture of a static pod. Any tenant can say so: check the user too."""
        return MIRROR_ANNOTATION in self.annotations


def pod_view(raw: Raw, *, controlled: bool = False, live: bool = False) -> PodView:
    """View a Pod, or a pod template {metadata, spec}.

    `controlled`: a controller will make or has made it. `live`: it runs already, so that its nodeName may be the
    scheduler's; never true of a pod in admission.

    Ephemeral containers in a Pod that is being created are judged too: the API server refuses them, a saved pod of
    `kubectl get -o json` has them.
    """
    _require_object(raw, "")
    return PodView(
        raw, all_containers=_containers(_object(raw, "spec", "")), controlled=controlled, live=live
    )


def ephemeral_view(raw: Raw, old: Raw | None) -> PodView:
    """View an update of pods/ephemeralcontainers: only entries absent from `old` are judged.

    Since Kubernetes 1.22 the whole Pod is sent. Up to 1.21 the object has the kind EphemeralContainers, the list at
    its top level and no spec.
    """
    _require_object(raw, "")
    if old:
        _require_object(old, "")
    known = "ephemeralContainers" not in raw
    entries = _ephemeral(raw)
    before = {entry.name: entry.raw for entry in _ephemeral(old)} if old else {}
    new = tuple(entry for entry in entries if before.get(entry.name) != entry.raw)
    others = _containers(_object(raw, "spec", "")) if known else entries
    return PodView(raw, all_containers=others, containers=new, known=known)


def controller_of(metadata: Raw) -> Raw | None:
    """Return the owner reference of the controller, or None."""
    if not metadata.get("ownerReferences"):
        return None
    for owner in _objects(metadata, "ownerReferences", "/metadata"):
        if owner.get("controller") is True:
            return owner
    return None


def _ephemeral(raw: Raw) -> tuple[ContainerView, ...]:
    if "ephemeralContainers" in raw:
        return tuple(_list_of(raw, "ephemeralContainers", "ephemeral", ""))
    return tuple(_list_of(_object(raw, "spec", ""), "ephemeralContainers", "ephemeral", "/spec"))


def _containers(spec: Raw) -> tuple[ContainerView, ...]:
    found = [
        *_list_of(spec, "initContainers", "init", "/spec"),
        *_list_of(spec, "containers", "app", "/spec"),
        *_list_of(spec, "ephemeralContainers", "ephemeral", "/spec"),
    ]
    if len(found) > MAX_CONTAINERS:
        raise MalformedPod("/spec", f"at most {MAX_CONTAINERS} containers", found)
    return tuple(found)


def _list_of(parent: Raw, key: str, kind: ContainerKind, pointer: str) -> list[ContainerView]:
    if parent.get(key) is None:
        return []
    base = f"{pointer}/{key}/"
    views = []
    for index, raw in enumerate(_objects(parent, key, pointer)):
        sidecar = kind == "init" and raw.get("restartPolicy") == "Always"
        views.append(ContainerView(raw, "sidecar" if sidecar else kind, f"{base}{index}"))
    return views


def _env(raw: Raw, pointer: str) -> tuple[list[Raw], frozenset[str]]:
    entries = _objects(raw, "env", pointer)
    for index, entry in enumerate(entries):
        name, value = entry.get("name"), entry.get("value")
        if type(name) is not str:
            raise MalformedPod(f"{pointer}/env/{index}/name", "a string", name)
        if value is not None and type(value) is not str:
            raise MalformedPod(f"{pointer}/env/{index}/value", "a string", value)
    return entries, frozenset([entry["name"] for entry in entries])


def _privilege(raw: Raw, pointer: str) -> tuple[bool, tuple[str, ...]]:
    security = _object(raw, "securityContext", pointer)
    pointer += "/securityContext"
    privileged = security.get("privileged")
    if privileged is not None and type(privileged) is not bool:
        raise MalformedPod(pointer + "/privileged", "a boolean", privileged)
    if security.get("capabilities") is None:
        return bool(privileged), ()
    capabilities = _object(security, "capabilities", pointer)
    return bool(privileged), _strings(capabilities, "add", pointer + "/capabilities")


def _resources(raw: Raw, pointer: str) -> tuple[tuple[str, Any], ...]:
    """Return (resource name, quantity as written) of every limit, and of requests that are no limit.

    Names without a slash (cpu, memory, hugepages-*) are left out: no device has one.
    """
    resources = _object(raw, "resources", pointer)
    pointer += "/resources"
    limits = _object(resources, "limits", pointer)
    found = [(name, value) for name, value in limits.items() if "/" in name]
    if resources.get("requests") is not None:
        requests = _object(resources, "requests", pointer)
        if requests == limits:
            return tuple(found)
        found += [
            (name, value) for name, value in requests.items() if "/" in name and limits.get(name) != value
        ]
    return tuple(found)


def _require_object(value: object, pointer: str) -> None:
    if type(value) is not dict:
        raise MalformedPod(pointer, "an object", value)


def _object(parent: Raw, key: str, pointer: str) -> Raw:
    value = parent.get(key)
    if value is None:
        return {}
    if type(value) is not dict:
        raise MalformedPod(f"{pointer}/{key}", "an object", value)
    return value


def _objects(parent: Raw, key: str, pointer: str) -> list[Raw]:
    value = parent.get(key)
    if value is None:
        return []
    if type(value) is not list:
        raise MalformedPod(f"{pointer}/{key}", "a list", value)
    for item in value:
        if type(item) is not dict:
            raise MalformedPod(f"{pointer}/{key}/{value.index(item)}", "an object", item)
    return value


def _strings(parent: Raw, key: str, pointer: str) -> tuple[str, ...]:
    value = parent.get(key)
    if value is None:
        return ()
    if type(value) is not list:
        raise MalformedPod(f"{pointer}/{key}", "a list", value)
    for index, item in enumerate(value):
        if type(item) is not str:
            raise MalformedPod(f"{pointer}/{key}/{index}", "a string", item)
    return tuple(value)


def _string_map(parent: Raw, key: str, pointer: str) -> dict[str, str]:
    value = _object(parent, key, pointer)
    for name, text in value.items():
        if type(text) is not str:
            raise MalformedPod(f"{pointer}/{key}/{escape(name)}", "a string", text)
    return value


def _text(parent: Raw, key: str, pointer: str) -> str:
    value = parent.get(key)
    if value is None:
        return ""
    if type(value) is not str:
        raise MalformedPod(f"{pointer}/{key}", "a string", value)
    return value
