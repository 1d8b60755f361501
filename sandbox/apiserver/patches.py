"""The three kinds of PATCH body, applied to a copy.

Strategic merge is an approximation: a list of objects merges by the key below, or by `name` where every
entry has one, and is replaced otherwise. `$patch: delete` and `$patch: replace` work;
`$setElementOrder/...`, `$retainKeys` and `$deleteFromPrimitiveList/...` are ignored (order stays as it was,
new entries come last).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import jsonpatch

from sandbox.apiserver.status import Cause, StatusError, bad_request, invalid, unsupported_media_type

if TYPE_CHECKING:
    from sandbox.apiserver.resources import Object, Resource

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

# patchMergeKey of k8s.io/api where it is not `name`
MERGE_KEYS = {
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "ownerReferences": "uid",
    "hostAliases": "ip",
    "conditions": "type",
    "addresses": "type",
    "podIPs": "ip",
}


def accepted(resource: Resource) -> tuple[str, ...]:
    """Return the content types that PATCH takes; custom resources have no strategic merge."""
    return (JSON_PATCH, MERGE_PATCH) if resource.custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)


def apply_patch(resource: Resource, content_type: str, target: Object, patch: Any) -> Object:
    """Return the patched copy of `target`. 415 for another content type."""
    if content_type not in accepted(resource):
        raise unsupported_media_type(accepted(resource))
    if content_type == JSON_PATCH:
        return _json_patch(resource, target, patch)
    if not isinstance(patch, dict):
        raise bad_request("the patch is not a JSON object")
    merged: Object = merge(copy.deepcopy(target), patch, by_key=content_type == STRATEGIC_MERGE_PATCH)
    return merged


def apply_operations(target: Object, operations: Any) -> Any:
    """Apply RFC 6902 operations to a copy, whatever that leaves. ValueError where they cannot be applied."""
    try:
        return jsonpatch.JsonPatch(operations).apply(target)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
        raise ValueError(str(error)) from error


def merge(target: Any, patch: Any, *, by_key: bool) -> Any:
    """Merge as RFC 7396 says, or by list keys. `target` may be changed."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict) or (by_key and patch.get("$patch") == "replace"):
        target = {}
    for key, value in patch.items():
        if by_key and key.startswith("$"):
            continue
        if value is None:
            target.pop(key, None)
        elif by_key and isinstance(value, list):
            target[key] = _merge_list(key, target.get(key) or [], value)
        else:
            target[key] = merge(target.get(key), value, by_key=by_key)
    return target


def key_of(field: str, entries: list[Any]) -> str | None:
    """Return the key by which a list of this name merges, None where the list is one value."""
    key = MERGE_KEYS.get(field, "name")
    return key if all(isinstance(each, dict) and key in each for each in entries) else None


def _merge_list(field: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if {"$patch": "replace"} in patch:
        return [each for each in patch if each != {"$patch": "replace"}]
    key = key_of(field, [*target, *patch])
    if key is None:
        return patch
    merged = {each[key]: each for each in target}
    for each in patch:
        if each.get("$patch") == "delete":
            merged.pop(each[key], None)
        else:
            merged[each[key]] = merge(merged.get(each[key]), each, by_key=True)
    return list(merged.values())


def _json_patch(resource: Resource, target: Object, patch: Any) -> Object:
    try:
        patched: Object = apply_operations(target, patch)
    except ValueError as error:
        raise _unapplied(resource, target, str(error)) from error
    return patched


def _unapplied(resource: Resource, target: Object, why: str) -> StatusError:
    name = str(target["metadata"].get("name") or "")
    return invalid(
        resource, name, [Cause("patch", "FieldValueInvalid", f"the server rejected our request: {why}")]
    )
