"""Area 1 of the public cases: ways to a GPU that was not allocated, each named after what it shows."""

import pytest

from policy.pod import ephemeral_view

NVD = "NVIDIA_VISIBLE_DEVICES"
VOID = {"name": NVD, "value": "void"}


def env_of(pod, kind="containers", index=0):
    return pod["spec"][kind][index].get("env", [])


def test_c01_a_container_without_request_and_without_the_variable_gets_void(judge, pod_with):
    assert env_of(judge.patched(pod_with())) == [VOID]


def test_c02_a_container_with_a_request_loses_its_own_value_and_gets_none_of_ours(judge, pod_with):
    pod = pod_with(gpus=1, env=[{"name": NVD, "value": "all"}, {"name": "A", "value": "1"}])
    assert env_of(judge.patched(pod)) == [{"name": "A", "value": "1"}]


@pytest.mark.parametrize("value", ["void", "none", "", "0", "GPU-00000000-0000-0000-0000-000000000002"])
def test_c02_every_value_of_a_container_with_a_request_is_removed(judge, pod_with, value):
    assert env_of(judge.patched(pod_with(gpus=1, env=[{"name": NVD, "value": value}]))) == []


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/mig-1g.5gb.me",
        "nvidia.com/mig-3g.20gb.shared",
        "nvidia.com/gpu.shared",
        "nvidia.com/l40s",
        "nvidia.com/gpumem",
        "nvidia.com/pgpu",
        "nvidia.com/gpu-10gb",
        "nvidia.com/GRID_T4-1Q",
        "hami.io/gpu",
        "volcano.sh/vgpu-number",
        "nvshare.com/gpu",
        "alpha.kubernetes.io/nvidia-gpu",
        "aliyun.com/gpu-mem",
    ],
)
def test_c04_any_name_that_an_nvidia_plugin_may_serve_withholds_void(judge, pod_with, resource):
    assert env_of(judge.patched(pod_with(resources={"limits": {resource: "1"}}))) == []


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/hostdev",
        "nvidia.com/rdma_shared_a",
        "nvidia.com/mlnxnics",
        "rdma/hca",
        "amd.com/gpu",
        "gpu.intel.com/i915",
    ],
)
def test_c04_a_network_card_or_a_gpu_of_another_vendor_does_not_withhold_void(judge, pod_with, resource):
    assert env_of(judge.patched(pod_with(resources={"limits": {resource: "1"}}))) == [VOID]


@pytest.mark.parametrize("quantity", ["0", 0, None, "0m"])
def test_c04_a_quantity_of_zero_is_no_request(judge, pod_with, quantity):
    assert env_of(judge.patched(pod_with(resources={"limits": {"nvidia.com/gpu": quantity}}))) == [VOID]


def test_c06_the_device_plugin_passes_in_its_own_namespace_and_account_only(judge, pod_with):
    plugin = {
        "securityContext": {"privileged": True},
        "env": [{"name": NVD, "value": "all"}],
        "spec": {"serviceAccountName": "nvidia-device-plugin"},
    }
    exempt = judge(pod_with(**plugin), namespace="gpu-operator")
    assert exempt.allowed
    assert exempt.patch == ()
    assert {judged.action for judged in exempt.hits} == {"audited"}
    assert not judge(pod_with(**plugin)).allowed
    plugin["spec"] = {"serviceAccountName": "default"}
    assert not judge(pod_with(**plugin), namespace="gpu-operator").allowed


def test_c07_a_privileged_container_with_a_gpu_is_refused_by_name(judge, pod_with, rules):
    decision = judge(pod_with(gpus=1, securityContext={"privileged": True}))
    assert rules(decision, "denied") == {"GF201"}
    assert "container main" in decision.message


def test_c08_init_containers_and_sidecars_are_treated_like_the_others(judge):
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [
                {"name": "warmup", "env": [{"name": NVD, "value": "all"}]},
                {"name": "side", "restartPolicy": "Always"},
            ],
            "containers": [{"name": "main"}],
        },
    }
    patched = judge.patched(pod)
    assert env_of(patched, "initContainers", 0) == [VOID]
    assert env_of(patched, "initContainers", 1) == [VOID]
    assert env_of(patched) == [VOID]


