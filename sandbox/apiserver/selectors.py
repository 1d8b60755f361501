"""Label selectors (as text and as objects) and field selectors, each turned into a test of an object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.apiserver.resources import Object, Resource, labels_of, value_at
from sandbox.apiserver.status import bad_request

Labels = Mapping[str, str]
Test = Callable[[Object], bool]

_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s=!]*)")
_EXISTS = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s=!()]+)")
_COMMA = re.compile(r",(?![^(]*\))")  # a comma outside of parentheses


def by_labels(text: str) -> Test:
    """Read a labelSelector: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. 400 where it is none."""
    tests = [_label_test(part.strip()) for part in _COMMA.split(text) if part.strip()]
    return lambda obj: all(test(labels_of(obj)) for test in tests)


def by_fields(text: str, resource: Resource) -> Test:
    """Read a fieldSelector: `spec.nodeName=a,status.phase!=Failed`. 400 for an unknown field."""
    tests = [_field_test(part.strip(), resource) for part in text.split(",") if part.strip()]
    return lambda obj: all(test(obj) for test in tests)


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether a LabelSelector object (matchLabels, matchExpressions) matches. None or {} matches all."""
    selector = selector or {}
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(each["key"], each["operator"], each.get("values") or (), labels)
        for each in selector.get("matchExpressions") or ()
    )


def _holds(key: str, operator: str, values: Any, labels: Labels) -> bool:
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":  # an absent key is not in any list
        return labels.get(key) not in values
    return (key in labels) is (operator == "Exists")


def _requirement(key: str, operator: str, values: list[str]) -> Callable[[Labels], bool]:
    return lambda labels: _holds(key, operator, values, labels)


def _label_test(part: str) -> Callable[[Labels], bool]:
    if found := _SET.fullmatch(part):
        values = [value.strip() for value in found["values"].split(",")]
        return _requirement(found["key"], "In" if found["operator"] == "in" else "NotIn", values)
    if found := _EQUALITY.fullmatch(part):
        return _requirement(found["key"], "NotIn" if found["operator"] == "!=" else "In", [found["value"]])
    if found := _EXISTS.fullmatch(part):
        return _requirement(found["key"], "DoesNotExist" if found["absent"] else "Exists", [])
    raise bad_request(f"unable to parse requirement: {part!r} is not a label selector")


def _field_test(part: str, resource: Resource) -> Test:
    found = _EQUALITY.fullmatch(part)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    key, value = found["key"], found["value"]
    if key not in ("metadata.name", "metadata.namespace", *resource.fields):
        raise bad_request(f"field label not supported: {key}")
    wanted = found["operator"] != "!="
    return lambda obj: (value_at(obj, key) == value) is wanted
