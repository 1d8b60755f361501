"""The webhook's metrics: what each answer counts, what is there from the start, and that tenants can add nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kube.events import EventWriter
from policy.catalogue import RULES
from policy.model import Action, Decision, JudgedHit, Mode, RuleHit, Verdict
from policy.unreadable import Unreadable
from serve.metrics import exposition, new_registry
from webhook.answer import Answered, Cause, Fault, Terms, answer_body
from webhook.metric_catalogue import (
    CAUSES,
    DROPPED,
    ENDPOINTS,
    EVENT_OUTCOMES,
    METRICS,
    POLICY_INFO,
    VERDICTS,
)
from webhook.metrics import WebhookMetrics
from webhook.reviews import AdmissionRequest, AdmissionResponse, GroupVersionResource
from webhook.settings import FailMode
from webhook.sources import NAMESPACES, POLICY

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SPECS = {spec.name: spec for spec in METRICS}
LATE = {  # not known before something happened, so not there
    "gpufence_certificate_not_after_timestamp_seconds",
    "gpufence_policy_info",
    "gpufence_policy_valid",
    "gpufence_watch_last_contact_timestamp_seconds",
}


class Scraped:
    """Metrics with their registry, read as Prometheus reads them."""

    def __init__(self, collections=(POLICY, NAMESPACES)):
        self.registry = new_registry()
        self.metrics = WebhookMetrics(self.registry, "allow", collections)

    def families(self):
        return list(text_string_to_metric_families(exposition(self.registry)[0].decode()))

    def series(self):
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families()
            for sample in family.samples
        }

    def value(self, name, **labels):
        return self.series().get((name, tuple(sorted(labels.items()))))

    def changed(self, before):
        """Return {name{labels}: increase} of what is no longer as it was; the histogram only by its count."""
        return {
            name + "".join(f",{value}" for _, value in labels): value - before.get((name, labels), 0)
            for (name, labels), value in self.series().items()
            if value != before.get((name, labels), 0) and not name.endswith(("_bucket", "_sum"))
        }


@pytest.fixture
def scraped():
    return Scraped()


@pytest.fixture
def counted(scraped, policy):
    """Answer a review for real and return what that changed."""

    def count(body, endpoint="mutate", *, policy=policy, fail_mode="allow"):
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        terms = Terms(policy, lambda _: Unreadable("the test gave none"), NOW, fail_mode)
        before = scraped.series()
        scraped.metrics.decided(endpoint, answer_body(raw, endpoint, terms), 0.001)
        return scraped.changed(before)

    return count


class TestFromTheStart:
    def test_every_metric_is_as_its_spec_says(self, scraped):
        scraped.metrics.certificate(NOW)
        scraped.metrics.policy(Unreadable("x"), valid=True)
        found = {family.name: family for family in scraped.families()}
        expected = {spec.name.removesuffix("_total"): spec for spec in METRICS}
        assert found.keys() == expected.keys()
        for name, spec in expected.items():
            assert (found[name].type, found[name].documentation) == (spec.kind, spec.help)
            for sample in found[name].samples:
                assert sample.labels.keys() - {"le"} == set(spec.label_names)

    def test_every_series_that_can_be_known_is_there_at_0(self, scraped):
        series = scraped.series()
        assert {name for name, _ in series} & LATE == set()
        assert set(series.values()) == {0}
        for spec in METRICS:
            name = spec.name + ("_count" if spec.kind == "histogram" else "")
            assert spec.name in LATE or any(name == found for found, _ in series), spec.name

    def test_label_values_are_those_of_the_specs(self, scraped):
        for family in scraped.families():
            spec = SPECS.get(family.name) or SPECS[f"{family.name}_total"]
            for label in spec.labels:
                found = {sample.labels[label.name] for sample in family.samples}
                assert not label.values or found <= set(label.values), (spec.name, label.name)

    def test_a_rule_has_only_the_actions_that_it_can_have(self, scraped):
        actions = {}
        for name, labels in scraped.series():
            if name == "gpufence_rule_hits_total":
                of = dict(labels)
                actions.setdefault((of["endpoint"], of["rule"]), set()).add(of["action"])
        assert actions["mutate", "GF101"] == {"fixed", "denied", "warned", "audited"}
        assert actions["validate", "GF101"] == {"denied", "warned", "audited"}
        assert actions["mutate", "GF107"] == {"denied", "warned", "audited"}
        assert actions.keys() == {(end, rule) for end in ENDPOINTS for rule in RULES if rule != "GF106"}

    def test_without_a_watch_nothing_says_that_it_is_not_synced(self):
        assert Scraped(collections=()).value("gpufence_watch_synced", collection=POLICY) is None

    def test_constants_are_those_of_the_types_that_they_mirror(self):
        assert {*get_args(Verdict), "undecided"} == set(VERDICTS)
        assert set(get_args(Cause)) == set(CAUSES)
        nobody = {"client": None, "terminating": None, "clock": None, "now": None, "log": print}
        writer = EventWriter(controller="c", instance="i", **nobody)
        assert tuple(writer.dropped) == DROPPED
        assert {POLICY, NAMESPACES} == set(SPECS["gpufence_watch_synced"].labels[0].values)
        assert set(get_args(FailMode)) == set(SPECS["gpufence_admission_undecided_total"].labels[1].values)


class TestAnAnswer:
    def test_about_a_patched_pod_counts_the_decision_the_patch_and_the_hit(self, counted, review):
        assert counted(review()) == {
            "gpufence_admission_decisions_total,mutate,allow": 1,
            "gpufence_admission_patched_total": 1,
            "gpufence_rule_hits_total,fixed,mutate,GF101": 1,
            "gpufence_admission_duration_seconds_count,mutate": 1,
        }

    def test_that_denies_counts_the_denial(self, counted, review):
        assert counted(review(), "validate") == {
            "gpufence_admission_decisions_total,validate,deny": 1,
            "gpufence_rule_hits_total,denied,validate,GF101": 1,
            "gpufence_admission_duration_seconds_count,validate": 1,
        }

    def test_to_a_dry_run_counts_as_nothing_else(self, counted, review):
        assert counted(review(dryRun=True)) == {
            "gpufence_admission_dry_runs_total,mutate": 1,
            "gpufence_admission_duration_seconds_count,mutate": 1,
        }

    def test_about_another_object_counts_only_its_time(self, counted, review):
        resource = {"group": "apps", "version": "v1", "resource": "deployments"}
        assert counted(review(resource=resource), "validate") == {
            "gpufence_admission_duration_seconds_count,validate": 1
        }

    @pytest.mark.parametrize("broken", [{"object": 5}, {"operation": 7}], ids=["pod", "request"])
    def test_to_what_is_malformed_is_undecided_by_the_request(self, counted, review, broken):
        assert counted(review(**broken)) == {
            "gpufence_admission_decisions_total,mutate,undecided": 1,
            "gpufence_admission_undecided_total,request,mutate,allow": 1,
            "gpufence_admission_duration_seconds_count,mutate": 1,
        }

    def test_without_a_policy_is_undecided_because_we_are_cold(self, counted, review):
        changed = counted(review(), policy=Unreadable("not listed yet"))
        assert changed["gpufence_admission_undecided_total,cold,mutate,allow"] == 1

    def test_that_failed_in_a_dry_run_is_still_seen(self, counted, review):
        changed = counted(review(dryRun=True, object=5))
        assert changed["gpufence_admission_undecided_total,request,mutate,allow"] == 1
        assert "gpufence_admission_decisions_total,mutate,undecided" not in changed

    @pytest.mark.parametrize(
        ("seconds", "bucket"), [(0.00005, "0.0001"), (0.0021, "0.005"), (2.6, "3.0"), (9, "+Inf")]
    )
    def test_is_in_the_bucket_of_its_time(self, scraped, seconds, bucket):
        scraped.metrics.decided("mutate", Answered(AdmissionResponse("u", allowed=True)), seconds)
        filled = [
            dict(labels)["le"]
            for (name, labels), value in scraped.series().items()
            if name.endswith("_bucket") and ("endpoint", "mutate") in labels and value
        ]
        assert filled[0] == bucket


class TestWhatIsToldBeside:
    def test_http_refusals_by_code_and_unexpected_ones_together(self, scraped):
        for code in (429, 413, 404, 418):
            scraped.metrics.refused(code)
        for code, count in (("429", 1), ("413", 1), ("other", 2), ("400", 0)):
            assert scraped.value("gpufence_http_refused_total", code=code) == count

    def test_requests_in_flight(self, scraped):
        scraped.metrics.in_flight(3)
        assert scraped.value("gpufence_admission_in_flight") == 3

    def test_when_the_certificate_ends(self, scraped):
        scraped.metrics.certificate(NOW)
        name = "gpufence_certificate_not_after_timestamp_seconds"
        assert scraped.value(name) == NOW.timestamp()

    def test_the_policy_in_force_and_former_ones(self, scraped, policy):
        other = msgspec.structs.replace(policy, version="other")
        scraped.metrics.policy(Unreadable("not listed yet"), valid=True)
        assert scraped.value("gpufence_policy_info", version=policy.version) is None
        for each in (policy, policy, other):
            scraped.metrics.policy(each, valid=True)
        assert scraped.value("gpufence_policy_info", version=policy.version) == 0
        assert scraped.value("gpufence_policy_info", version="other") == 1
        scraped.metrics.policy(policy, valid=True)
        assert scraped.value("gpufence_policy_info", version=policy.version) == 1
        assert scraped.value("gpufence_policy_info", version="other") == 0

    def test_a_policy_that_was_refused(self, scraped, policy):
        scraped.metrics.policy(policy, valid=True)
        assert scraped.value("gpufence_policy_valid") == 1
        scraped.metrics.policy_refused()
        scraped.metrics.policy(policy, valid=False)
        assert scraped.value("gpufence_policy_valid") == 0
        assert scraped.value("gpufence_policy_refused_total") == 1

    def test_a_watch_before_and_after_its_first_contact(self, scraped):
        at = "gpufence_watch_last_contact_timestamp_seconds"
        scraped.metrics.watched(POLICY, Unreadable("not listed yet"), 2, NOW)
        assert scraped.value(at, collection=POLICY) is None
        assert scraped.value("gpufence_watch_synced", collection=POLICY) == 0
        assert scraped.value("gpufence_watch_failures_total", collection=POLICY) == 2
        scraped.metrics.watched(POLICY, 1.5, 3, NOW + timedelta(seconds=5))
        assert scraped.value(at, collection=POLICY) == NOW.timestamp() + 3.5
        assert scraped.value("gpufence_watch_synced", collection=POLICY) == 1
        assert scraped.value("gpufence_watch_failures_total", collection=POLICY) == 3

    def test_totals_of_records_and_events(self, scraped):
        for _ in range(2):  # told again, they are the same totals
            scraped.metrics.records(delivered=5, dropped=2, failed=1)
            scraped.metrics.events(written=4, failed=3, dropped={"queue": 1, "rate": 2})
        found = {
            o: scraped.value("gpufence_records_total", outcome=o) for o in ("delivered", "dropped", "failed")
        }
        assert found == {"delivered": 5, "dropped": 2, "failed": 1}
        events = [scraped.value("gpufence_events_total", outcome=outcome) for outcome in EVENT_OUTCOMES]
        assert events == [4, 3, 1, 2, 0]


anything = st.text(max_size=12)
hits = st.builds(
    JudgedHit,
    st.builds(RuleHit, st.sampled_from([*RULES]) | anything, anything, anything, anything),
    st.sampled_from(get_args(Mode)),
    st.sampled_from(get_args(Action)),
    anything,
)
requests = st.builds(
    AdmissionRequest,
    uid=anything,
    resource=st.none() | st.builds(GroupVersionResource, anything, anything, st.just("pods") | anything),
    name=anything,
    namespace=anything,
    operation=anything,
    dry_run=st.none() | st.booleans(),
)
decisions = st.builds(
    Decision,
    verdict=st.sampled_from(get_args(Verdict)),
    policy_version=anything,
    hits=st.lists(hits, max_size=5).map(tuple),
    team=st.none() | anything,
    exempt=anything,
)
answers = st.tuples(
    st.builds(AdmissionResponse, anything, st.booleans(), patch=st.none() | anything),
    st.none() | requests,
    st.none() | decisions,
    st.none() | st.builds(Fault, anything, st.sampled_from(get_args(Cause))),
).map(lambda parts: Answered(*parts))


class TestTenants:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(answers, st.sampled_from(ENDPOINTS), st.floats(0, 100), st.integers(0, 999))
    def test_cannot_add_a_series_whatever_is_in_an_answer(self, scraped, answered, endpoint, seconds, code):
        before = scraped.series().keys()
        scraped.metrics.decided(endpoint, answered, seconds)
        scraped.metrics.refused(code)
        assert scraped.series().keys() == before

    @pytest.mark.parametrize("spec", METRICS, ids=lambda spec: spec.name)
    def test_choose_no_label_value(self, spec):
        for label in spec.labels:
            assert label.values or label.name == "rule" or spec is POLICY_INFO


variables = st.sampled_from(["all", "void", "0", "$(A)"])
containers = st.fixed_dictionaries(
    {},
    optional={
        "env": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD"]), "value": variables}
            ),
            max_size=2,
        ),
        "envFrom": st.just([{"prefix": "NVIDIA_", "configMapRef": {"name": "c"}}]),
        "resources": st.sampled_from([{"limits": {"nvidia.com/gpu": count}} for count in ("1", "500m")]),
        "securityContext": st.just({"privileged": True}),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(fields=containers, endpoint=st.sampled_from(ENDPOINTS), enforce=st.booleans())
def test_every_hit_of_a_decision_is_counted(scraped, review, pod, policy, fields, endpoint, enforce):
    terms = Terms(msgspec.structs.replace(policy, enforce=enforce), lambda _: {}, NOW, "allow")
    answered = answer_body(msgspec.json.encode(review(object=pod(**fields))), endpoint, terms)
    before = scraped.series()
    scraped.metrics.decided(endpoint, answered, 0.0)
    changed = scraped.changed(before)
    counted = sum(count for name, count in changed.items() if name.startswith("gpufence_rule_hits_total"))
    assert counted == len(answered.decision.hits)


class TestNames:
    @pytest.mark.parametrize("spec", METRICS, ids=lambda spec: spec.name)
    def test_obey_the_conventions_of_prometheus(self, spec):
        assert re.fullmatch(r"gpufence(_[a-z]+)+", spec.name)
        assert spec.name.endswith("_total") == (spec.kind == "counter")
        assert spec.kind != "histogram" or spec.name.endswith("_seconds")
        assert "timestamp" not in spec.name or spec.name.endswith("_timestamp_seconds")
        assert not re.search(
            r"_(ms|millis|micros|minutes|hours|kb|mb|percent|count|sum|bucket)(_|$)", spec.name
        )
        assert re.fullmatch(r"[A-Z0-9][^\n]*\.", spec.help)
        for label in spec.labels:
            assert re.fullmatch(r"[a-z]+(_[a-z]+)*", label.name)
            assert label.name not in {"le", "quantile", "job", "instance", "pid"}

    def test_are_there_once(self):
        assert len(SPECS) == len(METRICS)

    def test_in_alerts_are_those_of_metrics_and_their_labels(self):
        known = {*SPECS, "gpufence_admission_duration_seconds_bucket"}
        for spec in METRICS:
            expression = spec.alert.expression if spec.alert else ""
            for name, selector in re.findall(r"(gpufence_\w+)(?:\{(.*?)\})?", expression):
                assert name in known
                of = SPECS[name.removesuffix("_bucket")]
                for label, _, value in re.findall(r"(\w+)(=~|!=|=)\"(.*?)\"", selector):
                    (found,) = (each for each in of.labels if each.name == label)
                    assert not found.values or value in found.values
