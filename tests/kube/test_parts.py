"""The small parts: lines, delays, token buckets, a log that cannot flood."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.backoff import RETRY_AFTER_MAX, Backoff
from kube.bucket import Buckets
from kube.lines import Lines, TooLongError
from kube.log import SparingLog


@given(st.lists(st.binary(max_size=6).filter(lambda part: b"\n" not in part)), st.integers(1, 5))
def test_lines_are_the_same_however_they_are_cut(parts: list[bytes], size: int) -> None:
    stream = b"".join(part + b"\n" for part in parts)
    lines = Lines(100)
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [line for chunk in chunks for line in lines.feed(chunk)] == [
        part for part in parts if part.strip()
    ]


def test_a_line_without_end_is_refused_before_it_is_held() -> None:
    lines = Lines(10)
    assert list(lines.feed(b"123456789\n0123456789")) == [b"123456789"]
    with pytest.raises(TooLongError):
        list(lines.feed(b"0"))


def test_delays_double_to_a_bound_and_start_again() -> None:
    backoff = Backoff(Random(1))
    delays = [backoff.next() for _ in range(40)]
    bounds = [min(30.0, 0.5 * 2**n) for n in range(40)]
    assert all(bound / 2 <= delay <= bound for delay, bound in zip(delays, bounds, strict=True))
    assert backoff.next(60.0) == 60.0
    assert backoff.next(1e9) == RETRY_AFTER_MAX
    backoff.reset()
    assert backoff.next() <= 0.5


def test_a_bucket_allows_a_burst_and_then_its_rate_for_each_name() -> None:
    buckets = Buckets(2, 0.5)
    assert [buckets.take("a", 0.0) for _ in range(3)] == [True, True, False]
    assert buckets.take("b", 0.0)
    assert [buckets.take("a", now) for now in (1.9, 2.0, 2.1, 100.0, 100.0, 100.0)] == [
        False, True, False, True, True, False,
    ]  # fmt: skip


def test_buckets_of_many_names_stay_bounded() -> None:
    buckets = Buckets(1, 0.1)
    for number in range(3000):
        assert buckets.take(str(number), 0.0)
    assert len(buckets._left) == 1000


def test_a_sparing_log_counts_what_it_leaves_out_and_tells_subjects_apart() -> None:
    lines: list[dict[str, Any]] = []
    now = [0.0]
    log = SparingLog(lambda event, **fields: lines.append({"event": event, **fields}), lambda: now[0])
    for at, subject in ((0, "a"), (1, "a"), (2, "b"), (59, "a"), (60, "a"), (61, "a"), (130, "a")):
        now[0] = at
        log("failed", subject, code=at)
    assert lines == [
        {"event": "failed", "subject": "a", "code": 0},
        {"event": "failed", "subject": "b", "code": 2},
        {"event": "failed", "subject": "a", "code": 60, "left_out": 2},
        {"event": "failed", "subject": "a", "code": 130, "left_out": 1},
    ]
    for number in range(1000):
        log("failed", str(number))
    assert len(log._last) == 256
