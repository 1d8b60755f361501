"""How much of what the server stack can do /mutate keeps, over TLS, beside a handler that answers a constant.

    make bench                                             the decision, then this, about a minute and a half
    python -m benchmarks.webhook --rounds 3 --seconds 1    this alone, a shorter look

Both servers have one core and are asked in turn (A B A B), with the same body and the same connections, by a sender
that has the other core. Figures are medians over the rounds; absolute ones change with the machine, ratios hardly.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import uvloop

from benchmarks.decide import pod_of
from soak.server import Process, memory_kib, prepare, serving, tree, webhook
from soak.wire import request

if TYPE_CHECKING:
    from collections.abc import Sequence

_SERVER_CPU, _SENDER_CPU = 0, 1
_LEAST_RATIO, _MOST_P99_RATIO, _MOST_MIB = 0.5, 2.0, 90
_CONSTANT = "from benchmarks.constant import main; main()"


class Round(NamedTuple):
    """What one round showed.

    Requests a second; latencies and the server's processor time a request in microseconds; the sender's share of its
    core.
    """

    rate: float
    p50: float
    p99: float
    server: float
    sender: float


class _Connection(asyncio.Protocol):
    """Asks again as soon as the answer is complete: its size is known, so that counting bytes is all the parsing."""

    def __init__(self, data: bytes, size: int, latencies: list[float]) -> None:
        self._data, self._size, self._latencies = data, size, latencies
        self._left = size
        self._sent = 0.0
        self.stopping = False
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def ask(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._data)

    def data_received(self, data: bytes) -> None:
        if self._left == self._size and not data.startswith(b"HTTP/1.1 200 "):
            self._fail(f"an answer that starts with {data[:40]!r}")
            return
        self._left -= len(data)
        if self._left > 0:
            return
        self._latencies.append(time.perf_counter() - self._sent)
        if self._left < 0:
            self._fail("an answer of another size")
            return
        self._left = self._size
        if self.stopping:
            self.ended.set_result(None)
            self._transport.abort()
        else:
            self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self._fail(f"the connection was lost ({exc})")

    def _fail(self, text: str) -> None:
        if not self.ended.done():
            self.ended.set_exception(RuntimeError(text))
        self._transport.abort()


async def ask_once(process: Process, tls: ssl.SSLContext, data: bytes) -> bytes:
    """Return the whole answer to one request, head included."""
    reader, writer = await asyncio.open_connection(process.host, process.port, ssl=tls)
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
    body = await reader.readexactly(length)
    writer.transport.abort()
    return head + body


async def load(process: Process, tls: ssl.SSLContext, data: bytes, connections: int, seconds: float) -> Round:
    """Ask on all connections at once for so long, each for the next answer after the last."""
    loop = asyncio.get_running_loop()
    size = len(await ask_once(process, tls, data))
    latencies: list[float] = []
    opened = [
        (
            await loop.create_connection(
                lambda: _Connection(data, size, latencies), process.host, process.port, ssl=tls
            )
        )[1]
        for _ in range(connections)
    ]
    begun, cpu, theirs = time.perf_counter(), time.process_time(), cpu_seconds(process.pid)
    for connection in opened:
        connection.ask()
    await asyncio.sleep(seconds)
    for connection in opened:
        connection.stopping = True
    await asyncio.gather(*(connection.ended for connection in opened))
    took, used = time.perf_counter() - begun, time.process_time() - cpu
    server = (cpu_seconds(process.pid) - theirs) / len(latencies)
    cuts = statistics.quantiles(latencies, n=100)
    return Round(len(latencies) / took, cuts[49] * 1e6, cuts[98] * 1e6, server * 1e6, used / took)


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its children so far, in steps of 0.01 s (proc(5), stat)."""
    ticks = 0
    for each in tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def review_of(containers: int) -> bytes:
    """Return a review of a pod of `benchmarks.decide` as a kube-apiserver posts it."""
    gvr = {"group": "", "version": "v1", "resource": "pods"}
    pod = pod_of(containers)
    fields = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": gvr,
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": gvr,
        "namespace": "vision",
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "groups": ["system:serviceaccounts", "system:authenticated"],
        },
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}
    )


