"""GF109 to GF115: variables beside the visibility variable."""

import pytest

HARMFUL = [
    ("NVIDIA_MIG_CONFIG_DEVICES", "all", "GF109", "denied"),
    ("NVIDIA_MIG_MONITOR_DEVICES", "all", "GF109", "denied"),
    ("NVIDIA_IMEX_CHANNELS", "0", "GF110", "denied"),
    ("NVIDIA_IMEX_CHANNELS", "all", "GF110", "denied"),
    ("NVIDIA_GDS", "enabled", "GF111", "audited"),
    ("NVIDIA_MOFED", "enabled", "GF111", "audited"),
    ("NVIDIA_GDRCOPY", "enabled", "GF111", "audited"),
    ("NVIDIA_NVSWITCH", "enabled", "GF111", "audited"),
    ("NVIDIA_DRIVER_CAPABILITIES", "all", "GF112", "audited"),
    ("NVIDIA_DRIVER_CAPABILITIES", "compute, display", "GF112", "audited"),
    ("NVIDIA_DISABLE_REQUIRE", "true", "GF114", "audited"),
    ("NVIDIA_DISABLE_REQUIRE", "1", "GF114", "audited"),
    ("LD_PRELOAD", "/x.so", "GF115", "audited"),
    ("LD_AUDIT", "/x.so", "GF115", "audited"),
]
HARMLESS = [
    ("NVIDIA_MIG_CONFIG_DEVICES", ""),
    ("NVIDIA_IMEX_CHANNELS", "void"),
    ("NVIDIA_IMEX_CHANNELS", ""),
    ("NVIDIA_GDS", "Enabled"),
    ("NVIDIA_GDS", "disabled"),
    ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
    ("NVIDIA_DRIVER_CAPABILITIES", ""),
    ("NVIDIA_DISABLE_REQUIRE", "0"),
    ("NVIDIA_DISABLE_REQUIRE", "yes"),
    ("LD_PRELOAD", ""),
    ("NVIDIA_REQUIRE_CUDA", "cuda>=12"),
    ("nvidia_gds", "enabled"),
]


@pytest.mark.parametrize(("name", "value", "rule", "action"), HARMFUL)
def test_a_reserved_variable_is_found(judge, pod_with, rules, name, value, rule, action):
    assert rules(judge(pod_with(gpus=1, env=[{"name": name, "value": value}])), action) == {rule}


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_a_value_without_effect_is_no_hit(judge, pod_with, rules, name, value):
    assert rules(judge(pod_with(gpus=1, env=[{"name": name, "value": value}]))) == set()


@pytest.mark.parametrize("name", sorted({name for name, *_ in HARMFUL}))
def test_a_value_from_elsewhere_counts_as_harmful(judge, pod_with, rules, name):
    entry = {"name": name, "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}
    assert len(rules(judge(pod_with(gpus=1, env=[entry])))) == 1


def test_rights_over_mig_are_refused_without_a_request_too(judge, pod_with, rules):
    pod = pod_with(env=[{"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"}])
    assert rules(judge(pod), "denied") == {"GF109"}


def test_preloading_is_no_matter_in_a_container_without_a_gpu(judge, pod_with, rules):
    assert rules(judge(pod_with(env=[{"name": "LD_PRELOAD", "value": "/x.so"}]))) == {"GF101"}


def test_restricted_refuses_gated_devices(strict, pod_with, rules):
    assert rules(strict(pod_with(gpus=1, env=[{"name": "NVIDIA_GDS", "value": "enabled"}])), "denied") == {
        "GF111"
    }


SWARM = "DOCKER_RESOURCE_GPU"


@pytest.fixture(scope="module")
def swarm(judge_with):
    return judge_with(gpu={"visibilityVariables": [SWARM]})


def test_an_extra_visibility_variable_gets_void_where_there_is_no_request(swarm, pod_with, rules):
    env = swarm.patched(pod_with())["spec"]["containers"][0]["env"]
    assert env == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, {"name": SWARM, "value": "void"}]
    assert rules(swarm(pod_with()), "fixed") == {"GF101", "GF113"}


def test_an_extra_visibility_variable_is_removed_where_there_is_a_request(swarm, pod_with):
    pod = pod_with(gpus=1, env=[{"name": SWARM, "value": "all"}])
    assert swarm.patched(pod)["spec"]["containers"][0]["env"] == []


def test_an_extra_visibility_variable_from_elsewhere_is_refused_where_there_is_a_request(
    swarm, pod_with, rules
):
    pod = pod_with(gpus=1, env=[{"name": SWARM, "value": "$(X)"}])
    assert rules(swarm(pod), "denied") == {"GF113"}


def test_a_prefix_that_begins_an_extra_variable_is_refused(swarm, judge, pod_with, rules):
    pod = pod_with(gpus=1, envFrom=[{"prefix": "DOCKER_", "configMapRef": {"name": "c"}}])
    assert rules(swarm(pod), "denied") == {"GF105"}
    assert rules(judge(pod)) == set()
