"""Which webhooks a request matches, as values."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.apiserver.resources import MUTATING, PODS, RESOURCES
from sandbox.apiserver.reviews import Attributes, Hook, User, matches

NODES = next(each for each in RESOURCES if each.plural == "nodes")
NAMESPACES = next(each for each in RESOURCES if each.plural == "namespaces")
DEPLOYMENTS = next(each for each in RESOURCES if each.plural == "deployments")


def _hook(**changes: Any) -> Hook:
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
        "scope": "*",
    }
    selectors = {key: changes.pop(key) for key in ("namespaceSelector", "objectSelector") if key in changes}
    return Hook("c", "mutating", {"name": "a.b.c", "rules": [rule | changes], **selectors})


def _attributes(resource: Any = PODS, **changes: Any) -> Attributes:
    values: dict[str, Any] = {
        "resource": resource,
        "operation": "CREATE",
        "namespace": "default" if resource.namespaced else "",
        "name": "x",
        "user": User("u"),
        "options": {},
        "object": {"metadata": {"labels": {"app": "x"}}},
    }
    return Attributes(**(values | changes))


@pytest.mark.parametrize(
    ("rule", "attributes", "expected"),
    [
        ({}, {}, True),
        ({}, {"operation": "UPDATE"}, False),
        ({"operations": ["*"]}, {"operation": "DELETE"}, True),
        ({}, {"resource": DEPLOYMENTS}, False),
        ({"apiGroups": ["apps"], "resources": ["*"]}, {"resource": DEPLOYMENTS}, True),
        ({"apiGroups": ["*"], "apiVersions": ["v2"], "resources": ["*"]}, {}, False),
        ({}, {"subresource": "ephemeralcontainers"}, False),
        ({"resources": ["pods/ephemeralcontainers"]}, {"subresource": "ephemeralcontainers"}, True),
        ({"resources": ["pods/ephemeralcontainers"]}, {}, False),
        ({"resources": ["pods/*"]}, {"subresource": "status"}, True),
        ({"resources": ["*/status"]}, {"subresource": "status"}, True),
        ({"resources": ["*"]}, {"subresource": "status"}, False),
        ({"resources": ["*/*"]}, {"subresource": "status"}, True),
        ({"resources": ["*/*"]}, {}, True),
        ({"resources": ["*"], "scope": "Cluster"}, {}, False),
        ({"resources": ["*"], "scope": "Cluster"}, {"resource": NODES}, True),
        ({"resources": ["*"], "scope": "Namespaced"}, {"resource": NODES}, False),
        ({"apiGroups": ["*"], "resources": ["*"]}, {"resource": MUTATING}, False),
    ],
)
def test_rules(rule: dict[str, Any], attributes: dict[str, Any], expected: bool) -> None:
    assert matches(_hook(**rule), _attributes(**attributes), {}) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": {"team": "x"}}, True),
        ({"matchLabels": {"team": "y"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["x", "y"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_namespace_selectors_read_the_labels_of_the_namespace(selector: Any, expected: bool) -> None:
    hook = _hook(namespaceSelector=selector)
    assert matches(hook, _attributes(), {"team": "x"}) is expected


def test_a_namespace_is_judged_by_its_own_labels_and_a_node_by_none() -> None:
    hook = _hook(resources=["*"], namespaceSelector={"matchLabels": {"app": "x"}})
    assert matches(hook, _attributes(NAMESPACES), {})
    assert matches(hook, _attributes(NODES), {})
    assert not matches(hook, _attributes(NAMESPACES, object={"metadata": {}}), {})


def test_an_object_selector_is_met_by_the_new_or_the_old_object() -> None:
    hook = _hook(operations=["UPDATE"], objectSelector={"matchLabels": {"app": "x"}})
    bare: dict[str, Any] = {"metadata": {}}
    labelled: dict[str, Any] = {"metadata": {"labels": {"app": "x"}}}
    assert matches(hook, _attributes(operation="UPDATE", object=bare, old=labelled), {})
    assert matches(hook, _attributes(operation="UPDATE", object=labelled, old=bare), {})
    assert not matches(hook, _attributes(operation="UPDATE", object=bare, old=bare), {})
