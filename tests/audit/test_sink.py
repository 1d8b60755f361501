"""The structured-log sink."""

from __future__ import annotations

import json

import pytest

from audit.record import Record, encode
from audit.sink import LogSink


async def test_each_record_is_one_line_of_canonical_json():
    lines = []  # of one call each
    first = Record(id="1", time="t", kind="admission", fault="two\nlines")
    second = Record(id="2", time="t", kind="gap", missing=3)
    await LogSink(lines.append).append([encode(first), encode(second)])
    assert lines == [encode(first).decode() + "\n" + encode(second).decode() + "\n"]
    assert lines[0].count("\n") == 2
    assert json.loads(lines[0].splitlines()[0])["fault"] == "two\nlines"


async def test_what_cannot_be_written_is_an_error_of_the_sink():
    def full(line):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        await LogSink(full).append([b"{}"])


async def test_a_call_has_whole_lines_and_no_more_than_a_pipe_takes_whole():
    written = []
    records = [b"x" * size for size in (1000, 2000, 1090, 5, 9000, 4095, 1)]
    await LogSink(written.append).append(records)
    assert "".join(written) == "".join("x" * len(record) + "\n" for record in records)
    assert all(text.endswith("\n") for text in written)
    assert [len(text) for text in written] == [1001 + 2001 + 1091, 6, 9001, 4096, 2]


async def test_nothing_is_written_of_nothing():
    written = []
    await LogSink(written.append).append([])
    assert written == []
