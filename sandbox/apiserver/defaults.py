"""What kube-apiserver fills in: defaults of a kind, and what its built-in admission plugins add to a pod.

Defaults are applied when an object is decoded and again after each mutating patch (k8s.io/apiserver
webhook/mutating/dispatcher.go). Everything here changes `obj` in place and is idempotent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandbox.apiserver.resources import MUTATING, NAMESPACES, PODS, VALIDATING, Object, Resource, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ACCOUNT_VOLUME = "kube-api-access-"


def containers_of(pod: Object) -> Iterator[tuple[str, int, Object]]:
    """Yield (list name, index, container) for every container of all three kinds."""
    for kind in CONTAINER_LISTS:
        for index, container in enumerate(pod.get("spec", {}).get(kind) or ()):
            yield kind, index, container


def apply_defaults(resource: Resource, obj: Object) -> None:
    """Fill in what the kind's defaulting function fills in."""
    if resource == PODS:
        _pod(obj)
    elif resource == NAMESPACES:
        obj["metadata"].setdefault("labels", {})[NAMESPACE_LABEL] = name_of(obj)
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj.setdefault("status", {})
    elif "scale" in resource.subresources:
        obj.setdefault("spec", {}).setdefault("replicas", 1)
    elif resource in (MUTATING, VALIDATING):
        for webhook in obj.get("webhooks") or ():
            _webhook(webhook, mutating=resource == MUTATING)


def admit_pod(pod: Object, suffix: Callable[[], str]) -> None:
    """Add what the built-in plugins add before any webhook sees the pod.

    These are ServiceAccount, DefaultTolerationSeconds and Priority. The first mounts the token as a volume
    of a random name (`suffix` returns five random characters); whether the account exists is not looked at.
    """
    spec = pod["spec"]
    spec["serviceAccountName"] = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccount"] = spec["serviceAccountName"]
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        _tolerate(spec.setdefault("tolerations", []), key)
    if spec.get("automountServiceAccountToken", True):
        _mount_token(pod, suffix)


def _tolerate(tolerations: list[Object], key: str) -> None:
    if any(
        each.get("key") in (key, None) and each.get("effect") in ("NoExecute", None) for each in tolerations
    ):
        return
    tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _mount_token(pod: Object, suffix: Callable[[], str]) -> None:
    volumes = pod["spec"].setdefault("volumes", [])
    present = [each["name"] for each in volumes if str(each.get("name")).startswith(ACCOUNT_VOLUME)]
    name = present[0] if present else ACCOUNT_VOLUME + suffix()
    used = False
    for kind, _, container in containers_of(pod):
        mounts = container.get("volumeMounts") or []
        if kind != "ephemeralContainers" and all(mount.get("mountPath") != ACCOUNT_PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": ACCOUNT_PATH}]
            used = True
    if used and not present:
        volumes.append(_token_volume(name))


def _token_volume(name: str) -> Object:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


def _pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    for key, value in _POD_DEFAULTS.items():
        spec.setdefault(key, value)
    spec.setdefault("securityContext", {})
    pod.setdefault("status", {})
    for kind, _, container in containers_of(pod):
        _container(container)
        if kind != "ephemeralContainers":
            _limits_to_requests(container["resources"])


_POD_DEFAULTS: dict[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}


def _container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")


def _limits_to_requests(resources: Object) -> None:
    limits = resources.get("limits") or {}
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _pull_policy(image: str) -> str:
    """Return `Always` for the tag `latest` or none at all, else `IfNotPresent`. A digest counts as a tag."""
    last = image.rpartition("/")[2]
    untagged = ":" not in last and "@" not in last
    return "Always" if untagged or last.endswith(":latest") else "IfNotPresent"


def _webhook(webhook: Object, *, mutating: bool) -> None:
    """Defaults of k8s.io/api admissionregistration/v1."""
    webhook.setdefault("failurePolicy", "Fail")
    webhook.setdefault("matchPolicy", "Equivalent")
    webhook.setdefault("namespaceSelector", {})
    webhook.setdefault("objectSelector", {})
    webhook.setdefault("timeoutSeconds", 10)
    if mutating:
        webhook.setdefault("reinvocationPolicy", "Never")
    for rule in webhook.get("rules") or ():
        rule.setdefault("scope", "*")
    service = webhook.get("clientConfig", {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
