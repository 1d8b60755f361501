"""Tables of the NVIDIA, AMD and Intel stacks: names that mean a GPU, variables that reach one, paths that lead to one.

Data only. The policy replaces or extends most of it; what is here are the built-in values. Sources are named per
table; NCT is NVIDIA/nvidia-container-toolkit, DP is NVIDIA/k8s-device-plugin.
"""

from __future__ import annotations

from typing import Literal

import msgspec

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"

# `void` = "not a GPU container, change nothing". Not `none`: that means "GPU container without devices", and toolkit
# 1.18.0 and 1.18.1 gave such a container ALL GPUs (NCT release notes 1.18.2, commits 6ce0bfd0, 2a9f0336, cab62ee9).
VOID = "void"

Effect = Literal[
    "visibility", "mig-rights", "imex", "gated-device", "capabilities", "requirements", "preload"
]


class ReservedName(msgspec.Struct, frozen=True):
    """An environment variable that changes what a container can reach, and the rule that judges it."""

    name: str
    effect: Effect
    rule: str


# NCT internal/config/image/envvars.go:20-30; gated devices: NCT internal/modifier/cdi.go; LD_*: CVE-2025-23266.
RESERVED_NAMES = (
    ReservedName(VISIBLE_DEVICES, "visibility", "GF101"),
    ReservedName("NVIDIA_MIG_CONFIG_DEVICES", "mig-rights", "GF109"),
    ReservedName("NVIDIA_MIG_MONITOR_DEVICES", "mig-rights", "GF109"),
    ReservedName("NVIDIA_IMEX_CHANNELS", "imex", "GF110"),
    ReservedName("NVIDIA_GDS", "gated-device", "GF111"),
    ReservedName("NVIDIA_MOFED", "gated-device", "GF111"),
    ReservedName("NVIDIA_GDRCOPY", "gated-device", "GF111"),
    ReservedName("NVIDIA_NVSWITCH", "gated-device", "GF111"),
    ReservedName("NVIDIA_DRIVER_CAPABILITIES", "capabilities", "GF112"),
    ReservedName("NVIDIA_DISABLE_REQUIRE", "requirements", "GF114"),
    ReservedName("LD_PRELOAD", "preload", "GF115"),
    ReservedName("LD_AUDIT", "preload", "GF115"),
)

MPS_PIPE_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"  # DP internal/plugin/mps.go:79

# Everything that an NVIDIA device plugin may serve: a wrong `void` breaks a job that was paid for, while an invented
# name is never scheduled (a pod that skips the scheduler is GF116). Renamed, shared and MIG names are under nvidia.com/
# too (DP internal/resource, api/config/v1/consts.go:26). The others are third parties that share NVIDIA cards under
# names of their own.
NVIDIA_DEVICES = (
    "nvidia.com/*",
    "alpha.kubernetes.io/nvidia-gpu",
    "hami.io/*",
    "volcano.sh/vgpu-*",
    "volcano.sh/gpu-*",
    "nvshare.com/gpu",
    "aliyun.com/gpu-*",
    "baidu.com/*cgpu*",
    "elasticgpu.io/*",
    "koordinator.sh/gpu*",
    "k8s.amazonaws.com/vgpu",
    "tencent.com/vcuda-*",
    "tke.cloud.tencent.com/qgpu-*",
    "vke.volcengine.com/mgpu-*",
)

# Shares of a device, not devices: they ask for a GPU, and are no quantity of GPUs (HAMi, Volcano, Aliyun, Tencent).
NVIDIA_ATTRIBUTES = (
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "hami.io/gpumem*",
    "hami.io/gpucores",
    "volcano.sh/vgpu-memory*",
    "volcano.sh/vgpu-cores",
    "volcano.sh/gpu-mem*",
    "aliyun.com/gpu-mem*",
    "aliyun.com/gpu-core*",
    "tencent.com/vcuda-*",
    "koordinator.sh/gpu-*",
    "tke.cloud.tencent.com/qgpu-*",
    "vke.volcengine.com/mgpu-*",
)

# AMD: ROCm/k8s-device-plugin (amd.com/gpu, and amd.com/<compute>_<memory> on partitioned cards).
AMD_DEVICES = ("amd.com/gpu", "amd.com/gpu_*", "amd.com/*_nps*")
# Intel: intel/intel-device-plugins-for-kubernetes; a *_monitoring resource sees every GPU of the node.
INTEL_DEVICES = ("gpu.intel.com/*",)
OTHER_DEVICES = (
    "hygon.com/*",
    "metax-tech.com/*",
    "mthreads.com/*",
    "cambricon.com/*",
    "iluvatar.ai/*",
    "directx.microsoft.com/display",
)

# Resources under nvidia.com/ that are network cards (names of the NVIDIA network operator's examples and defaults), and
# HAMi's priority, which is no share of anything. A container that asks for one of these alone still gets `void`.
# Compared in lower case: admins name these resources themselves.
NOT_GPU = (
    "nvidia.com/hostdev*",
    "nvidia.com/rdma*",
    "nvidia.com/roce*",
    "nvidia.com/sriov*",
    "nvidia.com/mlnx*",
    "nvidia.com/mellanox*",
    "nvidia.com/connectx*",
    "nvidia.com/bluefield*",
    "nvidia.com/ib",
    "nvidia.com/ib_*",
    "nvidia.com/ib-*",
    "nvidia.com/ibp*",
    "nvidia.com/resib*",
    "nvidia.com/ipoib*",
    "nvidia.com/infiniband*",
    "nvidia.com/ethernet*",
    "nvidia.com/macvlan*",
    "nvidia.com/netdev*",
    "nvidia.com/switchdev*",
    "nvidia.com/sf_*",
    "nvidia.com/doca*",
    "nvidia.com/vfpool*",
    "nvidia.com/rail*",
    "nvidia.com/bf*_*",
    "nvidia.com/cx*_*",
    "nvidia.com/*nic",
    "nvidia.com/*nics",
    "nvidia.com/*nic_*",
    "nvidia.com/*nic-*",
    "nvidia.com/priority",
)

# kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm/.../deviceclass-*.yaml
DEVICE_CLASSES = ("gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com")

# Pod annotations that a runtime or an NRI plugin reads as a device request: CDI (NCT api/config/v1), NVIDIA's NRI
# plugin (NCT cmd/nvidia-ctk-installer/.../nri/plugin.go:42,100-125), GKE's NRI device injector. An entry ending in
# "/" or "." is a prefix, any other is a domain: the key itself and everything below "<domain>/".
DEVICE_ANNOTATIONS = (
    "cdi.k8s.io/",
    "nvidia.cdi.k8s.io",
    "devices.gke.io/container.",
    "devices.nri.io",  # containerd/nri plugins/device-injector, and its former domain
    "devices.noderesource.dev",
    "io.kubernetes.cri-o.Devices",  # CRI-O, where the admin allows the annotation (cri-o/cri-o pkg/annotations)
)

RUNTIME_CLASSES = ("nvidia", "nvidia-cdi", "nvidia-legacy", "nvidia-experimental")

# `all` and `display` are left out: they add /dev/nvidia-modeset.
DRIVER_CAPABILITIES = ("compute", "compat32", "graphics", "utility", "video", "ngx")

# NCT internal/config/image/cuda_image.go:34-37, 356-412: a plain string prefix on the lexically cleaned path.
DEVICE_MOUNT_PREFIXES = ("/var/run/nvidia-container-devices", "/run/nvidia-container-devices")

MPS_PIPE_PATHS = ("/tmp/nvidia-mps", "/run/nvidia/mps")  # noqa: S108 - paths of other people's daemons

# /var/run is written as /run: it is a link to it on every node, and paths are compared after the same rewrite.
# Each entry guards itself, everything below, and every parent.
GUARDED_PATHS = (
    "/dev",
    "/proc",  # the driver's tree is /proc/driver/nvidia; /proc/1/root and its like lead to every path of the node
    "/run/nvidia",
    "/etc/cdi",
    "/etc/nvidia-container-runtime",  # the toolkit's own options
    "/etc/kubernetes/manifests",  # static pods never pass admission
    "/etc/containerd",
    "/etc/crio",
    "/etc/docker",
    "/etc/rancher",
    "/run/cdi",
    "/run/nri",
    "/var/lib/kubelet",
    "/run/containerd",
    "/var/lib/containerd",
    "/run/crio",
    "/var/lib/containers",
    "/run/docker.sock",
    "/run/docker",
    "/var/lib/docker",
    "/run/dockershim.sock",
    "/run/cri-dockerd.sock",
    "/run/k3s/containerd",
    "/var/lib/rancher",
    "/var/lib/k0s",
    "/run/k0s",
    "/var/snap/microk8s",
    "/run/podman",
)

# Under /dev but no device node that grants a GPU: shared memory (NCCL, MPS clients) and RDMA. Only ever recorded.
AUDITED_PATHS = ("/dev/shm", "/dev/infiniband")  # noqa: S108 - a path of the node

# Device nodes that are a GPU, or lead to one. A hostPath to any of these, to /dev or to / asks for devices.
GPU_NODE_PREFIXES = (
    "/dev/nvidia",  # nvidia0, nvidiactl, nvidia-uvm, nvidia-modeset, nvidia-caps, nvidia-nvswitch, nvidia-fs
    "/dev/dri",
    "/dev/kfd",
    "/dev/char",  # links to every character device by number
    "/dev/gdrdrv",
    "/dev/vfio",
    "/dev/dxg",
    "/dev/accel",
)


class SharingProvider(msgspec.Struct, frozen=True):
    """A scheduler that gives containers a share of a GPU by pod annotation, without any resource in the spec.

    Counts only where the policy enables it and the pod is scheduled by it: a tenant can write the annotation on any
    pod, and without the scheduler nobody would set the variable, so that the image's `all` would win.
    """

    annotations: tuple[str, ...]
    container_annotation: str
    schedulers: tuple[str, ...]


# KAI: kai-scheduler/KAI-Scheduler pkg/common/constants/constants.go, pkg/binder/common/gpu_access.go
SHARING_PROVIDERS = {
    "kai": SharingProvider(("gpu-fraction", "gpu-memory"), "gpu-fraction-container-name", ("kai-scheduler",)),
}

# Labels that name a queue: Kueue, KAI, Volcano (their constants files). Tenants set them.
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "volcano.sh/queue-name")

# Labels that name the workload above the pod, most specific system first.
WORKLOAD_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "ray.io/originated-from-cr-name",
    "ray.io/cluster",
    "leaderworkerset.sigs.k8s.io/name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "workflows.argoproj.io/workflow",
    "batch.kubernetes.io/job-name",
    "job-name",
)

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
