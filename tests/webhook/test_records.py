"""Which answers become a record, and what is in it."""

from __future__ import annotations

import copy
import json

import msgspec
import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.identity import record_id, timestamp
from audit.record import Actor, Cut, Hit, Owner, PatchOperation, Subject, decode, encode
from policy.gpu import MPS_PIPE_VARIABLE, RESERVED_NAMES
from policy.load import load_policy
from policy.model import RuleHit
from policy.unreadable import Unreadable
from webhook.record import record_of
from webhook.reviews import NotAReviewError

CANARY = "hunter2"
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web-5d9",
    "uid": "u-rs",
    "controller": True,
    "blockOwnerDeletion": True,
}
GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
PRIVILEGED = {**GPU, "securityContext": {"privileged": True}}
POLICY = {
    "apiVersion": "gpufence.io/v1alpha1",
    "kind": "GpuPolicy",
    "metadata": {"name": "default", "uid": "u-policy"},
    "spec": {"teams": [{"name": "vision", "namespaces": ["vision"]}]},
}


@pytest.fixture
def recorded(outcome, now):
    """Answer a review and return its record."""

    def call(body, endpoint="mutate", **terms):
        answered = outcome(body, endpoint, **terms)
        return record_of(endpoint, answered, at=now, identifier=record_id(now, bytes(8)), latency_micros=412)

    return call


@pytest.fixture
def final(pod, outcome, patched, review, answered):
    """Return a pod as /mutate leaves it and the API server completes it."""

    def make(**container):
        raw = pod(**container)
        raw = patched(answered(review(object=raw)), raw)
        raw["metadata"] |= {"uid": "u-pod", "ownerReferences": [OWNER]}
        return raw

    return make


def policy_review(review, spec, operation="CREATE", **request):
    about = {"group": "gpufence.io", "version": "v1alpha1", "resource": "gpupolicies"}
    return review(
        resource=about, name="default", namespace="", operation=operation,
        object={**POLICY, "spec": spec}, **request,
    )  # fmt: skip


# Which answers


def test_mutate_records_a_patch_with_what_it_changed(recorded, review):
    record = recorded(review())
    assert (record.kind, record.endpoint, record.verdict) == ("admission", "mutate", "allow")
    assert record.patch[0] == PatchOperation(
        op="add",
        path="/spec/containers/0/env",
        value=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    )
    assert [(hit.rule, hit.action) for hit in record.hits] == [("GF101", "fixed")]


def test_mutate_records_nothing_where_it_changes_nothing(recorded, review, final):
    assert recorded(review(object=final())) is None


def test_a_denial_is_recorded_by_the_call_that_denies(recorded, review, pod):
    for endpoint in ("mutate", "validate"):
        record = recorded(review(object=pod(**PRIVILEGED)), endpoint)
        assert (record.endpoint, record.verdict, record.patch) == (endpoint, "deny", ())
        assert "GF201" in {hit.rule for hit in record.hits if hit.action == "denied"}


def test_validate_records_every_new_pod_even_where_no_rule_applies(recorded, review, final):
    record = recorded(review(object=final()), "validate")
    assert (record.verdict, record.hits, record.subject.uid) == ("allow", (), "u-pod")


def test_both_calls_carry_the_decision_that_the_pod_does(recorded, review, pod, final):
    raw = final(**GPU)
    stamped = raw["metadata"]["annotations"]["gpufence.io/decision"]
    first, second = recorded(review(object=pod(**GPU))), recorded(review(object=raw), "validate")
    assert first.decision == second.decision == stamped
    assert first.policy_version == second.policy_version == stamped.split(".")[0]
    assert first.team == second.team == "vision"


def test_a_debug_container_is_recorded_with_its_subresource(recorded, review, final):
    raw = final()
    debugged = copy.deepcopy(raw)
    debugged["spec"]["ephemeralContainers"] = [{"name": "debugger", "image": "i"}]
    asked = review(operation="UPDATE", subResource="ephemeralcontainers", object=debugged, oldObject=raw)
    record = recorded(asked, "validate")
    assert record.verdict == "deny"  # /mutate did not see it, so the variable is missing
    assert (record.subject.kind, record.subject.subresource) == ("Pod", "ephemeralcontainers")
    assert record.hits[0].container == "debugger"


