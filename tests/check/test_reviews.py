"""Saved AdmissionReviews: judged as the request says, and answered as the server would."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest

from serve.kubeyaml import read
from webhook.answer import Terms, answer_body
from webhook.reviews import encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.check.judge import Asked

POLICY = """\
apiVersion: gpufence.io/v1alpha1
kind: GpuPolicy
metadata: {name: default}
spec:
  teams:
  - {name: vision, namespaces: [vision]}
  - {name: research, groups: [researchers]}
"""
DEPLOYMENTS = {"group": "apps", "version": "v1", "resource": "deployments"}


def review(manifest: str, **request: Any) -> dict[str, Any]:
    (document,) = read(manifest)
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "object": document.value,
            **request,
        },
    }


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_a_review_of_a_creation_is_judged_like_the_pod(results: Callable[..., Any], privileged: str) -> None:
    (result,) = results(json.dumps(review(privileged)))
    assert (result["kind"], result["name"], result["verdict"]) == ("Pod", "train", "deny")


def test_namespace_and_user_of_the_request_win(
    results: Callable[..., Any], privileged: str, policy: Path
) -> None:
    gpu = privileged.replace("privileged: true", "privileged: false")
    user = {"username": "ada", "groups": ["researchers"]}
    text = json.dumps(review(gpu, namespace="other", userInfo=user))
    (result,) = results(text, "--policy", policy, "-n", "vision", "--user", "bob", "--group", "nobody")
    assert (result["namespace"], result["team"]) == ("other", "research")


def test_the_options_fill_in_what_a_request_leaves_out(
    results: Callable[..., Any], privileged: str, policy: Path
) -> None:
    bare = privileged.replace("  namespace: vision\n", "").replace("privileged: true", "privileged: false")
    (named,) = results(json.dumps(review(bare)), "--policy", policy, "-n", "vision")
    (grouped,) = results(
        json.dumps(review(bare)), "--policy", policy, "--user", "ada", "--group", "researchers"
    )
    assert (named["namespace"], named["team"]) == ("vision", "vision")
    assert grouped["team"] == "research"


def test_a_review_of_a_workload_judges_its_template_in_the_namespace_of_the_request(
    results: Callable[..., Any],
) -> None:
    spec = "{template: {spec: {containers: [{name: a}]}}}"
    manifest = f"{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {spec}}}"
    (result,) = results(json.dumps(review(manifest, namespace="vision", resource=DEPLOYMENTS)))
    assert (result["kind"], result["namespace"], result["templatePath"]) == (
        "Deployment", "vision", "spec.template.spec",
    )  # fmt: skip


@pytest.mark.parametrize(
    "request_",
    [{"operation": "DELETE"}, {"operation": "UPDATE", "subResource": "status"}],
)
def test_a_request_that_the_webhook_is_not_asked_about_is_skipped(
    check: Callable[..., Any], privileged: str, request_: dict[str, Any]
) -> None:
    ran = check(json.dumps(review(privileged, **request_)), "-o", "json")
    assert ran.json()["summary"] == {"allowed": 0, "denied": 0, "skipped": 1, "problems": 0}


def test_an_update_of_a_pod_is_judged_where_it_is_decided(
    results: Callable[..., Any], pod: str, policy: Path
) -> None:
    (old,) = read(pod.replace("{name: web,", "{name: web, labels: {gpufence.io/team: vision},"))
    update = review(pod, operation="UPDATE", oldObject=old.value, namespace="vision")
    (result,) = results(json.dumps(update), "--policy", policy)
    assert [each["rule"] for each in result["findings"]] == ["GF303"]
    assert result["verdict"] == "deny"


def test_reviews_of_a_real_api_server_are_judged(gpufence: Callable[..., Any], shared: Path) -> None:
    files = sorted((shared / "captures").glob("admissionreview*.jsonl"))
    ran = gpufence("check", "-f", files[0], "-f", files[1], "-o", "json")
    assert ran.json()["problems"] == []
    assert ran.json()["summary"]["allowed"] + ran.json()["summary"]["denied"] == 12
    for result in ran.json()["results"]:
        assert bool(result["patch"]) <= (result["verdict"] == "allow")


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "1"}},
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": "1", "allowed": True},
        },
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "1", "namespace": 3},
        },
    ],
)
def test_what_is_no_request_is_a_problem(check: Callable[..., Any], document: dict[str, Any]) -> None:
    ran = check(json.dumps(document))
    assert ran.code == 2
    assert "not an AdmissionReview that can be judged" in ran.err


def test_a_review_of_a_malformed_pod_is_a_problem(check: Callable[..., Any], pod: str) -> None:
    ran = check(json.dumps(review(pod.replace("name: main", "name: 3"))))
    assert ran.code == 2
    assert "the pod is malformed: /spec/containers/0/name" in ran.err


@pytest.mark.parametrize("endpoint", ["mutate", "validate"])
def test_the_answer_is_the_servers_byte_for_byte(
    gpufence: Callable[..., Any], asked: Asked, pod: str, privileged: str, tmp_path: Path, endpoint: Any
) -> None:
    for manifest, code in ((pod, 0 if endpoint == "mutate" else 1), (privileged, 1)):
        body = json.dumps(review(manifest)).encode()
        (tmp_path / "review.json").write_bytes(body)
        ran = gpufence("check", "--review", "review.json", "--endpoint", endpoint, "-o", "review")
        terms = Terms(asked.policy, asked.labels_of, asked.now, "allow")
        expected = encode(answer_body(body, endpoint, terms).response)
        assert ran.out.encode() == expected + b"\n"
        assert (ran.code, ran.err) == (code, "")


def test_the_answer_is_that_of_mutate_unless_another_endpoint_is_named(
    gpufence: Callable[..., Any], pod: str
) -> None:
    ran = gpufence("check", "--review", "-", "-o", "review", stdin=json.dumps(review(pod)))
    patch = json.loads(base64.b64decode(ran.json()["response"]["patch"]))
    (before,) = read(pod)
    assert jsonpatch.apply_patch(before.value, patch)["spec"]["containers"][0]["env"]


def test_a_review_option_with_another_output_judges_it(gpufence: Callable[..., Any], privileged: str) -> None:
    ran = gpufence("check", "--review", "-", "-o", "json", stdin=json.dumps(review(privileged)))
    assert (ran.code, ran.json()["summary"]["denied"]) == (1, 1)


def test_an_answer_needs_a_review(gpufence: Callable[..., Any], check: Callable[..., Any], pod: str) -> None:
    ran = gpufence("check", "--review", "-", "-o", "review", stdin=pod)
    assert (ran.code, ran.out) == (2, "")
    assert "expected a JSON object with apiVersion admission.k8s.io/v1, kind AdmissionReview" in ran.err
    assert check(pod, "-o", "review").code == 2
