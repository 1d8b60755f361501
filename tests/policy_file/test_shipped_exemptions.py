"""The software that every policy leaves alone."""

from __future__ import annotations

import pytest

from policy.default import DEFAULT_DOCUMENT
from policy.load import load_policy

EXEMPTIONS = load_policy(DEFAULT_DOCUMENT).policy.exemptions


def _exempt(pod: str) -> bool:
    namespace, account = pod.split("/")
    return any(
        exemption.namespaces.match(namespace) and exemption.service_accounts.match(account)
        for exemption in EXEMPTIONS
    )


# From the manifests and charts that `policy.default` names.
@pytest.mark.parametrize(
    "pod",
    [
        "kube-system/default",
        "kube-system/nvidia-device-plugin",
        "kube-system/hami-device-plugin",
        "kube-system/volcano-device-plugin",
        "gpu-operator/gpu-operator",
        "gpu-operator/gpu-operator-upgrade-crd-hook-sa",
        "gpu-operator/nvidia-driver",
        "gpu-operator/nvidia-gpu-driver-ubuntu22.04",
        "gpu-operator/nvidia-container-toolkit",
        "gpu-operator/nvidia-device-plugin",
        "gpu-operator/nvidia-device-plugin-mps-control-daemon",
        "gpu-operator/nvidia-dcgm",
        "gpu-operator/nvidia-dcgm-exporter",
        "gpu-operator/nvidia-dcgm-exporter-dra",
        "gpu-operator/nvidia-gpu-feature-discovery",
        "gpu-operator/nvidia-mig-manager",
        "gpu-operator/nvidia-operator-validator",
        "gpu-operator/nvidia-node-status-exporter",
        "gpu-operator/nvidia-vgpu-manager",
        "gpu-operator/nvidia-dra-driver-kubeletplugin",
        "gpu-operator/compute-domain-daemon-service-account",
        "gpu-operator/node-feature-discovery",
        "nvidia-gpu-operator/nvidia-driver",
        "node-feature-discovery/node-feature-discovery-worker",
        "nvidia-device-plugin/nvidia-device-plugin",
        "nvidia-device-plugin/nvidia-device-plugin-service-account",
        "dcgm-exporter/dcgm-exporter",
        "gke-managed-system/dcgm-exporter",
        "dra-driver-nvidia-gpu/dra-driver-nvidia-gpu-service-account-kubeletplugin",
        "nvidia-dra-driver-gpu/nvidia-dra-driver-gpu-service-account-controller",
        "kai-scheduler/binder",
        "kai-scheduler/kai-operator",
        "kai-resource-reservation/kai-resource-reservation",
        "kai-scale-adjust/scaling-pod",
        "hami-system/hami-device-plugin",
        "hami-system/hami-vgpu-scheduler",
        "gpufence-system/gpufence-agent",
    ],
)
def test_gpu_software_is_left_alone_where_its_documents_install_it(pod: str) -> None:
    assert _exempt(pod)


@pytest.mark.parametrize(
    "pod",
    [
        "gpu-operator/default",
        "gpufence-system/default",
        "gpufence-system/gpufence-webhook",
        "kai-resource-reservation/default",
        "default/default",
        "vision/nvidia-driver",
        "vision/gpu-operator",
        "my-kube-system/default",
        "kube-system-2/default",
        "gpu-operator-tenant/nvidia-driver",
    ],
)
def test_neither_the_namespace_nor_the_service_account_is_enough(pod: str) -> None:
    assert not _exempt(pod)


def test_the_default_account_is_exempt_nowhere_but_in_the_namespaces_of_the_cluster() -> None:
    accounts = {
        exemption.namespaces.written
        for exemption in EXEMPTIONS
        if exemption.service_accounts.match("default")
    }
    assert accounts == {("kube-system", "kube-public", "kube-node-lease")}


def test_each_says_why() -> None:
    assert all(exemption.reason for exemption in EXEMPTIONS)