def test_an_update_is_recorded_only_where_a_rule_applies(recorded, review, final):
    raw = final()
    assert recorded(review(operation="UPDATE", object=raw, oldObject=raw), "validate") is None
    moved = copy.deepcopy(raw)
    moved["metadata"]["labels"] = {"gpufence.io/team": "other"}
    record = recorded(review(operation="UPDATE", object=moved, oldObject=raw), "validate")
    assert (record.verdict, record.operation, record.hits[0].rule) == ("deny", "UPDATE", "GF303")


def test_a_dry_run_is_never_recorded(recorded, review, pod):
    for endpoint in ("mutate", "validate"):
        for raw in (pod(), pod(**PRIVILEGED), {"spec": 1}):
            assert recorded(review(object=raw, dryRun=True), endpoint) is None
        assert recorded(policy_review(review, POLICY["spec"], dryRun=True), endpoint) is None


def test_a_workload_and_anything_else_is_never_recorded(recorded, review, pod):
    template = {"metadata": {"name": "w"}, "spec": {"template": pod(**PRIVILEGED)}}
    for group, resource in (("apps", "deployments"), ("", "configmaps"), ("", "services")):
        about = {"group": group, "version": "v1", "resource": resource}
        for endpoint in ("mutate", "validate"):
            assert recorded(review(resource=about, object=template), endpoint) is None


@pytest.mark.parametrize("endpoint", ["mutate", "validate"])
@pytest.mark.parametrize("fail_mode", ["allow", "audit", "deny"])
def test_what_could_not_be_decided_is_recorded_with_the_setting_that_answered(
    recorded, review, endpoint, fail_mode
):
    raw = {"metadata": {"name": "p", "uid": "u-pod"}, "spec": {"containers": [1]}}
    record = recorded(review(object=raw), endpoint, fail_mode=fail_mode)
    assert (record.verdict, record.fail_mode) == ("undecided", fail_mode)
    assert record.fault == "the pod is malformed: /spec/containers/0: expected an object, found a number"
    assert (record.actor.username, record.subject.uid) == ("alice", "u-pod")
    assert (record.hits, record.policy_version) == ((), "")


def test_a_request_that_could_not_be_read_is_recorded_by_its_uid(recorded, review):
    record = recorded(review(namespace=7))
    assert (record.verdict, record.request_uid) == ("undecided", "11111111-2222-3333-4444-555555555555")
    assert (record.actor, record.subject) == (None, None)


# Policies


def test_a_policy_change_is_recorded_by_validate_with_its_new_version(recorded, review):
    record = recorded(policy_review(review, POLICY["spec"], "UPDATE"), "validate")
    assert (record.kind, record.verdict, record.operation) == ("policy_change", "allow", "UPDATE")
    assert record.policy_version == load_policy(POLICY).policy.version
    assert record.subject == Subject(
        api_version="gpufence.io/v1alpha1", kind="GpuPolicy", name="default", uid="u-policy"
    )
    assert record.notes == ()
    assert recorded(policy_review(review, POLICY["spec"]), "mutate") is None


def test_what_the_author_of_a_policy_was_told_is_in_its_record(recorded, review):
    record = recorded(policy_review(review, {"rules": [{"rule": "GF107", "mode": "off"}]}), "validate")
    assert record.verdict == "allow"
    assert "off everywhere" in record.notes[0]
    refused = recorded(policy_review(review, {"profile": "loose"}), "validate")
    assert (refused.kind, refused.verdict, refused.policy_version) == ("policy_change", "deny", "")
    assert "spec.profile" in refused.notes[1]


def test_a_status_of_a_policy_is_no_change_of_it(recorded, review):
    asked = policy_review(review, POLICY["spec"], "UPDATE", subResource="status")
    assert recorded(asked, "validate") is None


