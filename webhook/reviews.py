"""The wire types of AdmissionReview, admission.k8s.io/v1. Shapes only, no decisions.

Unknown fields are skipped: an API server later than this version may send more. A JSON null stands for an
absent field, as in Go's decoder.
"""

from __future__ import annotations

from typing import Any

import msgspec

from policy.errors import CallerError

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
EXPECTED = f"expected a JSON object with apiVersion {API_VERSION}, kind {KIND} and a request that has a uid"


class NotAReviewError(CallerError):
    """No AdmissionReview that could be answered: without a request uid there is no valid answer."""

    def __init__(self, found: str) -> None:
        super().__init__(f"{found}; {EXPECTED}")


class GroupVersionResource(msgspec.Struct, frozen=True, gc=False):
    """What the request is about, as the webhook was registered for it (matchPolicy Equivalent)."""

    group: str | None = ""
    version: str | None = ""
    resource: str | None = ""


class UserInfo(msgspec.Struct, frozen=True):
    """Who made the request."""

    username: str | None = ""
    groups: tuple[str, ...] | None = ()
    uid: str | None = ""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The request; `object` and `old_object` are raw JSON."""

    uid: str
    resource: GroupVersionResource | None = None
    sub_resource: str | None = ""
    name: str | None = ""  # empty at CREATE with generateName
    namespace: str | None = ""
    operation: str | None = ""
    user_info: UserInfo | None = None
    object: Any = None
    old_object: Any = None
    dry_run: bool | None = False


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """What the API server sends."""

    api_version: str
    kind: str
    request: AdmissionRequest


class Status(msgspec.Struct, frozen=True, gc=False):
    """The part of metav1.Status that the API server passes on to the user."""

    message: str
    reason: str
    code: int
    status: str = msgspec.field(default_factory=lambda: "Failure")


class AdmissionResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The response; `patch` is base64 and goes together with `patch_type`."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


class ReviewAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What the API server gets back."""

    api_version: str
    kind: str
    response: AdmissionResponse


class _Identified(msgspec.Struct, frozen=True):
    """As much of a request as an answer needs."""

    uid: str


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: _Identified


class MalformedRequestError(CallerError):
    """The review has a uid, so it can be answered, but another field has the wrong type."""

    def __init__(self, uid: str, problem: str) -> None:
        self.uid = uid
        super().__init__(f"the AdmissionReview is malformed: {problem}")


# A value takes up to 64 bytes once it is read, an empty list three in JSON: 10 MiB of them would take 300 MiB. Two
# copies of an object of 1.5 MiB (etcd's limit) that is all variables, or managed fields, have 700,000.
VALUES_MAX = 1_000_000
_STRUCTURE = (b",", b"[", b"{")

_review = msgspec.json.Decoder(Review)
_envelope = msgspec.json.Decoder(_Envelope)
_encoder = msgspec.json.Encoder()


def decode(body: bytes) -> Review:
    """Read a review.

    NotAReviewError where there is none, MalformedRequestError where there is one that cannot be judged.
    """
    if sum(map(body.count, _STRUCTURE)) > VALUES_MAX:
        raise MalformedRequestError(_uid(body), f"it holds more than {VALUES_MAX} values")
    try:
        review = _review.decode(body)
    except msgspec.ValidationError as error:
        raise MalformedRequestError(_uid(body), str(error)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotAReviewError(_undecodable(error)) from error
    _check(review.api_version, review.kind, review.request.uid)
    return review


def encode(response: AdmissionResponse) -> bytes:
    """Write the answer as the API server reads it."""
    return _encoder.encode(ReviewAnswer(API_VERSION, KIND, response))


def _uid(body: bytes) -> str:
    try:
        envelope = _envelope.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotAReviewError(_undecodable(error)) from error
    _check(envelope.api_version, envelope.kind, envelope.request.uid)
    return envelope.request.uid


def _check(api_version: str, kind: str, uid: str) -> None:
    if kind != KIND or api_version != API_VERSION:
        # An API server that only speaks v1beta1 (before 1.16) is not answered: its response has another form.
        raise NotAReviewError(f"found apiVersion {api_version!r} and kind {kind!r}")
    if not uid:
        raise NotAReviewError("request.uid is empty")


def _undecodable(error: Exception) -> str:
    # The texts of msgspec name positions, paths and types, never values.
    return "the JSON is nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
