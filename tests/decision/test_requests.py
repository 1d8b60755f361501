"""GF4xx: quantities, limits, grants and shapes."""

import pytest

from policy.quantity import is_whole, parse_quantity


@pytest.mark.parametrize(
    "quantity",
    ["500m", "0.5", 1.5, "-1", -1, "two", "", "$GPU_PER_NODE", "1 ", "1e999999999", "9" * 80, True, []],
)
def test_a_quantity_that_is_no_count_is_refused(judge, pod_with, rules, quantity):
    assert rules(judge(pod_with(gpus=quantity)), "denied") == {"GF401"}


@pytest.mark.parametrize("quantity", ["1", 1, "1000m", "1k", "1e0", 2.0, "2.0", "+1", "1Ki"])
def test_every_spelling_of_a_count_is_taken(judge, pod_with, rules, quantity):
    assert rules(judge(pod_with(gpus=quantity))) == set()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1500m", 1.5),
        ("2Ki", 2048),
        ("1M", 10**6),
        (".5", 0.5),
        ("5.", 5),
        ("1E", 10**18),
        ("1E3", 1000),
        ("12e-1", 1.2),
    ],
)
def test_quantities_mean_what_kubernetes_makes_of_them(text, value):
    assert float(parse_quantity(text)) == value


@pytest.mark.parametrize(
    "text", ["", ".", "m", "1mm", "1ki", "0x1", "1_0", "\u0661", "1e", "e3", "- 1", "1e-999"]
)
def test_what_is_no_quantity_is_unknown_and_not_zero(text):
    assert parse_quantity(text) is None


def test_a_whole_number_is_zero_or_more():
    assert [is_whole(number) for number in (0, 1, -1, 1.5)] == [True, True, False, False]


LIMITED = {
    "teams": [
        {
            "name": "vision",
            "namespaces": ["vision"],
            "maxPerPod": {"nvidia.com/gpu": 2, "nvidia.com/mig-*": 0},
        }
    ]
}


@pytest.fixture(scope="module")
def limited(judge_with):
    return judge_with(**LIMITED)


def gpu(count):
    return {"resources": {"limits": {"nvidia.com/gpu": count}}}


def test_a_pod_within_the_limit_of_its_team_passes(limited, pod_with, rules):
    assert rules(limited(pod_with(gpus=2))) == set()


def test_a_pod_above_the_limit_of_its_team_is_refused(limited, pod_with, rules):
    decision = limited(pod_with(gpus=3))
    assert rules(decision, "denied") == {"GF402"}
    assert "holds 3 of nvidia.com/gpu" in decision.message


def test_containers_of_a_pod_are_added(limited, rules):
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", **gpu(2)}, {"name": "b", **gpu("1")}]}}
    assert rules(limited(pod), "denied") == {"GF402"}


def test_init_containers_hand_their_devices_on(limited, rules):
    inits = [{"name": "i", **gpu(2)}, {"name": "j", **gpu(2)}]
    pod = {"metadata": {}, "spec": {"initContainers": inits, "containers": [{"name": "a", **gpu(2)}]}}
    assert rules(limited(pod)) == set()


def test_sidecars_hold_their_devices_beside_the_others(limited, rules):
    sidecar = {"name": "s", "restartPolicy": "Always", **gpu(1)}
    pod = {"metadata": {}, "spec": {"initContainers": [sidecar], "containers": [{"name": "a", **gpu(2)}]}}
    assert rules(limited(pod), "denied") == {"GF402"}


def test_an_init_container_after_a_sidecar_runs_beside_it(limited, rules):
    inits = [{"name": "s", "restartPolicy": "Always", **gpu(1)}, {"name": "i", **gpu(2)}]
    pod = {"metadata": {}, "spec": {"initContainers": inits, "containers": [{"name": "a"}]}}
    assert rules(limited(pod), "denied") == {"GF402"}


def test_a_limit_of_zero_forbids_and_a_pattern_adds_the_names_it_matches(limited, pod_with, rules):
    pod = pod_with(resources={"limits": {"nvidia.com/mig-1g.5gb": 1}})
    assert rules(limited(pod), "denied") == {"GF402"}


def test_a_share_of_a_device_is_no_device(judge_with, pod_with, rules):
    judge = judge_with(teams=[{"name": "v", "namespaces": ["vision"], "maxPerPod": {"nvidia.com/*": 1}}])
    pod = pod_with(
        resources={"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000, "nvidia.com/gpucores": 30}}
    )
    assert rules(judge(pod)) == set()


def test_limits_of_a_team_do_not_bind_others(limited, pod_with, rules):
    assert rules(limited(pod_with(gpus=8), namespace="other")) == {"GF301"}


def test_a_resource_that_was_not_granted_is_refused(judge_with, pod_with, rules):
    judge = judge_with(teams=[{"name": "v", "namespaces": ["vision"], "resources": ["nvidia.com/mig-1g.*"]}])
    assert rules(judge(pod_with(gpus=1)), "denied") == {"GF403"}
    assert rules(judge(pod_with(resources={"limits": {"nvidia.com/mig-1g.5gb": 1}}))) == set()


@pytest.mark.parametrize(
    "resource",
    [
        {"nvidia.com/mig-1g.5gb": 2},
        {"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-2g.10gb": 1},
        {"nvidia.com/gpu.shared": 2},
    ],
)
def test_a_shape_that_cuda_cannot_use_is_a_warning(judge, pod_with, rules, resource):
    assert rules(judge(pod_with(resources={"limits": resource})), "warned") == {"GF404"}


@pytest.mark.parametrize(
    "resource", [{"nvidia.com/gpu": 8}, {"nvidia.com/gpu.shared": 1}, {"nvidia.com/mig-1g.5gb": 1}]
)
def test_shapes_that_work_are_no_hit(judge, pod_with, rules, resource):
    assert rules(judge(pod_with(resources={"limits": resource}))) == set()


def test_a_request_without_a_limit_counts_as_a_request(judge, pod_with):
    pod = pod_with(resources={"requests": {"nvidia.com/gpu": 1}})
    assert "env" not in judge.patched(pod)["spec"]["containers"][0]
