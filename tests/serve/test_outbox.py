"""The queue of every sink: bounded, in order, at least once, and every loss is counted."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.backoff import LONGEST_SECONDS
from serve.outbox import Outbox


class Away(Exception):
    """A sink that does not answer; its text may quote what it was given."""


class Desk:
    """An outbox, its sink and its clock. `answers` says of each delivery whether it works; then all do.

    `taken` is what the sink has. A sleep moves the clock and lets others run, nothing else.
    """

    def __init__(self, answers: Any = (), *, gaps: bool = True, **options: Any) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.batches: list[list[Any]] = []
        self.taken: list[Any] = []
        self.lines: list[dict[str, Any]] = []
        self.before_answer: Any = lambda: None
        self._answers = iter(answers)
        self._answered = asyncio.Event()
        self.outbox: Outbox[Any] = Outbox(
            "the log",
            self._deliver,
            clock=lambda: self.now,
            random=Random(7),
            log=lambda event, **fields: self.lines.append({"event": event, **fields}),
            sleep=self._sleep,
            gap=(lambda count: ("gap", count)) if gaps else None,
            **options,
        )

    async def _deliver(self, items: Any) -> None:
        self.batches.append(list(items))
        await asyncio.sleep(0)
        self.before_answer()
        self._answered.set()
        if not next(self._answers, True):
            raise Away("the secret")
        self.taken += items

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def asked(self, times: int) -> None:
        """Wait until the sink has answered so many deliveries."""
        async with asyncio.timeout(20):
            while len(self.batches) < times or not self._answered.is_set():
                self._answered.clear()
                await self._answered.wait()

    async def drained(self) -> None:
        async with asyncio.timeout(20):
            await self.outbox.drained()


@asynccontextmanager
async def running(desk: Desk) -> Any:
    task = asyncio.create_task(desk.outbox.run())
    try:
        yield desk
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_items_come_in_order_and_in_batches():
    desk = Desk(batch=3)
    for number in range(7):
        assert desk.outbox.put(number)
    assert desk.outbox.depth == 7
    async with running(desk):
        await desk.drained()
    assert desk.batches == [[0, 1, 2], [3, 4, 5], [6]]
    assert (desk.outbox.delivered, desk.outbox.depth, desk.outbox.retried) == (7, 0, 0)


async def test_an_item_that_comes_later_is_delivered_too():
    desk = Desk()
    async with running(desk):
        for number in range(3):
            desk.outbox.put(number)
            await desk.drained()
    assert desk.taken == [0, 1, 2]
    assert desk.slept == []


async def test_an_empty_outbox_is_drained_even_where_nothing_runs():
    await Desk().drained()


async def test_a_sink_that_never_waits_lets_others_run_between_batches():
    desk = Desk(batch=1)
    turns: list[int] = []

    async def at_once(items):
        desk.taken += items

    async def other():
        while len(desk.taken) < 5:
            turns.append(len(desk.taken))
            await asyncio.sleep(0)

    desk.outbox._deliver = at_once
    for number in range(5):
        desk.outbox.put(number)
    async with running(desk), asyncio.timeout(20):
        await other()
    assert turns == [0, 1, 2, 3, 4]


async def test_what_the_sink_refuses_is_brought_again_after_growing_waits():
    desk = Desk([False, False, False])
    desk.outbox.put("a")
    async with running(desk):
        await desk.drained()
    assert desk.taken == ["a"]
    assert (desk.outbox.retried, desk.outbox.delivered, desk.outbox.failed) == (3, 1, 0)
    assert 0.25 <= desk.slept[0] <= 0.5 <= desk.slept[1] <= 1 <= desk.slept[2] <= 2


async def test_a_success_makes_the_next_wait_short_again():
    desk = Desk([False] * 8 + [True, False])
    async with running(desk):
        desk.outbox.put("a")
        await desk.drained()
        desk.outbox.put("b")
        await desk.drained()
    assert desk.slept[-2] > 15
    assert desk.slept[-1] <= 0.5


async def test_the_log_says_once_that_the_sink_fails_and_never_what_it_was_given():
    desk = Desk([False] * 3)
    desk.outbox.put("a")
    async with running(desk):
        await desk.drained()
    assert desk.lines == [
        {"event": "not_delivered", "subject": "the log", "items": 1, "held": 1, "fault": "Away"}
    ]


async def test_the_newest_is_dropped_when_it_is_full():
    desk = Desk(capacity=2, gaps=False)
    assert [desk.outbox.put(number) for number in range(4)] == [True, True, False, False]
    async with running(desk):
        await desk.drained()
    assert desk.taken == [0, 1]
    assert (desk.outbox.dropped, desk.outbox.delivered) == (2, 2)


async def test_an_overflow_becomes_one_gap_where_the_items_would_be():
    desk = Desk(capacity=2)
    for number in range(5):
        desk.outbox.put(number)
    async with running(desk):
        await desk.asked(1)
        desk.outbox.put("late")
        await desk.drained()
    assert desk.taken == [0, 1, ("gap", 3), "late"]
    assert (desk.outbox.dropped, desk.outbox.delivered) == (3, 3)


async def test_in_a_flood_gaps_take_no_place_from_items():
    desk = Desk(capacity=1, batch=1)
    numbers = iter(range(100))
    desk.before_answer = lambda: [desk.outbox.put(next(numbers, -1)) for _ in range(2)]
    desk.outbox.put("first")
    async with running(desk):
        await desk.asked(40)
    assert sum(isinstance(item, int) for item in desk.taken) > 10


async def test_items_that_nobody_takes_are_given_up_and_leave_a_gap_before_the_others():
    desk = Desk([False] * 12, batch=2, patience=100.0)
    for number in range(3):
        desk.outbox.put(number)
    async with running(desk):
        await desk.drained()
    assert desk.taken == [("gap", 2), 2]
    assert (desk.outbox.failed, desk.outbox.delivered, desk.outbox.dropped) == (2, 1, 0)
    assert 100 <= desk.now <= 200 + LONGEST_SECONDS
    assert {"event": "given_up", "subject": "the log", "items": 2} in desk.lines


async def test_a_gap_that_nobody_takes_waits_and_its_count_is_not_lost():
    desk = Desk([False] * 60, patience=100.0)
    desk.outbox.put("a")
    async with running(desk):
        await desk.drained()
    assert desk.taken == [("gap", 1)]
    assert desk.outbox.failed == 1


async def test_without_a_gap_what_is_given_up_is_only_counted():
    desk = Desk([False] * 20, patience=50.0, gaps=False)
    desk.outbox.put("a")
    async with running(desk):
        await desk.drained()
    assert (desk.taken, desk.outbox.failed) == ([], 1)


async def test_weights_bound_what_is_held():
    desk = Desk(capacity=10, weigh=len)
    assert desk.outbox.put("x" * 6)
    assert not desk.outbox.put("x" * 5)
    assert desk.outbox.put("x" * 4)
    async with running(desk):
        await desk.drained()
        assert desk.outbox.put("x" * 10)
        await desk.drained()


async def test_a_fault_of_ours_never_reaches_who_puts_and_never_stops_the_queue():
    desk = Desk(weigh=lambda item: {}[item])
    assert not desk.outbox.put("a")
    assert desk.outbox.dropped == 1
    assert desk.lines == [{"event": "not_taken", "subject": "the log", "fault": "KeyError"}]
    other = Desk(capacity=1)
    other.outbox._gap = lambda _: {}["secret"]
    async with running(other):
        other.outbox.put("a")
        other.outbox.put("b")
        await other.drained()
        other.outbox._gap = lambda count: ("gap", count)
        other.outbox.put("c")
        await other.drained()
    assert other.taken == ["a", "c", ("gap", 1)]


async def test_a_queue_that_is_stopped_in_a_delivery_still_holds_the_items():
    desk = Desk()
    held = asyncio.Event()
    real = desk.outbox._deliver

    async def hang(items):
        held.set()
        await asyncio.Event().wait()

    desk.outbox._deliver = hang
    desk.outbox.put("a")
    async with running(desk):
        await held.wait()
    assert desk.outbox.depth == 1
    desk.outbox._deliver = real
    async with running(desk):
        await desk.drained()
    assert desk.taken == ["a"]


@pytest.mark.parametrize("gaps", [True, False])
@given(
    bursts=st.lists(st.integers(0, 9), max_size=25),
    answers=st.lists(st.booleans(), max_size=60),
    capacity=st.integers(1, 8),
    batch=st.integers(1, 5),
    patience=st.sampled_from([0.0, 3.0, 1e9]),
)
@settings(max_examples=150, deadline=None)
def test_every_item_is_delivered_once_in_order_or_counted_as_lost(
    gaps, bursts, answers, capacity, batch, patience
):
    async def scenario():
        desk = Desk(answers, gaps=gaps, capacity=capacity, batch=batch, patience=patience)
        outbox, waiting = desk.outbox, iter(bursts)
        numbers = iter(range(10_000))
        accepted: list[int] = []
        offered = 0

        def burst():
            nonlocal offered
            for _ in range(next(waiting, 0)):
                number = next(numbers)
                offered += 1
                accepted.extend([number] * outbox.put(number))
            assert sum(held.weight for held in outbox._queue) == outbox._weight <= capacity
            kinds = [held.is_gap for held in outbox._queue]
            assert not any(one and other for one, other in pairwise(kinds))

        desk.before_answer = burst
        burst()
        async with running(desk):
            await desk.drained()
        items = [item for item in desk.taken if isinstance(item, int)]
        missing = sum(item[1] for item in desk.taken if not isinstance(item, int))
        assert items == sorted(set(items))  # each once, in order
        assert set(items) <= set(accepted)
        assert len(items) == outbox.delivered == len(accepted) - outbox.failed
        assert len(accepted) + outbox.dropped == offered
        assert missing == (outbox.dropped + outbox.failed if gaps else 0)
        assert outbox.depth == 0

    asyncio.run(scenario())


async def test_the_last_item_comes_behind_the_gap_for_what_was_lost_and_finds_room_in_a_full_queue():
    desk = Desk(weigh=lambda _: 1, capacity=2)
    for item in "abcd":
        desk.outbox.put(item)
    desk.outbox.put_last("closing")
    task = asyncio.create_task(desk.outbox.run())
    await desk.drained()
    task.cancel()
    assert desk.taken == ["a", "b", ("gap", 2), "closing"]
