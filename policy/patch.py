"""Edits -> JSON Patch (RFC 6902).

The API server answers a patch that cannot be applied with an internal error, even under failurePolicy Ignore
(kubernetes apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go). So parents are created only where they are
absent or null, and entries are removed from the highest index down: each removal shifts those behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.model import EnvEdit, MetaEdit
from policy.pointer import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.model import Edit
    from policy.pod import PodView, Raw

Operation = dict[str, Any]


def to_json_patch(pod: PodView, edits: Iterable[Edit]) -> tuple[Operation, ...]:
    """Return the operations that carry out the edits on the pod; none where all is as it should be."""
    by_container: dict[str, dict[str, str | None]] = {}
    meta: dict[str, dict[str, str]] = {}
    for edit in edits:
        if isinstance(edit, EnvEdit):
            by_container.setdefault(edit.container, {})[edit.name] = edit.value
        elif isinstance(edit, MetaEdit):
            meta.setdefault(edit.field, {})[edit.key] = edit.value
    operations: list[Operation] = []
    for view in pod.containers:
        if view.pointer in by_container:
            operations += _env_operations(view.raw, view.pointer, by_container[view.pointer])
    operations += _metadata_operations(pod.raw, meta)
    return tuple(operations)


def _env_operations(container: Raw, pointer: str, wanted: dict[str, str | None]) -> Iterator[Operation]:
    entries = container.get("env")
    if entries is None:
        added = [{"name": name, "value": value} for name, value in wanted.items() if value is not None]
        if added:
            yield {"op": "add", "path": pointer + "/env", "value": added}
        return
    removals: list[int] = []
    missing: list[Operation] = []
    for name, value in wanted.items():
        indices = [index for index, entry in enumerate(entries) if entry["name"] == name]
        if value is None:
            removals += indices
        elif indices:
            # The first place is kept, so that the order of the user's own entries never changes.
            yield from _replace(entries, indices[0], pointer, {"name": name, "value": value})
            removals += indices[1:]
        else:
            missing.append({"op": "add", "path": pointer + "/env/-", "value": {"name": name, "value": value}})
    for index in sorted(removals, reverse=True):
        yield {"op": "remove", "path": f"{pointer}/env/{index}"}
    yield from missing


def _replace(entries: list[Raw], index: int, pointer: str, entry: Raw) -> Iterator[Operation]:
    # The whole entry, so that value and valueFrom are never both set.
    if entries[index] != entry:
        yield {"op": "replace", "path": f"{pointer}/env/{index}", "value": entry}


def _metadata_operations(raw: Raw, wanted: dict[str, dict[str, str]]) -> Iterator[Operation]:
    if not wanted:
        return
    metadata = raw.get("metadata")
    if metadata is None:
        yield {"op": "add", "path": "/metadata", "value": wanted}
        return
    for field, values in wanted.items():
        present = metadata.get(field)
        if present is None:
            yield {"op": "add", "path": f"/metadata/{field}", "value": values}
            continue
        for key, value in values.items():
            if present.get(key) != value:
                # `add` on an existing member replaces it (RFC 6902, section 4.1).
                yield {"op": "add", "path": f"/metadata/{field}/{escape(key)}", "value": value}
