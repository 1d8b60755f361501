"""Tasks that run beside a server, for as long as it does."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Protocol

from kube.backoff import Backoff
from serve.faults import describe_fault
from serve.logs import logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@asynccontextmanager
async def background(
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep, /, **work: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Run each of `work` while the block runs, then cancel it.

    One that ends by a fault is logged by its name and begun again after a pause: a server without its Events, or
    with a certificate that nobody looks at any more, would fail silently. One that returns is done.
    """
    tasks = [asyncio.create_task(_kept_up(name, each, sleep), name=name) for name, each in work.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Queue(Protocol):
    """Something that holds what is still to be delivered."""

    @property
    def depth(self) -> int:
        """How many items are held."""

    async def drained(self) -> None:
        """Wait until nothing is held."""


@asynccontextmanager
async def flushed(name: str, queue: Queue, seconds: float) -> AsyncIterator[None]:
    """At the end of the block, wait until the queue is empty, for so many seconds at most; what is lost is logged."""
    try:
        yield
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(queue.drained(), seconds)
        if queue.depth:
            logger("background").error("not_flushed", queue=name, lost=queue.depth)


async def _kept_up(
    name: str, work: Callable[[], Awaitable[None]], sleep: Callable[[float], Awaitable[object]]
) -> None:
    backoff = Backoff(Random())  # noqa: S311 - spreads load, guards nothing
    while True:
        try:
            return await work()
        except Exception as error:  # noqa: BLE001 - said above
            delay = backoff.next()
            fault = describe_fault(error)
        logger("background").error("task_failed", task=name, fault=fault, again_in_seconds=round(delay, 1))
        await sleep(delay)