def test_c08_a_request_in_an_init_container_makes_the_pod_a_gpu_pod(judge):
    init = {"name": "warmup", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    pod = {"metadata": {"name": "p"}, "spec": {"initContainers": [init], "containers": [{"name": "main"}]}}
    patched = judge.patched(pod)
    assert patched["metadata"]["labels"]["gpufence.io/team"] == "vision"
    assert env_of(patched, "initContainers") == []
    assert env_of(patched) == [VOID]


def test_c22_a_debug_container_gets_void_though_its_pod_has_a_gpu(judge, debug_view):
    gpu = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    decision = judge(debug_view({"name": "dbg", "image": "cuda", "targetContainerName": "main"}, gpu))
    assert decision.patch == ({"op": "add", "path": "/spec/ephemeralContainers/0/env", "value": [VOID]},)


def test_c22_a_privileged_debug_container_is_refused(judge, debug_view, rules):
    decision = judge(debug_view({"name": "dbg", "securityContext": {"privileged": True}}))
    assert rules(decision, "denied") == {"GF201"}


def test_c22_resources_of_a_debug_container_are_no_request(judge, debug_view):
    decision = judge(debug_view({"name": "dbg", "resources": {"limits": {"nvidia.com/gpu": 1}}}))
    assert [operation["value"] for operation in decision.patch] == [[VOID]]


def test_c22_only_new_debug_containers_are_judged_in_the_form_up_to_1_21(judge):
    old = {
        "kind": "EphemeralContainers",
        "ephemeralContainers": [{"name": "a", "securityContext": {"privileged": True}}],
    }
    new = {"kind": "EphemeralContainers", "ephemeralContainers": [*old["ephemeralContainers"], {"name": "b"}]}
    decision = judge(ephemeral_view(new, old))
    assert decision.allowed
    assert decision.patch == ({"op": "add", "path": "/ephemeralContainers/1/env", "value": [VOID]},)


def test_c22_a_debug_container_that_an_update_changes_is_judged_as_a_new_one(judge, rules):
    old = {"spec": {"ephemeralContainers": [{"name": "a"}]}}
    new = {"spec": {"ephemeralContainers": [{"name": "a", "securityContext": {"privileged": True}}]}}
    assert rules(judge(ephemeral_view(new, old)), "denied") == {"GF201"}


def test_c27_of_several_entries_exactly_one_void_is_left_and_the_others_keep_their_order(judge, pod_with):
    entries = [
        {"name": NVD, "value": "void"},
        {"name": "OTHER", "value": "x"},
        {"name": NVD, "value": "all"},
        {"name": "Z"},
    ]
    assert env_of(judge.patched(pod_with(env=entries))) == [
        VOID,
        {"name": "OTHER", "value": "x"},
        {"name": "Z"},
    ]


def test_c27_every_duplicate_goes_where_there_is_a_request(judge, pod_with):
    entries = [{"name": NVD, "value": "0"}, {"name": "OTHER"}, {"name": NVD, "value": "all"}]
    assert env_of(judge.patched(pod_with(gpus=1, env=entries))) == [{"name": "OTHER"}]


FROM_CONFIG_MAP = {"name": NVD, "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}
EXPANDED = {"name": NVD, "value": "$(G)"}


@pytest.mark.parametrize("entry", [FROM_CONFIG_MAP, EXPANDED])
def test_c28_a_value_that_is_not_in_the_pod_is_replaced_without_a_request(judge, pod_with, entry, rules):
    pod = pod_with(env=[entry])
    assert env_of(judge.patched(pod)) == [VOID]
    assert rules(judge(pod)) == {"GF104"}


@pytest.mark.parametrize("entry", [FROM_CONFIG_MAP, EXPANDED])
def test_c28_a_value_that_is_not_in_the_pod_is_refused_with_a_request(judge, pod_with, entry, rules):
    assert rules(judge(pod_with(gpus=1, env=[entry])), "denied") == {"GF104"}


def test_c28_an_escaped_reference_is_a_literal(judge, pod_with, rules):
    assert rules(judge(pod_with(env=[{"name": NVD, "value": "$$(G)"}]))) == {"GF103"}


@pytest.mark.parametrize(
    ("prefix", "action"),
    [
        ("NVIDIA_", "denied"),
        ("NVIDIA_VISIBLE_DEVICE", "denied"),
        ("LD_", "denied"),
        (None, "warned"),
        ("", "warned"),
    ],
)
def test_c28_env_from_beside_a_request_is_judged_by_its_prefix(judge, pod_with, prefix, action, rules):
    source = {"configMapRef": {"name": "cm"}} | ({} if prefix is None else {"prefix": prefix})
    assert rules(judge(pod_with(gpus=1, envFrom=[source])), action) == {"GF105"}


@pytest.mark.parametrize("prefix", ["APP_", "NVIDIA_VISIBLE_DEVICES", "nvidia_", "NVIDIA_X"])
def test_c28_a_prefix_that_begins_no_reserved_name_is_fine(judge, pod_with, prefix, rules):
    source = {"prefix": prefix, "secretRef": {"name": "s"}}
    assert rules(judge(pod_with(gpus=1, envFrom=[source]))) == set()


def test_c28_env_from_is_harmless_where_the_explicit_void_wins(judge, pod_with, rules):
    pod = pod_with(envFrom=[{"prefix": "NVIDIA_", "configMapRef": {"name": "cm"}}])
    assert rules(judge(pod)) == {"GF101"}
    assert env_of(judge.patched(pod)) == [VOID]


@pytest.mark.parametrize("key", ["gpufence.io/webhook", "gpu-guard.example/webhook", "hami.io/webhook"])
def test_c55_no_label_of_the_tenant_switches_anything_off(judge, pod_with, key):
    decision = judge(
        pod_with(gpus=1, securityContext={"privileged": True}, metadata={"labels": {key: "ignore"}})
    )
    assert not decision.allowed


def test_c58_a_claim_alone_does_not_withhold_void_and_makes_a_gpu_pod(judge, pod_with):
    claims = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "one-gpu"}]}
    patched = judge.patched(pod_with(resources={"claims": [{"name": "g"}]}, spec=claims))
    assert env_of(patched) == [VOID]
    assert patched["metadata"]["labels"]["gpufence.io/team"] == "vision"


