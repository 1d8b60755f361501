"""What runs beside a server ends with it, and its faults do not end the server."""

from __future__ import annotations

import asyncio

from serve.background import background, flushed


async def test_every_task_is_cancelled_at_the_end_of_the_block():
    ended = []

    async def forever(name):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async with background(a=lambda: forever("a"), b=lambda: forever("b")):
        await asyncio.sleep(0)
        assert ended == []
    assert sorted(ended) == ["a", "b"]


async def test_a_block_that_ends_at_once_leaves_nothing_behind():
    async with background(a=lambda: asyncio.sleep(60)):
        pass


async def test_what_is_queued_is_delivered_before_the_end_but_not_for_ever(capsys):
    class Queue:
        depth = 3

        async def drained(self):
            await asyncio.sleep(0)
            self.depth = 0

    class Stuck:
        depth = 5

        async def drained(self):
            await asyncio.Event().wait()

    queue = Queue()
    async with flushed("good", queue, 60), flushed("stuck", Stuck(), 0.01):
        pass
    assert queue.depth == 0
    told = "".join(capsys.readouterr())
    assert told.count("not_flushed") == 1
    assert "stuck" in told


async def test_what_fails_is_begun_again_after_a_pause_that_grows():
    begun, pauses, enough = [], [], asyncio.Event()

    async def fails():
        begun.append(len(pauses))
        raise OSError

    async def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 6:
            enough.set()
            await asyncio.Event().wait()

    async with background(sleep, fails=fails):
        await enough.wait()
    assert begun == [0, 1, 2, 3, 4, 5]
    assert pauses[-1] > pauses[0]


async def test_what_returns_is_done():
    begun = []

    async def once():
        begun.append(1)

    async with background(once=once):
        for _ in range(5):
            await asyncio.sleep(0)
    assert begun == [1]


async def test_a_fault_of_one_is_told_and_the_rest_goes_on(capsys):
    going = asyncio.Event()

    async def fails():
        raise ValueError("hunter2")

    async def goes_on():
        going.set()
        await asyncio.Event().wait()

    async with background(fails=fails, other=goes_on):
        await going.wait()
    told = capsys.readouterr()
    text = told.out + told.err
    assert "task_failed" in text
    assert "fails" in text
    assert "hunter2" not in text
