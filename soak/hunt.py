"""The hunt: send cases in batches until one is answered wrongly, then make it as small as it can be."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from soak.client import NoAnswerError, Poster, exchange
from soak.judge import problem_of_review, problem_of_wire
from soak.reviews import ReviewCase, good_review, paths, review_case, without
from soak.wire import WireCase, wire_case

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from random import Random

    from soak.client import Target

Case = ReviewCase | WireCase

BATCH = 200
_WIRE_SHARE = 0.2
_AT_ONCE = 8
_MOST_TRIES = 400  # of making a case smaller


class Failure(NamedTuple):
    """A case with a wrong answer. `case` is None where a good review after the batch was not answered."""

    problem: str
    case: Case | None


def cases(rng: Random) -> Iterator[Case]:
    """Return cases without end."""
    while True:
        yield wire_case(rng) if rng.random() < _WIRE_SHARE else review_case(rng)


async def batch(target: Target, sent: Sequence[Case], most_bytes: int) -> Failure | None:
    """Send the cases, some at once, and a good review after them. Returns the first failure."""
    todo = iter(sent)

    async def send() -> Failure | None:
        poster = Poster(target)
        try:
            for case in todo:
                if problem := await problem_of(target, case, most_bytes, poster):
                    return Failure(problem, case)
        finally:
            poster.close()
        return None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(send()) for _ in range(_AT_ONCE)]
    failures = [failure for task in tasks if (failure := task.result())]
    if failures:
        return failures[0]
    good = ReviewCase("mutate", json.dumps(good_review()).encode())
    problem = await problem_of(target, good, most_bytes)
    return Failure(f"after the batch, to a good review: {problem}", None) if problem else None


async def problem_of(target: Target, case: Case, most_bytes: int, poster: Poster | None = None) -> str | None:
    """Send one case; return what is wrong about the answer."""
    if not isinstance(case, ReviewCase):
        try:
            return problem_of_wire(case, await exchange(target, case))
        except OSError as error:
            return f"no connection ({type(error).__name__})"
    sender = poster or Poster(target)
    try:
        return problem_of_review(case, await sender.post(case), most_bytes)
    except NoAnswerError as error:
        return str(error)
    finally:
        if poster is None:
            sender.close()


async def smallest(case: ReviewCase, fails: Callable[[ReviewCase], Awaitable[bool]]) -> ReviewCase:
    """Return a case that still fails and from which nothing more can be left out.

    Members of objects and lists where the body is JSON, runs of bytes where it is not.
    """
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(case.body):
            tries += 1
            if tries > _MOST_TRIES:
                return case
            if await fails(case._replace(body=candidate)):
                case, smaller = case._replace(body=candidate), True
                break
    return case


def _smaller(body: bytes) -> Iterator[bytes]:
    """Return smaller bodies, those that leave out most first."""
    try:
        value: Any = json.loads(body)
        if len(compact := json.dumps(value).encode()) < len(body):
            yield compact
        for path in sorted(paths(value)[1:], key=len):
            if len(shorter := json.dumps(without(value, path)).encode()) < len(body):
                yield shorter
    except (ValueError, RecursionError):
        pass
    size = len(body) // 2
    while size:
        for at in range(0, len(body), size):
            yield body[:at] + body[at + size :]
        size //= 2
