"""What a record or a notice says of the object of a request, read so that nothing malformed can break it.

Unlike the pod view, which refuses what it cannot read: by the time of a record the answer has been given, and a pod
may have been refused because it is malformed. What has the wrong type is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from audit.record import Owner, Subject

if TYPE_CHECKING:
    from webhook.reviews import AdmissionRequest

_PODS = "pods"


def is_pod_request(request: AdmissionRequest) -> bool:
    """Whether the request is about a pod or a part of one."""
    resource = request.resource
    return resource is not None and resource.resource == _PODS and not resource.group


def subject_of(request: AdmissionRequest) -> Subject:
    """Return what the request is about."""
    metadata = _metadata(request.old_object if request.object is None else request.object)
    api_version, kind = _type(request)
    return Subject(
        api_version=api_version,
        kind=kind,
        subresource=request.sub_resource or "",
        namespace=namespace_of(request),
        name=_text(metadata, "name") or request.name or "",
        generate_name=_text(metadata, "generateName"),
        uid=_text(metadata, "uid"),
        owner=owner_of(request),
    )


def namespace_of(request: AdmissionRequest) -> str:
    """Return the namespace of the request, as the decision takes it."""
    return request.namespace or _text(_metadata(request.object), "namespace")


def owner_of(request: AdmissionRequest) -> Owner | None:
    """Return the controller that the object names, None where it names none."""
    references = _metadata(request.object).get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller") is True:
            return Owner(
                api_version=_text(reference, "apiVersion"),
                kind=_text(reference, "kind"),
                name=_text(reference, "name"),
                uid=_text(reference, "uid"),
            )
    return None


def _type(request: AdmissionRequest) -> tuple[str, str]:
    """Return (apiVersion, kind). Of a pod always Pod: up to Kubernetes 1.21 a debug container has a kind of its own."""
    if is_pod_request(request):
        return "v1", "Pod"
    found = request.old_object if request.object is None else request.object
    raw = found if isinstance(found, dict) else {}
    resource = request.resource
    group, version = (resource.group or "", resource.version or "") if resource else ("", "")
    return _text(raw, "apiVersion") or (f"{group}/{version}" if group else version), _text(raw, "kind")


def _metadata(raw: Any) -> dict[str, Any]:
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _text(parent: dict[str, Any], key: str) -> str:
    value = parent.get(key)
    return value if isinstance(value, str) else ""
