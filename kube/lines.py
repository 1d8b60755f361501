"""A stream of bytes cut into lines of bounded length."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class TooLongError(ValueError):
    """More bytes came than allowed."""


class Lines:
    """Feed chunks, take whole lines. At most `longest` bytes and one chunk are held."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that the chunk completes, without their ends and without empty ones."""
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            self._hold(end)
            line = b"".join(self._parts)
            self._parts, self._held = [], 0
            if line.strip():
                yield line
        self._hold(rest)

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        if self._held > self._longest:
            raise TooLongError
        if part:
            self._parts.append(part)
