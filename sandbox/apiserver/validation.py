"""The validation of kube-apiserver that matters around admission; texts follow its pkg/apis/core/validation.

Runs after mutating and before validating admission. It is not a schema: unknown fields pass.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from policy.quantity import parse_quantity
from sandbox.apiserver.defaults import containers_of
from sandbox.apiserver.resources import MUTATING, NAMESPACES, PODS, VALIDATING, Object, Resource
from sandbox.apiserver.status import Cause, forbidden_field, invalid_value, required, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NAME_MAX = 253
SEGMENT_MAX = 63
ANNOTATIONS_MAX = 256 * 1024

_QUANTITY_SHAPE = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_LABEL_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SEGMENT = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_ENV_NAME = re.compile(r"[ -<>-~]+")  # since 1.32 every printable ASCII character except "="

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_NAME_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_IMMUTABLE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_NOT_EPHEMERAL = (
    "ports",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resources",
    "resizePolicy",
)


def validate(resource: Resource, obj: Object, *, creating: bool) -> list[Cause]:
    """Return every reason why the object is invalid by itself; empty where it is valid."""
    causes = list(_metadata(resource, obj["metadata"]))
    if resource == PODS:
        causes += _pod(obj)
        if creating and obj["spec"].get("ephemeralContainers"):
            causes.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
    if resource in (MUTATING, VALIDATING):
        for index, webhook in enumerate(obj.get("webhooks") or ()):
            causes += _webhook(f"webhooks[{index}]", webhook)
    return causes


def validate_update(resource: Resource, new: Object, old: Object, subresource: str) -> list[Cause]:
    """Return every reason why `old` may not become `new`, beside those of `validate`."""
    if resource != PODS or subresource == "status":
        return []
    if subresource == "ephemeralcontainers":
        return list(_ephemeral_update(new, old))
    if _frozen_part(new, old) != _frozen_part(old, old):
        return [forbidden_field("spec", _IMMUTABLE_TEXT)]
    return []


def _metadata(resource: Resource, metadata: Object) -> Iterator[Cause]:
    name = str(metadata.get("name") or "")
    rule, text, longest = _name_rule(resource)
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif len(name) > longest:
        yield invalid_value("metadata.name", name, f"must be no more than {longest} characters")
    elif not rule.fullmatch(name):
        yield invalid_value("metadata.name", name, text)
    for key, value in (metadata.get("labels") or {}).items():
        yield from _key("metadata.labels", key)
        yield from _label_value(value)
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        yield from _key("metadata.annotations", key.lower())
    if (
        sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items())
        > ANNOTATIONS_MAX
    ):
        detail = f"may not be more than {ANNOTATIONS_MAX} bytes"
        yield Cause("metadata.annotations", "FieldValueTooLong", f"Too long: {detail}")


def _name_rule(resource: Resource) -> tuple[re.Pattern[str], str, int]:
    if resource == NAMESPACES:
        return _LABEL_NAME, _LABEL_NAME_TEXT, SEGMENT_MAX
    return _SUBDOMAIN, _SUBDOMAIN_TEXT, NAME_MAX


def _key(field: str, key: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > NAME_MAX or not _SUBDOMAIN.fullmatch(prefix)):
        yield invalid_value(field, key, f"prefix part {_SUBDOMAIN_TEXT}")
    if len(name) > SEGMENT_MAX:
        yield invalid_value(field, key, f"name part must be no more than {SEGMENT_MAX} characters")
    elif not _SEGMENT.fullmatch(name):
        yield invalid_value(field, key, _KEY_TEXT)


def _label_value(value: Any) -> Iterator[Cause]:
    if not isinstance(value, str):
        yield invalid_value("metadata.labels", value, "must be a string")
    elif len(value) > SEGMENT_MAX:
        yield invalid_value("metadata.labels", value, f"must be no more than {SEGMENT_MAX} characters")
    elif value and not _SEGMENT.fullmatch(value):
        yield invalid_value("metadata.labels", value, _VALUE_TEXT)


def _pod(pod: Object) -> Iterator[Cause]:
    if not pod["spec"].get("containers"):
        yield required("spec.containers", "")
    seen: set[str] = set()
    for kind, index, container in containers_of(pod):
        field = f"spec.{kind}[{index}]"
        yield from _container(field, container, seen)
        if kind == "ephemeralContainers":
            yield from _not_ephemeral(field, container)
        else:
            yield from _resources(f"{field}.resources", container.get("resources") or {})


def _container(field: str, container: Object, seen: set[str]) -> Iterator[Cause]:
    name = str(container.get("name") or "")
    if not name:
        yield required(f"{field}.name", "")
    elif len(name) > SEGMENT_MAX or not _LABEL_NAME.fullmatch(name):
        yield invalid_value(f"{field}.name", name, _LABEL_NAME_TEXT)
    elif name in seen:
        yield Cause(f"{field}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"')
    seen.add(name)
    if not container.get("image"):
        yield required(f"{field}.image", "")
    for index, entry in enumerate(container.get("env") or ()):
        yield from _env(f"{field}.env[{index}]", entry)


def _env(field: str, entry: Object) -> Iterator[Cause]:
    name = str(entry.get("name") or "")
    if not name:
        yield required(f"{field}.name", "")
    elif not _ENV_NAME.fullmatch(name):
        detail = (
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
        yield invalid_value(f"{field}.name", name, detail)
    if entry.get("valueFrom") is not None and entry.get("value"):
        yield invalid_value(f"{field}.valueFrom", "", "may not be specified when `value` is not empty")


def _not_ephemeral(field: str, container: Object) -> Iterator[Cause]:
    for key in _NOT_EPHEMERAL:
        if container.get(key):
            yield forbidden_field(f"{field}.{key}", "cannot be set for an Ephemeral Container")


def _resources(field: str, resources: Object) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _amount(f"{field}.limits[{name}]", name, amount)
    for name, amount in requests.items():
        yield from _amount(f"{field}.requests[{name}]", name, amount)
        yield from _request(f"{field}.requests", name, amount, limits)


def _amount(field: str, name: str, amount: Any) -> Iterator[Cause]:
    number = parse_quantity(amount)
    if number is None:
        yield invalid_value(
            field, amount, f"quantities must match the regular expression '{_QUANTITY_SHAPE}'"
        )
    elif number < 0:
        yield invalid_value(field, amount, "must be greater than or equal to 0")
    elif is_extended(name) and number != int(number):
        yield invalid_value(field, amount, "must be an integer")


def _request(field: str, name: str, amount: Any, limits: Mapping[str, Any]) -> Iterator[Cause]:
    if name not in limits:
        if is_extended(name):
            yield required(
                field.replace("requests", "limits"), "Limit must be set for non overcommitable resources"
            )
        return
    wanted, limit = parse_quantity(amount), parse_quantity(limits[name])
    if wanted is None or limit is None:
        return
    if is_extended(name) and wanted != limit:
        yield invalid_value(field, str(amount), f"must be equal to {name} limit of {limits[name]}")
    elif wanted > limit:
        yield invalid_value(
            field, str(amount), f"must be less than or equal to {name} limit of {limits[name]}"
        )


def is_extended(name: str) -> bool:
    """Whether a resource name is an extended resource: qualified, and not in kubernetes.io/."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _frozen_part(pod: Object, old: Object) -> Object:
    """Return the spec with the few fields that an update may change set to those of `old`."""
    spec = {key: value for key, value in pod["spec"].items() if key != "activeDeadlineSeconds"}
    old_spec = old["spec"]
    for kind in ("containers", "initContainers"):
        images = [each.get("image") for each in old_spec.get(kind) or ()]
        if len(images) == len(spec.get(kind) or ()):
            pairs = zip(spec.get(kind) or (), images, strict=True)
            spec[kind] = [{**each, "image": image} for each, image in pairs]
    spec["tolerations"] = [
        each for each in spec.get("tolerations") or () if each in (old_spec.get("tolerations") or ())
    ]
    return spec


