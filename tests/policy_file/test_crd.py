"""The CustomResourceDefinition, by the rules that the API server has for structural schemas.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import kubernetes_validate
import pytest
import yaml
from pydantic import BaseModel

from policy.crd import crd, crd_yaml
from policy.formats import FORMATS
from policy.schema import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

SUPPORTED = ("1.29", "1.31", "1.33")
FORBIDDEN = {
    "$ref",
    "$defs",
    "definitions",
    "title",
    "default",
    "const",
    "anyOf",
    "allOf",
    "oneOf",
    "not",
    "nullable",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "propertyNames",
    "readOnly",
    "uniqueItems",
    "writeOnly",
    "xml",
}
ALLOWED = {
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "properties",
    "items",
    "additionalProperties",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
}


def _schema() -> dict[str, Any]:
    (version,) = crd()["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def _nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    for step in ("items", "additionalProperties"):
        if step in node:
            yield from _nodes(node[step], f"{path}[{step}]")


NODES = list(_nodes(_schema()))
SPEC_NODES = [(path, node) for path, node in NODES if path.startswith(".spec")]


def test_every_node_has_one_type_and_nothing_that_a_structural_schema_forbids() -> None:
    for path, node in NODES:
        assert isinstance(node["type"], str), path
        assert not FORBIDDEN & set(node), path
        assert set(node) <= ALLOWED, path


def test_a_node_has_fields_or_is_a_map_and_never_both() -> None:
    for path, node in NODES:
        assert not ({"properties", "additionalProperties"} <= set(node)), path
        if "additionalProperties" in node:
            assert isinstance(node["additionalProperties"], dict), path


def test_every_required_field_exists() -> None:
    for path, node in NODES:
        assert set(node.get("required", ())) <= set(node.get("properties", ())), path


def test_everything_has_a_bound_so_that_the_cost_of_cel_can_be_estimated() -> None:
    for path, node in SPEC_NODES:
        bounds = {"array": "maxItems", "string": "maxLength", "integer": "maximum"}
        if "enum" not in node and node["type"] in bounds:
            assert bounds[node["type"]] in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


def test_every_field_is_described_for_kubectl_explain() -> None:
    for path, node in SPEC_NODES:
        for name, field in node.get("properties", {}).items():
            assert field.get("description", "").endswith("."), f"{path}.{name}"


def test_a_list_that_is_merged_by_a_key_requires_the_key() -> None:
    for path, node in NODES:
        for key in node.get("x-kubernetes-list-map-keys", ()):
            assert key in node["items"]["required"], path


def test_teams_exceptions_and_conditions_are_merged_by_name() -> None:
    merged = {
        path: node["x-kubernetes-list-map-keys"]
        for path, node in NODES
        if "x-kubernetes-list-map-keys" in node
    }
    assert merged == {".spec.teams": ["name"], ".spec.exceptions": ["name"], ".status.conditions": ["type"]}


def test_the_fields_are_those_of_the_schema_at_every_depth() -> None:
    def fields(model: type[BaseModel]) -> dict[str, Any]:
        return {str(field.alias): inner(field.annotation) for field in model.model_fields.values()}

    def inner(annotation: object) -> dict[str, Any]:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return fields(annotation)
        return {name: rest for argument in get_args(annotation) for name, rest in inner(argument).items()}

    def published(node: dict[str, Any]) -> dict[str, Any]:
        node = node.get("items", node)
        return {name: published(field) for name, field in node.get("properties", {}).items()}

    assert published(_schema()["properties"]["spec"]) == fields(Spec)


def test_every_pattern_can_be_explained() -> None:
    patterns = {
        node["pattern"] for path, node in SPEC_NODES if "pattern" in node and not path.endswith(".expires")
    }
    assert patterns <= set(FORMATS)


def test_no_built_in_value_is_written_into_objects() -> None:
    assert all("default" not in node for _, node in NODES)


def test_cel_rules_refuse_what_spans_fields() -> None:
    rules = {
        path.rpartition(".")[2]: len(node["x-kubernetes-validations"])
        for path, node in NODES
        if "x-kubernetes-validations" in node
    }
    assert rules == {"exemptions[items]": 1, "matchExpressions[items]": 2}


def test_a_cel_rule_is_told_in_words() -> None:
    for _, node in NODES:
        for rule in node.get("x-kubernetes-validations", ()):
            assert set(rule) == {"rule", "message"}


@pytest.mark.parametrize("version", SUPPORTED)
def test_kubernetes_takes_the_definition(version: str) -> None:
    kubernetes_validate.validate(crd(), version, strict=True)


@pytest.mark.parametrize("version", SUPPORTED)
def test_that_check_would_notice_a_wrong_definition(version: str) -> None:
    broken = crd()
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["maxitems"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


def test_the_object_is_cluster_scoped_and_has_a_status() -> None:
    spec = crd()["spec"]
    (version,) = spec["versions"]
    assert (
        crd()["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}" == "gpupolicies.gpufence.io"
    )
    assert spec["scope"] == "Cluster"
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}
    assert [column["name"] for column in version["additionalPrinterColumns"]] == [
        "Profile",
        "Enforcement",
        "Age",
    ]
    assert set(_schema()["properties"]["status"]["properties"]) == {
        "conditions",
        "observedGeneration",
        "policyVersion",
    }


class TestFile:
    """The text that is stored in the manifests."""

    def test_it_is_the_same_each_time_and_says_where_it_comes_from(self) -> None:
        assert crd_yaml() == crd_yaml()
        assert crd_yaml().startswith(
            "# Generated from policy/schema.py; do not edit. To change it: make generate\n"
        )

    def test_it_holds_the_definition_without_anchors(self) -> None:
        assert yaml.safe_load(crd_yaml()) == crd()
        anchors = (yaml.AnchorToken, yaml.AliasToken)
        assert not [token for token in yaml.scan(crd_yaml()) if isinstance(token, anchors)]
