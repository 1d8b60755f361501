"""A review in, an answer out: every row of the dispatch at both endpoints, and the form that the API server
asks."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest

from policy.load import load_policy
from webhook import answer as answer_module
from webhook.answer import Terms, answer_body
from webhook.reviews import encode

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ENDPOINTS = ("mutate", "validate")
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
VOID = [{"name": VISIBLE, "value": "void"}]


def env_of(pod):
    return pod["spec"]["containers"][0].get("env")


# What is asked


def test_a_pod_that_is_created_is_patched_by_mutate(review, answered, patched, pod):
    response = answered(review())
    result = patched(response, pod())
    assert response["allowed"]
    assert env_of(result) == VOID


def test_a_pod_that_requests_a_gpu_gets_the_label_of_its_team(review, answered, patched, pod):
    gpu = pod(resources={"limits": {"nvidia.com/gpu": "1"}})
    result = patched(answered(review(object=gpu)), gpu)
    assert env_of(result) is None
    assert result["metadata"]["labels"]["gpufence.io/team"] == "vision"


def test_a_pod_that_was_patched_passes_validate(review, answered, patched, pod):
    final = patched(answered(review()), pod())
    response = answered(review(object=final), "validate")
    assert response["allowed"]
    assert "patch" not in response


def test_a_pod_that_was_patched_is_not_patched_again(review, answered, patched, pod):
    response = answered(review(object=patched(answered(review()), pod())))
    assert response["allowed"]
    assert "patch" not in response


def test_a_fix_that_a_later_webhook_undid_is_refused_by_validate(review, answered):
    response = answered(review(), "validate")
    assert not response["allowed"]
    assert "GF101" in response["status"]["message"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_pod_that_breaks_a_rule_is_refused_with_403_forbidden(review, answered, pod, endpoint):
    wild = pod(resources={"limits": {"nvidia.com/gpu": "1"}}, securityContext={"privileged": True})
    response = answered(review(object=wild), endpoint)
    assert not response["allowed"]
    assert response["status"]["code"] == 403
    assert response["status"]["reason"] == "Forbidden"
    assert "GF201" in response["status"]["message"]
    assert "patch" not in response


def relabelled(pod, team):
    labelled = pod()
    labelled["metadata"]["labels"] = {"gpufence.io/team": team}
    return labelled


def test_an_update_of_the_team_label_is_allowed_without_patch_by_mutate_and_refused_by_validate(
    review, answered, pod
):
    update = review(operation="UPDATE", object=relabelled(pod, "audio"), oldObject=relabelled(pod, "vision"))
    assert answered(update) == {"uid": update["request"]["uid"], "allowed": True}
    refused = answered(update, "validate")
    assert not refused["allowed"]
    assert "GF303" in refused["auditAnnotations"]["rules"]


def test_an_update_that_keeps_the_labels_is_allowed_whatever_the_spec_says(review, answered, pod):
    old = pod(securityContext={"privileged": True}, env=[{"name": VISIBLE, "value": "all"}])
    update = review(operation="UPDATE", object=old, oldObject=old)
    assert answered(update, "validate")["allowed"]


def debug(pod, *ephemeral):
    whole = pod(env=VOID)
    whole["spec"]["ephemeralContainers"] = list(ephemeral)
    return whole


OLD_DEBUG = {"name": "old", "image": "i", "env": [{"name": VISIBLE, "value": "all"}]}
NEW_DEBUG = {"name": "new", "image": "i"}


def test_only_the_new_debug_container_of_a_whole_pod_is_patched(review, answered, patched, pod):
    target = debug(pod, OLD_DEBUG, NEW_DEBUG)
    update = review(
        operation="UPDATE", subResource="ephemeralcontainers", object=target, oldObject=debug(pod, OLD_DEBUG)
    )
    old, new = patched(answered(update), target)["spec"]["ephemeralContainers"]
    assert old == OLD_DEBUG
    assert new["env"] == VOID


def test_only_the_new_debug_container_of_the_form_up_to_1_21_is_patched(review, answered, patched):
    def listed(*containers):
        return {
            "kind": "EphemeralContainers",
            "metadata": {"name": "p"},
            "ephemeralContainers": list(containers),
        }

    target = listed(OLD_DEBUG, NEW_DEBUG)
    update = review(
        operation="UPDATE",
        subResource="ephemeralcontainers",
        kind={"group": "", "version": "v1", "kind": "EphemeralContainers"},
        object=target,
        oldObject=listed(OLD_DEBUG),
    )
    final = patched(answered(update), target)
    assert final["ephemeralContainers"] == [OLD_DEBUG, {**NEW_DEBUG, "env": VOID}]
    accepted = {**update, "request": {**update["request"], "object": final}}
    assert answered(accepted, "validate")["allowed"]
    assert not answered(update, "validate")["allowed"]


OTHERS = [
    {"operation": "DELETE", "object": None},
    {"operation": "CONNECT", "subResource": "exec", "object": {"kind": "PodExecOptions"}},
    {"operation": "UPDATE", "subResource": "resize"},
    {"operation": "UPDATE", "subResource": "status"},
    {"operation": "CREATE", "subResource": "eviction"},
    {"operation": "CREATE", "subResource": "binding"},
    {"operation": "CREATE", "subResource": "ephemeralcontainers"},
    {"operation": "", "object": None},
    {"operation": None, "object": None},
    {
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "object": {"kind": "Deployment"},
    },
    {"resource": {"group": "", "version": "v1", "resource": "secrets"}, "object": {"data": 5}},
    {"resource": {"group": "metrics.k8s.io", "version": "v1beta1", "resource": "pods"}},
    {"resource": None},
    {"resource": {}},
]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("request_", OTHERS, ids=str)
def test_anything_else_is_allowed_without_patch(review, answered, request_, endpoint):
    assert answered(review(**request_), endpoint) == {"uid": review()["request"]["uid"], "allowed": True}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_dry_run_gets_the_same_answer(review, answered, endpoint):
    assert answered(review(dryRun=True), endpoint) == answered(review(), endpoint)


# What the decision knows


def test_the_namespace_of_the_request_wins_over_that_of_the_object(review, answered, pod):
    elsewhere = pod()
    elsewhere["metadata"]["namespace"] = "audio"
    assert answered(review(object=elsewhere))["auditAnnotations"]["team"] == "vision"
    assert "team" not in answered(review(namespace="audio"))["auditAnnotations"]


@pytest.mark.parametrize("namespace", ["", None])
def test_the_namespace_of_the_object_counts_where_the_request_has_none(review, answered, namespace):
    assert answered(review(namespace=namespace))["auditAnnotations"]["team"] == "vision"


def test_labels_are_asked_for_the_namespace_and_decide(review, answered):
    raw = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": {
            "profile": "baseline",
            "teams": [{"name": "t", "namespaceSelector": {"matchLabels": {"owner": "t"}}}],
        },
    }
    labelled = {"vision": {"owner": "t"}, "audio": {"owner": "u"}}
    policy = load_policy(raw).policy
    mine = answered(review(), policy=policy, labels_of=labelled.__getitem__)
    other = answered(review(namespace="audio"), policy=policy, labels_of=labelled.__getitem__)
    assert mine["auditAnnotations"]["team"] == "t"
    assert "team" not in other["auditAnnotations"]


@pytest.mark.parametrize("info", [None, {}, {"username": None, "groups": None}])
def test_a_request_without_a_user_is_answered(review, answered, info):
    assert answered(review(userInfo=info))["allowed"]


# The form of the answer


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_the_answer_is_a_v1_review_with_the_uid_of_the_request(review, policy, endpoint):
    body = json.dumps(review()).encode()
    terms = Terms(policy, lambda _: {}, NOW, "allow")
    raw = json.loads(encode(answer_body(body, endpoint, terms).response))
    assert set(raw) == {"apiVersion", "kind", "response"}
    assert raw["apiVersion"] == "admission.k8s.io/v1"
    assert raw["kind"] == "AdmissionReview"
    assert raw["response"]["uid"] == review()["request"]["uid"]


def test_patch_and_patch_type_go_together_and_the_patch_is_base64(review, answered):
    response = answered(review())
    assert response["patchType"] == "JSONPatch"
    operations = json.loads(base64.b64decode(response["patch"], validate=True))
    assert {operation["op"] for operation in operations} == {"add"}


def test_validate_never_has_a_patch_even_where_a_decision_had_one(review, answered, monkeypatch):
    monkeypatch.setattr(answer_module, "judge_final", answer_module.mutate)
    response = answered(review(), "validate")
    assert response["allowed"]
    assert "patch" not in response
    assert "patchType" not in response


def test_audit_annotations_name_decision_team_and_rules_without_a_slash(review, answered):
    annotations = answered(review())["auditAnnotations"]
    assert set(annotations) == {"decision", "team", "rules"}
    assert annotations["rules"] == "GF101"
    assert not [key for key in annotations if "/" in key]


def test_mutate_and_validate_name_the_same_decision(review, answered, patched, pod):
    before = answered(review())
    after = answered(review(object=patched(before, pod())), "validate")
    assert before["auditAnnotations"]["decision"] == after["auditAnnotations"]["decision"]


def test_warnings_reach_the_user(review, answered, pod):
    outside = pod(resources={"limits": {"nvidia.com/gpu": "1"}})
    response = answered(review(object=outside, namespace="nobody"))
    assert any("GF301" in warning for warning in response["warnings"])


def test_unknown_fields_of_a_later_api_server_are_skipped(review, answered):
    later = review(future={"a": [1]}, object={**review()["request"]["object"], "newField": {"x": None}})
    later["future"] = True
    assert answered(later)["allowed"]


def test_what_led_to_an_answer_is_told_to_the_caller(review, policy):
    body = json.dumps(review()).encode()
    found = answer_body(body, "mutate", Terms(policy, lambda _: {}, NOW, "allow"))
    assert found.request is not None
    assert found.request.user_info.username == "alice"
    assert found.decision is not None
    assert found.decision.allowed
    assert found.fault is None


def test_in_audit_mode_the_warning_says_what_would_be_denied(answered, review, pod):
    document = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": {"enforcement": "audit"},
    }
    auditing = load_policy(document).policy
    raw = pod(securityContext={"privileged": True}, resources={"limits": {"nvidia.com/gpu": "1"}})
    for endpoint in ("mutate", "validate"):
        response = answered(review(object=raw), endpoint, policy=auditing)
        assert response["allowed"]
        assert "patch" not in response
        assert any(text.startswith("[GF201] would be denied: ") for text in response["warnings"])