def _ephemeral_update(new: Object, old: Object) -> Iterator[Cause]:
    now = {each.get("name"): each for each in new["spec"].get("ephemeralContainers") or ()}
    for before in old["spec"].get("ephemeralContainers") or ():
        name = before["name"]
        if name not in now:
            yield forbidden_field(
                "spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be removed'
            )
        elif now[name] != before:
            yield forbidden_field(
                "spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be changed'
            )


_POLICIES = ("Fail", "Ignore")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OPERATIONS = ("*", "CREATE", "UPDATE", "DELETE", "CONNECT")
_NAME_SEGMENTS_MIN = 3
_TIMEOUT_MAX = 30


def _webhook(field: str, webhook: Object) -> Iterator[Cause]:
    """Check the v1 rules of pkg/apis/admissionregistration/validation; refuse matchConditions."""
    name = str(webhook.get("name") or "")
    if not _SUBDOMAIN.fullmatch(name) or name.count(".") < _NAME_SEGMENTS_MIN - 1:
        yield invalid_value(
            f"{field}.name", name, "should be a domain with at least three segments separated by dots"
        )
    if webhook.get("matchConditions"):
        yield forbidden_field(
            f"{field}.matchConditions", "this server does not evaluate CEL; remove the conditions"
        )
    if "v1" not in (webhook.get("admissionReviewVersions") or ()):
        yield required(f"{field}.admissionReviewVersions", "must include v1, the only version that is sent")
    if webhook.get("sideEffects") not in _SIDE_EFFECTS:
        yield unsupported(f"{field}.sideEffects", webhook.get("sideEffects"), _SIDE_EFFECTS)
    if webhook.get("failurePolicy") not in _POLICIES:
        yield unsupported(f"{field}.failurePolicy", webhook.get("failurePolicy"), _POLICIES)
    if not _is_timeout(webhook.get("timeoutSeconds")):
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{field}.timeoutSeconds", webhook.get("timeoutSeconds"), detail)
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from _rule(f"{field}.rules[{index}]", rule)
    yield from _client(f"{field}.clientConfig", webhook.get("clientConfig") or {})


def _is_timeout(value: Any) -> bool:
    return isinstance(value, int) and 1 <= value <= _TIMEOUT_MAX


def _rule(field: str, rule: Object) -> Iterator[Cause]:
    for key in ("operations", "apiGroups", "apiVersions", "resources"):
        if not rule.get(key):
            yield required(f"{field}.{key}", "")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield unsupported(f"{field}.operations[{index}]", operation, _OPERATIONS)


def _client(field: str, client: Object) -> Iterator[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) is (service is None):
        yield required(field, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(f"{field}.url", str(url))
    elif service is not None:
        yield from (
            required(f"{field}.service.{key}", "") for key in ("name", "namespace") if not service.get(key)
        )


def _url(field: str, url: str) -> Iterator[Cause]:
    parts = urlsplit(url)
    checks: tuple[tuple[Callable[[], bool], str], ...] = (
        (
            lambda: parts.scheme != "https",
            f"'https' is the only allowed URL scheme; desired format: https://host[/path] ({url})",
        ),
        (lambda: not parts.hostname, "host must be specified; desired format: https://host[/path]"),
        (
            lambda: bool(parts.fragment or parts.query),
            "fragments and query parameters are not permitted in the URL",
        ),
    )
    yield from (invalid_value(field, url, text) for broken, text in checks if broken())
