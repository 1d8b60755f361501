"""`gpufence webhook run` as a process, or as several: signals in, an exit status out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from random import SystemRandom
from typing import TYPE_CHECKING

import uvloop

from serve import logs
from serve.faults import describe_fault
from serve.workers import Crew
from webhook.app import utc_now
from webhook.inputs import load_files
from webhook.run import address_of, cluster_of, listen, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from serve.workers import Link
    from webhook.run import Listeners, Server
    from webhook.settings import WebhookSettings

_MARGIN_SECONDS = 5.0  # past the longest regular stop, after which a worker is killed


def run(settings: WebhookSettings, ready: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT. `ready` is called with the URL once requests are answered.

    StartError, with every problem of the files, before anything is answered.
    """
    logs.configure(settings.log_level, settings.log_format)
    if settings.workers == 1:
        uvloop.run(_until_stopped(settings, None, ready, None))
        return
    load_files(settings, utc_now())  # for its problems: each worker reads for itself
    if settings.policy_file is None:
        cluster_of(settings)
    listeners = listen(settings)
    url = f"https://{address_of(listeners.https)}"
    crew = Crew(
        settings.workers,
        lambda link: _work(settings, listeners, link),
        clock=time.monotonic,
        random=SystemRandom(),
        log=logs.logger("webhook"),
        forget=lambda _: None,
    )
    patience = settings.stop_delay_seconds + settings.shutdown_timeout_seconds + _MARGIN_SECONDS
    crew.run(lambda: ready(url), patience)


def _work(settings: WebhookSettings, listeners: Listeners, link: Link) -> None:
    logs.configure(settings.log_level, settings.log_format, worker=os.getpid())
    uvloop.run(_until_stopped(settings, listeners, lambda _: link.say_ready(), link))


async def _until_stopped(
    settings: WebhookSettings, listeners: Listeners | None, ready: Callable[[str], None], link: Link | None
) -> None:
    log = logs.logger("webhook")
    loop = asyncio.get_running_loop()
    stop: asyncio.Queue[signal.Signals] = asyncio.Queue()
    again = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, again.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.put_nowait, number)
    if link is not None:
        loop.add_reader(link.lifeline, _orphaned, loop, link, stop)
    async with running(settings, listeners=listeners) as server:
        reloads = asyncio.create_task(_reload_when(again, server))
        greeting = asyncio.create_task(_greet(settings, server, ready))
        number = await stop.get()
        log.info("stopping")
        for task in (reloads, greeting):
            task.cancel()
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
    logs.logger("webhook").info(
        "ready", url=server.url, policy=server.inputs.version, fail_mode=settings.fail_mode
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
        try:
            await server.reload()
        except Exception as error:  # noqa: BLE001 - a fault of one reload must not make the next signal unheard
            logs.logger("webhook").error("reload_failed", fault=describe_fault(error))
