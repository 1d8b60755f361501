"""The error answers of kube-apiserver, as exceptions that carry a `Status` object.

Shapes and texts are those of k8s.io/apimachinery pkg/api/errors; each function names its HTTP code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.apiserver.resources import Object, Resource


class StatusError(Exception):
    """A request that is answered with a `Status` of `status: Failure`. The HTTP code is `status["code"]`."""

    def __init__(self, status: Object) -> None:
        self.status = status
        super().__init__(status.get("message", ""))


class Cause(msgspec.Struct, frozen=True):
    """One reason why an object is invalid (k8s.io/apimachinery field.Error).

    `reason` is FieldValueInvalid, FieldValueRequired, FieldValueForbidden or FieldValueNotSupported.
    """

    field: str
    reason: str
    message: str


def required(field: str, detail: str) -> Cause:
    """Return `Required value: ...`."""
    return Cause(field, "FieldValueRequired", _text("Required value", detail))


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    """Return `Invalid value: "x": ...`."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def forbidden_field(field: str, detail: str) -> Cause:
    """Return `Forbidden: ...`."""
    return Cause(field, "FieldValueForbidden", _text("Forbidden", detail))


def unsupported(field: str, value: Any, supported: Sequence[str]) -> Cause:
    """Return `Unsupported value: "x": supported values: "a", "b"`."""
    listed = ", ".join(_shown(each) for each in supported)
    return Cause(
        field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {listed}"
    )


def failure(code: int, reason: str, message: str, details: Object | None = None) -> StatusError:
    """Any refusal; the functions below are the usual ones."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        status["reason"] = reason
    if details:
        status["details"] = details
    return StatusError({**status, "code": code})


def success(resource: Resource, name: str, uid: str) -> Object:
    """Return the `Status` that answers a DELETE which removed the object."""
    details = {**_details(resource, name), "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def bad_request(message: str) -> StatusError:
    """400: what was sent cannot be read."""
    return failure(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401: the bearer token is unknown."""
    return failure(401, "Unauthorized", "Unauthorized")


def not_found(resource: Resource, name: str) -> StatusError:
    """404: no such object."""
    return failure(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def no_such_path() -> StatusError:
    """404: no such resource or subresource."""
    return failure(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    """405: the resource does not have this verb."""
    return failure(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
    )


def already_exists(resource: Resource, name: str) -> StatusError:
    """409: a create of a name that is taken."""
    return failure(
        409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', _details(resource, name)
    )


def conflict(resource: Resource, name: str, why: str = "") -> StatusError:
    """409: the object changed since the client read it."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return failure(409, "Conflict", message, _details(resource, name))


def expired(message: str) -> StatusError:
    """410: a resourceVersion or continue token from before the kept history."""
    return failure(410, "Expired", message)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """415: a body or patch of a kind that is not spoken here."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return failure(415, "UnsupportedMediaType", message)


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> StatusError:
    """422: the object breaks the rules of its kind. `causes` is not empty."""
    each = [f"{cause.field}: {cause.message}" for cause in causes]
    text = each[0] if len(each) == 1 else f"[{', '.join(each)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {**_details(resource, name), "kind": resource.kind}
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return failure(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def internal_error(message: str) -> StatusError:
    """500: kube-apiserver's own failure, which is also how it reports a webhook that could not be called."""
    details = {"causes": [{"message": message}]}
    return failure(500, "InternalError", f"Internal error occurred: {message}", details)


def unavailable(message: str) -> StatusError:
    """503: the server is not serving now."""
    return failure(503, "ServiceUnavailable", message)


def too_large_version(wanted: int, current: int) -> StatusError:
    """504: a resourceVersion from the future."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return failure(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def _details(resource: Resource, name: str) -> Object:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural}


def _text(what: str, detail: str) -> str:
    return f"{what}: {detail}" if detail else what


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()
