"""Send many wrong requests to a real webhook and see that each is answered rightly.

    make soak                                        100,000 requests with a seed that it prints
    make soak ARGS='--seed 7 --requests 2000'        a shorter look, the same requests for the same seed
    make soak ARGS='--replay soak-failure.json'      the request that failed once more

Exit status 1: a request was answered wrongly, or the process complained or ended. The smallest request that shows it
is in `soak-failure.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import random
import secrets
import ssl
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from audit.record import decode, encode
from soak import server
from soak.client import Target
from soak.hunt import BATCH, Case, Failure, batch, cases, problem_of, smallest
from soak.reviews import ReviewCase
from soak.wire import WireCase

_SAVED = Path("soak-failure.json")
_HARMLESS = {"debug", "info", "warning"}
# Far below the default of 2.5 s, so that a body that does not come costs little; far above what a busy machine takes.
_SETTINGS = {"requestTimeoutSeconds": 0.5, "maxBodyBytes": 10 << 20}
_MOST_BYTES = 10 << 20


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="make soak", description="Send wrong requests to a real webhook.")
    parser.add_argument("--seed", type=int, default=None, help="of the requests (default: another each time)")
    parser.add_argument("--requests", type=int, default=100_000, help="how many (default 100000)")
    parser.add_argument("--replay", type=Path, help="send the request of this file instead")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory() as folder:
        directory, log = Path(folder), Path(folder) / "log"
        config = server.prepare(directory, _SETTINGS)
        with server.webhook(config, log) as process:
            tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))
            target = Target(process.host, process.port, tls)
            if given.replay:
                failure = asyncio.run(_replay(target, loaded(given.replay.read_text())))
            else:
                print(f"seed {seed}, {given.requests} requests", flush=True)
                failure = asyncio.run(_soak(target, process.pid, seed, given.requests))
        complaints = complaints_in(log.read_text())
    if failure:
        print(f"FAILED: {failure.problem}")
        if failure.case and not given.replay:
            _SAVED.write_text(saved(failure.case))
            print(f"the request is in {_SAVED}: make soak ARGS='--replay {_SAVED}'")
    for line in complaints[:5]:
        print(f"FAILED: the webhook logged: {line[:2000]}")
    return 1 if failure or complaints else 0


async def _soak(target: Target, pid: int, seed: int, requests: int) -> Failure | None:
    stream = cases(random.Random(seed))  # a seed that can be given again is the point
    begun, sent, first = time.monotonic(), 0, 0
    while sent < requests:
        some = list(itertools.islice(stream, min(BATCH, requests - sent)))
        if failure := await batch(target, some, _MOST_BYTES):
            print(f"failed within requests {sent} to {sent + len(some)} of seed {seed}; making it smaller")
            return await _shrunk(target, failure)
        sent += len(some)
        resident, _ = server.memory_kib(pid)
        first = first or resident
        seconds = time.monotonic() - begun
        if sent % (25 * BATCH) == 0 or sent == requests:
            print(
                f"{sent} requests, {sent / seconds:.0f} a second, {resident >> 10} MiB resident", flush=True
            )
    print(
        f"all answered rightly; resident {first >> 10} MiB after the first batch, {resident >> 10} MiB at the end"
    )
    return None


async def _shrunk(target: Target, failure: Failure) -> Failure:
    """Return the failure with a smaller case, where the case fails by itself too."""
    if not isinstance(failure.case, ReviewCase):
        return failure

    async def fails(case: ReviewCase) -> bool:
        return await problem_of(target, case, _MOST_BYTES) == failure.problem

    return failure._replace(case=await smallest(failure.case, fails))


async def _replay(target: Target, case: Case) -> Failure | None:
    problem = await problem_of(target, case, _MOST_BYTES)
    print(f"{case[0]}: {problem or 'answered rightly'}")
    return Failure(problem, case) if problem else None


def complaints_in(log: str) -> list[str]:
    """Return the lines of a log that tell of a fault of the webhook: errors, and what is neither line nor record."""
    return [line for line in log.splitlines() if not _is_record(line) and _level(line) not in _HARMLESS]


def _level(line: str) -> str:
    try:
        return str(json.loads(line)["level"])
    except (ValueError, KeyError, TypeError):
        return "error"


def _is_record(line: str) -> bool:
    try:
        return encode(decode(line.encode())) == line.encode()
    except msgspec.DecodeError:
        return False


def saved(case: Case) -> str:
    """Return a case as JSON, bytes in base64."""
    fields = case._asdict()
    if isinstance(case, ReviewCase):
        return json.dumps({"review": {**fields, "body": _text(case.body)}}, indent=1)
    fields |= {"writes": [_text(write) for write in case.writes], "statuses": sorted(case.statuses)}
    return json.dumps({"wire": fields}, indent=1)


def loaded(text: str) -> Case:
    """Return the case of a file; ValueError where it is none."""
    raw: dict[str, dict[str, Any]] = json.loads(text)
    if fields := raw.get("review"):
        return ReviewCase(fields["endpoint"], base64.b64decode(fields["body"]))
    fields = raw["wire"]
    writes = tuple(base64.b64decode(write) for write in fields["writes"])
    rest = {"writes": writes, "statuses": frozenset(fields["statuses"]), "uids": tuple(fields["uids"])}
    return WireCase(**{**fields, **rest})


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


if __name__ == "__main__":
    sys.exit(main())
