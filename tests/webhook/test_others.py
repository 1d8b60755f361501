"""What /validate says of objects that are no pods."""

from __future__ import annotations

import copy

import pytest

from policy.load import load_policy
from webhook import others as others_module

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
def asked(review, answered, policy):
    """Ask about an object of a resource, as the API server does."""

    def ask(group, resource, obj, endpoint="validate", *, fail_mode="allow", policy=policy, **changes):
        about = {"group": group, "version": "v1", "resource": resource}
        body = review(resource=about, object=obj, **changes)
        return answered(body, endpoint, fail_mode=fail_mode, policy=policy)

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


MALFORMED = [
    None,
    1,
    {},
    {"metadata": [], "spec": {"containers": []}},
    {"spec": None},
    {"spec": {"containers": [1]}},
    {"spec": {"containers": [{"name": "m", "env": [{"name": 1}]}]}},
]


@pytest.mark.parametrize("template", MALFORMED, ids=str)
@pytest.mark.parametrize(("group", "resource"), WORKLOADS)
def test_a_malformed_template_is_left_to_the_api_server_whatever_the_fail_mode(
    asked, group, resource, template
):
    spec = (
        {"jobTemplate": {"spec": {"template": template}}}
        if resource == "cronjobs"
        else {"template": template}
    )
    response = asked(group, resource, workload(spec), fail_mode="deny")
    assert response == {"uid": response["uid"], "allowed": True}


@pytest.mark.parametrize(
    "spec", [None, [], 1, {"template": 1}, {"jobTemplate": 1}, {"jobTemplate": {"spec": []}}]
)
@pytest.mark.parametrize(("group", "resource"), WORKLOADS)
def test_a_malformed_workload_is_left_to_the_api_server(asked, group, resource, spec):
    assert asked(group, resource, workload(spec), fail_mode="deny")["allowed"]


@pytest.mark.parametrize("owners", [1, "x", {"a": 1}, [1], [None]], ids=str)
def test_malformed_owners_of_a_workload_are_left_to_the_api_server(asked, owners):
    obj = workload(WORKLOADS["apps", "deployments"], ownerReferences=owners)
    assert asked("apps", "deployments", obj, fail_mode="deny")["allowed"]


@pytest.mark.parametrize(("group", "resource"), WORKLOADS)
def test_an_error_of_our_own_never_refuses_a_workload(asked, monkeypatch, group, resource):
    def fail(*_):
        raise KeyError("hunter2")

    monkeypatch.setattr(others_module, "mutate", fail)
    response = asked(group, resource, workload(WORKLOADS[group, resource]), fail_mode="deny")
    assert response["allowed"]
    (warning,) = response["warnings"]
    assert warning.startswith("gpufence could not judge the pod template")
    assert "refused" not in warning
    assert "fault" in response["auditAnnotations"]


@pytest.mark.parametrize(("group", "resource"), WORKLOADS)
def test_c71_in_audit_mode_a_workload_is_told_that_its_pods_would_be_denied(asked, group, resource):
    policy = load_policy({**POLICY, "spec": {**POLICY["spec"], "enforcement": "audit"}}).policy
    response = asked(group, resource, workload(WORKLOADS[group, resource]), policy=policy)
    assert response["allowed"]
    told = [text for text in response["warnings"] if text.startswith("[GF201]")]
    assert [text.startswith("[GF201] would be denied: ") for text in told] == [True]
    assert not [text for text in response["warnings"] if "will be denied" in text]


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
