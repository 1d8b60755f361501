"""The wiring of the webhook: files and watches in, a server that answers while its block runs."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from audit.sink import LogSink
from kube.client import Client
from kube.config import ConnectionConfigError, in_cluster
from kube.events import EventWriter
from kube.kubeconfig import from_kubeconfig
from policy.errors import WorldError
from serve import logs
from serve.background import background, flushed
from serve.certificate import follow
from serve.http import LINGER_SECONDS, Drain, listening_socket
from serve.metrics import metrics_handler, new_registry
from serve.serving import answering
from serve.settings import Address
from webhook.app import build_app, utc_now
from webhook.inputs import Inputs, StartError, load_files
from webhook.metrics import WebhookMetrics
from webhook.sources import COLLECTIONS, POLICY, ClusterSources, FileSources
from webhook.state import State
from webhook.telling import Records, Telling, policy_taken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime
    from pathlib import Path

    from audit.sink import AuditSink
    from kube.config import Connection
    from webhook.settings import WebhookSettings
    from webhook.sources import Sources


_SCRAPERS = 32  # connections of the metrics port


class Listeners(msgspec.Struct, frozen=True):
    """The sockets of a process; several workers share them."""

    https: socket.socket
    metrics: socket.socket | None

    def close(self) -> None:
        """Close both."""
        self.https.close()
        if self.metrics is not None:
            self.metrics.close()


def listen(settings: WebhookSettings) -> Listeners:
    """Open the sockets; StartError where an address cannot be had."""
    https = _listening("listen", settings.listen)
    try:
        metrics = _listening("metricsListen", settings.metrics_listen) if settings.metrics_listen else None
    except BaseException:
        https.close()
        raise
    return Listeners(https, metrics)


def _listening(setting: str, address: Address) -> socket.socket:
    try:
        return listening_socket(address)
    except WorldError as error:
        raise StartError(
            [f"{setting}: {error}. Fix: End what uses it, or set {setting} to another address."]
        ) from error


def address_of(listener: socket.socket) -> Address:
    """Return where a socket listens, with the real port."""
    host, port = listener.getsockname()[:2]
    return Address(host, port)


class Server:
    """A webhook that listens."""

    def __init__(
        self,
        listeners: Listeners,
        inputs: Inputs,
        drain: Drain,
        metrics: WebhookMetrics,
        records: Records,
        clock: Callable[[], datetime],
    ) -> None:
        self.address = address_of(listeners.https)
        self.metrics_address = address_of(listeners.metrics) if listeners.metrics is not None else None
        self.inputs = inputs
        self.drain = drain
        self._metrics = metrics
        self._records = records
        self._clock = clock
        self._log = logs.logger("webhook")
        self._one_reload = asyncio.Lock()

    @property
    def url(self) -> str:
        """The base of /mutate, /validate and /healthz, with the real port."""
        return f"https://{self.address}"

    async def known(self) -> None:
        """Wait until policy and namespaces are known."""
        if isinstance(self.inputs.sources, ClusterSources):
            await self.inputs.sources.known.wait()

    async def reload(self) -> tuple[str, ...]:
        """Read all files again; what has problems stays as it was. Returns the problems."""
        # In a thread: a disk that hangs must not stop the answers.
        async with self._one_reload:
            done = await asyncio.to_thread(self.inputs.reload, self._clock())
        for problem in done.problems:
            self._log.error("reload_problem", problem=problem)
        if POLICY in done.kept:
            self._metrics.policy_refused()
        if done.kept:
            self._log.error("reload_refused", kept=done.kept, policy_in_force=self.inputs.version)
        if POLICY in done.changed:
            self._records.in_force(self.inputs.version)
        if done.changed or not done.kept:
            self._log.info("reloaded", changed=done.changed, policy=self.inputs.version)
        if POLICY not in done.kept:
            self.log_doubts()
        return done.problems

    async def look(self) -> None:
        """Put the certificate of the directory in force for new connections, where it holds and is another one."""
        async with self._one_reload:
            found = await asyncio.to_thread(self.inputs.certificate.look, self._clock())
        if found.changed:
            self._log.info("certificate_reloaded", not_after=self.inputs.certificate.not_after.isoformat())
        elif found.news:  # said once, not at every look
            self._log.error("certificate_refused", problems=found.problems)

    def log_doubts(self) -> None:
        """Log what the author of a policy file should look at again."""
        if isinstance(self.inputs.sources, FileSources):
            for doubt in self.inputs.sources.warnings:
                self._log.warning("policy_doubt", problem=str(doubt))


@asynccontextmanager
async def running(
    settings: WebhookSettings,
    clock: Callable[[], datetime] = utc_now,
    *,
    listeners: Listeners | None = None,
    shared: Path | None = None,
    connection: Connection | None = None,
    sink: AuditSink | None = None,
) -> AsyncIterator[Server]:
    """Run the webhook while the block runs; leaving it drains the requests in flight.

    `listeners` are opened here where none are given; `shared` is where several workers add up their metrics.
    `connection` leads to the API server where the settings name no policy file. `sink` takes the records; without
    one they go to stderr, a line each. StartError before anything listens, with every problem of the files.
    """
    files, certificate = await asyncio.to_thread(load_files, settings, clock())
    async with AsyncExitStack() as stack:
        opened = listeners or listen(settings)  # first: what cannot listen has nothing to record
        stack.callback(opened.close)
        registry = new_registry()
        metrics = WebhookMetrics(registry, settings.fail_mode, () if files else COLLECTIONS)
        records = await _recording(stack, sink or LogSink(_to_stderr), clock)
        sources: Sources
        events: EventWriter | None = None
        if files is not None:
            sources = files
            records.in_force(files.policy.version)
        else:
            sources, events = await _watching(stack, settings, connection, metrics, records, clock)
        inputs = Inputs(sources, certificate)
        stack.callback(lambda: records.closing(inputs.version))
        drain = Drain(metrics.refused)
        server = Server(opened, inputs, drain, metrics, records, clock)
        state = State(metrics, inputs, drain, records, events)
        state.report(clock())
        if opened.metrics is not None:
            app = web.Application()
            app.router.add_get("/metrics", metrics_handler(registry, shared))
            await stack.enter_async_context(answering(app, Drain(), opened.metrics, settings, most=_SCRAPERS))
        app = build_app(settings, inputs, drain, Telling(metrics, records, events).answered, clock)
        await stack.enter_async_context(
            answering(
                app, drain, opened.https, settings, most=settings.max_connections, tls=certificate.context
            )
        )
        beside = background(
            certificate=lambda: follow(server.look), metrics=lambda: state.keep_reporting(clock)
        )
        await stack.enter_async_context(beside)
        yield server


def cluster_of(settings: WebhookSettings) -> Connection:
    """Return the way to the API server; StartError where there is none."""
    try:
        return from_kubeconfig(settings.kubeconfig) if settings.kubeconfig else in_cluster(os.environ)
    except ConnectionConfigError as error:
        if settings.kubeconfig:
            raise StartError([f"kubeconfig: {error}. Fix: Mend the file, or name another one."]) from error
        fix = "Set policyFile to decide by a file, or kubeconfig to watch a cluster from outside."
        raise StartError(
            [f"policy: without policyFile the cluster is watched, but {error}. Fix: {fix}"]
        ) from error


async def _watching(
    stack: AsyncExitStack,
    settings: WebhookSettings,
    connection: Connection | None,
    metrics: WebhookMetrics,
    records: Records,
    clock: Callable[[], datetime],
) -> tuple[ClusterSources, EventWriter]:
    """Follow policy and namespaces, and write Events, until the stack is unwound."""
    log = logs.logger("watch")
    client = await stack.enter_async_context(Client(connection or cluster_of(settings)))
    sources = ClusterSources(
        client, lambda found: policy_taken(found, metrics, records, events.emit), log.warning
    )
    events = EventWriter(
        client,
        controller="gpufence.io/webhook",
        instance=socket.gethostname(),  # the name of the pod
        terminating=sources.terminating,
        clock=time.monotonic,
        now=clock,
        log=logs.logger("events").warning,
    )
    work = {name: cache.run for name, cache in sources.caches.items()}
    await stack.enter_async_context(background(**work, events=events.run))
    await stack.enter_async_context(flushed("events", events, LINGER_SECONDS))
    return sources, events


async def _recording(stack: AsyncExitStack, sink: AuditSink, clock: Callable[[], datetime]) -> Records:
    """Deliver records until the stack is unwound."""
    records = Records(sink, clock, f"{socket.gethostname()}/{os.getpid()}")
    await stack.enter_async_context(background(records=records.outbox.run))
    await stack.enter_async_context(flushed("records", records.outbox, LINGER_SECONDS))
    return records


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
