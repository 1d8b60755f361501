"""Who applied which field: metadata.managedFields with the entries of server-side apply. Pure.

A path is the tuple of keys of a fieldsV1 object: `f:name` for a field, `k:{"name":"main"}` for the entry of a
list, `.` for the entry itself (structured-merge-diff fieldpath, serialize-pe.go). Lists have the keys of
`patches`; every other list is one value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sandbox.apiserver.patches import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sandbox.apiserver.resources import Object

Path = tuple[str, ...]
ITSELF = "."
# What names the object or a version of it is nobody's field (managedfields internal/stripmeta.go).
_UNOWNED = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        *(("f:metadata", f"f:{name}") for name in ("name", "namespace", "uid", "resourceVersion")),
    }
)


def fields_of(applied: Object) -> frozenset[Path]:
    """Return the paths of every value of an applied object."""
    return frozenset(_walk(applied, ())) - _UNOWNED


def written(paths: Iterable[Path]) -> Object:
    """Return the paths as a fieldsV1 object."""
    fields: Object = {}
    for path in sorted(paths):
        node = fields
        for key in path:
            node = node.setdefault(key, {})
    return fields


def read(fields: Object) -> frozenset[Path]:
    """Return the paths of a fieldsV1 object."""
    return frozenset(_leaves(fields, ()))


def value_at(obj: Any, path: Path) -> Any:
    """Return the value at a path, None where there is none. An entry of a list is given as True."""
    for key in path:
        if key == ITSELF:
            return True
        obj = _child(obj, key)
        if obj is None:
            return None
    return obj


def without(obj: Any, path: Path) -> None:
    """Remove the value at a path in place, and the objects that this leaves empty."""
    head, *rest = path
    if isinstance(obj, list):
        entry = _child(obj, head)
        if entry is not None and rest == [ITSELF]:
            obj.remove(entry)
        elif entry is not None:
            without(entry, tuple(rest))
        return
    name = head[2:]
    if not isinstance(obj, dict) or name not in obj:
        return
    if rest:
        without(obj[name], tuple(rest))
    if not rest or obj[name] in ({}, []):
        del obj[name]


def shown(path: Path) -> str:
    """Return a path as conflicts show it: `.spec.containers[name="main"].image`."""
    return "".join(
        f".{key[2:]}" if key.startswith("f:") else _shown_key(key) for key in path if key != ITSELF
    )


def _shown_key(key: str) -> str:
    pairs = msgspec.json.decode(key[2:], type=dict[str, Any]).items()
    return "".join(f"[{name}={msgspec.json.encode(value).decode()}]" for name, value in pairs)


def _walk(value: Any, at: Path) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _walk(each, (*at, f"f:{name}"))
    elif isinstance(value, list) and value and (key := key_of(at[-1][2:], value)):
        for each in value:
            entry = (*at, "k:" + msgspec.json.encode({key: each[key]}).decode())
            yield (*entry, ITSELF)
            yield from _walk(each, entry)
    else:
        yield at


def _leaves(fields: Object, at: Path) -> Iterator[Path]:
    if not fields:
        yield at
    for key, each in fields.items():
        yield from _leaves(each, (*at, key))


def _child(obj: Any, key: str) -> Any:
    if key.startswith("f:"):
        return obj.get(key[2:]) if isinstance(obj, dict) else None
    wanted = msgspec.json.decode(key[2:], type=dict[str, Any]).items()
    entries = obj if isinstance(obj, list) else []
    return next((each for each in entries if all(each.get(name) == value for name, value in wanted)), None)
