"""From a document to the decisions about its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from cli.check.results import Judged, Problem, Skipped
from policy.decide import mutate
from policy.errors import MalformedPod
from policy.model import Context, Policy
from policy.pod import pod_view
from policy.templates import Item, TemplateProblem, find, unfold
from webhook.answer import Endpoint, Terms, answer_review
from webhook.reviews import KIND as REVIEW
from webhook.reviews import AdmissionRequest, MalformedRequestError, NotAReviewError, Review, UserInfo, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from cli.check.results import Document, Outcome
    from policy.templates import Template
    from policy.unreadable import Unreadable

DEFAULT_NAMESPACE = "default"


class Asked(msgspec.Struct, frozen=True):
    """What the person at the command line said beside the documents.

    `namespace`, `user` and `groups` fill in what a document does not say. `endpoint` is None where each
    AdmissionReview is to be judged at the endpoint that decides about it.
    """

    policy: Policy
    now: datetime
    labels_of: Callable[[str], dict[str, str] | Unreadable]
    namespace: str = DEFAULT_NAMESPACE
    user: str = ""
    groups: tuple[str, ...] = ()
    endpoint: Endpoint | None = None


def judge(document: Document, asked: Asked) -> Iterator[Outcome]:
    """Yield what becomes of every pod in a document: at least one outcome, whatever the document holds."""
    empty = True
    for item in unfold(document.value, kind=document.kind, api_version=document.api_version):
        empty = False
        if isinstance(item, TemplateProblem):
            yield _problem(document, item)
        elif item.kind == REVIEW:
            yield from _judge_review(document, item.value, asked)
        else:
            yield from _judge_item(document, item, asked)
    if empty:  # a List without items
        yield Skipped()


def _judge_item(document: Document, item: Item, asked: Asked) -> Iterator[Outcome]:
    templates, problems = find(item)
    yield from (_problem(document, problem) for problem in problems)
    for template in templates:
        yield _judge_template(document, template, asked)
    if not templates and not problems:
        yield Skipped()


def _judge_template(document: Document, template: Template, asked: Asked) -> Judged | Problem:
    namespace = template.namespace or asked.namespace
    context = Context(namespace, asked.now, asked.labels_of(namespace), asked.user, asked.groups)
    try:
        view = pod_view(template.pod, controlled=template.controlled, live=_is_live(template.pod))
        decision = mutate(view, asked.policy, context)
    except MalformedPod as error:
        where = "" if template.path == "spec" else f" (a path within the template at {template.path})"
        message = f"{template.kind} {template.name or '(no name)'}: {error}{where}"
        return Problem(document.source, document.index, message, "Give the field the type of the pod API.")
    return Judged(
        source=document.source,
        document=document.index,
        kind=template.kind,
        namespace=namespace,
        name=template.name,
        path=template.path,
        pod=template.pod,
        decision=decision,
        warnings=document.warnings,
        lines=document.lines,
    )


def _is_live(pod: dict[str, Any]) -> bool:
    """Whether the pod comes from a cluster and runs: its nodeName is then the scheduler's."""
    status = pod.get("status")
    return isinstance(status, dict) and status.get("startTime") is not None


def _judge_review(document: Document, raw: dict[str, Any], asked: Asked) -> Iterator[Outcome]:
    try:
        review = _completed(decode(msgspec.json.encode(raw)), asked)
    except (NotAReviewError, MalformedRequestError) as error:
        message = f"not an AdmissionReview that can be judged: {error}"
        yield Problem(document.source, document.index, message, "Save the request as the API server sent it.")
        return
    request = review.request
    terms = Terms(asked.policy, asked.labels_of, asked.now, "deny")
    answered = answer_review(review, asked.endpoint or _endpoint(request), terms)
    if answered.fault is not None:
        fix = (
            "This is a bug of gpufence: please report it."
            if answered.fault.cause == "internal"
            else "Correct the object."
        )
        yield Problem(document.source, document.index, answered.fault.text, fix)
    elif answered.decision is None:
        yield from _judge_other(document, request, asked)
    else:
        yield _reviewed(document, request, answered.decision)


def _completed(review: Review, asked: Asked) -> Review:
    """Fill in from the command line what the request does not say."""
    request = review.request
    if not (request.user_info and request.user_info.username):
        request = replace(request, user_info=UserInfo(asked.user, asked.groups))
    metadata = request.object.get("metadata") if isinstance(request.object, dict) else None
    own = metadata.get("namespace") if isinstance(metadata, dict) else None
    if not (request.namespace or own):
        request = replace(request, namespace=asked.namespace)
    return replace(review, request=request)


def _endpoint(request: AdmissionRequest) -> Endpoint:
    """Return the endpoint that decides: an update of a pod is only judged at /validate."""
    return "validate" if request.operation == "UPDATE" and not request.sub_resource else "mutate"


def _judge_other(document: Document, request: AdmissionRequest, asked: Asked) -> Iterator[Outcome]:
    """Judge the pods that a request for another object would lead to: a Deployment, a JobSet, ..."""
    if request.operation not in {"CREATE", "UPDATE"} or not isinstance(request.object, dict):
        yield Skipped()
        return
    user = request.user_info or UserInfo()
    in_request = replace(
        asked,
        namespace=request.namespace or asked.namespace,
        user=user.username or "",
        groups=user.groups or (),
    )
    for item in unfold(request.object):
        if isinstance(item, TemplateProblem):
            yield _problem(document, item)
        elif item.kind == "Pod":  # a sub-resource such as status or resize: the webhook is not asked
            yield Skipped()
        else:
            yield from _judge_item(document, _in_namespace(item, in_request.namespace), in_request)


def _in_namespace(item: Item, namespace: str) -> Item:
    """Return the object with the namespace of the request, which wins over its own."""
    metadata = item.value.get("metadata")
    if not isinstance(metadata, dict):
        return item
    return replace(item, value={**item.value, "metadata": {**metadata, "namespace": namespace}})


def _reviewed(document: Document, request: AdmissionRequest, decision: Any) -> Judged:
    pod = request.object
    metadata = pod.get("metadata") or {}
    return Judged(
        source=document.source,
        document=document.index,
        kind=_first_text(pod.get("kind"), "Pod"),
        namespace=_first_text(request.namespace, metadata.get("namespace")),
        name=_first_text(metadata.get("name"), request.name, metadata.get("generateName")),
        path="spec" if "spec" in pod else "",
        pod=pod,
        decision=decision,
        warnings=document.warnings,
        lines=document.lines,
    )


def _first_text(*values: object) -> str:
    return next((value for value in values if isinstance(value, str) and value), "")


def _problem(document: Document, found: TemplateProblem) -> Problem:
    return Problem(document.source, document.index, found.message, found.fix)
