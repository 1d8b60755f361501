"""From an AdmissionReview to its answer. Pure: policy, namespace labels and time come in, bytes go out.

| resource | operation | /mutate | /validate |
|---|---|---|---|
| pods | CREATE | `mutate` | `judge_final` |
| pods | UPDATE | allowed | `judge_update` (team labels) |
| pods/ephemeralcontainers | UPDATE | `mutate`, new entries | `judge_final`, new entries |
| gpupolicies | CREATE, UPDATE | allowed | refused with every problem |
| workloads with a template | CREATE, UPDATE | allowed | allowed, with warnings |
| anything else | any | allowed | allowed |

The form of the answer follows the API server's own checks (apiserver, pkg/admission/plugin/webhook/request/
admissionreview.go): a break of them counts as a failed call. A patch and its type go together and only from
/mutate; annotation keys have no slash, because the server puts the name of the webhook and a slash before
them.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Literal

import msgspec

from policy.decide import judge_final, judge_update, mutate
from policy.errors import MalformedPod, WorldError
from policy.model import Context, Decision
from policy.pod import ephemeral_view, pod_view
from policy.unreadable import Unreadable
from serve.faults import describe_fault
from webhook import warnings
from webhook.objects import is_pod_request, namespace_of
from webhook.others import Opinion, is_workload, opinion
from webhook.reviews import (
    AdmissionRequest,
    AdmissionResponse,
    MalformedRequestError,
    Review,
    Status,
    decode,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from policy.model import Policy
    from webhook.settings import FailMode

    LabelsOf = Callable[[str], dict[str, str] | Unreadable]

Endpoint = Literal["mutate", "validate"]

_FORBIDDEN = 403
_INVALID = 422
_INTERNAL_ERROR = 500


# What was sent is at fault, gpufence is, or no policy is in force yet.
Cause = Literal["request", "internal", "cold"]


# Characters of what is told of one answer. A denial with ten reasons and their fixes has 3000.
MESSAGE_MAX = 8192


class Fault(msgspec.Struct, frozen=True):
    """Why no decision could be made."""

    text: str
    cause: Cause


class _ColdError(WorldError):
    """No policy is in force."""


class Answered(msgspec.Struct, frozen=True):
    """An answer and how it came about.

    `decision` is None where there was no pod to judge, and with a fault; `opinion` is what /validate says of
    another object; `request` is None where it could not be read beyond its uid. `fail_mode` goes with a fault.
    """

    response: AdmissionResponse
    request: AdmissionRequest | None = None
    decision: Decision | None = None
    fault: Fault | None = None
    opinion: Opinion | None = None
    fail_mode: FailMode | None = None


class Terms(msgspec.Struct, frozen=True):
    """By what an answer is made, beside what was sent. `fail_mode` is for what cannot be decided."""

    policy: Policy | Unreadable
    labels_of: LabelsOf
    now: datetime
    fail_mode: FailMode


def answer_body(body: bytes, endpoint: Endpoint, terms: Terms) -> Answered:
    """Answer a body; NotAReviewError where it holds no AdmissionReview."""
    try:
        review = decode(body)
    except MalformedRequestError as error:
        fault = Fault(_short(str(error)), "request")
        response = _undecided(error.uid, fault, terms.fail_mode)
        return Answered(response, fault=fault, fail_mode=terms.fail_mode)
    return answer_review(review, endpoint, terms)


def answer_review(review: Review, endpoint: Endpoint, terms: Terms) -> Answered:
    """Answer a review. A dry run gets the same answer: nothing here has a side effect."""
    request = review.request
    found: Opinion | None = None
    try:
        context = _context(request, terms)
        decision = _decide(request, endpoint, terms.policy, context)
        if decision is None and endpoint == "validate":
            found = opinion(request, terms.policy, context)
            response = _opined(request.uid, found)
        else:
            response = _decided(request.uid, endpoint, decision)
    except MalformedPod as error:
        fault = Fault(_short(f"the pod is malformed: {error}"), "request")
    except _ColdError as error:
        fault = Fault(f"no policy is in force: {error}", "cold")
    except Exception as error:  # noqa: BLE001 - whatever fails in here, the API server gets a valid answer
        fault = Fault(f"internal error: {describe_fault(error)}", "internal")
    else:
        return Answered(response, request, decision, opinion=found)
    if is_workload(request):
        return Answered(_unwarned(request.uid, fault), request, fault=fault, fail_mode="allow")
    response = _undecided(request.uid, fault, terms.fail_mode)
    return Answered(response, request, fault=fault, fail_mode=terms.fail_mode)


def _decide(
    request: AdmissionRequest, endpoint: Endpoint, policy: Policy | Unreadable, context: Context
) -> Decision | None:
    """Return the decision about a pod, None where the request is about none."""
    if not is_pod_request(request):
        return None
    judge = mutate if endpoint == "mutate" else judge_final
    match request.sub_resource or "", request.operation:
        case "", "CREATE":
            return judge(pod_view(request.object), _in_force(policy), context)
        case "", "UPDATE" if endpoint == "validate":
            old, new = pod_view(request.old_object), pod_view(request.object)
            return judge_update(old, new, _in_force(policy), context)
        case "ephemeralcontainers", "UPDATE":
            return judge(ephemeral_view(request.object, request.old_object), _in_force(policy), context)
        case _:
            return None


def _in_force(policy: Policy | Unreadable) -> Policy:
    if isinstance(policy, Unreadable):
        raise _ColdError(policy.reason)
    return policy


def _context(request: AdmissionRequest, terms: Terms) -> Context:
    namespace = namespace_of(request)
    user = request.user_info
    return Context(
        namespace=namespace,
        now=terms.now,
        namespace_labels=terms.labels_of(namespace),
        user=(user.username if user else None) or "",
        groups=(user.groups if user else None) or (),
    )


def _decided(uid: str, endpoint: Endpoint, decision: Decision | None) -> AdmissionResponse:
    if decision is None:
        return AdmissionResponse(uid, allowed=True)
    patched = endpoint == "mutate" and decision.allowed and bool(decision.patch)
    return AdmissionResponse(
        uid,
        decision.allowed,
        status=None if decision.allowed else Status(_short(decision.message), "Forbidden", _FORBIDDEN),
        patch=base64.b64encode(msgspec.json.encode(decision.patch)).decode("ascii") if patched else None,
        patch_type="JSONPatch" if patched else None,
        audit_annotations=_annotations(decision),
        warnings=warnings.fit(decision.warnings),
    )


def _short(text: str) -> str:
    """Cut a text that quotes names of a pod: they are validated only after mutation, so they may be megabytes."""
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 3] + "..."


def _opined(uid: str, found: Opinion) -> AdmissionResponse:
    status = None if found.allowed else Status(found.message, "Invalid", _INVALID)
    return AdmissionResponse(uid, found.allowed, status=status, warnings=warnings.fit(found.warnings))


def _annotations(decision: Decision) -> dict[str, str]:
    values = {
        "decision": decision.digest,
        "team": decision.team or "",
        "rules": ",".join(sorted({judged.hit.rule for judged in decision.hits})),
    }
    return {key: value for key, value in values.items() if value}


def _unwarned(uid: str, fault: Fault) -> AdmissionResponse:
    """Let a workload in whatever the fail mode: refusing it would only hide its pods, which are judged anyway."""
    text = f"gpufence could not judge the pod template; its pods are judged when they are made: {fault.text}"
    annotations = {"fail-mode": "allow", "fault": fault.text}
    return AdmissionResponse(uid, allowed=True, audit_annotations=annotations, warnings=warnings.fit([text]))


def _undecided(uid: str, fault: Fault, fail_mode: FailMode) -> AdmissionResponse:
    """Answer under the fail mode.

    A refusal has code 500, so that the API server's rejection metric (rejection_code) tells it from a denial
    by a rule, which has 403.
    """
    outcome = {
        "allow": "the pod is let in unjudged (failMode allow)",
        "audit": "the pod is let in unjudged; under failMode deny it would be refused (failMode audit)",
        "deny": "the pod is refused (failMode deny)",
    }[fail_mode]
    text = f"gpufence could not decide, {outcome}: {fault.text}"
    allowed = fail_mode != "deny"
    return AdmissionResponse(
        uid,
        allowed,
        status=None if allowed else Status(text, "InternalError", _INTERNAL_ERROR),
        audit_annotations={"fail-mode": fail_mode, "fault": fault.text},
        warnings=warnings.fit([text]),
    )