# What is in it


def test_a_record_names_who_what_and_when(recorded, review, final, now):
    user = {"username": "system:serviceaccount:kube-system:rs", "uid": "u-sa", "groups": ["a", "b"]}
    raw = final()
    raw["metadata"]["generateName"] = "web-5d9-"
    record = recorded(review(object=raw, userInfo=user), "validate")
    assert (record.id, record.time) == (record_id(now, bytes(8)), timestamp(now))
    assert record.actor == Actor(username=user["username"], uid="u-sa", groups=("a", "b"))
    assert record.subject == Subject(
        api_version="v1",
        kind="Pod",
        namespace="vision",
        name="p",
        generate_name="web-5d9-",
        uid="u-pod",
        owner=Owner(api_version="apps/v1", kind="ReplicaSet", name="web-5d9", uid="u-rs"),
    )
    assert (record.request_uid, record.latency_micros) == ("11111111-2222-3333-4444-555555555555", 412)


def test_an_exempt_pod_is_recorded_with_the_reason(recorded, review, pod):
    spec = {"exemptions": [{"namespaces": ["vision"], "serviceAccounts": ["default"], "reason": "probe"}]}
    exempting = load_policy({**POLICY, "spec": spec}).policy
    record = recorded(review(object=pod(**PRIVILEGED)), "validate", policy=exempting)
    assert (record.verdict, record.exempt) == ("allow", "probe")
    assert {(hit.action, hit.because) for hit in record.hits} == {("audited", "exempt: probe")}


def test_what_could_not_be_known_is_a_note(recorded, review, final):
    spec = {"teams": [{"name": "lab", "namespaceSelector": {"matchLabels": {"a": "b"}}}]}
    selecting = load_policy({**POLICY, "spec": spec}).policy
    record = recorded(review(object=final()), "validate", policy=selecting)
    assert "the labels of namespace vision are unknown" in record.notes[0]


def test_in_audit_mode_the_record_says_what_would_have_been(recorded, review, pod):
    auditing = load_policy({**POLICY, "spec": {"enforcement": "audit"}}).policy
    record = recorded(review(object=pod(**PRIVILEGED)), "validate", policy=auditing)
    (hit,) = [hit for hit in record.hits if hit.rule == "GF201"]
    assert record.verdict == "allow"
    assert (hit.mode, hit.action, hit.because) == ("deny", "audited", "the policy has enforcement: audit")


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": 1, "uid": [], "generateName": {}, "ownerReferences": 5},
        {"ownerReferences": [7, {"controller": "true"}, {"controller": True, "name": 3, "uid": None}]},
        "x",
    ],
)
def test_metadata_of_the_wrong_type_is_left_out(recorded, review, metadata):
    record = recorded(review(object={"metadata": metadata, "spec": {}}, name="p"))
    assert record.verdict == "undecided"
    assert (record.subject.name, record.subject.uid, record.subject.generate_name) == ("p", "", "")
    assert record.subject.owner in {None, Owner()}


# What is not in it


def environments():
    """Yield every reserved variable, and one that is not, with values that hold the canary."""
    names = [*(reserved.name for reserved in RESERVED_NAMES), MPS_PIPE_VARIABLE, "SLICES", "PASSWORD"]
    values = [CANARY, f"$({CANARY})", f"all,{CANARY}", f"x$(A){CANARY}", "enabled" + CANARY]
    return [(name, value) for name in names for value in values]


