"""What the Kubernetes API, or the way to it, can answer instead of an object.

WorldError
└── KubeError              code, reason, retry_after
    ├── Unreachable        no answer: the network, TLS, a timeout, a connection that broke
    ├── Malformed          an answer that is no JSON object of the expected shape
    │   └── TooLarge       an answer that is larger than its limit
    ├── BadRequest         400
    ├── Unauthorized       401
    ├── Forbidden          403
    ├── NotFound           404
    ├── Conflict           409: changed since it was read
    │   └── AlreadyExists  409: a create of a name that is taken
    ├── Gone               410: a resourceVersion or continue token that is too old
    ├── Invalid            422
    ├── TooManyRequests    429
    └── ServerFault        5xx
        └── Unavailable    503

Codes and reasons are those of k8s.io/apimachinery pkg/apis/meta/v1 StatusReason.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from policy.errors import WorldError

_LONGEST = 400  # characters of a Status message: an Invalid one repeats whole objects


class KubeError(WorldError):
    """The API did not do what was asked.

    `code` is the HTTP status, 0 where there was no answer. `reason` is the StatusReason, "" where none was
    given. `retry_after` is in seconds, None where the server did not say.
    """

    def __init__(
        self, message: str, *, code: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        self.code = code
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(message)


class Unreachable(KubeError):
    """There was no whole answer."""


class Malformed(KubeError):
    """The answer cannot be used."""


class TooLarge(Malformed):
    """The answer is larger than its limit."""


class BadRequest(KubeError):
    """400: the request cannot be read."""


class Unauthorized(KubeError):
    """401: the API does not know who asks."""


class Forbidden(KubeError):
    """403: who asks may not do this."""


class NotFound(KubeError):
    """404: there is no such object or resource."""


class Conflict(KubeError):
    """409: the object was changed since it was read."""


class AlreadyExists(Conflict):
    """409: the name is taken."""


class Gone(KubeError):
    """410: the history since this resourceVersion is no longer kept; list again."""


class Invalid(KubeError):
    """422: the object breaks a rule of its kind."""


class TooManyRequests(KubeError):
    """429: ask again after `retry_after`."""


class ServerFault(KubeError):
    """5xx: the server failed."""


class Unavailable(ServerFault):
    """503: the server is starting, stopping or overloaded."""


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(name="retryAfterSeconds", default=None)


class _Status(msgspec.Struct):
    """metav1.Status, as far as it is told to people."""

    kind: Literal["Status"]
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_NO_STATUS = _Status("Status")
_BY_CODE: dict[int, type[KubeError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    503: Unavailable,
}
_SERVER_FAULT = 500


def error_of(what: str, code: int, body: bytes, retry_after: str | None = None) -> KubeError:
    """Return the error for an HTTP answer. `what` says what was asked; `retry_after` is the header.

    Only a `Status` is quoted. Any other body comes from a proxy, or is an object, and might carry secrets
    into a log: of it only the code is told.
    """
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        status = _NO_STATUS
    return _error(what, code, status, _seconds(retry_after))


def error_of_event(what: str, obj: Any) -> KubeError:
    """Return the error for the object of an ERROR event of a watch."""
    try:
        status = msgspec.convert(obj, _Status)
    except msgspec.ValidationError:
        status = _NO_STATUS
    return _error(what, status.code, status, None)


def _error(what: str, code: int, status: _Status, retry_after: float | None) -> KubeError:
    if retry_after is None and status.details is not None:
        retry_after = status.details.retry_after
    kind = _BY_CODE.get(code, ServerFault if code >= _SERVER_FAULT else KubeError)
    if kind is Conflict and status.reason == "AlreadyExists":
        kind = AlreadyExists
    text = _one_line(status.message) or "the body is no Status"
    return kind(
        f"{what}: {code or 'ERROR'} {text}",
        code=code,
        reason=_one_line(status.reason),
        retry_after=retry_after,
    )


def _one_line(text: str) -> str:
    line = "".join(character if character.isprintable() else " " for character in text[: _LONGEST + 1])
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def _seconds(header: str | None) -> float | None:
    """Read Retry-After in seconds; its other form, a date, is never sent by an API server."""
    return float(header) if header is not None and header.isascii() and header.isdecimal() else None
