"""The CustomResourceDefinition of GpuPolicy, made from the schema so that the two cannot drift apart.

A CRD takes a part of JSON schema only (a structural schema): everything inlined, a type at every node, no
null. The built-in values are left out on purpose: the API server would write them into every object, and a
later version of gpufence could no longer change them.
"""

from __future__ import annotations

from typing import Any

import yaml

from policy import default
from policy.schema import Spec

GROUP, VERSION = default.API_VERSION.split("/")
PLURAL = "gpupolicies"

# What JSON schema says and a structural schema must not. `additionalProperties: false` is meant by pruning.
_LEFT_OUT = frozenset(
    {"title", "default", "additionalProperties", "patternProperties", "propertyNames", "$defs"}
)

# Checks that span fields, by the name of the model. The webhook makes them too; these hold while it is down.
_CEL: dict[str, list[dict[str, str]]] = {
    "ExemptionSpec": [
        {
            "rule": (
                "!(self.namespaces.exists(n, n.matches('^[*]+$')) "
                "&& self.serviceAccounts.exists(s, s.matches('^[*]+$')))"
            ),
            "message": "exempts every pod of the cluster: name the namespaces or the service accounts",
        },
    ],
    "LabelExpression": [
        {
            "rule": "!(self.operator in ['In', 'NotIn']) || has(self.values) && size(self.values) > 0",
            "message": "In and NotIn need at least one value",
        },
        {
            "rule": "self.operator in ['In', 'NotIn'] || !has(self.values) || size(self.values) == 0",
            "message": "Exists and DoesNotExist take no values",
        },
    ],
}

# Lists whose entries have names of their own: server-side apply merges them by name, and a name can be there
# only once.
_BY_NAME = frozenset({"teams", "exceptions"})

_CONDITION: dict[str, Any] = {
    "description": "One aspect of the state of this policy.",
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": {
            "description": "Aspect, in CamelCase.",
            "type": "string",
            "maxLength": 316,
            "pattern": (
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            ),
        },
        "status": {
            "description": "Whether it holds.",
            "type": "string",
            "enum": ["True", "False", "Unknown"],
        },
        "observedGeneration": {
            "description": "Generation of the object that this is about.",
            "type": "integer",
            "format": "int64",
            "minimum": 0,
        },
        "lastTransitionTime": {
            "description": "When the status changed.",
            "type": "string",
            "format": "date-time",
        },
        "reason": {
            "description": "Why, in one CamelCase word.",
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {"description": "Why, for people.", "type": "string", "maxLength": 32768},
    },
}

_STATUS: dict[str, Any] = {
    "description": "What gpufence makes of this policy. Written by gpufence.",
    "type": "object",
    "properties": {
        "observedGeneration": {
            "description": "Generation of the object that was read last.",
            "type": "integer",
            "format": "int64",
            "minimum": 0,
        },
        "policyVersion": {
            "description": "Digest of the policy in force; equal policies have equal digests.",
            "type": "string",
            "maxLength": 64,
        },
        "conditions": {
            "description": "State of this policy.",
            "type": "array",
            "maxItems": 16,
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}

_HEADER = "# Generated from policy/schema.py; do not edit. To change it: make generate\n"


def crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition as plain data; the same each time."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": default.KIND,
                "listKind": f"{default.KIND}List",
                "plural": PLURAL,
                "singular": default.KIND.lower(),
                "shortNames": ["gpol"],
                "categories": ["gpufence"],
            },
            "scope": "Cluster",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _root()},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": "Profile", "type": "string", "jsonPath": ".spec.profile"},
                        {"name": "Enforcement", "type": "string", "jsonPath": ".spec.enforcement"},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                }
            ],
        },
    }


def crd_yaml() -> str:
    """Return the CustomResourceDefinition as the text of a file."""
    return _HEADER + yaml.dump(crd(), Dumper=_NoAliases, sort_keys=False, allow_unicode=True, width=110)


class _NoAliases(yaml.SafeDumper):
    """Writes out a value each time it occurs: anchors are hard to read, and not all readers know them."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _root() -> dict[str, Any]:
    schema = Spec.model_json_schema(by_alias=True)
    return {
        "description": f"What gpufence allows. Only the {default.KIND} named {default.NAME} is in force.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": "Version of this form of the object.", "type": "string"},
            "kind": {"description": f"Always {default.KIND}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": _structural(schema, schema["$defs"], model=Spec.__name__),
            "status": _STATUS,
        },
    }


def _structural(node: dict[str, Any], definitions: dict[str, Any], model: str = "") -> dict[str, Any]:
    """Return a node of a JSON schema as a node of a structural schema; `model` is the model it describes."""
    if "anyOf" in node:
        (given,) = (option for option in node["anyOf"] if option.get("type") != "null")
        return _structural({**_without(node, "anyOf"), **given, **_description(node)}, definitions)
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return _structural({**definitions[name], **_description(node)}, definitions, model=name)
    result = _description(node) | {key: value for key, value in node.items() if key not in _LEFT_OUT}
    if "properties" in node:
        result["properties"] = {
            name: _structural(field, definitions) | (_merged_by_name() if name in _BY_NAME else {})
            for name, field in node["properties"].items()
        }
    if "items" in node:
        result["items"] = _structural(node["items"], definitions)
    if values := _values_of_map(node):
        result["additionalProperties"] = _structural(values, definitions)
    if model in _CEL:
        result["x-kubernetes-validations"] = [dict(rule) for rule in _CEL[model]]
    return result


def _values_of_map(node: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a map's values, None for other nodes. A CRD cannot say what the keys are."""
    for values in node.get("patternProperties", {}).values():
        return dict(values)
    values = node.get("additionalProperties")
    return values if isinstance(values, dict) else None


def _merged_by_name() -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def _description(node: dict[str, Any]) -> dict[str, Any]:
    return {"description": node["description"]} if "description" in node else {}


def _without(node: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != key}
