"""Lists: selectors, pages, and reads at an earlier resourceVersion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sandbox.apiserver.resources import Object, Resource, name_of, namespace_of
from sandbox.apiserver.selectors import Test, by_fields, by_labels
from sandbox.apiserver.status import bad_request, expired, too_large_version
from sandbox.apiserver.storage import HistoryExpiredError, Store

if TYPE_CHECKING:
    from sandbox.apiserver.asks import Ask


class Token(msgspec.Struct, frozen=True):
    """A continue token: the revision of the first page, and the last key that was given out."""

    revision: int
    namespace: str
    name: str


def test_of(ask: Ask) -> Test:
    """Return the test that labelSelector and fieldSelector of a request, and its name, put together."""
    labels = by_labels(ask.query.get("labelSelector", ""))
    fields = by_fields(ask.query.get("fieldSelector", ""), ask.resource)
    return lambda obj: labels(obj) and fields(obj) and ask.name in ("", name_of(obj))


def selected(store: Store, ask: Ask) -> list[Object]:
    """Return the current objects that a collection request means."""
    test = test_of(ask)
    return [obj for obj in store.items(ask.resource, ask.namespace) if test(obj)]


def list_page(store: Store, ask: Ask) -> Object:
    """Return a `...List`. 410 where its revision is no longer known, 504 where it is not yet known.

    remainingItemCount is there only without selectors, as in etcd3's store.
    """
    token = _token(ask.query.get("continue", ""))
    revision = token.revision if token else _wanted_revision(store, ask)
    test = test_of(ask)
    found = [obj for obj in _items_at(store, ask, revision) if test(obj)]
    if token:
        found = [obj for obj in found if _key(obj) > (token.namespace, token.name)]
    limit = number_of(ask, "limit") or len(found)
    page, left = found[:limit], len(found) - limit
    metadata: Object = {"resourceVersion": str(revision)}
    if left > 0:
        last = Token(revision, *_key(page[-1]))
        metadata["continue"] = msgspec.to_builtins(msgspec.json.encode(last))
        if not (ask.query.get("labelSelector") or ask.query.get("fieldSelector")):
            metadata["remainingItemCount"] = left
    return as_list(ask.resource, metadata, page)


def as_list(resource: Resource, metadata: Object, items: list[Object]) -> Object:
    """Return the list object. Items of built-in kinds carry no kind and apiVersion, as in the real one."""
    if not resource.custom:
        items = [
            {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")} for obj in items
        ]
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "items": items,
    }


def number_of(ask: Ask, parameter: str) -> int:
    """Return a whole number of the query, 0 where it is absent. 400 where it is none."""
    text = ask.query.get(parameter, "") or "0"
    if not text.isdecimal():
        raise bad_request(f"{parameter}: Invalid value: {text!r}: must be a whole number")
    return int(text)


def _wanted_revision(store: Store, ask: Ask) -> int:
    wanted = number_of(ask, "resourceVersion")
    if wanted > store.revision:
        raise too_large_version(wanted, store.revision)
    return wanted if ask.query.get("resourceVersionMatch") == "Exact" else store.revision


def _items_at(store: Store, ask: Ask, revision: int) -> list[Object]:
    try:
        return store.items_at(revision, ask.resource, ask.namespace)
    except HistoryExpiredError as error:
        why = "The provided continue parameter is too old to display a consistent list result."
        raise expired(why if ask.query.get("continue") else str(error)) from error


def _token(text: str) -> Token | None:
    if not text:
        return None
    try:
        return msgspec.json.decode(msgspec.convert(text, bytes), type=Token)
    except msgspec.MsgspecError as error:
        raise bad_request("continue key is not valid") from error


def _key(obj: Object) -> tuple[str, str]:
    return namespace_of(obj), name_of(obj)
