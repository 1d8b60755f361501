"""GF101 to GF115: every way a container can name devices by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.gpu import DEVICE_MOUNT_PREFIXES, RESERVED_NAMES, VISIBLE_DEVICES, VOID
from policy.model import EnvEdit, RuleHit
from policy.paths import clean
from policy.pointer import escape
from policy.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.facts import ContainerFacts, Facts
    from policy.model import Policy
    from policy.pod import ContainerView, PodView

_DEVICE_MOUNT_NAME = "nvidia-container-devices"
_OTHER_RESERVED = {reserved.name: reserved for reserved in RESERVED_NAMES if reserved.effect != "visibility"}


def visibility_hits(facts: Facts, policy: Policy) -> list[RuleHit]:
    """Return the hits of the visibility rules on the judged containers and, for a whole pod, its annotations."""
    hits: list[RuleHit] = []
    for container in facts.containers:
        view = container.view
        for variable in policy.visibility:
            hits += _with_request(container, variable) if container.gpu else _without_request(view, variable)
        if container.gpu and view.env_from:
            hits += _env_from(container, policy)
        if not view.env_names.isdisjoint(_OTHER_RESERVED):
            hits += _reserved_variables(container, policy)
        if view.mounts:
            hits += _device_mounts(view)
    if facts.pod.whole:
        hits += annotation_hits(facts.pod, policy)
        hits += _unscheduled(facts)
    return hits


def is_reference(entry: dict[str, Any]) -> bool:
    """Whether the value of an env entry comes from elsewhere: valueFrom, or a $(VAR) that the kubelet expands.

    `$$(VAR)` is an escape and stays literal (k8s.io/kubernetes third_party/forked/golang/expansion).
    """
    if entry.get("valueFrom") is not None:
        return True
    value = entry.get("value") or ""
    return "$(" in value and "$(" in value.replace("$$", "")


def is_request(entry: dict[str, Any]) -> bool:
    """Whether the entry of a visibility variable asks for devices: anything but `void` and the empty list.

    NCT internal/config/image/cuda_image.go: an empty list is void, and so is one with `void` anywhere in it.
    """
    if is_reference(entry):
        return True
    names = [name.strip() for name in (entry.get("value") or "").split(",")]
    return any(names) and VOID not in names


def _without_request(view: ContainerView, variable: str) -> list[RuleHit]:
    entries = _entries(view, variable)
    if len(entries) == 1 and _is_void(entries[0][1]):
        return []
    edits = (EnvEdit(view.pointer, variable, VOID),)
    extra = variable != VISIBLE_DEVICES
    if not entries:
        message = f"requests no GPU and leaves {variable} to its image, which often says `all`"
        return [
            RuleHit(
                "GF113" if extra else "GF101", "no-request", message, view.pointer + "/env", view.name, edits
            )
        ]
    hits = []
    for index, entry in entries:
        rule, message, plain = _fault_without_request(entry, variable)
        path = f"{view.pointer}/env/{index}"
        hits.append(RuleHit("GF113" if extra else rule, "no-request", message, path, view.name, edits, plain))
    return hits


def _entries(view: ContainerView, variable: str) -> list[tuple[int, dict[str, Any]]]:
    if variable not in view.env_names:
        return []
    return [(index, entry) for index, entry in enumerate(view.env) if entry["name"] == variable]


def _fault_without_request(entry: dict[str, Any], variable: str) -> tuple[str, str, str]:
    """Return (rule, message, message without the value)."""
    if is_reference(entry):
        start = f"requests no GPU, and takes {variable} from "
        return "GF104", start + _origin(entry), start + _plain_origin(entry)
    if is_request(entry):
        start = f"requests no GPU, and sets {variable}"
        return "GF103", f"{start}={shown(entry.get('value'))}", start
    return "GF101", f"requests no GPU, and has not exactly one literal {variable}=void", ""


def _with_request(container: ContainerFacts, variable: str) -> list[RuleHit]:
    view = container.view
    extra = variable != VISIBLE_DEVICES
    hits = []
    for index, entry in _entries(view, variable):
        path = f"{view.pointer}/env/{index}"
        if is_reference(entry):
            if container.provided and _from_config_map(entry):
                continue  # how the provider hands over its share (KAI pkg/binder/common/gpu_access.go)
            start = f"requests a GPU, and takes {variable} from "
            hits.append(
                RuleHit(
                    "GF113" if extra else "GF104",
                    "reference" if extra else "request",
                    f"{start}{_origin(entry)}, which no check can know",
                    path,
                    view.name,
                    plain=f"{start}{_plain_origin(entry)}, which no check can know",
                )
            )
        else:
            start = f"requests a GPU, and sets {variable}"
            message = f"{start}={shown(entry.get('value'))} over its allocation"
            plain = f"{start} over its allocation"
            edits = (EnvEdit(view.pointer, variable, None),)
            rule = "GF113" if extra else "GF102"
            hits.append(RuleHit(rule, "request", message, path, view.name, edits, plain))
    return hits


def _env_from(container: ContainerFacts, policy: Policy) -> Iterator[RuleHit]:
    view = container.view
    for index, source in enumerate(view.env_from):
        prefix = source.get("prefix") or ""
        path = f"{view.pointer}/envFrom/{index}"
        if container.provided and source.get("configMapRef") is not None:
            continue
        if not prefix:
            message = f"takes all keys of {_env_source(source)}: one named {VISIBLE_DEVICES} would beat the allocation"
            yield RuleHit("GF105", "no-prefix", message, path, view.name)
        elif started := _names_started_by(prefix, policy):
            message = (
                f"puts {shown(prefix)} before each key of {_env_source(source)}: that can make {started}"
            )
            yield RuleHit("GF105", "split-prefix", message, path + "/prefix", view.name)


def _names_started_by(prefix: object, policy: Policy) -> str:
    if not isinstance(prefix, str):
        return ""
    names = (*policy.visibility, *_OTHER_RESERVED)
    return next((name for name in names if name.startswith(prefix) and name != prefix), "")


def _reserved_variables(container: ContainerFacts, policy: Policy) -> Iterator[RuleHit]:
    view = container.view
    for index, entry in enumerate(view.env):
        name = entry["name"]
        reserved = _OTHER_RESERVED.get(name)
        if reserved is None:
            continue
        message = _EFFECTS[reserved.effect](container, entry, policy)
        if message:
            case = "request" if reserved.rule == "GF115" else "any"
            quoted = reserved.effect == "capabilities" and not is_reference(entry)
            yield RuleHit(
                reserved.rule,
                case,
                f"sets {name}, which {message}",
                f"{view.pointer}/env/{index}",
                view.name,
                plain=f"sets {name}, which asks for more than the allow list" if quoted else "",
            )


def _mig_rights(_container: ContainerFacts, entry: dict[str, Any], _policy: Policy) -> str:
    return "gives rights over MIG slices of other teams" if is_reference(entry) or entry.get("value") else ""


def _imex(_container: ContainerFacts, entry: dict[str, Any], _policy: Policy) -> str:
    return "injects IMEX channels that were not allocated" if is_request(entry) else ""


def _gated(_container: ContainerFacts, entry: dict[str, Any], _policy: Policy) -> str:
    # Acted on only when the value is exactly `enabled` (NCT internal/modifier/cdi.go).
    asked = is_reference(entry) or entry.get("value") == "enabled"
    return "adds device nodes that were not allocated" if asked else ""


def _capabilities(_container: ContainerFacts, entry: dict[str, Any], policy: Policy) -> str:
    if is_reference(entry):
        return "takes its value from elsewhere, which no check can know"
    names = {name.strip() for name in (entry.get("value") or "").split(",")} - {""}
    outside = sorted(names - policy.driver_capabilities)
    return f"asks for {shown(', '.join(outside))}, outside the allow list" if outside else ""


def _requirements(_container: ContainerFacts, entry: dict[str, Any], _policy: Policy) -> str:
    # Go's strconv.ParseBool, as the toolkit reads it.
    on = is_reference(entry) or entry.get("value") in {"1", "t", "T", "TRUE", "true", "True"}
    return "switches off the check of the driver version" if on else ""


def _preload(container: ContainerFacts, entry: dict[str, Any], _policy: Policy) -> str:
    return "reaches the hooks of toolkit releases before 1.17.8" if container.gpu and _is_set(entry) else ""


_EFFECTS: dict[str, Callable[[ContainerFacts, dict[str, Any], Policy], str]] = {
    "mig-rights": _mig_rights,
    "imex": _imex,
    "gated-device": _gated,
    "capabilities": _capabilities,
    "requirements": _requirements,
    "preload": _preload,
}


def _device_mounts(view: ContainerView) -> Iterator[RuleHit]:
    for index, mount in enumerate(view.mounts):
        path = mount.get("mountPath")
        if isinstance(path, str) and is_device_mount(path):
            message = f"mounts {shown(path)}, which the NVIDIA toolkit reads as a device request"
            yield RuleHit(
                "GF108", "any", message, f"{view.pointer}/volumeMounts/{index}/mountPath", view.name
            )


def is_device_mount(path: str) -> bool:
    """Whether the toolkit takes the mount for a device request: a plain string prefix on the cleaned path."""
    # Cleaning never joins segments, so a path without the name cannot become one with it: most stop here.
    return _DEVICE_MOUNT_NAME in path and clean(path).startswith(DEVICE_MOUNT_PREFIXES)


def _unscheduled(facts: Facts) -> Iterator[RuleHit]:
    """Yield GF116: the kubelet drops a resource that its node does not have, and the image's `all` is what is left."""
    if facts.pod.placed and any(container.gpu for container in facts.containers):
        message = (
            "the pod requests a GPU and names its node, so no scheduler checks that the resource exists there"
        )
        yield RuleHit("GF116", "any", message, "/spec/nodeName")


