"""The parent of several workers, with workers of a few lines: what it promises about signals, readiness and forks."""

from __future__ import annotations

import subprocess
import sys

HEAD = """
import os, random, signal, sys, time
from serve import logs
from serve.workers import Crew
logs.configure("error", "json")
def crew(count, work):
    return Crew(count, work, clock=time.monotonic, random=random.Random(1), log=logs.logger("crew"),
                forget=lambda pid: None, ending=lambda: None)
"""


def run(program):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEAD + program],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_signal_that_comes_right_after_a_fork_is_not_lost():
    code, out, err = run("""
killed = []
def once():
    made = crew(4, lambda link: signal.pause())
    begin, send = made._start_those_due, made._send
    def start(link, closed):
        begin(link, closed)
        if made._alive and not made._ending:
            os.kill(os.getpid(), signal.SIGTERM)
    made._start_those_due = start
    made._send = lambda number: (killed.append(number == signal.SIGKILL), send(number))
    made.run(lambda: None, 5.0)
for _ in range(40):
    once()
print(any(killed))
""")
    assert (code, out, err) == (0, "False\n", "")


def test_it_is_ready_once_every_worker_has_said_so_and_not_when_one_says_it_twice(tmp_path):
    code, out, err = run(f"""
def nth():
    for number in (1, 2, 3):
        try:
            os.close(os.open({str(tmp_path)!r} + f"/{{number}}", os.O_CREAT | os.O_EXCL))
            return number
        except FileExistsError:
            pass
def work(link):
    number = nth()
    if number == 2:
        signal.pause()  # never says it
    link.say_ready()
    if number == 1:
        os._exit(3)  # and is replaced
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()
crew(2, work).run(lambda: print("ready", flush=True), 5.0)
""")
    assert (code, out) == (0, "")
    assert "exit status 3" in err


def test_a_fork_that_fails_is_tried_again():
    code, out, err = run("""
real, failures = os.fork, [True]
def fork():
    if failures:
        failures.pop()
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return real()
os.fork = fork
def work(link):
    link.say_ready()
    signal.pause()
crew(2, work).run(lambda: os.kill(os.getpid(), signal.SIGTERM), 5.0)
print("ended")
""")
    assert (code, out) == (0, "ended\n")
    assert "Resource temporarily unavailable" in err


def test_a_worker_that_takes_no_note_of_the_end_is_killed_after_the_patience():
    code, out, _ = run("""
def work(link):
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    link.say_ready()
    while True:
        signal.pause()
crew(2, work).run(lambda: os.kill(os.getpid(), signal.SIGTERM), 0.1)
print("ended")
""")
    assert (code, out) == (0, "ended\n")