def test_c60_the_injected_value_is_void_and_not_none(judge, pod_with):
    assert env_of(judge.patched(pod_with()))[0]["value"] == "void"


@pytest.mark.parametrize(
    "path",
    [
        "/var/run/nvidia-container-devices/all",
        "/var/run/nvidia-container-devices",
        "/var/run//nvidia-container-devices/GPU-2",
        "/var/x/../run/nvidia-container-devices/all",
        "/var/run/nvidia-container-devicesall",
        "var/run/nvidia-container-devices/all",
        "//var/run/nvidia-container-devices/imex/0",
        "/run/nvidia-container-devices/all",
    ],
)
def test_c61_a_mount_that_the_toolkit_reads_as_a_request_is_refused(judge, pod_with, path, rules):
    pod = pod_with(
        volumeMounts=[{"name": "d", "mountPath": path}], spec={"volumes": [{"name": "d", "emptyDir": {}}]}
    )
    assert rules(judge(pod), "denied") == {"GF108"}


@pytest.mark.parametrize("path", ["/data/nvidia-container-devices", "/var/run/nvidia", "/var/run"])
def test_c61_other_mounts_are_left_alone(judge, pod_with, path, rules):
    assert rules(judge(pod_with(volumeMounts=[{"name": "d", "mountPath": path}]))) == {"GF101"}


@pytest.mark.parametrize(
    "path", ["/dev", "/dev/nvidia0", "/dev/null/../nvidia0", "//", "/dev/dri/renderD128", "/dev/char"]
)
def test_c61_a_host_path_to_gpu_nodes_asks_for_devices_and_is_refused(judge, pod_with, path, rules):
    pod = pod_with(spec={"volumes": [{"name": "d", "hostPath": {"path": path}}]})
    assert rules(judge(pod), "denied") == {"GF203"}


@pytest.mark.parametrize(
    "key",
    [
        "cdi.k8s.io/x",
        "nvidia.cdi.k8s.io",
        "nvidia.cdi.k8s.io/container.main",
        "devices.gke.io/container.main",
    ],
)
def test_c63_an_annotation_that_a_runtime_reads_as_a_request_is_refused(judge, pod_with, key, rules):
    decision = judge(pod_with(metadata={"annotations": {key: "nvidia.com/gpu=all"}}))
    assert rules(decision, "denied") == {"GF107"}


@pytest.mark.parametrize(
    "key", ["cdi.k8s.iox/x", "nvidia.cdi.k8s.iox", "xcdi.k8s.io/x", "CDI.k8s.io/x", "devices.gke.io/other"]
)
def test_c63_prefix_and_case_are_compared_exactly(judge, pod_with, key, rules):
    assert "GF107" not in rules(judge(pod_with(metadata={"annotations": {key: "x"}})))


@pytest.mark.parametrize(
    "value", ["runtime.nvidia.com/gpu=all", "nvidia.com/gpu=0", "management.nvidia.com/gpu=all", "ALL"]
)
def test_c63_a_qualified_name_in_the_variable_is_a_device_request(judge, pod_with, value, rules):
    pod = pod_with(env=[{"name": NVD, "value": value}])
    assert rules(judge(pod), "fixed") == {"GF103"}
    assert env_of(judge.patched(pod)) == [VOID]


def test_c69_cuda_visible_devices_is_never_read_or_written(judge, pod_with):
    entry = {"name": "CUDA_VISIBLE_DEVICES", "value": "GPU-2"}
    assert env_of(judge.patched(pod_with(gpus=1, env=[entry]))) == [entry]
    assert env_of(judge.patched(pod_with(env=[entry]))) == [entry, VOID]
