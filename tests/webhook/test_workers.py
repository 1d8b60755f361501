"""`gpufence webhook run --workers N`: several processes on one port, and a parent that keeps their number."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from soak.server import tree

PROGRAM = "import sys; from cli.webhook import app; app(sys.argv[1:])"


@pytest.fixture
def config(files):
    (files / "config.yaml").write_text(
        "listen: 127.0.0.1:0\ncertificates: .\npolicyFile: policy.yaml\nlogLevel: debug\nstopDelaySeconds: 0\n"
    )
    return files / "config.yaml"


class Process:
    """The parent, what it says, and the workers that it started."""

    def __init__(self, popen):
        self.popen = popen
        self.lines = []

    def until(self, event, count=1):
        """Read log lines until so many of an event have come; the time limit of the test ends a wait in vain."""
        while len(found := [line for line in self.lines if line.get("event") == event]) < count:
            self.lines.append(json.loads(self.popen.stderr.readline()))
        return found

    def workers(self):
        try:
            return set(tree(self.popen.pid)) - {self.popen.pid}
        except FileNotFoundError:  # it has ended
            return set()


@contextmanager
def started(config, workers):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUFENCE_")}
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        PROGRAM,
        "run",
        "--config",
        str(config),
        "--workers",
        str(workers),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=kept, **pipes) as popen:
        process = Process(popen)
        try:
            yield process
        finally:
            pids = process.workers()
            popen.kill()
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def url_of(process):
    words = process.popen.stdout.readline().split()
    assert words[:-1] == ["gpufence", "webhook", "ready", "on"]
    return words[-1]


def ask(url, files, review):
    """Ask on a new connection; return whether the pod is allowed."""
    trusting = ssl.create_default_context(cafile=files / "ca.crt")
    headers = {"Content-Type": "application/json", "Connection": "close"}
    asked = urllib.request.Request(f"{url}/mutate", json.dumps(review).encode(), headers)  # noqa: S310 - our own URL
    with urllib.request.urlopen(asked, context=trusting, timeout=10) as response:  # noqa: S310
        return json.load(response)["response"]["allowed"]


def test_each_worker_answers_and_one_that_is_killed_is_replaced_while_the_others_answer(
    config, files, review
):
    with started(config, 2) as process:
        url = url_of(process)
        first = {line["worker"] for line in process.until("ready", 2)}
        assert len(first) == 2
        victim = first.pop()
        os.kill(victim, signal.SIGKILL)
        assert all(ask(url, files, review()) for _ in range(20))
        (ended,) = process.until("worker_ended")
        assert (ended["worker"], ended["how"]) == (victim, "signal SIGKILL")
        process.until("ready", 3)
        assert process.workers() == {
            line["worker"] for line in process.lines if line.get("event") == "ready"
        } - {victim}
        process.popen.terminate()
        assert process.popen.wait(20) == 0


def test_a_worker_that_hangs_keeps_nobody_waiting(config, files, review):
    """All workers accept from one queue, so one that is stopped takes no connection with it."""
    with started(config, 2) as process:
        url = url_of(process)
        stopped = process.until("ready", 2)[0]["worker"]
        os.kill(stopped, signal.SIGSTOP)
        assert all(ask(url, files, review()) for _ in range(20))
        os.kill(stopped, signal.SIGCONT)


def test_sighup_reaches_every_worker(config, files):
    with started(config, 3) as process:
        url_of(process)
        (files / "policy.yaml").write_text(
            (files / "policy.yaml").read_text().replace("baseline", "restricted")
        )
        process.popen.send_signal(signal.SIGHUP)
        assert len({line["worker"] for line in process.until("reloaded", 3)}) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_with_0_once_every_worker_has_stopped(config, number):
    with started(config, 2) as process:
        url_of(process)
        process.popen.send_signal(number)
        process.until("stopped", 2)
        assert process.popen.wait(20) == 0
        assert process.workers() == set()


def test_workers_do_not_outlive_a_parent_that_is_killed(config):
    with started(config, 2) as process:
        url_of(process)
        process.popen.kill()
        process.until("parent_gone", 2)
        process.until("stopped", 2)


def test_problems_of_the_files_are_told_once_and_nothing_is_started(config, files):
    (files / "policy.yaml").write_text("kind: GpuPolicy\n")
    with started(config, 4) as process:
        assert process.popen.wait(20) == 2
        told = process.popen.stderr.read()
        assert told.count("apiVersion") == 1


def test_one_scrape_has_the_sum_of_all_workers_also_of_one_that_died(config, files, review):
    with config.open("a") as file:
        file.write("metricsListen: 127.0.0.1:0\n")
    with started(config, 3) as process:
        url = url_of(process)
        metrics = process.until("ready", 3)[0]["metrics"]
        assert all(ask(url, files, review()) for _ in range(30))
        victim = process.until("ready", 3)[0]["worker"]
        os.kill(victim, signal.SIGKILL)
        process.until("worker_ended")
        process.until("ready", 4)
        assert all(ask(url, files, review()) for _ in range(12))
        with urllib.request.urlopen(metrics, timeout=10) as response:  # noqa: S310 - our own URL
            lines = dict(
                line.rsplit(" ", 1) for line in response.read().decode().splitlines() if line[0] != "#"
            )
        counted = float(lines['gpufence_admission_decisions_total{endpoint="mutate",verdict="allow"}'])
        assert counted == 42


def test_once_the_workers_have_stopped_to_listen_nobody_waits_at_the_door(config, files, review):
    """The parent has the socket too; while a slow request drains, a new connection must be refused and not queue."""
    config.write_text(config.read_text().replace("stopDelaySeconds: 0", "stopDelaySeconds: 0.3"))
    with started(config, 2) as process:
        url = url_of(process)
        trusting = ssl.create_default_context(cafile=files / "ca.crt")
        host, port = url.removeprefix("https://").split(":")
        with (
            socket.create_connection((host, int(port)), 10) as plain,
            trusting.wrap_socket(plain, server_hostname=host) as slow,
        ):
            body = json.dumps(review()).encode()
            head = "POST /mutate HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
            slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:10])
            process.popen.terminate()
            while True:
                try:
                    socket.create_connection((host, int(port)), 10).close()
                except (ConnectionRefusedError, ConnectionResetError):
                    break
            slow.sendall(body[10:])
            assert slow.recv(65536).startswith(b"HTTP/1.1 200")
        assert process.popen.wait(20) == 0
