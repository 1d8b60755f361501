"""What follows from an answer, or from a changed policy: a count, a record, an Event, a line in the log.

Nothing of it waits, and nothing of it can fail an answer.
"""

from __future__ import annotations

import logging
import os
import random
import time
from typing import TYPE_CHECKING

from audit.bounds import bounded_text
from audit.identity import RANDOM_BYTES, record_id, timestamp
from audit.record import closing_record, encode, gap_record, policy_record
from policy.default import NAME
from serve.faults import describe_fault
from serve.logs import logger
from serve.outbox import Outbox
from serve.policy_source import version_of
from webhook.notices import invalid_policy_notice, notice_of
from webhook.record import record_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from audit.sink import AuditSink
    from kube.events import EventWriter, Notice
    from serve.policy_source import Taken
    from webhook.answer import Answered, Endpoint
    from webhook.metrics import WebhookMetrics

# Bytes of records that wait for a sink: some thousand ordinary ones, or 50 of the longest that a tenant can cause.
QUEUE_BYTES = 4 * 1024 * 1024
# Under load records go out in batches, with one write each; a crash loses no more than this beside what it interrupts.
GATHER_SECONDS = 0.05
_MICROS = 1_000_000


class Records:
    """Makes records and queues them for a sink."""

    def __init__(
        self,
        sink: AuditSink,
        now: Callable[[], datetime],
        writer: str,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._now = now
        self._writer = writer
        self._entropy = entropy
        self.outbox: Outbox[bytes] = Outbox(
            "records",
            sink.append,
            clock=time.monotonic,
            random=random.Random(),  # noqa: S311 - spreads retries, guards nothing
            log=logger("records").warning,
            gap=self._gap,
            weigh=len,
            gather=GATHER_SECONDS,
            capacity=QUEUE_BYTES,
        )

    def decided(self, endpoint: Endpoint, answered: Answered, seconds: float) -> None:
        """Queue the record of an answer, if it is one to keep."""
        at, identifier = self._stamp()
        micros = round(seconds * _MICROS)
        try:
            record = record_of(
                endpoint,
                answered,
                at=at,
                identifier=identifier,
                writer=self._writer,
                latency_micros=micros,
            )
            data = None if record is None else encode(record)
        except Exception:
            self.outbox.lose()
            raise
        if data is not None:
            self.outbox.put(data)

    def in_force(self, policy_version: str, *, built_in: bool = False) -> None:
        """Queue the record that this policy decides from now on."""
        at, identifier = self._stamp()
        record = policy_record(
            identifier=identifier,
            time=timestamp(at),
            writer=self._writer,
            policy_version=policy_version,
            built_in=built_in,
        )
        self.outbox.put(encode(record))

    def closing(self, policy_version: str) -> None:
        """Queue the last record."""
        at, identifier = self._stamp()
        last = closing_record(
            identifier=identifier, time=timestamp(at), writer=self._writer, policy_version=policy_version
        )
        self.outbox.put_last(encode(last))

    def _gap(self, missing: int) -> bytes:
        at, identifier = self._stamp()
        record = gap_record(identifier=identifier, time=timestamp(at), writer=self._writer, missing=missing)
        return encode(record)

    def _stamp(self) -> tuple[datetime, str]:
        at = self._now()
        return at, record_id(at, self._entropy(RANDOM_BYTES))


class Telling:
    """Tells of answers."""

    def __init__(self, metrics: WebhookMetrics, records: Records, events: EventWriter | None) -> None:
        self._metrics = metrics
        self._records = records
        self._events = events
        self._log = logger("webhook")
        # Asked once: to make a line of an allowed pod that nobody sees would cost as much as its metrics.
        self._in_detail = self._log.is_enabled_for(logging.DEBUG)

    def answered(self, endpoint: Endpoint, answered: Answered, seconds: float) -> None:
        """Tell of an answer that came so many seconds after the head of its request."""
        steps: tuple[Callable[[], None], ...] = (
            lambda: self._records.decided(endpoint, answered, seconds),
            lambda: self._metrics.decided(endpoint, answered, seconds),
            lambda: self._notify(endpoint, answered),
            lambda: self._note(endpoint, answered),
        )
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - ours, and no reason to leave out the other steps
                uid, fault = bounded_text(answered.response.uid), describe_fault(error)
                self._log.error("not_told", endpoint=endpoint, uid=uid, fault=fault)

    def _notify(self, endpoint: Endpoint, answered: Answered) -> None:
        if self._events is not None and (notice := notice_of(endpoint, answered)) is not None:
            self._events.emit(notice)

    def _note(self, endpoint: Endpoint, answered: Answered) -> None:
        if answered.fault is not None:
            level = self._log.error if answered.fault.cause == "internal" else self._log.warning
            level(
                "undecided",
                endpoint=endpoint,
                uid=bounded_text(answered.response.uid),
                fault=bounded_text(answered.fault.text),
                allowed=answered.response.allowed,
            )
            return
        request, decision = answered.request, answered.decision
        if request is None or decision is None:
            return
        if decision.allowed and not self._in_detail:
            return
        level = self._log.debug if decision.allowed else self._log.info
        level(
            "decided",
            endpoint=endpoint,
            uid=bounded_text(request.uid),
            namespace=bounded_text(request.namespace or ""),
            name=bounded_text(request.name or ""),
            operation=request.operation,
            dry_run=bool(request.dry_run),
            verdict=decision.verdict,
            **answered.response.audit_annotations,
        )


def policy_taken(
    found: Taken,
    metrics: WebhookMetrics,
    records: Records,
    emit: Callable[[Notice], None],
) -> None:
    """Tell what became of a changed GpuPolicy."""
    log = logger("watch")
    version = version_of(found.policy)
    if not found.problems:
        records.in_force(version, built_in=found.built_in)
        log.info("policy_in_force", policy=version, built_in=found.built_in)
        for doubt in found.warnings:
            log.warning("policy_doubt", problem=str(doubt))
        return
    metrics.policy_refused()
    for problem in found.problems:
        log.error("policy_problem", name=NAME, problem=str(problem))
    log.error("policy_refused", name=NAME, policy_in_force=version)
    emit(invalid_policy_notice(found.uid, found.problems, found.policy))