@pytest.mark.parametrize("profile", ["baseline", "restricted"])
@pytest.mark.parametrize("endpoint", ["mutate", "validate"])
@pytest.mark.parametrize("container", [{}, GPU, PRIVILEGED], ids=["no-request", "request", "denied"])
def test_no_value_of_an_environment_variable_is_in_a_record(
    recorded, outcome, review, pod, container, endpoint, profile
):
    spec = {**POLICY["spec"], "profile": profile, "gpu": {"visibilityVariables": ["SLICES"]}}
    policy = load_policy({**POLICY, "spec": spec}).policy
    quoted = 0
    for name, value in environments():
        asked = review(object=pod(env=[{"name": name, "value": value}], **container))
        record = recorded(asked, endpoint, policy=policy)
        assert CANARY not in repr(record), (name, value)
        quoted += CANARY in repr(outcome(asked, endpoint, policy=policy).decision)
    assert quoted > 0  # the person who wrote the value is shown it


def test_only_a_message_that_quotes_a_value_has_a_plain_one():
    quoting = RuleHit("GF103", "no-request", "sets A=secret", "/", plain="sets A")
    assert (quoting.lasting, RuleHit("GF201", "gpu", "is privileged", "/").lasting) == (
        "sets A",
        "is privileged",
    )


def test_the_record_of_a_hostile_pod_is_bounded_and_says_what_it_left_out(recorded, review, pod):
    raw = pod()
    nasty = '"\\' * 400
    raw["metadata"]["annotations"] = {f"cdi.k8s.io/{number}{nasty}": nasty for number in range(300)}
    raw["metadata"] |= {"generateName": nasty, "ownerReferences": [{**OWNER, "name": nasty, "kind": nasty}]}
    raw["spec"]["containers"] = [
        {
            "name": f"{number}{nasty}",
            "image": "i",
            **PRIVILEGED,
            "env": [{"name": "LD_PRELOAD", "value": "x"}],
        }
        for number in range(1000)
    ]
    user = {"username": nasty, "uid": nasty, "groups": [nasty] * 1000}
    record = recorded(review(object=raw, userInfo=user, name=nasty))
    assert len(encode(record)) < 128 * 1024
    assert len(record.hits) == 64
    assert record.cut.groups == 1000 - 32
    assert record.cut.hits > 1000
    assert record.cut.texts > 64
    assert {"GF107", "GF201"} <= {hit.rule for hit in record.hits if hit.action == "denied"}


def test_a_long_patch_is_cut_with_a_count(recorded, review, pod):
    raw = pod()
    raw["spec"]["containers"] = [{"name": f"c{number}", "image": "i"} for number in range(200)]
    record = recorded(review(object=raw))
    assert len(record.patch) == 128
    assert record.cut == Cut(hits=200 - 64, patch=201 - 128)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
KEYS = st.sampled_from(
    ["metadata", "spec", "containers", "ownerReferences", "controller", "name", "uid", "env", "generateName"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=15,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(obj=VALUES, old=VALUES, request=st.dictionaries(
    st.sampled_from(["name", "namespace", "operation", "subResource", "userInfo", "dryRun", "resource"]),
    VALUES, max_size=3,
))  # fmt: skip
def test_whatever_a_review_holds_its_record_is_canonical_or_absent(recorded, review, obj, old, request):
    for endpoint in ("mutate", "validate"):
        try:
            record = recorded(review(object=obj, oldObject=old, **request), endpoint)
        except NotAReviewError:
            continue
        if record is not None:
            data = encode(record)
            assert data == rfc8785.dumps(json.loads(data))
            assert decode(data) == record


def test_a_record_of_an_answer_has_no_hit_that_is_off(recorded, review, pod):
    off = load_policy({**POLICY, "spec": {"rules": [{"rule": "GF201", "mode": "off"}]}}).policy
    record = recorded(review(object=pod(**PRIVILEGED)), "validate", policy=off)
    assert "GF201" not in {hit.rule for hit in record.hits}
    assert msgspec.convert(msgspec.to_builtins(record.hits), tuple[Hit, ...]) == record.hits


def test_a_pod_that_comes_before_any_policy_is_recorded_as_undecided(recorded, review):
    record = recorded(review(), "validate", policy=Unreadable("not listed yet"), fail_mode="deny")
    assert (record.verdict, record.fault) == ("undecided", "no policy is in force: not listed yet")
    assert (record.policy_version, record.fail_mode) == ("", "deny")
