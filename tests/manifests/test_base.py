"""`kubectl apply -k manifests/kustomize/base`: what it applies is valid, holds together, and may do little."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml

from cli.certs import DEFAULT_DNS
from serve.settings import load_settings
from webhook.settings import WebhookSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    Object = dict[str, Any]
    One = Callable[..., Object]

ROOT = Path(__file__).parents[2]
VERSIONS = ["1.25", "1.27", "1.30", "1.33", "1.37"]
CONDITIONS = [
    "1.30",
    "1.33",
    "1.37",
]  # matchConditions is a field of the schema from 1.27 on, and stable in 1.30
SCHEMALESS = ("CustomResourceDefinition",)


def _container(one: One) -> Object:
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(container)


def _config(one: One) -> dict[str, str]:
    return dict(one("ConfigMap")["data"])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_in_strict_mode(base: list[Object], version: str) -> None:
    for obj in base:
        if obj["kind"] not in SCHEMALESS:
            kubernetes_validate.validate(obj, version, strict=True)


@pytest.mark.parametrize("version", CONDITIONS)
def test_every_object_of_the_overlay_is_valid_in_strict_mode(overlay: list[Object], version: str) -> None:
    for obj in overlay:
        if obj["kind"] not in SCHEMALESS:
            kubernetes_validate.validate(obj, version, strict=True)


def test_what_is_called_is_applied_before_what_calls_it(base: list[Object]) -> None:
    kinds = [obj["kind"] for obj in base]
    order = ["Namespace", "CustomResourceDefinition", "Service", "Deployment", "MutatingWebhookConfiguration"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]


def test_nothing_needs_a_kustomize_newer_than_that_of_kubectl_1_21() -> None:
    fields = {"apiVersion", "kind", "resources", "configMapGenerator", "patches"}
    for file in (ROOT / "manifests").rglob("kustomization.yaml"):
        assert set(yaml.safe_load(file.read_text())) <= fields, file


def test_every_namespaced_object_is_in_our_namespace_and_named_as_ours(base: list[Object]) -> None:
    cluster = {
        "Namespace",
        "CustomResourceDefinition",
        "ClusterRole",
        "ClusterRoleBinding",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }
    for obj in base:
        namespace = None if obj["kind"] in cluster else "gpufence-system"
        assert obj["metadata"].get("namespace") == namespace, obj["kind"]
        if obj["kind"] not in SCHEMALESS:
            assert obj["metadata"]["labels"]["app.kubernetes.io/name"] == "gpufence", obj["kind"]


def test_the_namespace_admits_restricted_pods_only(one: One) -> None:
    labels = one("Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_crd_is_the_generated_one(one: One) -> None:
    generated = ROOT / "manifests/crds/gpufence.io_gpupolicies.yaml"
    assert one("CustomResourceDefinition") == yaml.safe_load(generated.read_text())


def test_no_policy_is_installed_so_that_an_upgrade_resets_none(base: list[Object]) -> None:
    """Without an object the built-in policy is in force; one in here would be applied over the admin's own."""
    assert "GpuPolicy" not in {obj["kind"] for obj in base}


def test_the_role_allows_what_the_webhook_needs_and_nothing_else(one: One) -> None:
    granted = {
        (group, resource): rule["verbs"]
        for rule in one("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {
        ("", "namespaces"): ["list", "watch"],
        ("gpufence.io", "gpupolicies"): ["list", "watch"],
        ("events.k8s.io", "events"): ["create", "get", "patch"],
    }
    assert all(set(rule) == {"apiGroups", "resources", "verbs"} for rule in one("ClusterRole")["rules"])


def test_the_role_is_bound_to_the_account_of_the_deployment_alone(base: list[Object], one: One) -> None:
    binding = one("ClusterRoleBinding")
    account = one("ServiceAccount")["metadata"]
    assert binding["roleRef"]["name"] == one("ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert one("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]
    assert not [obj for obj in base if obj["kind"] in ("Role", "RoleBinding")]


def test_two_replicas_survive_rollout_drain_and_the_loss_of_a_node(one: One) -> None:
    spec = one("Deployment")["spec"]
    pod = spec["template"]["spec"]
    assert spec["replicas"] >= 2
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert one("PodDisruptionBudget")["apiVersion"] == "policy/v1"
    assert one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    keys = [each["topologyKey"] for each in pod["topologySpreadConstraints"]]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert list(pod["affinity"]["podAntiAffinity"]) == ["preferredDuringSchedulingIgnoredDuringExecution"]


def test_the_pod_is_what_the_restricted_standard_asks_for_and_more(one: One) -> None:
    pod = one("Deployment")["spec"]["template"]["spec"]
    container = _container(one)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["securityContext"]["runAsUser"] == 65532
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod)
    assert {next(iter(set(volume) - {"name"})) for volume in pod["volumes"]} <= {
        "configMap",
        "secret",
        "emptyDir",
    }
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


