"""From an HTTP request to what is asked: which resource, which object, by whom, with which options. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sandbox.apiserver.resources import NAMESPACES, Object, Resource, find
from sandbox.apiserver.reviews import User
from sandbox.apiserver.shapes import decoded
from sandbox.apiserver.status import bad_request, no_such_path, unauthorized, unsupported_media_type

if TYPE_CHECKING:
    from collections.abc import Mapping

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))


class Ask(msgspec.Struct, frozen=True):
    """One request for a resource. `name` is "" for a collection, `namespace` "" for all namespaces or none.

    `warnings` is the one thing that grows: what becomes `Warning` headers.
    """

    resource: Resource
    namespace: str
    name: str
    subresource: str
    user: User
    query: Mapping[str, str]
    content_type: str = ""
    body: bytes = b""
    warnings: list[str] = []

    @property
    def dry_run(self) -> bool:
        """Whether `dryRun=All` was given in the query. 400 for another value, which must not store anything."""
        value = self.query.get("dryRun", "")
        if value not in ("", "All"):
            raise bad_request(f'Invalid value: "{value}": dryRun: Unsupported value: supported values: "All"')
        return value == "All"

    def json(self) -> Any:
        """Return the body. 415 where it says it is protobuf or YAML, 400 where it is not JSON."""
        if self.content_type.endswith(("protobuf", "yaml")):
            raise unsupported_media_type(["application/json"])
        try:
            return msgspec.json.decode(self.body)
        except msgspec.MsgspecError as error:
            raise bad_request(f"the request body is not JSON: {error}") from error

    def object(self) -> Object:
        """Return the body as an object of the resource that the path names; 400 where it is another."""
        return self.fitted(self.json())

    def fitted(self, value: Any) -> Object:
        """Return a decoded object with the path's namespace. 400 where kind or namespace are others."""
        try:
            obj = decoded(self.resource, value)
        except ValueError as error:
            raise bad_request(str(error)) from error
        found = (
            obj.setdefault("apiVersion", self.resource.api_version),
            obj.setdefault("kind", self.resource.kind),
        )
        if found != (self.resource.api_version, self.resource.kind):
            expected = f"{self.resource.api_version}, Kind={self.resource.kind}"
            raise bad_request(f"the object provided is {found[0]}, Kind={found[1]}, not {expected}")
        if (
            self.resource.namespaced
            and obj["metadata"].setdefault("namespace", self.namespace) != self.namespace
        ):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        return obj

    def options(self, kind: str) -> Object:
        """Return the CreateOptions or UpdateOptions of the request, as admission shows them."""
        given = {key: self.query[key] for key in ("fieldManager", "fieldValidation") if self.query.get(key)}
        dry_run = {"dryRun": ["All"]} if self.dry_run else {}
        return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **dry_run, **given}


def target_of(path: str) -> tuple[Resource, str, str, str]:
    """Return (resource, namespace, name, subresource) of a path; 404 where it means none."""
    root, *parts = [part for part in path.split("/") if part]
    group, parts = ("", parts) if root == "api" else (parts[0] if parts else "", parts[1:])
    version, rest = (parts[0], parts[1:]) if parts else ("", [])
    namespace, rest = _namespaced(rest)
    plural, name, subresource, *more = [*rest, "", "", ""][: max(len(rest), 3)]
    resource = find(group, version, plural)
    if resource is None or more or (subresource and subresource not in resource.subresources):
        raise no_such_path()
    if (namespace and not resource.namespaced) or (name and resource.namespaced and not namespace):
        raise no_such_path()
    return resource, namespace, name, subresource


def _namespaced(parts: list[str]) -> tuple[str, list[str]]:
    """Split `namespaces/x/pods` into namespace and rest; `namespaces/x/status` is the Namespace's own."""
    match parts:
        case [NAMESPACES.plural, namespace, plural, *_] if plural not in NAMESPACES.subresources:
            return namespace, parts[2:]
    return "", parts


def user_of(headers: Mapping[str, str], groups: list[str], tokens: Mapping[str, User], default: User) -> User:
    """Return who asks: the impersonated user, else the token's, else `default`. 401 for an unknown token.

    `groups` are all values of Impersonate-Group. Anybody may impersonate: nothing is authorised here.
    """
    kind, _, token = headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip() not in tokens:
        raise unauthorized()
    name = headers.get("Impersonate-User")
    if name:
        with_default = dict.fromkeys([*groups, "system:authenticated"])
        return User(name, tuple(with_default), headers.get("Impersonate-Uid", ""))
    return tokens[token.strip()] if kind.lower() == "bearer" else default
