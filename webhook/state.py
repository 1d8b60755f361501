"""The state of a running webhook, brought into its metrics every second: what no single request tells."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from serve.logs import logger
from webhook.sources import ClusterSources

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from kube.events import EventWriter
    from serve.http import Drain
    from webhook.inputs import Inputs
    from webhook.metrics import WebhookMetrics
    from webhook.telling import Records

# By how much a scrape may be behind. Prometheus scrapes every 15 to 60 s; a report costs some 30 microseconds.
EVERY_SECONDS = 1.0


class State:
    """What is reported, and to which metrics."""

    def __init__(
        self,
        metrics: WebhookMetrics,
        inputs: Inputs,
        drain: Drain,
        records: Records,
        events: EventWriter | None,
    ) -> None:
        self._metrics = metrics
        self._inputs = inputs
        self._drain = drain
        self._records = records
        self._events = events
        self._log = logger("webhook")
        self._was_ready: bool | None = None  # None until it was ready for the first time

    def report(self, now: datetime) -> None:
        """Bring the metrics up to date, and log when it is no longer ready, and when it is again."""
        self._note_readiness(self._inputs.not_ready(now))
        self._metrics.in_flight(self._drain.in_flight)
        self._metrics.certificate(self._inputs.certificate.not_after)
        self._metrics.policy(self._inputs.policy, valid=self._inputs.sources.valid)
        if isinstance(self._inputs.sources, ClusterSources):
            for name, cache in self._inputs.sources.caches.items():
                self._metrics.watched(name, cache.age(), cache.failures, now)
        outbox = self._records.outbox
        self._metrics.records(outbox.delivered, outbox.dropped, outbox.failed)
        if self._events is not None:
            self._metrics.events(self._events.written, self._events.failed, self._events.dropped)

    def _note_readiness(self, reasons: tuple[str, ...]) -> None:
        if reasons and self._was_ready:
            self._log.error("not_ready", reasons=reasons)
        elif self._was_ready is False and not reasons:
            self._log.info("ready_again")
        if not reasons or self._was_ready is not None:
            self._was_ready = not reasons

    async def keep_reporting(
        self,
        clock: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Report until cancelled."""
        while True:
            await sleep(EVERY_SECONDS)
            self.report(clock())
