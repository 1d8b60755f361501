"""The table of resources. Adding one is one line; discovery, paths, storage and admission all read it."""

from __future__ import annotations

from typing import Any

import msgspec

Object = dict[str, Any]  # an API object as JSON has it; never changed once it is stored

REGISTRATION = "admissionregistration.k8s.io"


class Resource(msgspec.Struct, frozen=True):
    """One resource as discovery and the registry know it.

    `fields` are the field selectors beside metadata.name and metadata.namespace. `conditional`: an update
    must name a resourceVersion (AllowUnconditionalUpdate is false in kube-apiserver). `keeps_status`:
    create keeps the status that the client sent. `returns_deleted`: DELETE answers with the object rather
    than with a Status. `review`: POST only, answered and never stored.
    """

    group: str
    version: str
    plural: str
    kind: str
    short: tuple[str, ...] = ()
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    conditional: bool = False
    custom: bool = False
    keeps_status: bool = False
    returns_deleted: bool = False
    review: bool = False

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`, as objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`pods` or `deployments.apps`, as messages carry it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """The name that `kubectl get pod` uses."""
        return self.kind.lower()


_STATUS = ("status",)
_SCALED = ("status", "scale")
_INVOLVED = tuple(
    f"involvedObject.{part}"
    for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
)

PODS = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    ("po",),
    subresources=("status", "ephemeralcontainers"),
    fields=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
    ),
    returns_deleted=True,
)
NAMESPACES = Resource(
    "",
    "v1",
    "namespaces",
    "Namespace",
    ("ns",),
    namespaced=False,
    subresources=_STATUS,
    fields=("status.phase",),
)
MUTATING = Resource(
    REGISTRATION,
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
    conditional=True,
)
VALIDATING = Resource(
    REGISTRATION,
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
    conditional=True,
)

SCALE = Resource("autoscaling", "v1", "", "Scale")  # the kind of a subresource, never a resource itself

RESOURCES: tuple[Resource, ...] = (
    PODS,
    NAMESPACES,
    MUTATING,
    VALIDATING,
    Resource("", "v1", "configmaps", "ConfigMap", ("cm",)),
    Resource("", "v1", "secrets", "Secret", fields=("type",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", ("sa",), returns_deleted=True),
    Resource("", "v1", "services", "Service", ("svc",), subresources=_STATUS, returns_deleted=True),
    Resource("", "v1", "events", "Event", ("ev",), fields=(*_INVOLVED, "reason", "source", "type")),
    Resource(
        "",
        "v1",
        "nodes",
        "Node",
        ("no",),
        namespaced=False,
        subresources=_STATUS,
        fields=("spec.unschedulable",),
        keeps_status=True,
    ),
    Resource("events.k8s.io", "v1", "events", "Event", ("ev",), fields=("reason", "type")),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", conditional=True),
    Resource("apps", "v1", "deployments", "Deployment", ("deploy",), subresources=_SCALED),
    Resource("apps", "v1", "replicasets", "ReplicaSet", ("rs",), subresources=_SCALED),
    Resource("apps", "v1", "daemonsets", "DaemonSet", ("ds",), subresources=_STATUS),
    Resource("apps", "v1", "statefulsets", "StatefulSet", ("sts",), subresources=_SCALED),
    Resource("batch", "v1", "jobs", "Job", subresources=_STATUS, fields=("status.successful",)),
    Resource("batch", "v1", "cronjobs", "CronJob", ("cj",), subresources=_STATUS),
    Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", subresources=_STATUS),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource(
        "resource.k8s.io",
        "v1",
        "resourceslices",
        "ResourceSlice",
        namespaced=False,
        fields=("spec.nodeName", "spec.driver"),
    ),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        ("crd", "crds"),
        namespaced=False,
        subresources=_STATUS,
        conditional=True,
    ),
    Resource(
        "gpufence.io",
        "v1alpha1",
        "gpupolicies",
        "GpuPolicy",
        namespaced=False,
        subresources=_STATUS,
        conditional=True,
        custom=True,
    ),
    Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False, review=True),
    Resource(
        "authorization.k8s.io",
        "v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
        namespaced=False,
        review=True,
    ),
)

_BY_PATH = {(resource.group, resource.version, resource.plural): resource for resource in RESOURCES}


def find(group: str, version: str, plural: str) -> Resource | None:
    """Return the resource that a path names, None where there is no such resource."""
    return _BY_PATH.get((group, version, plural))


def value_at(obj: Object, path: str) -> str:
    """Return the value at a dotted path as field selectors compare it; "" where it is absent."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def name_of(obj: Object) -> str:
    """Return metadata.name, "" where it has none."""
    return str(obj.get("metadata", {}).get("name") or "")


def namespace_of(obj: Object) -> str:
    """Return metadata.namespace, "" where it has none."""
    return str(obj.get("metadata", {}).get("namespace") or "")


def labels_of(obj: Object) -> dict[str, str]:
    """Return metadata.labels, empty where it has none."""
    return dict(obj.get("metadata", {}).get("labels") or {})
