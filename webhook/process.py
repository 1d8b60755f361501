"""`gpufence webhook run` as a process, or as several: signals in, an exit status out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from random import SystemRandom
from typing import TYPE_CHECKING

import msgspec
import uvloop

from serve import logs
from serve.background import background
from serve.shared_metrics import forget_worker, restore, shared_directory
from serve.workers import Crew, Link
from webhook.app import utc_now
from webhook.inputs import load_files
from webhook.run import Listeners, address_of, cluster_of, listen, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webhook.run import Server
    from webhook.settings import WebhookSettings

_MARGIN_SECONDS = 5.0  # past the longest regular stop, after which a worker is killed


def run(settings: WebhookSettings, ready: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT. `ready` is called with the URL once requests are answered.

    StartError, with every problem of the files, before anything is answered.
    """
    logs.configure(settings.log_level, settings.log_format)
    if settings.workers == 1:
        uvloop.run(_until_stopped(settings, ready))
        return
    load_files(settings, utc_now())  # for its problems: each worker reads for itself
    if settings.policy_file is None:
        cluster_of(settings)
    listeners = listen(settings)
    url = f"https://{address_of(listeners.https)}"
    patience = settings.stop_delay_seconds + settings.shutdown_timeout_seconds + _MARGIN_SECONDS
    with shared_directory() as shared:
        crew = Crew(
            settings.workers,
            lambda link: _work(settings, Worker(listeners, shared, link)),
            clock=time.monotonic,
            random=SystemRandom(),
            log=logs.logger("webhook"),
            forget=lambda pid: _forget(pid, shared),
            ending=listeners.close,
        )
        crew.run(lambda: ready(url), patience)


class Worker(msgspec.Struct, frozen=True):
    """What a worker shares with the others, and how it is joined to its parent."""

    listeners: Listeners
    metrics: Path
    link: Link


def _work(settings: WebhookSettings, worker: Worker) -> None:
    logs.configure(settings.log_level, settings.log_format, worker=os.getpid())
    restore(worker.metrics)
    uvloop.run(_until_stopped(settings, lambda _: worker.link.say_ready(), worker))


async def _until_stopped(
    settings: WebhookSettings, ready: Callable[[str], None], worker: Worker | None = None
) -> None:
    log = logs.logger("webhook")
    loop = asyncio.get_running_loop()
    stop: asyncio.Queue[signal.Signals] = asyncio.Queue()
    again = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, again.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.put_nowait, number)
    listeners, shared = (worker.listeners, worker.metrics) if worker else (None, None)
    if worker is not None:
        loop.add_reader(worker.link.lifeline, _orphaned, loop, worker.link, stop)
    async with running(settings, listeners=listeners, shared=shared) as server:
        beside = background(
            reloads=lambda: _reload_when(again, server), ready=lambda: _greet(settings, server, ready)
        )
        async with beside:
            number = await stop.get()
        log.info("stopping")
        server.drain.begin()
        if number == signal.SIGTERM:  # not for a person who presses Ctrl-C
            # Requests still come until every API server has heard that this endpoint is gone.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(settings.stop_delay_seconds):
                    while await stop.get() == signal.SIGTERM:
                        pass  # a second SIGTERM changes nothing; Ctrl-C ends the wait
    log.info("stopped")


async def _greet(settings: WebhookSettings, server: Server, ready: Callable[[str], None]) -> None:
    await server.known()
    told = {} if server.metrics_address is None else {"metrics": f"http://{server.metrics_address}/metrics"}
    logs.logger("webhook").info(
        "ready", url=server.url, policy=server.inputs.version, fail_mode=settings.fail_mode, **told
    )
    server.log_doubts()
    ready(server.url)


def _orphaned(loop: asyncio.AbstractEventLoop, link: Link, stop: asyncio.Queue[signal.Signals]) -> None:
    """Stop as on SIGTERM: the parent was killed, so nobody would restart this worker or hand signals on."""
    loop.remove_reader(link.lifeline)
    logs.logger("webhook").error("parent_gone")
    stop.put_nowait(signal.SIGTERM)


async def _reload_when(again: asyncio.Event, server: Server) -> None:
    """Reload at each signal, one reload at a time; signals that come during one lead to one more."""
    while True:
        await again.wait()
        again.clear()
        await server.reload()


def _forget(pid: int, shared: Path) -> None:
    if not forget_worker(pid, shared):
        logs.logger("webhook").error("counts_lost", worker=pid)
