"""Where no decision can be made, the answer is a valid AdmissionReview under the fail mode, and says so."""

from __future__ import annotations

import json

import pytest

from webhook import answer as answer_module
from webhook.reviews import NotAReviewError

MALFORMED = [
    {"object": None},
    {"object": 5},
    {"object": []},
    {"object": {"metadata": [], "spec": {}}},
    {"object": {"spec": {"containers": {}}}},
    {"object": {"spec": {"containers": [None]}}},
    {"object": {"spec": {"containers": [{"name": "a", "env": [{"name": 1}]}]}}},
    {"operation": "UPDATE", "subResource": "ephemeralcontainers", "object": "text"},
    {"userInfo": {"groups": "admin"}},
    {"operation": 7},
    {"dryRun": "yes"},
]
OUTCOMES = [
    ("allow", True, "the pod is let in unjudged (failMode allow)"),
    ("audit", True, "under failMode deny it would be refused"),
    ("deny", False, "the pod is refused (failMode deny)"),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome[0])
@pytest.mark.parametrize("endpoint", ["mutate", "validate"])
@pytest.mark.parametrize("request_", MALFORMED, ids=str)
def test_a_malformed_pod_is_answered_under_the_fail_mode(review, answered, request_, endpoint, outcome):
    mode, allowed, words = outcome
    response = answered(review(**request_), endpoint, fail_mode=mode)
    assert response["uid"] == review()["request"]["uid"]
    assert response["allowed"] is allowed
    (warning,) = response["warnings"]
    assert words in warning
    assert "malformed" in warning
    assert response["auditAnnotations"]["fail-mode"] == mode
    assert "patch" not in response
    assert ("status" in response) is not allowed


def test_the_message_names_the_field_and_the_type(review, answered, pod):
    (warning,) = answered(review(object=pod(env={})))["warnings"]
    assert "/spec/containers/0/env: expected a list, found an object" in warning


@pytest.mark.parametrize(("mode", "allowed"), [outcome[:2] for outcome in OUTCOMES])
def test_an_error_of_our_own_is_answered_under_the_fail_mode(review, answered, monkeypatch, mode, allowed):
    def fail(*_):
        raise KeyError("hunter2")

    monkeypatch.setattr(answer_module, "mutate", fail)
    response = answered(review(), fail_mode=mode)
    assert response["allowed"] is allowed
    assert "internal error: KeyError at webhook/test_fail_mode.py:" in response["warnings"][0]
    assert "hunter2" not in json.dumps(response)


def test_namespace_labels_that_fail_are_an_error_of_our_own(review, answered):
    def fail(_):
        raise RecursionError

    assert "internal error: RecursionError" in answered(review(), labels_of=fail)["warnings"][0]


def test_a_refusal_without_a_decision_has_code_500_to_tell_it_from_a_denial(review, answered):
    status = answered(review(object=None), fail_mode="deny")["status"]
    assert (status["code"], status["reason"]) == (500, "InternalError")


def test_a_pod_that_is_none_of_ours_is_allowed_under_deny_too(review, answered):
    assert answered(review(operation="DELETE", object=None), fail_mode="deny")["allowed"]


NO_REVIEWS = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"{",
    b'"text"',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}',
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}',
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}',
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":5}}',
    b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}',
    b'{"apiVersion":"admission.k8s.io/v1","kind":"Pod","request":{"uid":"u"}}',
    b'{"apiVersion":"admission.k8s.io/v1","kind":"Pod","request":{"uid":"u","operation":5}}',
]


@pytest.mark.parametrize("body", NO_REVIEWS, ids=lambda body: repr(body[:90]))
def test_a_body_without_a_review_cannot_be_answered_and_says_what_was_expected(answered, body):
    with pytest.raises(NotAReviewError, match="expected a JSON object with apiVersion admission"):
        answered(body)


def test_the_reason_quotes_no_value(answered):
    with pytest.raises(NotAReviewError) as caught:
        answered(
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":["hunter2"]}}'
        )
    assert "hunter2" not in str(caught.value)


def test_a_body_that_is_small_and_holds_very_much_is_not_read(answered):
    """3 bytes for each value that takes 64 once it is read: a few megabytes would fill the memory of the pod."""
    resource = {"group": "", "version": "v1", "resource": "pods"}
    head = json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "u", "resource": resource, "operation": "CREATE", "object": 5},
        }
    ).encode()
    bomb = head.replace(b'"object": 5', b'"object": [' + b"[]," * 600_000 + b"[]]")
    response = answered(bomb, fail_mode="deny")
    assert not response["allowed"]
    assert response["uid"] == "u"
    assert "holds more than 1000000 values" in response["status"]["message"]
