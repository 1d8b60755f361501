"""AdmissionReview v1 by the letter: which webhooks match, what they are sent, what they may answer. Pure.

Sources: k8s.io/apiserver pkg/admission/plugin/webhook (predicates/rules, request/admissionreview.go,
errors/statuserror.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sandbox.apiserver.resources import MUTATING, NAMESPACES, VALIDATING, Object, Resource, labels_of, name_of
from sandbox.apiserver.selectors import selects
from sandbox.apiserver.status import StatusError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Operation = Literal["CREATE", "UPDATE", "DELETE"]
Phase = Literal["mutating", "validating"]


class User(msgspec.Struct, frozen=True):
    """Who asks. Named and shaped as in a TokenReview's `status.user`."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""

    def info(self) -> Object:
        """Return it as `userInfo`; an empty uid is left out."""
        uid = {"uid": self.uid} if self.uid else {}
        return {"username": self.name, **uid, "groups": list(self.groups)}


class Attributes(msgspec.Struct, frozen=True):
    """What admission knows of one request. `object` is None for DELETE, `old` is None for CREATE.

    `options` are the CreateOptions, UpdateOptions or DeleteOptions of the request. `kind` is what the object is, where
    it is not of the resource's own kind.
    """

    resource: Resource
    operation: Operation
    namespace: str
    name: str
    user: User
    options: Object
    object: Object | None
    old: Object | None = None
    subresource: str = ""
    dry_run: bool = False
    kind: Resource | None = None


class Hook(msgspec.Struct, frozen=True):
    """One entry of a webhook configuration's `webhooks`, as it was written (defaults are in it)."""

    configuration: str
    phase: Phase
    spec: Object

    @property
    def name(self) -> str:
        """The name of the webhook, as denials show it."""
        return str(self.spec["name"])

    @property
    def ignores_failure(self) -> bool:
        """Whether a failed call lets the request pass."""
        return bool(self.spec["failurePolicy"] == "Ignore")

    @property
    def identity(self) -> tuple[str, str]:
        """What tells it from every other hook of its phase."""
        return self.configuration, self.name


class Response(msgspec.Struct, frozen=True, rename="camel"):
    """`response` of an AdmissionReview. `patch` is base64 on the wire and bytes here."""

    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """An AdmissionReview as a webhook answers it."""

    api_version: str = ""
    kind: str = ""
    response: Response | None = None


def hooks_of(phase: Phase, configurations: Iterable[Object]) -> list[Hook]:
    """Return all webhooks in the order of their calls: by configuration name, then as written."""
    ordered = sorted(configurations, key=name_of)
    return [Hook(name_of(each), phase, spec) for each in ordered for spec in each.get("webhooks") or ()]


def matches(hook: Hook, attributes: Attributes, namespace_labels: Mapping[str, str]) -> bool:
    """Whether the webhook is called for a request. `namespace_labels` are those of the request's namespace.

    matchPolicy makes no difference: every resource has one version here. The webhook configurations
    themselves are never sent to webhooks.
    """
    if attributes.resource in (MUTATING, VALIDATING):
        return False
    if not any(_rule_matches(rule, attributes) for rule in hook.spec.get("rules") or ()):
        return False
    return _namespace_selected(hook, attributes, namespace_labels) and _object_selected(hook, attributes)


def _rule_matches(rule: Object, attributes: Attributes) -> bool:
    resource = attributes.resource
    return (
        _listed(rule["operations"], attributes.operation)
        and _listed(rule["apiGroups"], resource.group)
        and _listed(rule["apiVersions"], resource.version)
        and rule.get("scope", "*")
        in ("*", "Namespaced" if attributes.namespace and resource.namespaced else "Cluster")
        and any(
            _resource_matches(pattern, resource.plural, attributes.subresource)
            for pattern in rule["resources"]
        )
    )


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    """Match `pods`, `pods/status`, `pods/*`, `*/status`, `*/*`; a lone `*` means no subresource."""
    wanted, _, wanted_sub = pattern.partition("/")
    return wanted in ("*", plural) and wanted_sub in (subresource, "*")


