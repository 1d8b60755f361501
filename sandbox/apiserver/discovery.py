"""What kubectl and client libraries ask for before they ask for objects."""

from __future__ import annotations

from sandbox.apiserver.openapi import openapi_documents
from sandbox.apiserver.resources import RESOURCES, SCALE, Object, Resource

VERSION = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.0+gpufence-sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_VERBS = ["get", "patch", "update"]
_GROUPS = tuple(dict.fromkeys((each.group, each.version) for each in RESOURCES if each.group))


def document(path: str) -> Object | None:
    """Return the discovery document at a path, None where the path is none of discovery."""
    return _DOCUMENTS.get(path.rstrip("/"))


def _group(group: str, version: str) -> Object:
    entry = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def _resource_list(group: str, version: str) -> Object:
    of_group = [each for each in RESOURCES if (each.group, each.version) == (group, version)]
    entries = [entry for each in of_group for entry in _entries(each)]
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": entries}


def _entries(resource: Resource) -> list[Object]:
    common = {"singularName": "", "namespaced": resource.namespaced, "kind": resource.kind}
    own = {**common, "name": resource.plural, "singularName": resource.singular}
    own["verbs"] = ["create"] if resource.review else _VERBS
    if resource.short:
        own["shortNames"] = list(resource.short)
    subresources = [
        {**common, **_kind(each), "name": f"{resource.plural}/{each}", "verbs": _SUBRESOURCE_VERBS}
        for each in resource.subresources
    ]
    return [own, *subresources]


def _kind(subresource: str) -> Object:
    """Return what an entry says of the kind of a subresource, where that is not the resource's own."""
    if subresource != "scale":
        return {}
    return {"group": SCALE.group, "version": SCALE.version, "kind": SCALE.kind}


_DOCUMENTS: dict[str, Object] = {
    "/version": VERSION,
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*each) for each in _GROUPS]},
    "/api/v1": _resource_list("", "v1"),
    **{
        f"/apis/{group}": {"kind": "APIGroup", "apiVersion": "v1", **_group(group, version)}
        for group, version in _GROUPS
    },
    **{f"/apis/{group}/{version}": _resource_list(group, version) for group, version in _GROUPS},
    **openapi_documents(),
}
