"""Every rule as a constant: what it is about, why, what mends it, and what each profile does.

Data only. `docs/rules.md` and `gpufence rules` are made from it. A rule has one or more cases, because the same fault
calls for different answers in different places (a team label is corrected on a bare pod, and refused where a
controller would recreate the pod without end). Only `decide` turns a case into an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from policy.model import Mode

Severity = Literal["critical", "high", "medium", "low"]
Family = Literal["visibility", "exposure", "attribution", "requests"]

FIXABLE: tuple[Mode, ...] = ("fix", "deny", "warn", "audit", "off")
REFUSABLE: tuple[Mode, ...] = ("deny", "warn", "audit", "off")


class Case(msgspec.Struct, frozen=True):
    """One row of a rule: when it applies, the modes it can have, and its mode per profile."""

    name: str
    when: str
    baseline: Mode
    restricted: Mode
    modes: tuple[Mode, ...] = REFUSABLE


class Rule(msgspec.Struct, frozen=True):
    """A rule of the catalogue. `source` is where the fact behind it can be read; `fix` speaks to the pod's author."""

    id: str
    family: Family
    title: str
    severity: Severity
    why: str
    source: str
    fix: str
    cases: tuple[Case, ...]

    def case(self, name: str) -> Case:
        """Return the case of that name; KeyError where the rule has none."""
        for case in self.cases:
            if case.name == name:
                return case
        raise KeyError(f"{self.id} has no case {name!r}")


def _exposure(severity_everywhere: Mode = "audit", gpu: Mode = "deny") -> tuple[Case, ...]:
    return (
        Case(
            "gpu",
            "the pod requests a GPU or asks for devices, or the container is a debug container",
            gpu,
            "deny",
        ),
        Case("other", "any other pod", severity_everywhere, "deny"),
    )


_TOOLKIT = "NVIDIA/nvidia-container-toolkit"
_ENV_MERGE = "kubernetes/kubernetes pkg/kubelet/kubelet_pods.go"