def annotation_hits(pod: PodView, policy: Policy, before: PodView | None = None) -> Iterator[RuleHit]:
    """Yield GF107 for each device annotation; with `before` only for those that an update adds or changes."""
    for key, value in pod.annotations.items():
        if before is not None and before.annotations.get(key) == value:
            continue
        if is_device_annotation(key, policy):
            message = f"annotation {shown(key)} is read as a device request"
            pointer = "/metadata/annotations/" + escape(key)
            yield RuleHit("GF107", "any", message, pointer)


def is_device_annotation(key: str, policy: Policy) -> bool:
    """Whether a runtime may read the annotation as a device request."""
    for entry in policy.device_annotations:
        if key.startswith(entry) and (entry[-1] in "/." or key == entry or key[len(entry)] == "/"):
            return True
    return False


def _is_void(entry: dict[str, Any]) -> bool:
    return entry.get("value") == VOID and entry.get("valueFrom") is None


def _is_set(entry: dict[str, Any]) -> bool:
    return bool(entry.get("value")) or entry.get("valueFrom") is not None


def _from_config_map(entry: dict[str, Any]) -> bool:
    source = entry.get("valueFrom")
    return isinstance(source, dict) and source.get("configMapKeyRef") is not None


def _origin(entry: dict[str, Any]) -> str:
    source = entry.get("valueFrom")
    if source is None:
        return shown(entry.get("value"))
    return ", ".join(sorted(source)) if isinstance(source, dict) and source else "valueFrom"


def _plain_origin(entry: dict[str, Any]) -> str:
    return "a $(VAR) in its value" if entry.get("valueFrom") is None else _origin(entry)


def _env_source(source: dict[str, Any]) -> str:
    for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        reference = source.get(key)
        if isinstance(reference, dict):
            return f"{kind} {shown(reference.get('name'))}"
    return "its source"
