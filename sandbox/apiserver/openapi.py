"""As much of OpenAPI v3 as kubectl 1.29 and later read before they send an object.

It says of each kind that PATCH takes `dryRun` and `fieldValidation`: then kubectl leaves the validation to the
server, which finds nothing (no schemas here). Without it every `kubectl apply` ends with "failed to download
openapi". Earlier versions read OpenAPI v2 as protobuf, which is not served: they need `--validate=false`.
"""

from __future__ import annotations

from sandbox.apiserver.resources import RESOURCES, Object, Resource

ROOT = "/openapi/v3"
_PARAMETERS = [
    {"name": name, "in": "query"} for name in ("dryRun", "fieldManager", "fieldValidation", "force")
]


def openapi_documents() -> dict[str, Object]:
    """Return every document by its path: the index, and one for each group and version."""
    found: dict[str, Object] = {}
    for base in dict.fromkeys(_base(each) for each in RESOURCES):
        paths = {_path(each): _patch(each) for each in RESOURCES if _base(each) == base and not each.review}
        info = {"title": "gpufence sandbox", "version": "0"}
        found[f"{ROOT}/{base}"] = {"openapi": "3.0.0", "info": info, "paths": paths}
    index = {path.removeprefix(f"{ROOT}/"): {"serverRelativeURL": path} for path in found}
    return {ROOT: {"paths": index}, **found}


def _base(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _path(resource: Resource) -> str:
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{_base(resource)}{namespace}/{resource.plural}/{{name}}"


def _patch(resource: Resource) -> Object:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "patch": {
            "parameters": _PARAMETERS,
            "responses": {},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": kind,
        }
    }
