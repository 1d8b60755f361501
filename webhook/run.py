"""The wiring of the webhook: files in, a server that runs until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvloop
from aiohttp import web

from serve import logs
from serve.faults import describe_fault
from serve.http import KEEP_ALIVE_SECONDS, LINGER_SECONDS, Drain, listening_socket
from serve.settings import Address
from webhook.app import build_app, utc_now
from webhook.inputs import POLICY, LoadedInputs, load_inputs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from webhook.settings import WebhookSettings


class Server:
    """A webhook that listens."""

    def __init__(
        self, address: Address, inputs: LoadedInputs, drain: Drain, clock: Callable[[], datetime]
    ) -> None:
        self.address = address
        self.inputs = inputs
        self.drain = drain
        self._clock = clock
        self._log = logs.logger("webhook")

    @property
    def url(self) -> str:
        """The base of /mutate, /validate and /healthz, with the real port."""
        return f"https://{self.address}"

    async def reload(self) -> tuple[str, ...]:
        """Read all files again; what has problems stays as it was. Returns the problems."""
        # In a thread: a disk that hangs must not stop the answers.
        done = await asyncio.to_thread(self.inputs.reload, self._clock())
        version = self.inputs.policy.version
        for problem in done.problems:
            self._log.error("reload_problem", problem=problem)
        if done.kept:
            self._log.error("reload_refused", kept=done.kept, policy_in_force=version)
        if done.changed or not done.kept:
            self._log.info("reloaded", changed=done.changed, policy=version)
        if POLICY not in done.kept:
            self.log_doubts()
        return done.problems

    def log_doubts(self) -> None:
        """Log what the author of the policy should look at again."""
        for doubt in self.inputs.source.loaded.warnings:
            self._log.warning("policy_doubt", problem=str(doubt))


@asynccontextmanager
async def running(
    settings: WebhookSettings, clock: Callable[[], datetime] = utc_now
) -> AsyncIterator[Server]:
    """Run the webhook while the block runs; leaving it drains the requests in flight.

    StartError before anything listens, with every problem of the files.
    """
    inputs = await asyncio.to_thread(load_inputs, settings, clock())
    drain = Drain()
    app = build_app(settings, inputs, drain, clock)
    app.middlewares.append(drain.middleware())
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=LINGER_SECONDS,  # `drain` has waited for the requests; the rest is cancelled
    )
    await runner.setup()
    try:
        listener = listening_socket(settings.listen)
        site = web.SockSite(runner, listener, ssl_context=inputs.tls)
        await site.start()
        host, port = listener.getsockname()[:2]
        try:
            yield Server(Address(host, port), inputs, drain, clock)
        finally:
            await site.stop()
            await drain.wait(settings.shutdown_timeout_seconds)
    finally:
        await runner.cleanup()


def run(settings: WebhookSettings, ready: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT. `ready` is called with the URL once requests are answered."""
    logs.configure(settings.log_level, settings.log_format)
    uvloop.run(_until_stopped(settings, ready))


async def _until_stopped(settings: WebhookSettings, ready: Callable[[str], None]) -> None:
    log = logs.logger("webhook")
    loop = asyncio.get_running_loop()
    stop: asyncio.Queue[signal.Signals] = asyncio.Queue()
    again = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, again.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.put_nowait, number)
    async with running(settings) as server:
        reloads = asyncio.create_task(_reload_when(again, server))
        log.info("ready", url=server.url, policy=server.inputs.policy.version, fail_mode=settings.fail_mode)
        server.log_doubts()
        ready(server.url)
        number = await stop.get()
        log.info("stopping")
        reloads.cancel()
        server.drain.begin()
        if number == signal.SIGTERM:  # not for a person who presses Ctrl-C
            # Requests still come until every API server has heard that this endpoint is gone.
            await asyncio.sleep(settings.stop_delay_seconds)
    log.info("stopped")


async def _reload_when(again: asyncio.Event, server: Server) -> None:
    """Reload at each signal, one reload at a time; signals that come during one lead to one more."""
    while True:
        await again.wait()
        again.clear()
        try:
            await server.reload()
        except Exception as error:  # noqa: BLE001 - a fault of one reload must not make the next signal unheard
            logs.logger("webhook").error("reload_failed", fault=describe_fault(error))
