"""The queue between those who have something to tell and a sink that may be slow or away.

Written once for all sinks of records and findings: bounded, in order, in batches, with retries; and what is lost is
counted. Events have a queue of their own (kube.events): there, repeats are one item.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from kube.backoff import Backoff
from kube.log import SparingLog, told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from kube.log import Log

T = TypeVar("T")

# Forty seconds of a cluster that creates a hundred pods a second.
CAPACITY = 4096
BATCH = 256
# Longer than a rollout of a collector; after it, what is newer is worth more than what no one takes.
PATIENCE_SECONDS = 300.0


class _Held(msgspec.Struct, Generic[T], frozen=True):
    """An item in the queue. `missing`: how many are missing if it is lost; for a gap, as many as it tells of."""

    item: T
    weight: int
    missing: int = 1
    is_gap: bool = False


def _one(_item: object) -> int:
    return 1


class Outbox(Generic[T]):
    """A bounded queue in front of `deliver`. `put` returns at once and never fails; `run` is the task that delivers.

    `deliver` gets up to `batch` items, the oldest first; where it raises, it gets the same items again, perhaps after
    having kept some: at least once, in order. After `patience` seconds of failures they are given up, so that items
    that a sink will never take do not block it for ever.

    An item is taken while the weights of all that are held come to no more than `capacity`. Each weighs 1, or what
    `weigh` says: where tenants choose how large an item is, only bytes bound the memory.

    An item that comes to an empty queue waits for `gather` seconds, so that others go out with it.

    `gap(count)` makes an item that says how many are missing; it takes their place in the queue as soon as something
    was delivered. It weighs nothing, and two are never side by side. None: losses are only counted.
    `clock` is monotonic, in seconds.

    For metrics, all since the start but `depth`: `delivered`, `dropped` (not taken: the queue was full) and `failed`
    (taken and given up) count items that were put, `retried` counts deliveries that raised; `depth` is how many
    items are held now, those being delivered and gaps too.
    """

    def __init__(
        self,
        name: str,
        deliver: Callable[[Sequence[T]], Awaitable[None]],
        *,
        clock: Callable[[], float],
        random: Random,
        log: Log,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        gap: Callable[[int], T] | None = None,
        weigh: Callable[[T], int] = _one,
        capacity: int = CAPACITY,
        batch: int = BATCH,
        patience: float = PATIENCE_SECONDS,
        gather: float = 0.0,
    ) -> None:
        self.name = name
        self.delivered = 0
        self.dropped = 0
        self.failed = 0
        self.retried = 0
        self._deliver = deliver
        self._clock = clock
        self._sleep = sleep
        self._gap = gap
        self._weigh = weigh
        self._capacity = capacity
        self._batch = batch
        self._patience = patience
        self._gather = gather
        self._log = SparingLog(log, clock)
        self._backoff = Backoff(random)
        self._queue: deque[_Held[T]] = deque()
        self._weight = 0
        self._owed = 0  # dropped, and in no gap yet
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def depth(self) -> int:
        """How many items are held."""
        return len(self._queue)

    def put(self, item: T) -> bool:
        """Take an item, or drop it where the queue is full; return whether it was taken."""
        weight = self._weight_of(item)
        if weight is None or self._weight + weight > self._capacity:
            self.lose()
            return False
        self._weight += weight
        self._queue.append(_Held(item, weight))
        self._idle.clear()
        self._filled.set()
        return True

    def lose(self) -> None:
        """Count an item that could not be taken, or not even be made."""
        self.dropped += 1
        self._owed += 1

    def put_last(self, item: T) -> None:
        """Take the item that nothing follows, whatever there is room for, behind a gap for what was lost before it."""
        self._tell_of(self._owed)
        self._queue.append(_Held(item, 0))
        self._idle.clear()
        self._filled.set()

    async def run(self) -> None:
        """Deliver what is held until cancelled. Raises nothing but CancelledError, after which it can run again."""
        failing_since: float | None = None
        while True:
            if not self._queue:
                self._idle.set()
                self._filled.clear()
                await self._filled.wait()
                if self._gather:
                    await self._sleep(self._gather)
            batch = [self._queue[index] for index in range(min(self._batch, len(self._queue)))]
            if await self._try(batch):
                failing_since = None
                self._backoff.reset()
                await asyncio.sleep(
                    0
                )  # a sink that never waits, such as a log, would keep the loop for itself
                continue
            now = self._clock()
            failing_since = now if failing_since is None else failing_since
            if now - failing_since >= self._patience:
                failing_since = None
                self._give_up(batch)
            await self._sleep(self._backoff.next())

    async def drained(self) -> None:
        """Wait until nothing is held; give it a time limit at shutdown: a sink that is away keeps it waiting."""
        await self._idle.wait()

    def _weight_of(self, item: T) -> int | None:
        try:
            return self._weigh(item)
        except Exception as error:  # noqa: BLE001 - whoever tells of a denial must not fail by it
            self._log("not_taken", self.name, fault=told(error))
            return None

    async def _try(self, batch: list[_Held[T]]) -> bool:
        try:
            await self._deliver([held.item for held in batch])
        except Exception as error:  # noqa: BLE001 - whatever a sink raises, the items are tried again
            self.retried += 1
            self._log("not_delivered", self.name, items=len(batch), held=self.depth, fault=told(error))
            return False
        self._take_out(batch)
        self.delivered += sum(not held.is_gap for held in batch)
        self._tell_of(self._owed)
        return True

    def _give_up(self, batch: list[_Held[T]]) -> None:
        self._take_out(batch)
        lost = sum(not held.is_gap for held in batch)
        self.failed += lost
        if lost:
            self._log("given_up", self.name, items=lost)
        self._tell_of(sum(held.missing for held in batch), first=True)

    def _take_out(self, batch: list[_Held[T]]) -> None:
        for held in batch:
            self._queue.popleft()
            self._weight -= held.weight

    def _tell_of(self, missing: int, *, first: bool = False) -> None:
        """Put a gap where the missing items would be: before all others if they were the oldest, else behind them."""
        if self._gap is None or not missing:
            return
        neighbour = self._queue[0 if first else -1] if self._queue else None
        joined = neighbour.missing if neighbour is not None and neighbour.is_gap else 0
        total = missing + joined
        try:
            held = _Held(self._gap(total), 0, total, is_gap=True)
        except Exception as error:  # noqa: BLE001 - the loss stays counted, and the queue goes on
            self._log("no_gap", self.name, missing=missing, fault=told(error))
            self._owed += missing if first else 0
            return
        if not first:
            self._owed = 0
        if joined:
            self._queue[0 if first else -1] = held
        elif first:
            self._queue.appendleft(held)
        else:
            self._queue.append(held)
