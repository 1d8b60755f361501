"""Where records go: as the bytes that are hashed and stored, so that nobody can write them in another form.

Bytes also wait more cheaply than a record of forty objects, which the garbage collector would look at again and again.
"""

from __future__ import annotations

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
    """Writes each record as a line, all that come together in one call of `write`.

    In a stream with other log lines, `version` and `kind` tell records apart: log lines have `event` and `level`.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    async def append(self, records: Sequence[bytes]) -> None:
        """Write the records, in their order."""
        self._write(b"".join([record + b"\n" for record in records]).decode())
