"""The JSON types that this server relies on: far less than the types into which kube-apiserver decodes.

Null means absent, as it does in Go: nulls inside objects are dropped.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sandbox.apiserver.resources import MUTATING, PODS, VALIDATING, Object, Resource

Objects = list[dict[str, Any]]


class Metadata(msgspec.Struct, rename="camel"):
    """metadata of every kind."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, Any] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []


class Resources(msgspec.Struct, rename="camel"):
    """resources of a container."""

    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}


class Container(msgspec.Struct, rename="camel"):
    """A container of any of the three kinds."""

    name: str = ""
    image: str = ""
    resources: Resources = msgspec.field(default_factory=Resources)
    env: Objects = []
    env_from: Objects = []
    volume_mounts: Objects = []
    ports: Objects = []


class PodSpec(msgspec.Struct, rename="camel"):
    """spec of a Pod."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    ephemeral_containers: list[Container] = []
    volumes: Objects = []
    tolerations: Objects = []
    node_name: str = ""
    termination_grace_period_seconds: int = 0


class Pod(msgspec.Struct, rename="camel"):
    """A Pod."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: dict[str, Any] = {}


class DeleteOptions(msgspec.Struct, rename="camel"):
    """The body of a DELETE."""

    grace_period_seconds: int | None = None
    preconditions: dict[str, str] = {}
    dry_run: list[Literal["All"]] = []


class Rule(msgspec.Struct, rename="camel"):
    """A rule of a webhook."""

    operations: list[str] = []
    api_groups: list[str] = []
    api_versions: list[str] = []
    resources: list[str] = []
    scope: str = "*"


class Expression(msgspec.Struct, rename="camel"):
    """One entry of matchExpressions."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class Selector(msgspec.Struct, rename="camel"):
    """A LabelSelector."""

    match_labels: dict[str, str] = {}
    match_expressions: list[Expression] = []


class Service(msgspec.Struct, rename="camel"):
    """clientConfig.service."""

    name: str = ""
    namespace: str = ""
    path: str = ""
    port: int = 443


class Client(msgspec.Struct, rename="camel"):
    """clientConfig of a webhook."""

    url: str | None = None
    service: Service | None = None
    ca_bundle: str = ""


class Webhook(msgspec.Struct, rename="camel"):
    """An entry of `webhooks`."""

    name: str = ""
    rules: list[Rule] = []
    client_config: Client = msgspec.field(default_factory=Client)
    namespace_selector: Selector = msgspec.field(default_factory=Selector)
    object_selector: Selector = msgspec.field(default_factory=Selector)
    admission_review_versions: list[str] = []


class Configuration(msgspec.Struct, rename="camel"):
    """A Mutating- or ValidatingWebhookConfiguration."""

    metadata: Metadata
    webhooks: list[Webhook] = []


class Workload(msgspec.Struct, rename="camel"):
    """An object with a subresource `scale`."""

    metadata: Metadata
    spec: dict[str, Any] = {}


class Anything(msgspec.Struct, rename="camel"):
    """An object of every other kind."""

    metadata: Metadata


def decoded(resource: Resource, value: Any) -> Object:
    """Return the object without nulls. ValueError, with the JSON path, where a type is not as it must be."""
    other = Workload if "scale" in resource.subresources else Anything
    shape: type = {PODS: Pod, MUTATING: Configuration, VALIDATING: Configuration}.get(resource, other)
    obj: Object = _without_nulls(value)
    if isinstance(obj, dict):
        obj.setdefault("metadata", {})
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        what = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise ValueError(f"{what}: {error}") from error
    return obj


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value
