"""What may come back, held against what was sent. Pure, and independent of `webhook`.

`problem_of_answer` follows the API server's VerifyAdmissionResponse (kubernetes apiserver, pkg/admission/plugin/
webhook/request/admissionreview.go) and what its mutating dispatcher does next with the patch.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import jsonpatch
import msgspec

from soak.reviews import good_review

if TYPE_CHECKING:
    from soak.reviews import Endpoint, ReviewCase
    from soak.wire import WireCase

_OK, _CONTINUE = 200, 100
_NO_REVIEW, _TOO_LARGE = 400, 413
_DEEP = re.compile(rb'"deep": (?:\[+\]+|(?:{"a":)+1}+), ')  # what `reviews` puts in, and no rule reads


class Response(NamedTuple):
    """One HTTP response."""

    status: int
    body: bytes


class Seen(NamedTuple):
    """What came back on a connection: the bytes, and whether the time ran out before an answer or the end."""

    data: bytes
    stalled: bool = False


class NotHttpError(Exception):
    """What came back is no HTTP."""


def responses(data: bytes, *, bodies: bool = True) -> tuple[list[Response], bytes]:
    """Return the whole responses at the start of the data, and the rest; interim ones (1xx) are left out.

    `bodies`: False for answers to HEAD, which state a length and have no body.
    """
    found = []
    while (end := data.find(b"\r\n\r\n")) >= 0:
        lines = data[:end].split(b"\r\n")
        words = lines[0].split(b" ", 2)
        # aiohttp answers in the version that it was asked in, 0.9 and 2.0 included.
        if (
            not re.fullmatch(rb"HTTP/\d\.\d", words[0]) or len(words) < 2 or not words[1].isdigit()
        ):  # version, status
            raise NotHttpError(f"a status line that is none: {lines[0][:80]!r}")
        fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
        length = int(fields.get(b"content-length", b"0")) if bodies else 0
        if b"transfer-encoding" in fields:
            raise NotHttpError("an answer in chunks, which the webhook never sends")
        if len(data) < end + 4 + length:
            break
        if int(words[1]) >= _OK:
            found.append(Response(int(words[1]), data[end + 4 : end + 4 + length]))
        data = data[end + 4 + length :]
    return found, data


def problem_of_review(case: ReviewCase, response: Response, most_bytes: int) -> str | None:
    """Return what is wrong about the answer to a review, None where all is right."""
    if len(case.body) > most_bytes:
        return None if response.status == _TOO_LARGE else f"status {response.status} to a body over the limit"
    review = _read(case.body)
    if response.status == _NO_REVIEW:
        return "status 400 to a review that has a uid" if review and _is_json(case.body) else None
    if response.status != _OK:
        return f"status {response.status}"
    if review is None:
        return "status 200 to what is no review"
    return problem_of_answer(response.body, case.endpoint, review["request"])


def problem_of_wire(case: WireCase, seen: Seen) -> str | None:
    """Return what is wrong about the answers to a broken request, None where all is right."""
    if case.end in {"leave", "abort"}:
        return None  # nobody was there to read
    try:
        found, rest = responses(seen.data, bodies=case.bodies)
    except (NotHttpError, ValueError) as error:
        return str(error) if case.layer == "tls" else None  # a TLS alert, as bytes
    if seen.stalled:
        return f"stalled after {len(found)} answers"
    if rest and case.layer == "tls":
        return "half an answer"
    if len(found) > case.answers:
        return f"{len(found)} answers, {case.answers} at most"
    return _problem_of_answers(case, found)


def _problem_of_answers(case: WireCase, found: list[Response]) -> str | None:
    expected = iter(case.uids)
    for response in found:
        if response.status == _OK:
            uid = next(expected, None)
            if uid is None:
                return "status 200 to a request that may not be read as one"
            if problem := problem_of_answer(response.body, "mutate", good_review(uid)["request"]):
                return problem
        elif response.status not in case.statuses:
            return f"status {response.status}"
    if not case.statuses and next(expected, None) is not None:  # all of it was good
        return "a good request was not answered"
    return None


def problem_of_answer(body: bytes, endpoint: Endpoint, request: dict[str, Any]) -> str | None:
    """Return why the API server would not take the answer to the request, None where it would."""
    try:
        answer = json.loads(body)
        response = answer["response"]
    except (ValueError, TypeError, KeyError):
        return "no JSON object with a response"
    if (answer.get("apiVersion"), answer.get("kind")) != ("admission.k8s.io/v1", "AdmissionReview"):
        return "another apiVersion or kind"
    if response.get("uid") != request["uid"]:
        return "another uid"
    if type(response.get("allowed")) is not bool:
        return "allowed is no boolean"
    return (
        _problem_of_status(response)
        or _problem_of_texts(response)
        or _problem_of_patch(response, endpoint, request.get("object"))
    )


def _problem_of_status(response: dict[str, Any]) -> str | None:
    status = response.get("status")
    if status is None:
        return None if response["allowed"] else "a refusal without a status"
    good = type(status.get("code")) is int and type(status.get("message")) is str and status["message"]
    return None if good else "a status without code or message"


def _problem_of_texts(response: dict[str, Any]) -> str | None:
    annotations, warnings = response.get("auditAnnotations", {}), response.get("warnings", [])
    if not all(type(value) is str and "/" not in key for key, value in annotations.items()):
        return "an audit annotation that is no text, or has a slash in its key"
    if not all(type(warning) is str and warning.isprintable() for warning in warnings):
        return "a warning that is no printable text"
    # Our own faults are answered as reviews too, so a 500 alone would not show them.
    return "an internal error" if annotations.get("fault", "").startswith("internal error") else None


def _problem_of_patch(response: dict[str, Any], endpoint: Endpoint, raw: Any) -> str | None:
    if ("patch" in response) != ("patchType" in response):
        return "patch and patchType not together"
    if "patch" not in response:
        return None
    if endpoint != "mutate":
        return "a patch from /validate"
    if response["patchType"] != "JSONPatch":
        return "another patchType"
    try:
        operations = json.loads(base64.b64decode(response["patch"], validate=True))
        if not operations:
            return "an empty patch"
        jsonpatch.apply_patch(
            raw, operations, in_place=True, atomic=False
        )  # a copy recurses, and pods may be deep
    except (ValueError, TypeError, KeyError, binascii.Error, jsonpatch.JsonPatchException) as error:
        return f"a patch that does not apply ({type(error).__name__})"
    return None


def _read(body: bytes) -> dict[str, Any] | None:
    """Return the review as a lenient reader sees it, None where there is none with a uid.

    Lenient, because a field that no rule reads is skipped by the webhook and not read: NaN or half a character in there
    does no harm. What lies too deep for a recursive reader is left out first.
    """
    try:
        review = json.loads(_DEEP.sub(b"", body).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    named = isinstance(review, dict) and (review.get("apiVersion"), review.get("kind"))
    request = review.get("request") if named == ("admission.k8s.io/v1", "AdmissionReview") else None
    uid = request.get("uid") if isinstance(request, dict) else None
    return review if isinstance(uid, str) and uid else None


def _is_json(body: bytes) -> bool:
    """Whether every reader of RFC 8259 would take the body. Python's own would take NaN too, so msgspec is asked."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
