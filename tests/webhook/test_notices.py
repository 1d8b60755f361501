"""Who is told by an Event, and what it says."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kube.client import Client
from kube.config import Connection
from kube.events import EventWriter, Regarding, event_name
from policy.default import DEFAULT_DOCUMENT
from policy.load import load_policy
from policy.problems import Problem
from policy.unreadable import Unreadable
from sandbox.apiserver import ApiServer
from webhook.notices import NOTE_MAX, invalid_policy_notice, notice_of

GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
PRIVILEGED = {**GPU, "securityContext": {"privileged": True}}
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web-5d9",
    "uid": "u-rs",
    "controller": True,
}


@pytest.fixture
def noticed(outcome, review, pod):
    """Return the notice about a pod of a controller; keyword arguments are fields of its container."""

    def call(*, owners=(OWNER,), endpoint="mutate", request=None, terms=None, **container):
        raw = pod(**container)
        raw["metadata"]["ownerReferences"] = list(owners)
        return notice_of(endpoint, outcome(review(object=raw, **(request or {})), endpoint, **(terms or {})))

    return call


@pytest.mark.parametrize("endpoint", ["mutate", "validate"])
def test_a_denial_of_a_controllers_pod_is_told_on_the_controller(noticed, endpoint):
    notice = noticed(endpoint=endpoint, **PRIVILEGED)
    assert notice.regarding == Regarding(
        api_version="apps/v1", kind="ReplicaSet", name="web-5d9", namespace="vision", uid="u-rs"
    )
    assert (notice.type, notice.reason, notice.action) == ("Warning", "GPUPolicyDenied", "Deny")
    # At /validate the labels that /mutate would have stamped are missing too.
    assert notice.key == {"mutate": "GF201", "validate": "GF201,GF302"}[endpoint]
    assert "by gpufence: [GF201] container main is privileged" in notice.note
    assert "Fix: " in notice.note


def test_an_allowed_pod_is_no_matter_for_an_event(noticed):
    assert noticed() is None
    assert noticed(**GPU) is None


def test_a_person_who_creates_a_pod_reads_the_error_and_gets_no_event(noticed):
    assert noticed(owners=(), **PRIVILEGED) is None
    assert noticed(owners=({**OWNER, "controller": False},), **PRIVILEGED) is None


def test_a_dry_run_an_update_and_an_undecided_pod_get_none(noticed):
    assert noticed(request={"dryRun": True}, **PRIVILEGED) is None
    assert noticed(terms={"fail_mode": "deny"}, env=5) is None
    update = {"operation": "UPDATE", "oldObject": {"metadata": {"labels": {"gpufence.io/team": "x"}}}}
    assert noticed(request=update, endpoint="validate") is None


def test_in_audit_mode_a_normal_event_says_once_what_would_be_denied(noticed):
    policy = load_policy(
        {
            "apiVersion": "gpufence.io/v1alpha1",
            "kind": "GpuPolicy",
            "metadata": {"name": "default"},
            "spec": {"enforcement": "audit"},
        }
    ).policy
    assert noticed(terms={"policy": policy}, endpoint="mutate", **PRIVILEGED) is None
    notice = noticed(terms={"policy": policy}, endpoint="validate", **PRIVILEGED)
    assert (notice.type, notice.reason, notice.action) == ("Normal", "GPUPolicyWouldDeny", "Audit")
    assert notice.note.startswith("Let in (enforcement: audit); enforced, it would be denied. ")
    assert noticed(terms={"policy": policy}, endpoint="validate", **GPU) is None


def test_repeats_for_the_same_rules_are_one_event_whatever_the_pod(noticed):
    first = noticed(**PRIVILEGED)
    again = noticed(request={"name": "other", "uid": "another"}, **{**PRIVILEGED, "name": "side"})
    assert event_name(first) == event_name(again)
    assert event_name(noticed(owners=({**OWNER, "uid": "u-2"},), **PRIVILEGED)) != event_name(first)


def test_other_rules_are_another_event(noticed):
    added = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}
    both = noticed(**{**PRIVILEGED, "securityContext": added})
    assert both.key == "GF201,GF202"


@pytest.mark.parametrize(
    "change",
    [
        {"apiVersion": "v1", "kind": "Node"},
        {"kind": ""},
        {"name": None},
        {"name": "x" * 254},
        {"apiVersion": 3},
        {"kind": "é" * 200},  # bytes count, not characters
    ],
)
def test_what_cannot_be_an_owner_gets_none(noticed, change):
    assert noticed(owners=({**OWNER, **change},), **PRIVILEGED) is None


def test_the_note_is_one_printable_line_of_at_most_1024_bytes(noticed):
    notice = noticed(name="é\n\x1b[31m" * 500, **PRIVILEGED)
    assert len(notice.note.encode()) <= NOTE_MAX
    assert notice.note.isprintable()
    assert notice.note.endswith("...")


@pytest.mark.parametrize("value", ["hunter2", "$(hunter2)", "all,hunter2"])
@pytest.mark.parametrize("name", ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"])
@pytest.mark.parametrize("container", [{}, PRIVILEGED])
@pytest.mark.parametrize("endpoint", ["mutate", "validate"])
def test_no_value_of_an_environment_variable_is_in_a_notice(noticed, container, name, value, endpoint):
    rules = [{"rule": rule, "mode": "deny"} for rule in ("GF102", "GF103", "GF104", "GF112")]
    policy = load_policy(
        {
            "apiVersion": "gpufence.io/v1alpha1",
            "kind": "GpuPolicy",
            "metadata": {"name": "default"},
            "spec": {"profile": "restricted", "rules": rules},
        }
    ).policy
    notice = noticed(
        endpoint=endpoint, terms={"policy": policy}, env=[{"name": name, "value": value}], **container
    )
    assert notice is not None
    assert "hunter2" not in repr(notice)


IN_FORCE = load_policy(DEFAULT_DOCUMENT).policy
PROBLEMS = (Problem("spec.profile", "no such profile", "'loose'", "Use baseline or restricted."),)


def test_a_bad_policy_is_told_on_its_object_with_what_stays_in_force():
    notice = invalid_policy_notice("u-policy", PROBLEMS, IN_FORCE)
    assert notice.regarding == Regarding(
        api_version="gpufence.io/v1alpha1", kind="GpuPolicy", name="default", uid="u-policy"
    )
    assert (notice.type, notice.reason) == ("Warning", "InvalidPolicy")
    assert notice.note == (
        f"The last good policy stays in force, version {IN_FORCE.version}: this one has 1 problem. "
        "spec.profile: no such profile (found 'loose'). Fix: Use baseline or restricted."
    )


def test_a_bad_policy_with_none_before_it_is_told_as_that():
    notice = invalid_policy_notice("u", PROBLEMS, Unreadable("none"))
    assert notice.note.startswith(
        "No policy is in force, and this replica is not ready: this one has 1 problem."
    )


async def test_the_api_takes_the_events(noticed):
    async with ApiServer() as server, Client(Connection(server=server.url)) as client:
        writer = EventWriter(
            client,
            controller="gpufence.io/webhook",
            instance="gpufence-webhook-0",
            terminating=lambda _: False,
            clock=lambda: 0.0,
            now=lambda: datetime(2026, 11, 30, 12, tzinfo=UTC),
            log=lambda *_, **__: None,
        )
        await client.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": "vision"}})
        writer.emit(noticed(name="é" * 900, **PRIVILEGED))
        writer.emit(invalid_policy_notice("u-policy", PROBLEMS * 100, IN_FORCE))
        task = asyncio.create_task(writer.run())
        async with asyncio.timeout(20):
            await writer.drained()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (writer.written, writer.failed) == (2, 0)
        for namespace, reason in (("vision", "GPUPolicyDenied"), ("default", "InvalidPolicy")):
            path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
            (event,) = (await client.list_page(path, limit=10)).items
            assert event["reason"] == reason


def test_other_problems_of_a_policy_are_another_event():
    first = invalid_policy_notice("u", PROBLEMS, IN_FORCE)
    same = invalid_policy_notice("u", PROBLEMS, IN_FORCE)
    other = invalid_policy_notice("u", [replace(PROBLEMS[0], path="spec.rules")], IN_FORCE)
    assert event_name(first) == event_name(same) != event_name(other)


def test_many_problems_are_cut_to_what_an_event_holds():
    notice = invalid_policy_notice("u", PROBLEMS * 100, IN_FORCE)
    assert len(notice.note.encode()) <= NOTE_MAX
    assert "this one has 100 problems" in notice.note