def measure(
    directory: Path, rounds: int, seconds: float, connections: int, extra_args: Sequence[str]
) -> bool:
    """Print the table; return whether every aim is met. `extra_args` go to `gpufence webhook run`."""
    config = prepare(directory, {})
    tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    data = request(review_of(2))
    with webhook(config, directory / "log", _SERVER_CPU, extra_args) as ours:
        idle = memory_kib(ours.pid)
        answer = uvloop.run(ask_once(ours, tls, data))
        body = answer.partition(b"\r\n\r\n")[2]
        if b'"patch"' not in body:
            raise RuntimeError("the answer has no patch: the benchmark does not measure what it should")
        arguments = (str(directory), str(len(body)))
        with serving(_CONSTANT, arguments, directory / "constant.log", _SERVER_CPU) as constant:
            pairs = [
                tuple(uvloop.run(load(each, tls, data, connections, seconds)) for each in (constant, ours))
                for _ in range(rounds + 1)
            ][1:]  # the first warms both up
        loaded = memory_kib(ours.pid)
    print(
        f"request {len(data)} bytes, answer {len(answer)} bytes, {connections} connections,"
        f" {rounds} rounds of {seconds:g} s"
    )
    print(f"{'':10} {'requests/s':>10} {'p50 us':>8} {'p99 us':>8} {'cpu us':>8} {'sender':>7}")
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    for name, side in zip(("constant", "/mutate"), sides, strict=True):
        rate, p50, p99, server, sender = (statistics.median(values) for values in zip(*side, strict=True))
        print(f"{name:10} {rate:10.0f} {p50:8.0f} {p99:8.0f} {server:8.0f} {sender:7.0%}")
    rate, p50, p99, server = (
        statistics.median(ours[field] / base[field] for base, ours in pairs) for field in range(4)
    )
    print(f"{'ratio':10} {rate:10.2f} {p50:8.2f} {p99:8.2f} {server:8.2f}")
    print("cpu: processor time of the server a request, which other work on the machine changes little")
    print(
        "sender: share of its core that the sender used; near 100% it, and not the server, would be measured"
    )
    resident, proportional = (kib / 1024 for kib in loaded)
    print(
        f"memory: {idle[0] / 1024:.0f} MiB resident before, {resident:.0f} after ({proportional:.0f} proportional)"
    )
    return all(
        (
            _said("throughput ratio", rate, f"at least {_LEAST_RATIO}", rate >= _LEAST_RATIO),
            _said("p99 ratio", p99, f"at most {_MOST_P99_RATIO:g}", p99 <= _MOST_P99_RATIO),
            _said("resident MiB", resident, f"under {_MOST_MIB}", resident < _MOST_MIB),
        )
    )


def scale(directory: Path, rounds: int, seconds: float, connections: int) -> None:
    """Print what a second worker adds. Here the sender shares the cores with them, so that two cannot double it."""
    config = prepare(directory, {})
    tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    data = request(review_of(2))
    with (
        webhook(config, directory / "one.log") as one,
        webhook(config, directory / "two.log", extra_args=("--workers", "2")) as two,
    ):
        pairs = [
            tuple(uvloop.run(load(each, tls, data, connections, seconds)) for each in (one, two))
            for _ in range(rounds + 1)
        ][1:]
        memory = [memory_kib(each.pid) for each in (one, two)]
    print(
        f"\n{'workers':10} {'requests/s':>10} {'p50 us':>8} {'p99 us':>8} {'resident MiB':>13} {'proportional':>13}"
    )
    for workers, (side, (resident, proportional)) in enumerate(
        zip(zip(*pairs, strict=True), memory, strict=True), start=1
    ):
        rate, p50, p99 = (
            statistics.median(getattr(each, name) for each in side) for name in ("rate", "p50", "p99")
        )
        print(
            f"{workers:<10} {rate:10.0f} {p50:8.0f} {p99:8.0f} {resident / 1024:13.0f} {proportional / 1024:13.0f}"
        )
    rate, p99 = (statistics.median(two[field] / one[field] for one, two in pairs) for field in (0, 2))
    print(f"{'ratio':10} {rate:10.2f} {'':8} {p99:8.2f}")


def _said(name: str, value: float, aim: str, met: bool) -> bool:
    print(f"{name}: {aim}; measured {value:.2f}: {'met' if met else 'MISSED'}")
    return met


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="The webhook over TLS, as ratios to a constant answer.")
    parser.add_argument("--rounds", type=int, default=9, help="pairs of runs (default 9)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run (default 2)")
    parser.add_argument("--connections", type=int, default=16, help="kept open at once (default 16)")
    parser.add_argument("extra_args", nargs="*", help="after --: further arguments of `gpufence webhook run`")
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error("this needs two cores: one for the server, one for the sender")
    os.sched_setaffinity(0, {cores[_SENDER_CPU]})
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), given.rounds, given.seconds, given.connections, given.extra_args)
        if not given.extra_args:
            os.sched_setaffinity(0, cores)
            scale(Path(folder), max(1, given.rounds // 2), given.seconds, given.connections)


if __name__ == "__main__":
    main()
