"""The metrics of the webhook: what happened goes in by typed methods, and a scrape reads it.

Every series that can be known at the start is there from the start, at 0, so that rate() and absent() work from the
first scrape on. Label values are constants of the code but for the version of the policy, which administrators make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from policy.catalogue import RULES
from policy.decide import actions_of
from policy.unreadable import Unreadable
from serve.metrics import Mirror, counter, gauge, histogram
from webhook import metric_catalogue as catalogue
from webhook.objects import is_pod_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

    from policy.model import Policy
    from webhook.answer import Answered, Endpoint
    from webhook.settings import FailMode

_ELSEWHERE = {"GF106"}  # judged by a ValidatingAdmissionPolicy: a 0 here would say that nothing was found


class _OfEndpoint(msgspec.Struct, frozen=True):
    """The children of one endpoint, looked up once."""

    duration: Histogram
    dry_runs: Counter
    verdicts: dict[str, Counter]
    undecided: dict[str, Counter]
    hits: dict[tuple[str, str], Counter]


class WebhookMetrics:
    """The metrics of one process. With several workers, each makes its own after the fork.

    `collections` are the names of what is watched, none where policy and namespaces come from files: then nothing says
    that they are not known yet.
    """

    def __init__(
        self, registry: CollectorRegistry, fail_mode: FailMode, collections: Sequence[str] = ()
    ) -> None:
        self._registry = registry
        decisions = counter(catalogue.DECISIONS, registry)
        dry_runs = counter(catalogue.DRY_RUNS, registry)
        self._patched = counter(catalogue.PATCHED, registry)
        hits = counter(catalogue.RULE_HITS, registry)
        duration = histogram(catalogue.DURATION, registry)
        undecided = counter(catalogue.UNDECIDED, registry)
        self._endpoints = {
            endpoint: _OfEndpoint(
                duration=duration.labels(endpoint),
                dry_runs=dry_runs.labels(endpoint),
                verdicts={verdict: decisions.labels(endpoint, verdict) for verdict in catalogue.VERDICTS},
                undecided={cause: undecided.labels(endpoint, fail_mode, cause) for cause in catalogue.CAUSES},
                hits={
                    (rule.id, action): hits.labels(endpoint, rule.id, action)
                    for rule in RULES.values()
                    if rule.id not in _ELSEWHERE
                    for action in actions_of(rule, can_fix=endpoint == "mutate")
                },
            )
            for endpoint in catalogue.ENDPOINTS
        }
        self._in_flight = gauge(catalogue.IN_FLIGHT, registry)
        refused = counter(catalogue.REFUSED, registry)
        self._refused = {code: refused.labels(code) for code in catalogue.CODES}
        self._not_after: Gauge | None = None
        self._policy_info = gauge(catalogue.POLICY_INFO, registry)
        self._policy_valid: Gauge | None = None
        self._policy_refused = counter(catalogue.POLICY_REFUSED, registry)
        self._version: str | None = None
        failures = counter(catalogue.WATCH_FAILURES, registry)
        synced = gauge(catalogue.SYNCED, registry)
        self._last_contact = gauge(catalogue.LAST_CONTACT, registry)
        self._failures = {name: Mirror(failures.labels(name)) for name in collections}
        self._synced = {name: synced.labels(name) for name in collections}
        records = counter(catalogue.RECORDS, registry)
        self._records = {name: Mirror(records.labels(name)) for name in catalogue.RECORD_OUTCOMES}
        events = counter(catalogue.EVENTS, registry)
        self._events = {name: Mirror(events.labels(name)) for name in catalogue.EVENT_OUTCOMES}

    def decided(self, endpoint: Endpoint, answered: Answered, seconds: float) -> None:
        """Count an answer that took so many seconds since the head of its request was there.

        Costs 2.2 microseconds with two rule hits, 4.7 with several workers, whose values go to an mmap with a getpid()
        each (`python -m benchmarks.metrics`, two virtual cores, CPython 3.11): no label is looked up by its text.
        """
        of = self._endpoints[endpoint]
        request, decision, fault = answered.request, answered.decision, answered.fault
        of.duration.observe(seconds)
        if fault is not None:
            of.undecided[fault.cause].inc()
        if request is not None and request.dry_run:
            of.dry_runs.inc()
        elif fault is not None:
            if request is None or is_pod_request(request):
                of.verdicts["undecided"].inc()
        elif decision is not None:
            of.verdicts[decision.verdict].inc()
            if answered.response.patch is not None:
                self._patched.inc()
            for judged in decision.hits:
                # Never None for a hit of `decide`, as a test says; an answer must not fail by its metrics.
                child = of.hits.get((judged.hit.rule, judged.action))
                if child is not None:
                    child.inc()

    def refused(self, code: int) -> None:
        """Count a request that was answered with an HTTP error."""
        (self._refused.get(str(code)) or self._refused["other"]).inc()

    def in_flight(self, requests: int) -> None:
        """Tell how many requests are being answered."""
        self._in_flight.set(requests)

    def certificate(self, not_after: datetime) -> None:
        """Tell when the certificate that is served ends; `not_after` is aware."""
        if self._not_after is None:
            self._not_after = gauge(catalogue.NOT_AFTER, self._registry)
        self._not_after.set(not_after.timestamp())

    def policy(self, policy: Policy | Unreadable, *, valid: bool) -> None:
        """Tell which policy is in force; `valid` is False while a newer one was refused. Repeats change nothing."""
        if self._policy_valid is None:
            self._policy_valid = gauge(catalogue.POLICY_VALID, self._registry)
        self._policy_valid.set(valid)
        version = None if isinstance(policy, Unreadable) else policy.version
        if version == self._version:
            return
        if version is not None:
            self._policy_info.labels(version).set(1)
        if self._version is not None:
            self._policy_info.labels(self._version).set(0)
        self._version = version

    def policy_refused(self) -> None:
        """Count a policy that was read and refused."""
        self._policy_refused.inc()

    def watched(self, collection: str, age: float | Unreadable, failures: int, now: datetime) -> None:
        """Tell of a watched collection: `age` in seconds and the total of `failures`, as of `kube.watch.Cache`.

        To be called every few seconds; `now` is aware.
        """
        self._failures[collection].follow(failures)
        synced = not isinstance(age, Unreadable)
        self._synced[collection].set(synced)
        if not isinstance(age, Unreadable):
            self._last_contact.labels(collection).set(now.timestamp() - age)

    def records(self, delivered: int, dropped: int, failed: int) -> None:
        """Tell what became of the records, as totals since the start."""
        for outcome, total in (("delivered", delivered), ("dropped", dropped), ("failed", failed)):
            self._records[outcome].follow(total)

    def events(self, written: int, failed: int, dropped: Mapping[str, int]) -> None:
        """Tell what became of the Events, as totals since the start, of `kube.events.EventWriter`."""
        self._events["written"].follow(written)
        self._events["failed"].follow(failed)
        for why in catalogue.DROPPED:
            self._events[f"dropped_{why}"].follow(dropped.get(why, 0))
