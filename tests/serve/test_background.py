"""What runs beside a server ends with it, and its faults do not end the server."""

from __future__ import annotations

import asyncio

from serve.background import background


async def test_every_task_is_cancelled_at_the_end_of_the_block():
    ended = []

    async def forever(name):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async with background(a=forever("a"), b=forever("b")):
        await asyncio.sleep(0)
        assert ended == []
    assert sorted(ended) == ["a", "b"]


async def test_a_fault_of_one_is_told_and_the_rest_goes_on(capsys):
    going = asyncio.Event()

    async def fails():
        raise ValueError("hunter2")

    async def goes_on():
        going.set()
        await asyncio.Event().wait()

    async with background(fails=fails(), other=goes_on()):
        await going.wait()
    told = capsys.readouterr()
    text = told.out + told.err
    assert "task_failed" in text
    assert "fails" in text
    assert "hunter2" not in text