def test_a_quota_grants_the_priority_class_with_room_for_a_rollout(one: One) -> None:
    quota = one("ResourceQuota")["spec"]
    deployment = one("Deployment")["spec"]
    (scope,) = quota["scopeSelector"]["matchExpressions"]
    assert scope["values"] == [deployment["template"]["spec"]["priorityClassName"]]
    assert int(quota["hard"]["pods"]) >= deployment["replicas"] + 1


def test_service_budget_and_spread_select_the_pods_of_the_deployment(one: One) -> None:
    spec = one("Deployment")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    pod = spec["template"]["spec"]
    (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    selectors = [
        spec["selector"],
        one("PodDisruptionBudget")["spec"]["selector"],
        term["podAffinityTerm"]["labelSelector"],
        *(each["labelSelector"] for each in pod["topologySpreadConstraints"]),
        {"matchLabels": one("Service")["spec"]["selector"]},
    ]
    assert selectors == [{"matchLabels": labels}] * len(selectors)


def test_the_settings_load_and_agree_with_the_deployment(one: One, tmp_path: Path) -> None:
    for name, text in _config(one).items():
        (tmp_path / name).write_text(text)
    container, pod = _container(one), one("Deployment")["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert container["args"][:3] == ["webhook", "run", "--config"]
    config = Path(container["args"][3])
    assert str(config.parent) == mounts["config"]["mountPath"]
    assert config.name in _config(one)

    # Where the certificates are mounted in the pod there is nothing on this machine.
    settings = load_settings(
        WebhookSettings, tmp_path / config.name, {"GPUFENCE_CERTIFICATES": str(tmp_path)}
    )
    (port,) = (port for port in container["ports"] if port["name"] == "https")
    assert settings.listen.port == port["containerPort"]
    (metrics,) = (port for port in container["ports"] if port["name"] == "metrics")
    assert settings.metrics_listen is not None
    assert settings.metrics_listen.port == metrics["containerPort"]
    assert settings.policy_file is None  # the cluster's own policy is watched
    written = yaml.safe_load((tmp_path / config.name).read_text())
    assert written["certificates"] == mounts["certs"]["mountPath"]
    assert (
        settings.stop_delay_seconds + settings.shutdown_timeout_seconds < pod["terminationGracePeriodSeconds"]
    )
    assert {name for name, mount in mounts.items() if not mount.get("readOnly")} == {"tmp"}
    assert {volume["name"] for volume in pod["volumes"]} == set(mounts)
    certificate = {"name": "certs", "secret": {"secretName": "gpufence-webhook-tls", "defaultMode": 0o440}}
    assert certificate in pod["volumes"]


def test_a_changed_setting_rolls_the_deployment(one: One) -> None:
    name = one("ConfigMap")["metadata"]["name"]
    (volume,) = (
        each for each in one("Deployment")["spec"]["template"]["spec"]["volumes"] if "configMap" in each
    )
    assert volume["configMap"]["name"] == name
    assert name.startswith("gpufence-webhook-")


def test_the_probes_ask_the_https_port(one: One) -> None:
    container = _container(one)
    for probe in (container["readinessProbe"], container["livenessProbe"]):
        assert (probe["httpGet"]["port"], probe["httpGet"]["scheme"]) == ("https", "HTTPS")


def test_the_webhooks_call_the_service_by_the_name_of_the_certificate(
    one: One, hooks: dict[str, Object]
) -> None:
    service = one("Service")
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, "https")
    where = {"name": service["metadata"]["name"], "namespace": service["metadata"]["namespace"], "port": 443}
    for name, hook in hooks.items():
        path = "/mutate" if ".mutate." in name else "/validate"
        assert hook["clientConfig"]["service"] == {**where, "path": path}
    assert f"{where['name']}.{where['namespace']}.svc" in DEFAULT_DNS


def test_the_image_names_no_registry_and_the_version_of_this_checkout(one: One) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert _container(one)["image"] == f"localhost/gpufence:{version}"


def test_the_overlay_of_the_docs_sets_image_and_caBundle(overlay: list[Object], one: One) -> None:  # noqa: N802 - the field's name
    (container,) = one("Deployment", overlay)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/platform/gpufence:0.1.0"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        hooks = one(kind, overlay)["webhooks"]
        assert all(hook["clientConfig"]["caBundle"].startswith("LS0t") for hook in hooks), json.dumps(hooks)
