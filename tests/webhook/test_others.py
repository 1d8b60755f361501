"""What /validate says of objects that are no pods."""

from __future__ import annotations

import copy

import pytest

PRIVILEGED = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "i",
                "securityContext": {"privileged": True},
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ]
    },
}
WORKLOADS = {
    ("apps", "deployments"): {"template": PRIVILEGED},
    ("apps", "statefulsets"): {"template": PRIVILEGED},
    ("apps", "daemonsets"): {"template": PRIVILEGED},
    ("apps", "replicasets"): {"template": PRIVILEGED},
    ("batch", "jobs"): {"template": PRIVILEGED},
    ("batch", "cronjobs"): {"jobTemplate": {"spec": {"template": PRIVILEGED}}},
}


@pytest.fixture
def asked(review, answered):
    """Ask about an object of a resource, as the API server does."""

    def ask(group, resource, obj, endpoint="validate", **changes):
        about = {"group": group, "version": "v1", "resource": resource}
        return answered(review(resource=about, object=obj, **changes), endpoint)

    return ask


def workload(spec, **metadata):
    return {"metadata": {"name": "w", "namespace": "vision", **metadata}, "spec": spec}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(("group", "resource"), WORKLOADS)
def test_a_workload_whose_pods_will_be_denied_is_let_in_with_a_warning(asked, group, resource, operation):
    response = asked(group, resource, workload(WORKLOADS[group, resource]), operation=operation)
    assert response["allowed"]
    assert "patch" not in response
    assert [
        text
        for text in response["warnings"]
        if text.startswith("[GF201] its pods will be denied: container main")
    ]


def test_a_workload_is_never_patched(asked):
    spec = {"template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}}
    for endpoint in ("mutate", "validate"):
        response = asked("apps", "deployments", workload(spec), endpoint)
        assert response["allowed"]
        assert "patch" not in response
        assert not response.get("warnings")


def test_a_workload_of_a_controller_is_not_warned_about_twice(asked):
    owner = {"kind": "Deployment", "name": "w", "controller": True}
    obj = workload(WORKLOADS["apps", "replicasets"], ownerReferences=[owner])
    assert not asked("apps", "replicasets", obj).get("warnings")


@pytest.mark.parametrize("spec", [None, {}, {"template": 1}, {"template": {"spec": {"containers": [1]}}}, []])
def test_a_malformed_workload_is_left_to_the_api_server(asked, spec):
    assert asked("apps", "deployments", workload(spec))["allowed"]


@pytest.mark.parametrize("subresource", ["scale", "status"])
def test_subresources_of_a_workload_are_no_matter(asked, subresource):
    response = asked(
        "apps", "deployments", workload(WORKLOADS["apps", "deployments"]), subResource=subresource
    )
    assert response["allowed"]
    assert not response.get("warnings")


POLICY = {
    "apiVersion": "gpufence.io/v1alpha1",
    "kind": "GpuPolicy",
    # As the API server sends it.
    "metadata": {
        "name": "default",
        "uid": "u",
        "creationTimestamp": None,
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"teams": [{"name": "vision", "namespaces": ["vision"]}]},
}


def test_a_good_policy_is_let_in(asked):
    response = asked("gpufence.io", "gpupolicies", POLICY, namespace="")
    assert response["allowed"]
    assert not response.get("warnings")


def test_a_bad_policy_is_refused_with_every_problem(asked):
    bad = copy.deepcopy(POLICY)
    bad["spec"] |= {"profile": "loose", "rules": [{"rule": "GF999", "mode": "deny"}]}
    response = asked("gpufence.io", "gpupolicies", bad, namespace="")
    assert not response["allowed"]
    assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
    assert "spec.profile" in response["status"]["message"]
    assert "spec.rules[0].rule" in response["status"]["message"]


def test_what_the_author_of_a_policy_should_look_at_is_a_warning(asked):
    doubtful = copy.deepcopy(POLICY)
    doubtful["spec"]["rules"] = [{"rule": "GF107", "mode": "off"}]
    response = asked("gpufence.io", "gpupolicies", doubtful, namespace="")
    assert response["allowed"]
    assert any("off everywhere" in text for text in response["warnings"])


def test_many_problems_of_a_policy_are_cut_with_a_count(asked):
    bad = copy.deepcopy(POLICY)
    bad["spec"]["teams"] = [{"name": f"t{number}", "x": 1} for number in range(40)]
    lines = asked("gpufence.io", "gpupolicies", bad, namespace="")["status"]["message"].splitlines()
    assert len(lines) == 22
    assert lines[-1].startswith("and ")


def test_only_validate_judges_a_policy(asked):
    bad = {**POLICY, "spec": {"profile": "loose"}}
    assert asked("gpufence.io", "gpupolicies", bad, "mutate", namespace="")["allowed"]
