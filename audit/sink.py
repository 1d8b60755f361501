"""Where records go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from audit.record import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from audit.record import Record


class AuditSink(Protocol):
    """Takes records. Raises where it could not keep all of them; then the caller brings the same ones again.

    A sink may so see a record twice, and tells by its id. It has a time limit of its own.
    """

    async def append(self, records: Sequence[Record]) -> None:
        """Keep the records, in their order."""


class LogSink:
    """Writes each record as one line of canonical JSON, all that come together in one call of `write`.

    In a stream with other log lines, `version` and `kind` tell records apart: log lines have `event` and `level`.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    async def append(self, records: Sequence[Record]) -> None:
        """Write the records, in their order."""
        self._write("".join([encode(record).decode() + "\n" for record in records]))