GF101 = Rule(
    id="GF101",
    family="visibility",
    title="Container without a GPU request must carry NVIDIA_VISIBLE_DEVICES=void",
    severity="high",
    why=(
        "Most CUDA images carry NVIDIA_VISIBLE_DEVICES=all. Under the NVIDIA runtime such a container sees every GPU "
        "of the node although it requested none. Exactly one literal `void` in the spec beats the image."
    ),
    source=f"{_TOOLKIT} internal/config/image/cuda_image.go; NVIDIA/k8s-device-plugin#61, #1605",
    fix="Nothing to do: the entry is added. To use a GPU, request one in resources.limits.",
    cases=(Case("no-request", "the container requests no NVIDIA device", "fix", "fix", FIXABLE),),
)
GF102 = Rule(
    id="GF102",
    family="visibility",
    title="Container with a GPU request sets the visibility variable itself",
    severity="high",
    why=(
        "The pod's value beats the one of the device plugin, so `all` reaches every GPU of the node and `void` "
        "switches off the one that was paid for."
    ),
    source=f"{_ENV_MERGE} (pod env is appended after the plugin's); bottlerocket-os/bottlerocket#3718",
    fix="Remove the entry: the device plugin sets the variable to the devices that were allocated.",
    cases=(Case("request", "the container requests an NVIDIA device", "fix", "fix", FIXABLE),),
)
GF103 = Rule(
    id="GF103",
    family="visibility",
    title="Container without a GPU request names devices in the visibility variable",
    severity="high",
    why="The value alone gives the container those GPUs, with no request and no booking in the scheduler.",
    source=f"{_TOOLKIT} internal/config/image/cuda_image.go:149-180; NVIDIA/k8s-device-plugin#61",
    fix="Remove the entry and request a GPU in resources.limits.",
    cases=(Case("no-request", "the container requests no NVIDIA device", "fix", "fix", FIXABLE),),
)
GF104 = Rule(
    id="GF104",
    family="visibility",
    title="Visibility variable whose value is not in the pod",
    severity="high",
    why=(
        "A valueFrom or $(VAR) is resolved by the kubelet after admission, from something that can change until then; "
        "no check can know which GPUs it names."
    ),
    source=f"{_ENV_MERGE} makeEnvironmentVariables; kai-scheduler/KAI-Scheduler deviceaccess",
    fix="Remove the entry; the device plugin sets the variable for containers that request a GPU.",
    cases=(
        Case("no-request", "the container requests no NVIDIA device", "fix", "fix", FIXABLE),
        Case("request", "the container requests an NVIDIA device", "deny", "deny"),
    ),
)
GF105 = Rule(
    id="GF105",
    family="visibility",
    title="envFrom can supply a reserved variable to a container with a GPU request",
    severity="high",
    why=(
        "envFrom beats the device plugin. A prefix such as NVIDIA_ completes a reserved name with a key that looks "
        "harmless in the ConfigMap; without a prefix the key has the reserved name itself."
    ),
    source=f"{_ENV_MERGE} makeEnvironmentVariables (prefix + key)",
    fix="Name the keys you need with env[].valueFrom, or use a prefix that begins no reserved name.",
    cases=(
        Case("split-prefix", "the prefix is a proper start of a reserved name", "deny", "deny"),
        Case("no-prefix", "there is no prefix", "warn", "deny"),
    ),
)
GF106 = Rule(
    id="GF106",
    family="visibility",
    title="Reserved name added as a key of a ConfigMap",
    severity="medium",
    why=(
        "A ConfigMap with such a key changes the devices of every pod that takes it by envFrom. Checked by a "
        "ValidatingAdmissionPolicy, not by the webhook, so that no Secret or ConfigMap leaves the API server."
    ),
    source=f"{_ENV_MERGE} makeEnvironmentVariables",
    fix="Rename the key.",
    cases=(Case("added", "the request adds the key", "audit", "audit", ("deny", "warn", "audit", "off")),),
)
GF107 = Rule(
    id="GF107",
    family="visibility",
    title="Annotation that a runtime reads as a device request",
    severity="critical",
    why=(
        "CDI-aware runtimes and NRI plugins inject devices for these annotations, for any pod, and before they look at "
        "environment variables: `void` does not help."
    ),
    source=f"{_TOOLKIT} cmd/nvidia-ctk-installer/container/runtime/nri/plugin.go:42,100-125",
    fix="Remove the annotation and request the device in resources.limits or by a ResourceClaim.",
    cases=(Case("any", "any pod", "deny", "deny"),),
)
GF108 = Rule(
    id="GF108",
    family="visibility",
    title="Volume mount that the toolkit reads as a device request",
    severity="critical",
    why=(
        "With volume-mount requests accepted, a mount below /var/run/nvidia-container-devices names a GPU, and is read "
        "before the environment."
    ),
    source=f"{_TOOLKIT} internal/config/image/cuda_image.go:356-412; NVIDIA/k8s-device-plugin#342",
    fix="Mount the volume somewhere else.",
    cases=(Case("any", "any container", "deny", "deny"),),
)
GF109 = Rule(
    id="GF109",
    family="visibility",
    title="MIG configuration or monitoring rights by environment variable",
    severity="critical",
    why=(
        "NVIDIA_MIG_CONFIG_DEVICES lets a container create and destroy slices, NVIDIA_MIG_MONITOR_DEVICES lets it "
        "watch the processes of other slices."
    ),
    source=f"{_TOOLKIT} cmd/nvidia-container-runtime-hook/container_config.go",
    fix="Remove the variable; MIG layout is the platform's to change.",
    cases=(Case("any", "any container", "deny", "deny"),),
)
GF110 = Rule(
    id="GF110",
    family="visibility",
    title="IMEX channels by environment variable",
    severity="high",
    why="NVIDIA_IMEX_CHANNELS injects channels to the GPU memory of other nodes, whatever was allocated.",
    source=f"{_TOOLKIT} internal/config/image/cuda_image.go:414-470",
    fix="Remove the variable and ask for the channel by a ResourceClaim.",
    cases=(Case("any", "any container", "deny", "deny"),),
)
GF111 = Rule(
    id="GF111",
    family="visibility",
    title="Gated device by environment variable",
    severity="medium",
    why=(
        "NVIDIA_GDS, NVIDIA_MOFED, NVIDIA_GDRCOPY and NVIDIA_NVSWITCH set to `enabled` add nvidia-fs, RDMA, gdrdrv and "
        "nvswitch nodes that were not allocated."
    ),
    source=f"{_TOOLKIT} internal/modifier/cdi.go (gatedDevices)",
    fix="Remove the variable, or ask the platform for an exception.",
    cases=(Case("any", "any container", "audit", "deny"),),
)
GF112 = Rule(
    id="GF112",
    family="visibility",
    title="Driver capability outside the allow list",
    severity="low",
    why="`display` and `all` add /dev/nvidia-modeset. Capabilities never change which GPUs are visible.",
    source=f"{_TOOLKIT} internal/config/image/capabilities; NVIDIA/libnvidia-container src/nvc_mount.c",
    fix="Name the capabilities that you use, e.g. compute,utility.",
    cases=(Case("any", "any container", "audit", "audit"),),
)
GF113 = Rule(
    id="GF113",
    family="visibility",
    title="Extra visibility variable of this cluster's toolkit",
    severity="high",
    why=(
        "Names in the toolkit's swarm-resource option replace NVIDIA_VISIBLE_DEVICES where they are present, so they "
        "are treated exactly like it."
    ),
    source=f"{_TOOLKIT} internal/config/image/cuda_image.go:237-250",
    fix="Remove the entry; request GPUs in resources.limits.",
    cases=(
        Case("no-request", "the container requests no NVIDIA device", "fix", "fix", FIXABLE),
        Case(
            "request",
            "the container requests an NVIDIA device and sets a literal value",
            "fix",
            "fix",
            FIXABLE,
        ),
        Case(
            "reference",
            "the container requests an NVIDIA device and the value is not in the pod",
            "deny",
            "deny",
        ),
    ),
)
GF114 = Rule(
    id="GF114",
    family="visibility",
    title="NVIDIA_DISABLE_REQUIRE switches off the driver check",
    severity="low",
    why="The container starts on a driver that its CUDA version does not support; failures then look like GPU faults.",
    source=f"{_TOOLKIT} internal/config/image/cuda_image.go:113-147",
    fix="Remove the variable and use an image that fits the driver.",
    cases=(Case("any", "any container", "audit", "audit"),),
)
GF115 = Rule(
    id="GF115",
    family="visibility",
    title="LD_PRELOAD or LD_AUDIT in a GPU container",
    severity="medium",
    why=(
        "Toolkit releases before 1.17.8 ran a hook as root on the host with the container's environment "
        "(CVE-2025-23266). The image can set the variable too, so only a current toolkit closes the hole."
    ),
    source="CVEProject/cvelistV5 CVE-2025-23266; NVIDIA/nvidia-container-toolkit commit 007faf84",
    fix="Remove the variable, or set it in the command of the container.",
    cases=(Case("request", "the container requests an NVIDIA device", "audit", "audit"),),
)
GF116 = Rule(
    id="GF116",
    family="visibility",
    title="GPU request on a pod that skips the scheduler",
    severity="high",
    why=(
        "With spec.nodeName set, no scheduler looks at the request, and the kubelet ignores an extended resource that "
        "its node does not have: a container with an invented name gets no device, no `void`, and its image's `all`."
    ),
    source="kubernetes/kubernetes pkg/kubelet/lifecycle/predicate.go (removeMissingExtendedResources)",
    fix="Use nodeSelector or node affinity instead of nodeName.",
    cases=(
        Case("any", "any pod that is created with a nodeName and requests an NVIDIA device", "warn", "deny"),
    ),
)

