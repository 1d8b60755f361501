"""Metrics of a process for Prometheus: what they are as data, one registry per process, and their text.

A metric is a `Spec`; `counter`, `gauge` and `histogram` make it, and `serve.metrics_page` its documentation. The
registry is an argument everywhere: the global one of prometheus_client would mix the metrics of two servers in
one process, and of two tests.

No label may have values that a tenant chooses: each new value is a series that Prometheus keeps for hours.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from serve.shared_metrics import SharedMetrics, UnsettledError

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp.typedefs import Handler

Kind = Literal["counter", "gauge", "histogram"]
# How the values of several workers become one. All forget a worker that has died.
Merge = Literal["livesum", "livemin", "livemax"]


class Label(msgspec.Struct, frozen=True):
    """A label: every value that it can have, or in words where they are not fixed."""

    name: str
    values: tuple[str, ...] = ()
    text: str = ""


class Alert(msgspec.Struct, frozen=True):
    """A PromQL expression that is true while somebody should look, and why."""

    expression: str
    text: str


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A metric. `help` is one sentence for the text that is scraped, `notes` are for the documentation only.

    `merge` is for gauges, `buckets` (upper bounds, without infinity) for histograms.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[Label, ...] = ()
    notes: str = ""
    merge: Merge = "livesum"
    buckets: tuple[float, ...] = ()
    alert: Alert | None = None

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, in the order in which `labels()` of the metric takes their values."""
        return tuple(label.name for label in self.labels)


def new_registry() -> CollectorRegistry:
    """Return the registry of a process.

    It has nothing about Python or the process: with several workers it would be that of whichever answers, and the
    kubelet measures the container.
    """
    # A `_created` series beside each counter doubles the text, Prometheus does not read it in this format, and the
    # files of several workers have none.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    return CollectorRegistry()


def counter(spec: Spec, registry: CollectorRegistry) -> Counter:
    """Return the counter; without labels it is 0 from now on, with labels each child is once it is asked for."""
    return Counter(spec.name, spec.help, spec.label_names, registry=registry)


def gauge(spec: Spec, registry: CollectorRegistry) -> Gauge:
    """Return the gauge. It says 0 at once where it has no labels, so make it when its first value is known."""
    return Gauge(spec.name, spec.help, spec.label_names, registry=registry, multiprocess_mode=spec.merge)


def histogram(spec: Spec, registry: CollectorRegistry) -> Histogram:
    """Return the histogram."""
    return Histogram(spec.name, spec.help, spec.label_names, registry=registry, buckets=spec.buckets)


class Mirror:
    """Makes a counter follow a total that something else keeps, such as an attribute of a queue."""

    def __init__(self, child: Counter) -> None:
        self._counter = child
        self._seen = 0

    def follow(self, total: int) -> None:
        """Raise the counter by what came since the last call. A smaller total is that of an object made anew."""
        came = total - self._seen if total >= self._seen else total
        self._seen = total
        if came:
            self._counter.inc(came)


def exposition(registry: CollectorRegistry, shared: Path | None = None) -> tuple[bytes, str]:
    """Return the text of all metrics and its content type, in the Prometheus text format 0.0.4.

    With `shared`, the directory of `serve.shared_metrics`, it is the sum of all workers; UnsettledError where that
    changes as it is read. It reads files then and takes milliseconds, so it is not for an event loop.
    """
    return generate_latest(registry if shared is None else SharedMetrics(shared)), CONTENT_TYPE_PLAIN_0_0_4


def metrics_handler(registry: CollectorRegistry, shared: Path | None = None) -> Handler:
    """Return the handler of GET /metrics."""
    one_at_a_time = asyncio.Lock()  # however many ask, they take one thread of those that others need too

    async def metrics(_request: web.Request) -> web.Response:
        async with one_at_a_time:
            try:
                body, content_type = await asyncio.to_thread(exposition, registry, shared)
            except UnsettledError as error:
                return web.Response(status=503, text=f"{error}\n")
        return web.Response(body=body, headers={"Content-Type": content_type})

    return metrics
