"""Server-side apply: a PATCH that says what its manager wants, and that makes the object where there is none.

Follows k8s.io/apimachinery util/managedfields with one thing left out: only appliers own fields. Who wrote by
POST, PUT or another PATCH owns nothing, so a conflict arises between two appliers only, and what a webhook adds
belongs to nobody (as in the real one) and outlives every apply.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from sandbox.apiserver import creating, updating
from sandbox.apiserver.ownership import ITSELF, Path, fields_of, read, shown, value_at, without, written
from sandbox.apiserver.patches import merge
from sandbox.apiserver.resources import name_of
from sandbox.apiserver.status import bad_request, failure
from sandbox.apiserver.world import World, timestamp

if TYPE_CHECKING:
    from sandbox.apiserver.asks import Ask
    from sandbox.apiserver.resources import Object

APPLY_PATCH = "application/apply-patch+yaml"


async def apply(world: World, ask: Ask) -> tuple[int, Object]:
    """PATCH with an applied configuration. Returns the code (201 where it was made) and the object."""
    manager = ask.query.get("fieldManager", "")
    if not manager:
        raise bad_request(
            "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
        )
    applied = ask.fitted(_configuration(ask))
    if name_of(applied) != ask.name:
        raise bad_request(
            f"the name of the object ({name_of(applied)}) does not match the name on the URL ({ask.name})"
        )
    if applied["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    now = timestamp(world.clock())
    if world.store.get(ask.resource, ask.namespace, ask.name) is None and not ask.subresource:
        entry = _entry(ask, manager, fields_of(applied), now)
        fresh = {**applied, "metadata": {**applied["metadata"], "managedFields": [entry]}}
        body = msgspec.json.encode(fresh)
        posted = msgspec.structs.replace(ask, body=body, content_type="application/json", name="")
        return 201, await creating.create(world, posted)
    return 200, await updating.change(world, ask, lambda live: _merged(ask, manager, live, applied, now))


def _configuration(ask: Ask) -> Any:
    """Return the body. kubectl and client libraries send JSON, which is YAML; other YAML is not emulated."""
    try:
        return msgspec.json.decode(ask.body)
    except msgspec.MsgspecError as error:
        raise bad_request(
            f"not emulated: an applied configuration that is YAML and not JSON ({error})"
        ) from error


def _entry(ask: Ask, manager: str, paths: frozenset[Path], now: str) -> Object:
    subresource = {"subresource": ask.subresource} if ask.subresource else {}
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": ask.resource.api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": written(paths),
        **subresource,
    }


def _merged(ask: Ask, manager: str, live: Object, applied: Object, now: str) -> Object:
    """Return what `live` becomes. 409 where another applier has another value for a field, without `force`."""
    entries = list(live["metadata"].get("managedFields") or ())
    mine = [each for each in entries if _whose(each) == (manager, ask.subresource)]
    others = {each["manager"]: read(each["fieldsV1"]) for each in entries if each not in mine}
    wanted = fields_of(applied)
    taken = {
        path: owner
        for owner, paths in others.items()
        for path in paths & wanted
        if value_at(live, path) != value_at(applied, path)
    }
    if taken and ask.query.get("force") != "true":
        raise _conflicts(taken)
    merged: Object = merge(copy.deepcopy(live), copy.deepcopy(applied), by_key=True)
    before = frozenset().union(*(read(each["fieldsV1"]) for each in mine))
    gone = before - wanted - frozenset().union(*others.values())
    # Entries of lists first: without the field that is its key an entry could no longer be found.
    for path in sorted(gone, key=lambda path: (path[-1] != ITSELF, path)):
        without(merged, path)
    if [each["fieldsV1"] for each in mine] == [written(wanted)] and merged == live:
        return merged
    kept = [
        {**each, "fieldsV1": written(read(each["fieldsV1"]) - taken.keys())}
        for each in entries
        if each not in mine
    ]
    merged["metadata"]["managedFields"] = [*kept, _entry(ask, manager, wanted, now)]
    return merged


def _whose(entry: Object) -> tuple[str, str]:
    return str(entry["manager"]), str(entry.get("subresource", ""))


def _conflicts(taken: dict[Path, str]) -> Exception:
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{owner}"', "field": shown(path)}
        for path, owner in sorted(taken.items())
    ]
    listed = "\n".join(f"{each['message']}: {each['field']}" for each in causes)
    number = "1 conflict" if len(causes) == 1 else f"{len(causes)} conflicts"
    return failure(409, "Conflict", f"Apply failed with {number}: {listed}", {"causes": causes})