GF201 = Rule(
    id="GF201",
    family="exposure",
    title="Privileged container",
    severity="critical",
    why="A privileged container gets every device node of the host, whatever the visibility variable says.",
    source="containerd/containerd internal/cri (privileged => host devices); kubernetes/kubernetes#81256",
    fix="Remove securityContext.privileged; add the single capability that is needed.",
    cases=_exposure(),
)
GF202 = Rule(
    id="GF202",
    family="exposure",
    title="CAP_SYS_ADMIN added",
    severity="critical",
    why=(
        "The toolkit takes a container with SYS_ADMIN for privileged: its device requests are always honoured, and so "
        "are MIG configuration rights."
    ),
    source=f"{_TOOLKIT} internal/config/image/privileged.go:26,54",
    fix="Remove SYS_ADMIN (or ALL) from securityContext.capabilities.add.",
    cases=_exposure(),
)
GF203 = Rule(
    id="GF203",
    family="exposure",
    title="hostPath to devices, the driver, the kubelet or the container runtime",
    severity="critical",
    why=(
        "Device nodes, CDI directories and the sockets of kubelet and runtime each lead to GPUs that were not "
        "allocated. A parent directory contains them."
    ),
    source="NVIDIA/k8s-device-plugin#342; kubernetes/website hostPath warning",
    fix="Remove the volume; devices come with the request, and no workload needs the runtime's sockets.",
    cases=(
        *_exposure(),
        Case(
            "audited-path",
            "only /dev/shm, /dev/infiniband or another path listed as audited",
            "audit",
            "audit",
        ),
    ),
)
GF204 = Rule(
    id="GF204",
    family="exposure",
    title="hostPID",
    severity="high",
    why="In the host's process namespace NVML lists the processes of every tenant, and /proc shows their files.",
    source="NVIDIA/open-gpu-kernel-modules gpu_rmapi.c (pid_vnr)",
    fix="Remove hostPID.",
    cases=_exposure(),
)
GF205 = Rule(
    id="GF205",
    family="exposure",
    title="hostIPC",
    severity="medium",
    why="hostIPC shares the shared memory of MPS and NCCL clients of other pods.",
    source="NVIDIA/k8s-device-plugin internal/plugin/mps.go",
    fix="Remove hostIPC; mount an emptyDir with medium Memory at /dev/shm.",
    cases=_exposure("warn", "warn"),
)
GF206 = Rule(
    id="GF206",
    family="exposure",
    title="NVIDIA runtime class without a GPU request",
    severity="low",
    why="The NVIDIA runtime is only needed with a device; without one it is a way to reach GPUs by other means.",
    source=f"{_TOOLKIT} internal/runtime/runtime_factory.go",
    fix="Remove runtimeClassName, or request a GPU.",
    cases=(Case("any", "no container of the pod requests an NVIDIA device", "audit", "deny"),),
)
GF207 = Rule(
    id="GF207",
    family="exposure",
    title="MPS pipe directory that was not allocated",
    severity="medium",
    why=(
        "Whoever reaches the pipe of an MPS server shares its GPU. The device plugin mounts the directory by itself "
        "for those who were given a share."
    ),
    source="NVIDIA/k8s-device-plugin internal/plugin/mps.go:79",
    fix="Remove the volume and the variable; request a shared GPU resource.",
    cases=(Case("any", "any pod", "warn", "deny"),),
)

