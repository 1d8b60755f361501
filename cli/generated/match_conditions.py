"""The patches of manifests/kustomize/components/match-conditions: `gpu` and `void` split by CEL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy import gpu

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEVICES = (*gpu.NVIDIA_DEVICES, *gpu.AMD_DEVICES, *gpu.INTEL_DEVICES, *gpu.OTHER_DEVICES)

_HEAD = """\
# Generated from policy/gpu.py; do not edit. To change it: make generate
#
# A pod is GPU-relevant when a container requests a device of the built-in tables or sets a variable that chooses
# devices, or when the pod has a resource claim, a runtime class or an annotation that leads to one. Limits are enough:
# the API server refuses an extended resource that is requested without one. A condition that fails counts by the
# failurePolicy, so each field is tested before it is read.
"""
_ENTRY = """\
- op: test
  path: /webhooks/{index}/name
  value: {name}
- op: test
  path: /webhooks/{index}/namespaceSelector/matchExpressions/1/key
  value: gpufence.io/gpu
- op: remove
  path: /webhooks/{index}/namespaceSelector/matchExpressions/1
- op: add
  path: /webhooks/{index}/matchConditions
  value:
  - name: {condition}
    expression: >-
{expression}
"""
_RELEVANT = """\
(object.spec.containers
  + (has(object.spec.initContainers) ? object.spec.initContainers : [])
  + (has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : [])
).exists(c,
  (has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(name,
    name.matches('{devices}')
    && !name.matches('{not_gpu}')))
  || (has(c.env) && c.env.exists(e, e.name in [{variables}])))
|| (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0)
|| (has(object.spec.runtimeClassName) && object.spec.runtimeClassName in [{runtime_classes}])
|| (has(object.metadata.annotations) && object.metadata.annotations.exists(key,
  key.matches('{annotations}')))"""


def mutating_conditions() -> str:
    """Return the JSON Patch of the MutatingWebhookConfiguration as YAML."""
    return _patch("mutate")


def validating_conditions() -> str:
    """Return the JSON Patch of the ValidatingWebhookConfiguration as YAML."""
    return _patch("validate")


def gpu_relevant() -> str:
    """Return the CEL expression that is true of a GPU-relevant pod, `object`."""
    return _RELEVANT.format(
        devices=_pattern(map(_glob, _DEVICES)),
        not_gpu=_pattern(map(_glob, gpu.NOT_GPU)),
        variables=_strings(
            each.name for each in gpu.RESERVED_NAMES if each.effect not in ("preload", "requirements")
        ),
        runtime_classes=_strings(gpu.RUNTIME_CLASSES),
        annotations=_pattern(map(_domain, gpu.DEVICE_ANNOTATIONS)),
    )


def _patch(phase: str) -> str:
    relevant = gpu_relevant()
    return (
        _HEAD
        + _entry(0, f"gpu.{phase}.gpufence.io", "gpu-relevant", relevant)
        + _entry(1, f"void.{phase}.gpufence.io", "not-gpu-relevant", f"!(\n{relevant}\n)")
    )


def _entry(index: int, name: str, condition: str, expression: str) -> str:
    lines = "\n".join(f"      {line.strip()}" for line in expression.splitlines())
    return _ENTRY.format(index=index, name=name, condition=condition, expression=lines)


def _pattern(alternatives: Iterable[str]) -> str:
    """Return an RE2 pattern without a backslash, which would need escaping in CEL and in YAML."""
    return f"^({'|'.join(alternatives)})$"


def _glob(glob: str) -> str:
    return glob.replace(".", "[.]").replace("*", ".*")


def _domain(entry: str) -> str:
    """Return the pattern of an entry: a prefix if it ends in "/" or ".", else a key and all below `<key>/`."""
    return _glob(entry) + (".*" if entry.endswith(("/", ".")) else "(/.*)?")


def _strings(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)
