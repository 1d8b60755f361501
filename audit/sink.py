"""Where records go: as the bytes that are hashed and stored, so that nobody can write them in another form.

Bytes also wait more cheaply than a record of forty objects, which the garbage collector would look at again and again.
"""

from __future__ import annotations

from select import PIPE_BUF
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class AuditSink(Protocol):
    """Takes records as `audit.record.encode` returns them: canonical JSON on one line, without its end.

    Raises where it could not keep all of them; then the caller brings the same ones again. A sink may so see a record
    twice, and tells by its id. It has a time limit of its own.
    """

    async def append(self, records: Sequence[bytes]) -> None:
        """Keep the records, in their order."""


class LogSink:
    """Writes each record as a line, several in one call of `write`, up to what a pipe takes whole.

    Where several workers write to one pipe, a line of up to 4096 bytes (PIPE_BUF, pipe(7)) is so never torn by that of
    another. An ordinary record has 1 to 2 KB.

    In a stream with other log lines, `version` and `kind` tell records apart: log lines have `event` and `level`.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    async def append(self, records: Sequence[bytes]) -> None:
        """Write the records, in their order."""
        lines = bytearray()
        for record in records:
            if lines and len(lines) + len(record) + 1 > PIPE_BUF:
                self._write(lines.decode())
                lines.clear()
            lines += record + b"\n"
        if lines:
            self._write(lines.decode())
