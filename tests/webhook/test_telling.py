"""What follows from an answer of a running webhook: records, Events, metrics and log lines."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from audit.record import decode
from kube.config import Connection
from sandbox.apiserver import ApiServer
from serve.settings import Address
from webhook.run import running

PRIVILEGED = {
    "resources": {"limits": {"nvidia.com/gpu": "1"}},
    "securityContext": {"privileged": True},
}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9", "uid": "u-rs", "controller": True}
EVENTS = "/apis/events.k8s.io/v1/namespaces/vision/events"
LABELS = ("endpoint", "verdict", "fail_mode", "cause", "rule", "action", "code", "version", "collection")
POLICIES = "/apis/gpufence.io/v1alpha1/gpupolicies"


class Sink:
    """Keeps records; `fail` makes it raise."""

    def __init__(self):
        self.records, self.fail = [], False

    async def append(self, records):
        if self.fail:
            raise OSError("disk full")
        self.records += map(decode, records)


class Told:
    """A running webhook, and what it tells."""

    def __init__(self, server, session, sink, api=None):
        self.server, self.session, self.sink, self.api = server, session, sink, api

    async def review(self, body, endpoint="mutate"):
        async with self.session.post(f"{self.server.url}/{endpoint}", json=body) as answer:
            assert answer.status == 200
            return (await answer.json())["response"]

    async def metrics(self):
        async with self.session.get(f"http://{self.server.metrics_address}/metrics") as answer:
            assert answer.status == 200
            text = await answer.text()
        return {
            (sample.name, *(sample.labels[name] for name in LABELS if name in sample.labels)): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def until(self, condition):
        """Wait for what a task of the webhook does; the time limit of the test ends a wait in vain."""
        while not (found := await condition()):  # noqa: ASYNC110 - there is no event for what another task does
            await asyncio.sleep(0.005)
        return found

    async def events(self):
        async with self.session.get(self.api.url + EVENTS) as answer:
            return (await answer.json())["items"]


@pytest.fixture
def told(settings, files):
    """Run it: with `watching` against an API server, else with the policy file."""

    @asynccontextmanager
    async def run(*, watching=False, **overrides):
        trusting = ssl.create_default_context(cafile=str(files / "ca.crt"))
        connector = aiohttp.TCPConnector(ssl=trusting)
        given = {"metrics_listen": Address("127.0.0.1", 0), **overrides}
        sink = Sink()
        async with aiohttp.ClientSession(connector=connector) as session:
            if not watching:
                async with running(settings(**given), sink=sink) as server:
                    yield Told(server, session, sink)
                return
            async with ApiServer(namespaces=("default", "vision")) as api:
                connection = Connection(server=api.url)
                async with running(
                    settings(policy_file=None, **given), connection=connection, sink=sink
                ) as server:
                    await server.known()
                    yield Told(server, session, sink, api)

    return run


async def test_a_pod_has_a_record_of_its_patch_and_one_of_the_decision_joined_by_the_digest(
    told, review, patched
):
    async with told() as webhook:
        body = review()
        answer = await webhook.review(body)
        body["request"]["object"] = patched(answer, body["request"]["object"])
        await webhook.review(body, "validate")
    begun, patch, decision, closing = webhook.sink.records
    assert (begun.kind, closing.kind) == ("policy_in_force", "closing")
    assert (patch.endpoint, decision.endpoint) == ("mutate", "validate")
    assert begun.policy_version == decision.policy_version
    assert len({record.writer for record in webhook.sink.records}) == 1
    assert begun.writer.endswith(f"/{os.getpid()}")
    assert patch.patch
    assert not decision.patch
    assert patch.decision == decision.decision == answer["auditAnnotations"]["decision"]
    assert patch.latency_micros > 0
    assert patch.id < decision.id < closing.id


async def test_a_dry_run_is_counted_and_not_recorded(told, review):
    async with told() as webhook:
        await webhook.review(review(dryRun=True))
        metrics = await webhook.metrics()
        assert metrics["gpufence_admission_dry_runs_total", "mutate"] == 1
        assert metrics["gpufence_admission_decisions_total", "mutate", "allow"] == 0
    assert [record.kind for record in webhook.sink.records] == ["policy_in_force", "closing"]


async def test_a_sink_that_fails_keeps_no_answer_and_gets_the_records_later(told, review):
    async with told() as webhook:
        webhook.sink.fail = True
        for _ in range(3):
            assert (await webhook.review(review()))["allowed"]
        webhook.sink.fail = False

        async def delivered():
            return sum(record.kind == "admission" for record in webhook.sink.records) == 3

        await webhook.until(delivered)


async def test_what_goes_wrong_in_telling_is_logged_and_no_matter_for_the_caller(
    told, review, monkeypatch, capsys
):
    monkeypatch.setattr("webhook.telling.record_of", lambda *_, **__: 1 / 0)
    async with told() as webhook:
        assert (await webhook.review(review()))["allowed"]
    assert "not_told" in "".join(capsys.readouterr())


async def test_metrics_tell_of_decisions_refusals_and_the_state(told, review, pod):
    async with told() as webhook:
        await webhook.review(review())
        assert not (await webhook.review(review(object=pod(**PRIVILEGED))))["allowed"]
        await webhook.review(review(object={"spec": 5}))
        async with webhook.session.post(f"{webhook.server.url}/mutate", data=b"{}") as answer:
            assert answer.status == 415
        metrics = await webhook.metrics()
        version = webhook.server.inputs.version
        assert metrics["gpufence_admission_decisions_total", "mutate", "allow"] == 1
        assert metrics["gpufence_admission_decisions_total", "mutate", "deny"] == 1
        assert metrics["gpufence_admission_undecided_total", "mutate", "allow", "request"] == 1
        assert metrics["gpufence_rule_hits_total", "mutate", "GF201", "denied"] == 1
        assert metrics["gpufence_admission_duration_seconds_count", "mutate"] == 3
        assert metrics["gpufence_http_refused_total", "415"] == 1
        assert metrics["gpufence_policy_info", version] == 1
        assert metrics[("gpufence_policy_valid",)] == 1
        expires = webhook.server.inputs.certificate.not_after.timestamp()
        assert metrics[("gpufence_certificate_not_after_timestamp_seconds",)] == expires
        assert not any(key[0].startswith("gpufence_watch") for key in metrics)


async def test_metrics_tell_of_a_policy_that_was_refused(told, files):
    async with told() as webhook:
        (files / "policy.yaml").write_text("a: [")
        await webhook.server.reload()

        async def refused():
            metrics = await webhook.metrics()
            return (
                metrics[("gpufence_policy_refused_total",)] == 1 and metrics[("gpufence_policy_valid",)] == 0
            )

        await webhook.until(refused)


async def test_metrics_tell_of_the_watches(told):
    async with told(watching=True) as webhook:

        async def synced():
            metrics = await webhook.metrics()
            return (
                metrics["gpufence_watch_synced", "namespaces"]
                == metrics["gpufence_watch_synced", "policy"]
                == 1
            )

        await webhook.until(synced)
        metrics = await webhook.metrics()
        assert metrics["gpufence_watch_last_contact_timestamp_seconds", "policy"] > 1e9


async def test_a_denial_is_an_event_on_the_controller_and_repeats_count_up(told, review, pod):
    raw = pod(**PRIVILEGED)
    raw["metadata"]["ownerReferences"] = [OWNER]
    async with told(watching=True) as webhook:
        for _ in range(5):
            assert not (await webhook.review(review(object=raw)))["allowed"]

        async def counted():
            events = await webhook.events()
            return events if events and events[0].get("series", {}).get("count") == 5 else None

        (event,) = await webhook.until(counted)
        assert event["regarding"]["name"] == "web-5d9"
        assert (event["type"], event["reason"]) == ("Warning", "GPUPolicyDenied")
        assert event["reportingController"] == "gpufence.io/webhook"


async def test_a_policy_that_cannot_be_put_in_force_is_an_event_on_it(told):
    document = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": {"profile": "loose"},
    }
    async with told(watching=True) as webhook:
        async with webhook.session.post(webhook.api.url + POLICIES, json=document) as answer:
            uid = (await answer.json())["metadata"]["uid"]
        path = EVENTS.replace("vision", "default")

        async def noticed():
            async with webhook.session.get(webhook.api.url + path) as answer:
                return (await answer.json())["items"]

        (event,) = await webhook.until(noticed)
        assert event["regarding"]["uid"] == uid
        assert event["reason"] == "InvalidPolicy"
        assert f"version {webhook.server.inputs.version}" in event["note"]


async def test_every_policy_that_comes_into_force_and_the_request_for_it_are_recorded(told, review):
    request = {
        "resource": {"group": "gpufence.io", "version": "v1alpha1", "resource": "gpupolicies"},
        "namespace": "",
        "name": "default",
    }
    document = policy_document("default")
    async with told(watching=True) as webhook:
        await webhook.review(review(**request, operation="CREATE", object=document), "validate")
        async with webhook.session.post(webhook.api.url + POLICIES, json=document) as answer:
            assert answer.status == 201

        async def restricted():
            return webhook.server.inputs.policy.profile == "restricted"

        await webhook.until(restricted)
        deleted = review(**request, operation="DELETE", object=None, oldObject=document)
        answer = await webhook.review(deleted, "validate")
        assert answer["allowed"]
        assert "the built-in policy is in force" in answer["warnings"][0]
    kinds = [(record.kind, record.operation) for record in webhook.sink.records]
    assert kinds == [
        ("policy_in_force", ""),
        ("policy_change", "CREATE"),
        ("policy_in_force", ""),
        ("policy_change", "DELETE"),
        ("closing", ""),
    ]
    first, asked, second, gone, _ = webhook.sink.records
    assert first.notes == ("the built-in policy",)
    assert asked.policy_version == second.policy_version
    assert gone.subject.kind == "GpuPolicy"


def policy_document(name):
    return {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": name},
        "spec": {"profile": "restricted"},
    }


async def test_a_certificate_that_ends_while_it_serves_is_said(settings, capsys):
    at, heard = {"now": datetime.now(UTC)}, []
    async with running(settings(), clock=lambda: at["now"], sink=Sink()):
        at["now"] = datetime(2099, 1, 1, tzinfo=UTC)
        while "ended at" not in "".join(heard):
            heard += capsys.readouterr()
            await asyncio.sleep(0.01)
    assert "not_ready" in "".join(heard)


async def test_a_policy_of_another_name_is_said_to_be_ignored(told, capsys):
    heard = []
    async with told(watching=True) as webhook:
        async with webhook.session.post(webhook.api.url + POLICIES, json=policy_document("mine")) as answer:
            assert answer.status == 201
        while "policy_ignored" not in "".join(heard):
            heard += capsys.readouterr()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("where", ["name", "namespace", "container", "label"])
async def test_names_of_megabytes_fill_neither_the_log_nor_the_answer(told, review, pod, capsys, where):
    """Names are validated only after mutation, and one such pod would flush the records of others out of the log."""
    long = "\N{PILE OF POO}" * 20_000
    raw = pod(**PRIVILEGED, **({"name": long} if where == "container" else {}))
    if where == "label":
        raw["metadata"]["labels"] = {long: 5}
    fields = {where: long} if where in {"name", "namespace"} else {}
    async with told() as webhook:
        answer = await webhook.review(review(object=raw, **fields))
    told_of = "".join(capsys.readouterr())
    assert len(told_of) < 30_000
    assert len(str(answer)) < 30_000
