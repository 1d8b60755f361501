"""What telling of an answer costs: its record, the metrics, one scrape, and the files of a worker.

    make bench                     after the decision; about ten seconds
    python -m benchmarks.metrics   alone

Once in memory (one process) and once with files (several workers), whose values are written to an mmap.
"""

from __future__ import annotations

import os
import timeit
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from audit.identity import RANDOM_BYTES, record_id
from audit.record import encode
from benchmarks.decide import pod_of
from policy.decide import mutate
from policy.default import DEFAULT_DOCUMENT
from policy.load import load_policy
from policy.model import Context
from policy.pod import pod_view
from serve.metrics import exposition, new_registry
from serve.shared_metrics import forget_worker, shared_directory
from webhook.answer import Answered
from webhook.metrics import WebhookMetrics
from webhook.record import record_of
from webhook.reviews import AdmissionRequest, AdmissionResponse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ROUNDS, _CALLS = 7, 20_000
_WORKERS = 8


def main() -> None:
    """Print the table."""
    answered = _answered()
    cost, size = _recorded(answered)
    print(f"a record:     made, bounded and encoded {cost:5.1f} us, {size} bytes")
    hits = len(answered.decision.hits) if answered.decision else 0
    registry = new_registry()
    metrics = WebhookMetrics(registry, "allow", ("policy", "namespaces"))
    print(
        f"one process:  decided ({hits} rule hits) {_best(lambda: metrics.decided('mutate', answered, 0.001)):5.1f} us"
    )
    print(f"              scrape {_best(lambda: exposition(registry), 20) / 1000:5.1f} ms, {_size(registry)}")
    with shared_directory() as shared:
        _several(shared, answered, hits)


def _recorded(answered: Answered) -> tuple[float, int]:
    """Return microseconds to make the record of an answer, and its bytes."""
    at, random = datetime(2026, 1, 1, tzinfo=UTC), bytes(RANDOM_BYTES)

    def make() -> bytes:
        identifier = record_id(at, random)
        record = record_of("mutate", answered, at=at, identifier=identifier, latency_micros=100)
        return b"" if record is None else encode(record)

    return _best(make), len(make())


def _several(shared: Path, answered: Answered, hits: int) -> None:
    pids = [_fork(answered) for _ in range(_WORKERS - 1)]
    registry = new_registry()
    metrics = WebhookMetrics(registry, "allow", ("policy", "namespaces"))
    cost = _best(lambda: metrics.decided("mutate", answered, 0.001))
    scrape = _best(lambda: exposition(registry, shared), 20) / 1000
    print(f"{_WORKERS} workers:    decided ({hits} rule hits) {cost:5.1f} us")
    print(f"              scrape {scrape:5.1f} ms, {_size(registry, shared)}")
    files = [path.stat() for path in shared.glob(f"*_{os.getpid()}.db")]
    print(f"              files of a worker {sum(each.st_size for each in files) / 1024:.0f} KiB")
    fold = timeit.timeit(lambda: forget_worker(pids.pop(), shared), number=_WORKERS - 1) / (_WORKERS - 1)
    print(f"              forgetting a dead worker {fold * 1000:.1f} ms")


def _fork(answered: Answered) -> int:
    """Return the pid of a worker that counted one answer and ended."""
    pid = os.fork()
    if pid == 0:
        WebhookMetrics(new_registry(), "allow", ("policy", "namespaces")).decided("mutate", answered, 0.001)
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def _answered() -> Answered:
    policy = load_policy(DEFAULT_DOCUMENT).policy
    context = Context("vision", datetime(2026, 1, 1, tzinfo=UTC), {})
    decision = mutate(pod_view(pod_of(2)), policy, context)
    return Answered(AdmissionResponse("u", allowed=True, patch="W10="), AdmissionRequest("u"), decision)


def _best(call: Callable[[], object], calls: int = _CALLS) -> float:
    """Return microseconds per call in the best of the rounds."""
    return min(timeit.repeat(call, repeat=_ROUNDS, number=calls)) / calls * 1e6


def _size(*arguments: object) -> str:
    body, _ = exposition(*arguments)  # type: ignore[arg-type]
    series = sum(not line.startswith(b"#") for line in body.splitlines())
    return f"{series} series, {len(body) / 1024:.0f} KiB"


if __name__ == "__main__":
    main()