GF301 = Rule(
    id="GF301",
    family="attribution",
    title="GPU pod without a team",
    severity="medium",
    why="No team of the policy claims the pod, so nobody can be asked about it or billed for it.",
    source="open-policy-agent/gatekeeper#3173",
    fix="Ask the platform team to add the namespace (or service account, group, queue) to a team of the GpuPolicy.",
    cases=(
        Case("request", "the pod requests a GPU", "warn", "deny"),
        Case("claim", "the pod only has a ResourceClaim, which may be for something else", "audit", "audit"),
    ),
)
GF302 = Rule(
    id="GF302",
    family="attribution",
    title="Pod claims another team",
    severity="high",
    why=(
        "The team label decides who pays. On a pod of a controller it is refused, not corrected: a controller that "
        "selects by the label would create pods without end."
    ),
    source="kumahq/kuma#14901; kai-scheduler/KAI-Scheduler#2068",
    fix="Remove the label from the pod template: the webhook sets it.",
    cases=(
        Case("bare", "the pod has no controller", "fix", "fix", FIXABLE),
        Case("controlled", "the pod has a controller", "deny", "deny"),
        Case("missing", "the final pod lacks the label that the webhook set", "deny", "deny"),
    ),
)
GF303 = Rule(
    id="GF303",
    family="attribution",
    title="Team label changed or removed after creation",
    severity="high",
    why="Labels of a running pod can be edited; a change would move its bill to another team.",
    source="kubernetes/kubernetes pod update validation (metadata is mutable)",
    fix="Leave the label alone; delete the pod and create it in the namespace of the right team.",
    cases=(Case("any", "any pod", "deny", "deny"),),
)
GF304 = Rule(
    id="GF304",
    family="attribution",
    title="Team name that cannot be a label value",
    severity="low",
    why="Label values have at most 63 characters of a small alphabet; Kubernetes refuses a pod with another value.",
    source="kubernetes/kubernetes apimachinery pkg/util/validation",
    fix="Nothing to do: the label carries a short form, the annotation gpufence.io/team the full name.",
    cases=(Case("any", "any GPU pod", "fix", "fix", FIXABLE),),
)

