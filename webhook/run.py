"""The wiring of the webhook: files and watches in, a server that answers while its block runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from kube.client import Client
from kube.config import ConnectionConfigError, in_cluster
from kube.kubeconfig import from_kubeconfig
from policy.errors import InternalError
from serve import logs
from serve.background import background
from serve.certificate import follow
from serve.connections import Connections
from serve.http import BACKLOG, KEEP_ALIVE_SECONDS, LINGER_SECONDS, Drain, listening_socket
from serve.settings import Address
from webhook.app import build_app, utc_now
from webhook.inputs import Inputs, StartError, load_files
from webhook.sources import POLICY, ClusterSources, FileSources

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from kube.config import Connection
    from serve.policy_source import Taken
    from webhook.settings import WebhookSettings


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
    """Open the sockets; WorldError where an address is taken."""
    https = listening_socket(settings.listen)
    try:
        return Listeners(
            https, listening_socket(settings.metrics_listen) if settings.metrics_listen else None
        )
    except BaseException:
        https.close()
        raise


def address_of(listener: socket.socket) -> Address:
    """Return where a socket listens, with the real port."""
    host, port = listener.getsockname()[:2]
    return Address(host, port)


class Server:
    """A webhook that listens."""

    def __init__(self, address: Address, inputs: Inputs, drain: Drain, clock: Callable[[], datetime]) -> None:
        self.address = address
        self.inputs = inputs
        self.drain = drain
        self._clock = clock
        self._log = logs.logger("webhook")
        self._one_reload = asyncio.Lock()
        self._refused: tuple[str, ...] = ()

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
        if done.kept:
            self._log.error("reload_refused", kept=done.kept, policy_in_force=self.inputs.version)
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
        if found.problems and found.problems != self._refused:  # said once, not at every look
            self._log.error("certificate_refused", problems=found.problems)
        self._refused = found.problems

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
    connection: Connection | None = None,
) -> AsyncIterator[Server]:
    """Run the webhook while the block runs; leaving it drains the requests in flight.

    `listeners` are opened here where none are given. `connection` leads to the API server where the settings
    name no policy file. StartError before anything listens, with every problem of the files.
    """
    files, certificate = await asyncio.to_thread(load_files, settings, clock())
    async with AsyncExitStack() as stack:
        sources = files or await _watching(stack, connection or cluster_of(settings))
        inputs = Inputs(sources, certificate)
        drain = Drain()
        opened = listeners or listen(settings)
        stack.callback(opened.close)
        server = Server(address_of(opened.https), inputs, drain, clock)
        await stack.enter_async_context(
            _answering(build_app(settings, inputs, drain, clock), server, settings, opened.https)
        )
        await stack.enter_async_context(background(certificate=follow(server.look)))
        yield server


def cluster_of(settings: WebhookSettings) -> Connection:
    """Return the way to the API server; StartError where there is none."""
    try:
        return from_kubeconfig(settings.kubeconfig) if settings.kubeconfig else in_cluster(os.environ)
    except ConnectionConfigError as error:
        fix = "Set policyFile to decide by a file, or kubeconfig to watch a cluster from outside."
        raise StartError(
            [f"policy: without policyFile the cluster is watched, but {error}. Fix: {fix}"]
        ) from error


async def _watching(stack: AsyncExitStack, connection: Connection) -> ClusterSources:
    log = logs.logger("watch")

    def taken(found: Taken) -> None:
        for problem in found.problems:
            log.error("policy_problem", problem=str(problem))
        version = getattr(found.policy, "version", "none")
        if found.problems:
            log.error("policy_refused", policy_in_force=version)
            return
        log.info("policy_in_force", policy=version, built_in=found.built_in)
        for doubt in found.warnings:
            log.warning("policy_doubt", problem=str(doubt))

    client = await stack.enter_async_context(Client(connection))
    sources = ClusterSources(client, taken, log.warning)
    work = {name: cache.run() for name, cache in sources.caches.items()}
    await stack.enter_async_context(background(**work))
    return sources


@asynccontextmanager
async def _answering(
    app: web.Application, server: Server, settings: WebhookSettings, listener: socket.socket
) -> AsyncIterator[None]:
    """Answer HTTPS requests while the block runs, and those in flight after it."""
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=LINGER_SECONDS,  # the drain has waited for the requests; the rest is cancelled
    )
    connections = Connections(lambda: _protocol(runner), settings.request_timeout_seconds)
    app.middlewares.extend((connections.middleware(), server.drain.middleware()))
    await runner.setup()
    try:
        # aiohttp's own site cannot be given a protocol around its own.
        site = await asyncio.get_running_loop().create_server(
            connections,
            sock=listener,
            ssl=server.inputs.certificate.context,
            backlog=BACKLOG,
            ssl_handshake_timeout=settings.request_timeout_seconds,
        )
        try:
            yield
        finally:
            site.close()
            await server.drain.wait(settings.shutdown_timeout_seconds)
            await runner.cleanup()
            # What is left waits for clients to take note of a TLS shutdown, or is in the middle of a handshake.
            connections.abort()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(site.wait_closed(), LINGER_SECONDS)
    finally:
        await runner.cleanup()


def _protocol(runner: web.AppRunner) -> asyncio.BaseProtocol:
    if runner.server is None:
        raise InternalError("a connection before the server was set up")
    return runner.server()
