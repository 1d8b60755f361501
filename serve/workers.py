"""Several processes that answer on the same sockets, and a parent that keeps their number.

The parent opens the sockets and forks; every worker accepts from the same queue. With a socket each
(SO_REUSEPORT) the kernel gives a connection to one worker for good, also to one that has just died, and
those that wait there are lost with it. From one queue the workers that live take what comes.

The parent does nothing else: no event loop, no thread and no connection, so that a fork is safe at any time
and nothing that a client sends can reach it.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import struct
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NoReturn

import msgspec

from kube.backoff import Backoff
from serve.faults import describe_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from structlog.typing import FilteringBoundLogger

# A worker that lived for so long did not die of what it starts with, so the next one starts at once.
_STOOD_SECONDS = 60.0
_HANDED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_ENDING = (signal.SIGTERM, signal.SIGINT)
_PID = struct.Struct("=q")  # written at once, and so never torn (pipe(7), PIPE_BUF)
_KILL_AGAIN_SECONDS = 1.0  # a process that the kernel holds (state D) ends when it lets go


class Link(msgspec.Struct, frozen=True):
    """What a worker knows of its parent: `lifeline` is readable once the parent is gone; `ready` is written to once."""

    lifeline: int
    ready: int

    def say_ready(self) -> None:
        """Tell the parent that this worker answers."""
        os.write(self.ready, _PID.pack(os.getpid()))


class _Worker(msgspec.Struct):
    started: float
    backoff: Backoff


class Crew:
    """The workers of a parent. `work` is what a worker does; it ends its process by returning.

    `forget` hears the pid of each that has ended. `ending` is called once when all are told to end: it closes the
    parent's copies of the sockets, for nobody would take what waits there once the workers have closed theirs.
    """

    def __init__(
        self,
        count: int,
        work: Callable[[Link], None],
        *,
        clock: Callable[[], float],
        random: Random,
        log: FilteringBoundLogger,
        forget: Callable[[int], object],
        ending: Callable[[], object],
    ) -> None:
        self._work = work
        self._clock = clock
        self._log = log
        self._forget = forget
        self._at_end = ending
        self._alive: dict[int, _Worker] = {}
        self._due: list[tuple[float, Backoff]] = [(clock(), Backoff(random)) for _ in range(count)]
        self._count = count
        self._ready: set[int] = set()
        self._all_ready = False
        self._ending = False
        self._selector = selectors.DefaultSelector()

    def run(self, ready: Callable[[], None], patience: float) -> None:
        """Keep the workers running until SIGTERM or SIGINT; then end them, by SIGKILL after `patience` seconds.

        SIGHUP is handed on. `ready` is called once every worker has said that it answers.
        """
        with ExitStack() as stack:
            lifeline, end = _pipe(stack)
            told, tell = _pipe(stack)
            woken, wake = socket.socketpair()
            for each in (stack.enter_context(woken), stack.enter_context(wake)):
                each.setblocking(False)
            stack.callback(self._selector.close)
            self._selector.register(woken, selectors.EVENT_READ)
            self._selector.register(told, selectors.EVENT_READ)
            for number in (*_HANDED_ON, signal.SIGCHLD):
                signal.signal(number, lambda *_: None)  # the number arrives through the wake-up socket
            signal.set_wakeup_fd(wake.fileno())
            stack.callback(signal.set_wakeup_fd, -1)
            kill_at: float | None = None
            while self._alive or not self._ending:
                self._start_those_due(Link(lifeline, tell), closed=(end, told, woken, wake))
                for key, _ in self._selector.select(self._pause(kill_at)):
                    if key.fileobj is woken:
                        self._hear(woken.recv(4096))
                    else:
                        self._note_ready(os.read(told, 64 * _PID.size), ready)
                self._bury()
                if self._ending:
                    kill_at = self._clock() + patience if kill_at is None else kill_at
                    if self._clock() >= kill_at:
                        self._send(signal.SIGKILL)
                        kill_at += _KILL_AGAIN_SECONDS

    def _start_those_due(self, link: Link, closed: tuple[int | socket.socket, ...]) -> None:
        now = self._clock()
        due, self._due = (
            [each for each in self._due if each[0] <= now],
            [each for each in self._due if each[0] > now],
        )
        for _, backoff in due:
            # A signal between the fork and the worker's own handlers would be swallowed by those of the parent.
            signal.pthread_sigmask(signal.SIG_BLOCK, _HANDED_ON)
            try:
                pid = os.fork()
                if pid == 0:
                    self._be_worker(link, closed)
            except OSError as error:  # no memory, or too many processes: the workers that live go on
                self._again(backoff, how=error.strerror or "fork failed", worker=None)
                continue
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDED_ON)
            self._alive[pid] = _Worker(now, backoff)

    def _be_worker(self, link: Link, closed: tuple[int | socket.socket, ...]) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(
                signal.SIGHUP, signal.SIG_IGN
            )  # its default ends a process; until a handler is there
            for number in (*_ENDING, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDED_ON)
            self._selector.close()
            for each in closed:
                os.close(each) if isinstance(each, int) else each.close()
            self._work(link)
            status = 0
        except BaseException as error:  # noqa: BLE001 - nothing of a worker may run on in the code of the parent
            self._log.error("worker_failed", fault=describe_fault(error))
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # the process may have been started without it
                    stream.flush()
            os._exit(status)  # not sys.exit: what the parent registered for its own end is not the worker's

    def _pause(self, kill_at: float | None) -> float | None:
        """Return for how many seconds nothing is due, None where only a signal can change that."""
        times = [] if self._ending else [at for at, _ in self._due]
        if kill_at is not None:
            times.append(kill_at)
        return max(0.0, min(times) - self._clock()) if times else None

    def _hear(self, numbers: bytes) -> None:
        for number in map(signal.Signals, numbers):
            if number in _ENDING and not self._ending:
                self._ending, self._due = True, []
                self._at_end()
            if number in _HANDED_ON:
                self._send(number)

    def _send(self, number: signal.Signals) -> None:
        for pid in self._alive:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _note_ready(self, pids: bytes, ready: Callable[[], None]) -> None:
        self._ready.update(pid for (pid,) in _PID.iter_unpack(pids) if pid in self._alive)
        if len(self._ready) == self._count and not self._all_ready:
            self._all_ready = True
            ready()

    def _bury(self) -> None:
        """Take note of workers that ended, and when each is replaced."""
        for pid, how in _ended():
            worker = self._alive.pop(pid, None)
            self._ready.discard(pid)
            self._forget(pid)
            if worker is None or self._ending:
                continue
            if self._clock() - worker.started >= _STOOD_SECONDS:
                worker.backoff.reset()
            self._again(worker.backoff, how=how, worker=pid)

    def _again(self, backoff: Backoff, *, how: str, worker: int | None) -> None:
        delay = backoff.next()
        self._due.append((self._clock() + delay, backoff))
        self._log.error("worker_ended", worker=worker, how=how, again_in_seconds=round(delay, 1))


def _pipe(stack: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


def _ended() -> Iterator[tuple[int, str]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        yield pid, f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
