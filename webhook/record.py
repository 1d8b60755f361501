"""Which answers are recorded, and as what. Pure: the answer, the time and the id come in.

| answer | record |
|---|---|
| a denied pod | by the call that denies it: a pod denied at /mutate never comes to /validate |
| an allowed pod at /mutate | where there is a patch, with the patch |
| an allowed pod or debug container at /validate | always: only there has the pod a uid |
| an allowed update of a pod | where a rule applied: else each status update would be one |
| a GpuPolicy at /validate | `policy_change` |
| undecided | always |
| a dry run, a workload, anything else | never |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from audit.bounds import bounded
from audit.identity import timestamp
from audit.record import Actor, Hit, PatchOperation, Record
from webhook.objects import subject_of
from webhook.others import is_policy_request

if TYPE_CHECKING:
    from datetime import datetime

    from policy.model import Decision, JudgedHit
    from webhook.answer import Answered, Endpoint, Fault
    from webhook.others import Opinion
    from webhook.reviews import AdmissionRequest

_Fields = dict[str, Any]


def record_of(
    endpoint: Endpoint,
    answered: Answered,
    *,
    at: datetime,
    identifier: str,
    writer: str = "",
    latency_micros: int | None = None,
) -> Record | None:
    """Return the record of an answer, within the bounds of `audit.bounds`; None where there is nothing to keep.

    `at` is aware; `identifier` comes from `audit.identity.record_id`; `latency_micros` is None where it was not
    measured.
    """
    request = answered.request
    if request is not None and request.dry_run:
        return None
    found = _outcome(endpoint, answered)
    if found is None:
        return None
    asked = _asked(request) if request is not None else {"request_uid": answered.response.uid}
    whole = Record(
        id=identifier,
        time=timestamp(at),
        writer=writer,
        endpoint=endpoint,
        latency_micros=latency_micros,
        **asked,
        **found,
    )
    return bounded(whole)


def _outcome(endpoint: Endpoint, answered: Answered) -> _Fields | None:
    request, decision, opinion = answered.request, answered.decision, answered.opinion
    if answered.fault is not None:
        return _of_fault(request, answered.fault, answered.fail_mode or "")
    if decision is not None:
        return _of_decision(endpoint, decision) if _is_kept(endpoint, request, decision) else None
    if opinion is not None and opinion.policy_version is not None:
        return _of_policy(opinion, opinion.policy_version)
    return None


def _is_kept(endpoint: Endpoint, request: AdmissionRequest | None, decision: Decision) -> bool:
    if not decision.allowed:
        return True
    if endpoint == "mutate":
        return bool(decision.patch)
    is_update = request is not None and request.operation == "UPDATE" and not request.sub_resource
    return bool(decision.hits) or not is_update


def _asked(request: AdmissionRequest) -> _Fields:
    user = request.user_info
    return {
        "operation": request.operation or "",
        "request_uid": request.uid,
        "actor": Actor(username=user.username or "", uid=user.uid or "", groups=user.groups or ())
        if user
        else None,
        "subject": subject_of(request),
    }


def _of_fault(request: AdmissionRequest | None, fault: Fault, fail_mode: str) -> _Fields:
    is_policy = request is not None and is_policy_request(request)
    return {
        "kind": "policy_change" if is_policy else "admission",
        "verdict": "undecided",
        "fault": fault.text,
        "fail_mode": fail_mode,
    }


def _of_decision(endpoint: Endpoint, decision: Decision) -> _Fields:
    patch = decision.patch if endpoint == "mutate" and decision.allowed else ()
    return {
        "kind": "admission",
        "verdict": decision.verdict,
        "team": decision.team or "",
        "hits": tuple([_hit(judged) for judged in decision.hits]),
        "patch": msgspec.convert(patch, tuple[PatchOperation, ...]),
        "exempt": decision.exempt,
        "policy_version": decision.policy_version,
        "decision": decision.digest,
        "notes": decision.notes,
    }


def _of_policy(opinion: Opinion, version: str) -> _Fields:
    told = opinion.message.splitlines() if not opinion.allowed else opinion.warnings
    return {
        "kind": "policy_change",
        "verdict": "allow" if opinion.allowed else "deny",
        "policy_version": version,
        "notes": tuple(told),
    }


def _hit(judged: JudgedHit) -> Hit:
    hit = judged.hit
    return Hit(
        rule=hit.rule,
        case=hit.case,
        path=hit.path,
        container=hit.container or "",
        # Never "off": `decide` leaves such hits out.
        mode=judged.mode if judged.mode != "off" else "audit",
        action=judged.action,
        because=judged.because,
        message=hit.lasting,
    )
