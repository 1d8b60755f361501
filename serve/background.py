"""Tasks that run beside a server, for as long as it does."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from serve.faults import describe_fault
from serve.logs import logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from typing import Any


@asynccontextmanager
async def background(**work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run each coroutine while the block runs, then cancel them.

    One that ends by a fault is logged by its name, and the others and the block go on: a server without, say,
    its Events still answers.
    """
    tasks = [asyncio.create_task(_logged(name, each), name=name) for name, each in work.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _logged(name: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - said above
        logger("background").error("task_failed", task=name, fault=describe_fault(error))
