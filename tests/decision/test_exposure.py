"""GF2xx: ways around the variable through the host."""

import pytest

GPU_POD = {"gpus": 1}


def host_path(path):
    return {"spec": {"volumes": [{"name": "d", "hostPath": {"path": path}}]}}


EXPOSURES = {
    "GF201": {"securityContext": {"privileged": True}},
    "GF202": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
    "GF203": host_path("/run/containerd/containerd.sock"),
    "GF204": {"spec": {"hostPID": True}},
}


@pytest.mark.parametrize("rule", EXPOSURES)
def test_baseline_refuses_exposure_of_a_gpu_pod(judge, pod_with, rules, rule):
    assert rules(judge(pod_with(gpus=1, **EXPOSURES[rule])), "denied") == {rule}


@pytest.mark.parametrize("rule", EXPOSURES)
def test_baseline_records_exposure_of_ordinary_software(judge, pod_with, rules, rule):
    decision = judge(pod_with(**EXPOSURES[rule]))
    assert decision.allowed
    assert rules(decision, "audited") == {rule}


@pytest.mark.parametrize("rule", EXPOSURES)
def test_baseline_refuses_exposure_of_a_pod_that_asks_for_devices_without_a_request(
    judge, pod_with, rules, rule
):
    pod = pod_with(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}], **EXPOSURES[rule])
    assert rules(judge(pod), "denied") == {rule}


@pytest.mark.parametrize("value", ["void", "", " , ", "void,0"])
def test_a_value_that_means_void_asks_for_nothing(judge, pod_with, value):
    pod = pod_with(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}], **EXPOSURES["GF201"])
    assert judge(pod).allowed


@pytest.mark.parametrize("rule", [*EXPOSURES, "GF205", "GF206", "GF207"])
def test_restricted_refuses_exposure_everywhere(strict, pod_with, rules, rule):
    more = {
        "GF205": {"spec": {"hostIPC": True}},
        "GF206": {"spec": {"runtimeClassName": "nvidia"}},
        "GF207": host_path("/tmp/nvidia-mps"),
    }
    assert rules(strict(pod_with(**(EXPOSURES | more)[rule])), "denied") == {rule}


@pytest.mark.parametrize("name", ["SYS_ADMIN", "sys_admin", "CAP_SYS_ADMIN", "cap_sys_admin", "ALL", "all"])
def test_sys_admin_is_found_in_every_spelling(judge, pod_with, rules, name):
    pod = pod_with(gpus=1, securityContext={"capabilities": {"add": ["NET_ADMIN", name]}})
    assert rules(judge(pod), "denied") == {"GF202"}


@pytest.mark.parametrize("name", ["SYS_ADMINS", "NET_ADMIN", "SYS_PTRACE"])
def test_other_capabilities_are_no_matter_of_gpus(judge, pod_with, rules, name):
    assert (
        rules(judge(pod_with(gpus=1, securityContext={"capabilities": {"add": [name], "drop": ["ALL"]}})))
        == set()
    )


@pytest.mark.parametrize(
    "path",
    [
        "/dev",
        "/dev/",
        "/dev/fuse",
        "/dev/null",
        "/dev/shm/../nvidia0",
        "/",
        "/proc",
        "/proc/sys",
        "/proc/1/root",
        "/proc/1/cwd/dev",
        "/proc/driver/nvidia/capabilities",
        "/etc",
        "/etc/cdi",
        "/var/run/cdi",
        "/run/cdi/x.json",
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet/pod-resources",
        "/var/lib",
        "/var",
        "/var/run",
        "/run",
        "/var/run/docker.sock",
        "/run/nvidia/driver/dev",
        "/var/lib/containerd",
        "/run/crio/crio.sock",
    ],
)
def test_a_host_path_at_below_or_above_a_guarded_path_is_refused_for_gpu_pods(judge, pod_with, rules, path):
    assert rules(judge(pod_with(gpus=1, **host_path(path))), "denied") == {"GF203"}


@pytest.mark.parametrize(
    "path",
    ["/data", "/devices", "/var/log", "/home/kubernetes/bin/nvidia", "/sys", "/tmp", "/process", "/lib64"],
)
def test_other_host_paths_are_left_alone(judge, pod_with, rules, path):
    assert rules(judge(pod_with(gpus=1, **host_path(path)))) == set()


@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/x", "/dev/infiniband", "/dev/infiniband/uverbs0"])
@pytest.mark.parametrize("profile", ["baseline", "restricted"])
def test_shared_memory_and_rdma_are_only_recorded(judge_with, pod_with, rules, path, profile):
    decision = judge_with(profile=profile)(pod_with(gpus=1, **host_path(path)))
    assert decision.allowed
    assert rules(decision, "audited") == {"GF203"}


def test_a_volume_that_nothing_mounts_counts_because_a_debug_container_could_mount_it(judge, pod_with, rules):
    assert rules(judge(pod_with(gpus=1, volumeMounts=[], **host_path("/dev"))), "denied") == {"GF203"}


def test_host_ipc_is_a_warning_for_a_gpu_pod(judge, pod_with, rules):
    decision = judge(pod_with(gpus=1, spec={"hostIPC": True}))
    assert rules(decision, "warned") == {"GF205"}
    assert len(decision.warnings) == 1


@pytest.mark.parametrize("name", ["nvidia", "nvidia-cdi"])
def test_a_runtime_class_without_a_request_is_recorded(judge, pod_with, rules, name):
    assert rules(judge(pod_with(spec={"runtimeClassName": name})), "audited") == {"GF206"}
    assert rules(judge(pod_with(gpus=1, spec={"runtimeClassName": name}))) == set()


def test_a_claim_may_be_for_a_gpu_so_the_runtime_class_is_no_matter(judge, pod_with, rules):
    spec = {"runtimeClassName": "nvidia", "resourceClaims": [{"name": "c"}]}
    assert "GF206" not in rules(judge(pod_with(spec=spec)))


@pytest.mark.parametrize("path", ["/tmp/nvidia-mps", "/run/nvidia/mps/pipe", "/var/run/nvidia/mps"])
def test_the_pipe_of_an_mps_server_is_a_warning(judge, pod_with, rules, path):
    assert "GF207" in rules(judge(pod_with(**host_path(path))), "warned")


def test_the_mps_variable_is_a_warning(judge, pod_with, rules):
    pod = pod_with(gpus=1, env=[{"name": "CUDA_MPS_PIPE_DIRECTORY", "value": "/mps"}])
    assert rules(judge(pod), "warned") == {"GF207"}


def test_a_debug_container_of_an_unknown_pod_is_judged_as_if_its_pod_had_a_gpu(judge, rules):
    from policy.pod import ephemeral_view

    new = {
        "kind": "EphemeralContainers",
        "ephemeralContainers": [{"name": "d", "securityContext": {"privileged": True}}],
    }
    assert rules(judge(ephemeral_view(new, None)), "denied") == {"GF201"}
