"""The built-in policy: what a field that is left out stands for, and the exemptions that every policy has.

Data only, in the form that people write, so that `gpufence policy show` prints it as it is. The tables of
names are in `policy.gpu`.
"""

from __future__ import annotations

from typing import Any

from policy import gpu

API_VERSION = "gpufence.io/v1alpha1"
KIND = "GpuPolicy"
NAME = "default"  # only the object of this name is in force

# The smallest policy: the baseline profile and no teams.
DEFAULT_DOCUMENT: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "metadata": {"name": NAME},
    "spec": {"profile": "baseline"},
}

RESOURCES: tuple[dict[str, Any], ...] = (
    {"vendor": "nvidia", "devices": list(gpu.NVIDIA_DEVICES), "attributes": list(gpu.NVIDIA_ATTRIBUTES)},
    {"vendor": "amd", "devices": list(gpu.AMD_DEVICES)},
    {"vendor": "intel", "devices": list(gpu.INTEL_DEVICES)},
    {"vendor": "other", "devices": list(gpu.OTHER_DEVICES)},
)

# Software that drives the GPUs, and therefore needs what tenants must not have. Each entry names the
# namespaces that the software's own documents install it in, and the service accounts that its manifests make
# there. The account `default` is not among them: whoever may create pods in a namespace may use it.
EXEMPTIONS: tuple[dict[str, Any], ...] = (
    {
        "namespaces": ["kube-system", "kube-public", "kube-node-lease"],
        "serviceAccounts": ["*"],
        "reason": "The webhook configuration leaves out these namespaces; cluster administrators own them",
    },
    {
        "namespaces": ["gpufence-system"],
        "serviceAccounts": ["gpufence-agent"],
        "reason": "gpufence's own agent: compares every GPU of the node with what was allocated",
    },
    # NVIDIA/gpu-operator: assets/*/0100_service_account.yaml, manifests/state-*, deployments/gpu-operator.
    # Older releases and OpenShift have the other namespaces.
    {
        "namespaces": ["gpu-operator", "gpu-operator-resources", "nvidia-gpu-operator"],
        "serviceAccounts": [
            "gpu-operator*",
            "nvidia-*",
            "node-feature-discovery*",
            "compute-domain-daemon-service-account",
        ],
        "reason": "NVIDIA GPU Operator: installs driver and toolkit, serves and measures every GPU",
    },
    # kubernetes-sigs/node-feature-discovery: Helm chart (first name) and kustomize (second).
    {
        "namespaces": ["node-feature-discovery"],
        "serviceAccounts": ["node-feature-discovery*", "nfd-*"],
        "reason": "Node Feature Discovery: reads the hardware of the node",
    },
    # NVIDIA/k8s-device-plugin: deployments/static, deployments/helm (<fullname>-service-account), README.
    {
        "namespaces": ["nvidia-device-plugin", "gpu-feature-discovery"],
        "serviceAccounts": ["nvidia-device-plugin*", "gpu-feature-discovery*"],
        "reason": "NVIDIA device plugin: serves every GPU of the node to the kubelet",
    },
    # NVIDIA/dcgm-exporter: deployment/templates/serviceaccount.yaml; GKE runs one of its own.
    {
        "namespaces": ["dcgm-exporter", "gke-managed-system"],
        "serviceAccounts": ["dcgm-exporter*"],
        "reason": "NVIDIA DCGM exporter: measures every GPU of the node",
    },
    # kubernetes-sigs/dra-driver-nvidia-gpu: deployments/helm (<fullname>-service-account-kubeletplugin), and
    # templates/compute-domain-daemon.tmpl.yaml. Its old name is NVIDIA/k8s-dra-driver-gpu.
    {
        "namespaces": ["dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu"],
        "serviceAccounts": [
            "dra-driver-nvidia-gpu*",
            "nvidia-dra-driver-gpu*",
            "compute-domain-daemon-service-account",
        ],
        "reason": "NVIDIA DRA driver: prepares every GPU of the node for claims",
    },
    # kai-scheduler/KAI-Scheduler: deployments/kai-scheduler/templates/rbac, values.yaml;
    # cmd/nodescaleadjuster/app/options.go.
    {
        "namespaces": ["kai-resource-reservation"],
        "serviceAccounts": ["kai-resource-reservation"],
        "reason": "KAI scheduler: reservation pods hold the GPUs that other pods share",
    },
    {
        "namespaces": ["kai-scale-adjust"],
        "serviceAccounts": ["scaling-pod"],
        "reason": "KAI scheduler: scaling pods request GPUs so that the cluster grows",
    },
    {
        "namespaces": ["kai-scheduler"],
        "serviceAccounts": [
            "kai-*",
            "admission",
            "binder",
            "node-scale-adjuster",
            "numa-placement-exporter",
            "pod-grouper",
            "podgroup-controller",
            "queue-controller",
            "scheduler",
        ],
        "reason": "KAI scheduler: places pods on GPUs and reads what the kubelet allocated",
    },
    # Project-HAMi/HAMi: charts/hami/templates (<fullname>-device-plugin, -scheduler, -admission).
    {
        "namespaces": ["hami-system"],
        "serviceAccounts": ["hami*"],
        "reason": "HAMi: serves shares of every GPU of the node",
    },
)
