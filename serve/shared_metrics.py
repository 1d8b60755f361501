"""Metrics of several workers behind one endpoint: each writes its values to files, and any of them adds all up.

The files are those of prometheus_client's multiprocess mode: `<type>_<pid>.db`, an mmap of doubles by series.
Facts, from its source (values.py, multiprocess.py, mmap_dict.py of 0.26):

- It chooses between memory and files once, as it is imported, by PROMETHEUS_MULTIPROC_DIR.
- The files of a dead worker stay, but for its live gauges. Where workers die again and again, the scrape reads ever
  more files (about 130 KiB each), so here the parent folds those of a dead worker into one pair.
- A file is empty for a moment as it is made, and one that stays empty (its worker was killed just then) makes
  every later read fail.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from policy.errors import WorldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import Metric

_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "gpufence-metrics-"
_FRESH_SECONDS = 60.0  # one that is so young may not have been locked yet
_DEAD = "dead"  # in place of a pid, in the names of the files with what dead workers counted
_EDITION = "edition"  # a file with a number that is odd while files are folded
_NUMBER = struct.Struct("<q")
# Folding takes a millisecond, and a worker that starts fills its files within a few.
_ATTEMPTS, _PAUSE_SECONDS = 20, 0.005
_TORN = (OSError, struct.error, RuntimeError, ValueError)


class UnsettledError(WorldError):
    """The files of the workers changed each time that they were read."""


@contextmanager
def shared_directory(below: Path | None = None) -> Iterator[Path]:
    """Keep the metrics that are made from now on in files of a fresh directory; remove it when the block ends.

    For the parent, around the life of its workers: they fork inside of the block, and each makes its metrics after
    the fork. Only its owner may enter the directory. It is made in `below`, else where temporary files go; memory (an
    emptyDir of medium Memory) is best. WorldError where it cannot be made.
    """
    try:
        made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=below))
        _write_edition(made, 0)
        held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(
            held, fcntl.LOCK_SH
        )  # the workers inherit it: the directory is in use while any of them lives
    except OSError as error:
        where = f" in {below}" if below else ""  # else the error names the places that were tried
        raise WorldError(f"cannot make a directory for metrics{where}: {error.strerror}") from error
    _clear_away(made.parent)
    before, chosen = os.environ.get(_VARIABLE), values.ValueClass
    os.environ[_VARIABLE] = str(made)
    # The choice that the library makes at its import, made again: else the order of imports somewhere in the
    # program would decide whether the workers add up, and nobody would see that they do not.
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]
    try:
        yield made
    finally:
        values.ValueClass = chosen
        os.environ.pop(_VARIABLE)
        if before is not None:
            os.environ[_VARIABLE] = before
        shutil.rmtree(made, ignore_errors=True)
        os.close(held)


def _clear_away(place: Path, now: Callable[[], float] = time.time) -> None:
    """Remove what parents left that were killed: a container that restarts again and again would fill its /tmp."""
    for left in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                stat = os.fstat(found)
                if stat.st_uid == os.geteuid() and now() - stat.st_mtime > _FRESH_SECONDS:
                    fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while anybody uses it
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(found)


def restore(shared: Path) -> None:
    """Make the directory again where something removed it (a cleaner of /tmp), else a worker could never start again.

    For a worker, before it makes its metrics. What was counted in it is lost.
    """
    shared.mkdir(mode=0o700, exist_ok=True)
    if not (shared / _EDITION).exists():
        _write_edition(shared, 0)


def forget_worker(pid: int, shared: Path) -> bool:
    """Take note that a worker has ended: its gauges vanish, what it counted stays.

    Call it in the parent, before the pid can be that of another worker. It never fails and waits for nobody. Returns
    False where what the worker counted could not be kept.
    """
    kinds = ("counter", "histogram")
    try:
        edition = _edition(shared)
        _write_edition(shared, edition + 1)
        try:
            mark_process_dead(pid, str(shared))  # type: ignore[no-untyped-call]
            return all([_fold(shared / f"{kind}_{pid}.db", shared / f"{kind}_{_DEAD}.db") for kind in kinds])
        finally:
            _write_edition(shared, edition + 2)
    except _TORN:
        return False


class SharedMetrics:
    """What all workers together have counted, as a collector of prometheus_client."""

    def __init__(self, shared: Path, pause: Callable[[float], object] = time.sleep) -> None:
        self._shared = shared
        self._pause = pause

    def collect(self) -> list[Metric]:
        """Return every metric, sorted by name; UnsettledError where the files change each time they are read.

        Read between two looks at the edition: a series that was missing or counted twice in one scrape would look
        like a restart to Prometheus, and rate() would add its whole value.
        """
        for _ in range(_ATTEMPTS):
            with suppress(*_TORN):
                edition = _edition(self._shared)
                found = _read(self._shared)
                if edition % 2 == 0 and _edition(self._shared) == edition:
                    return found
            self._pause(_PAUSE_SECONDS)
        raise UnsettledError("the metrics of the workers change too fast to be read; ask again")


def _read(shared: Path) -> list[Metric]:
    collector = MultiProcessCollector(None, str(shared))  # type: ignore[no-untyped-call]
    return sorted(collector.collect(), key=lambda metric: metric.name)  # type: ignore[no-untyped-call]


def _fold(dead: Path, total: Path) -> bool:
    """Add the values of a file to those of another and remove it. False where it cannot be read; it is removed too."""
    try:
        found = list(MmapedDict.read_all_values_from_file(dead))  # type: ignore[no-untyped-call]
    except FileNotFoundError:
        return True  # the worker ended before it counted anything
    except _TORN:
        dead.unlink()
        return False
    _reserve(total, dead.stat().st_size)
    sums = MmapedDict(str(total))  # type: ignore[no-untyped-call]
    for key, value, _, _ in found:
        sums.write_value(key, sums.read_value(key)[0] + value, 0.0)  # type: ignore[no-untyped-call]
    sums.close()  # type: ignore[no-untyped-call]
    dead.unlink()
    return True


def _reserve(path: Path, size: int) -> None:
    """Take the space that a file will need: a write to an mmap that finds none ends the process by SIGBUS."""
    with path.open("ab") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def _edition(shared: Path) -> int:
    number: int = _NUMBER.unpack((shared / _EDITION).read_bytes())[0]
    return number


def _write_edition(shared: Path, number: int) -> None:
    """Write it in place, which needs no space once the file is there."""
    mode = "r+b" if (shared / _EDITION).exists() else "wb"
    with (shared / _EDITION).open(mode) as file:
        file.write(_NUMBER.pack(number))