def _listed(values: Iterable[str], value: str) -> bool:
    return any(each in ("*", value) for each in values)


def _namespace_selected(hook: Hook, attributes: Attributes, labels: Mapping[str, str]) -> bool:
    """Cluster-scoped objects are always selected; a Namespace is judged by its own labels."""
    selector = hook.spec.get("namespaceSelector")
    if attributes.resource == NAMESPACES:
        return selects(selector, labels_of(attributes.object or attributes.old or {}))
    return not attributes.namespace or selects(selector, labels)


def _object_selected(hook: Hook, attributes: Attributes) -> bool:
    """Whether the selector matches the new or the old object: either is enough."""
    selector = hook.spec.get("objectSelector")
    return any(
        selects(selector, labels_of(each)) for each in (attributes.object, attributes.old) if each is not None
    )


def review_of(attributes: Attributes, uid: str) -> Object:
    """Return the AdmissionReview that is sent. Empty name, namespace and subResource are left out."""
    resource = attributes.resource
    of = attributes.kind or resource
    kind = {"group": of.group, "version": of.version, "kind": of.kind}
    plural = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    optional = {
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
    }
    request = {
        "uid": uid,
        "kind": kind,
        "resource": plural,
        "requestKind": kind,
        "requestResource": plural,
        **{key: value for key, value in optional.items() if value},
        "operation": attributes.operation,
        "userInfo": attributes.user.info(),
        "object": attributes.object,
        "oldObject": attributes.old,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def verified(body: bytes, uid: str, phase: Phase) -> Response:
    """Read a webhook's answer. ValueError, with kube-apiserver's text, where it breaks a rule."""
    try:
        review = msgspec.json.decode(body, type=Review)
    except msgspec.MsgspecError as error:
        raise ValueError(f"could not decode the response: {error}") from error
    response = review.response
    if response is None:
        raise ValueError("webhook response was absent")
    if response.uid != uid:
        raise ValueError(f'expected response.uid="{uid}", got "{response.uid}"')
    if (review.api_version, review.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        got = f"{review.api_version}, Kind={review.kind}"
        raise ValueError(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}")
    _check_patch(response, phase)
    return response


def _check_patch(response: Response, phase: Phase) -> None:
    if phase == "validating":
        if response.patch:
            raise ValueError("validating webhook may not return response.patch")
        if response.patch_type is not None:
            raise ValueError("validating webhook may not return response.patchType")
        return
    if response.patch and response.patch_type is None:
        raise ValueError("webhook returned response.patch but not response.patchType")
    if not response.patch and response.patch_type is not None:
        raise ValueError("webhook returned response.patchType but not response.patch")
    if response.patch_type not in (None, "JSONPatch"):
        raise ValueError(f'unsupported patch type "{response.patch_type}"')


def operations_of(response: Response) -> list[Any]:
    """Return the operations of a mutating answer, if any. ValueError where they are unreadable."""
    if not response.patch:
        return []
    try:
        return msgspec.json.decode(response.patch, type=list[dict[str, Any]])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def denial(hook: Hook, response: Response) -> StatusError:
    """Return the error that a denied request is answered with (ToStatusErr): a code below 400 becomes 400."""
    status = dict(response.status or {})
    denied = f'admission webhook "{hook.name}" denied the request'
    why = status.get("message") or status.get("reason")
    code = status.get("code") or 0
    return StatusError(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            **status,
            "status": "Failure" if status.get("status") in (None, "", "Success") else status["status"],
            "message": f"{denied}: {why}" if why else f"{denied} without explanation",
            "code": max(code, 400),
        }
    )


def audit_annotations(hook: Hook, response: Response) -> dict[str, str]:
    """Return what the audit event would carry: `<webhook name>/<key>`. A key with "/" is lost."""
    found = response.audit_annotations or {}
    return {f"{hook.name}/{key}": value for key, value in found.items() if "/" not in key}
