"""What the patch changes, as unified diffs of YAML: one for the metadata and one per container."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import yaml

from cli.check.patched import patched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.check.results import Judged

_CONTEXT = 2
_LISTS = ("initContainers", "containers", "ephemeralContainers")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # either one, by libyaml or not
    """Writes shared values out instead of as aliases, which nobody wrote."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def as_yaml(value: Any) -> str:
    """Return a JSON value as YAML, in its own order of keys."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)
    return str(text)


def diff_lines(judged: Judged) -> Iterator[str]:
    """Yield the changed lines with a little context; the first character says `@`, `+`, `-` or neither.

    Each part begins with `@@` and its name. Line numbers are left out: they would be those of the YAML
    written here, not of anyone's file.
    """
    if not judged.decision.patch:
        return
    before, after = _parts(judged.pod), _parts(patched(judged))
    for name, value in after.items():
        if before.get(name) != value:
            yield f"@@ {name}"
            lines = difflib.unified_diff(_lines(before.get(name)), _lines(value), n=_CONTEXT, lineterm="")
            yield from (line for line in lines if not line.startswith(("---", "+++", "@@")))


def _lines(value: Any) -> list[str]:
    return as_yaml(value).splitlines() if value else []


def _parts(pod: dict[str, Any]) -> dict[str, Any]:
    """Return what a patch may change, by name."""
    parts: dict[str, Any] = {"metadata": pod.get("metadata")}
    for path, around in (("spec.", pod.get("spec") or {}), ("", pod)):
        for field in _LISTS:
            for index, container in enumerate(around.get(field) or ()):
                parts[f"{path}{field}[{index}] {container.get('name')}"] = container
    return parts