GF401 = Rule(
    id="GF401",
    family="requests",
    title="Quantity that is not a whole number of devices",
    severity="medium",
    why="Kubernetes counts devices in whole numbers; the API server would refuse the pod with a less helpful message.",
    source="kubernetes/kubernetes pkg/apis/core/validation (extended resources)",
    fix="Write a whole number. For a part of a GPU request a MIG profile or a shared resource.",
    cases=(Case("any", "any container", "deny", "deny"),),
)
GF402 = Rule(
    id="GF402",
    family="requests",
    title="More devices than the team may have in one pod",
    severity="medium",
    why="The policy limits what one pod of the team can hold (teams[].maxPerPod).",
    source="spec.teams[].maxPerPod of the GpuPolicy",
    fix="Request fewer devices, or ask the platform team for a higher limit.",
    cases=(Case("any", "any pod of the team", "deny", "deny"),),
)
GF403 = Rule(
    id="GF403",
    family="requests",
    title="Resource or MIG profile that the team was not granted",
    severity="medium",
    why="The policy lists what the team may request (teams[].resources).",
    source="spec.teams[].resources of the GpuPolicy",
    fix="Request one of the granted resources, or ask the platform team for a grant.",
    cases=(Case("any", "any pod of the team", "deny", "deny"),),
)
GF404 = Rule(
    id="GF404",
    family="requests",
    title="Request of a shape that cannot work",
    severity="low",
    why=(
        "CUDA uses one MIG slice per process, and replicas of a time-sliced GPU are the same card: more than one is "
        "paid for and idle."
    ),
    source="NVIDIA MIG user guide; NVIDIA/k8s-device-plugin failRequestsGreaterThanOne",
    fix="Request one slice or one replica per container.",
    cases=(Case("any", "any container", "warn", "warn"),),
)

RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in (
        GF101,
        GF102,
        GF103,
        GF104,
        GF105,
        GF106,
        GF107,
        GF108,
        GF109,
        GF110,
        GF111,
        GF112,
        GF113,
        GF114,
        GF115,
        GF116,
        GF201,
        GF202,
        GF203,
        GF204,
        GF205,
        GF206,
        GF207,
        GF301,
        GF302,
        GF303,
        GF304,
        GF401,
        GF402,
        GF403,
        GF404,
    )
}
