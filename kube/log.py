"""Log lines that cannot become a flood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from policy.errors import GpufenceError

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_SECONDS = 60.0
_KEPT = 256  # distinct lines that are remembered


class Log(Protocol):
    """What structlog's `logger.warning` is: an event's text and its fields."""

    def __call__(self, event: str, **fields: object) -> object:
        """Write one line."""


class SparingLog:
    """Writes a line with the same event and subject once a minute, then with how many were left out."""

    def __init__(self, log: Log, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, event: str, subject: str, **fields: object) -> None:
        """Write or count a line. `subject` tells lines of one event apart; it is a field of the line."""
        now, key = self._clock(), (event, subject)
        at, left_out = self._last.pop(key, (now - EVERY_SECONDS, 0))
        if now - at < EVERY_SECONDS:
            self._last[key] = (at, left_out + 1)
            return
        self._last[key] = (now, 0)
        if len(self._last) > _KEPT:
            del self._last[next(iter(self._last))]
        more = {"left_out": left_out} if left_out else {}
        self._log(event, subject=subject, **fields, **more)


def told(error: BaseException) -> str:
    """Describe an error: its text where it is ours and so written for people, else only its type."""
    return str(error) if isinstance(error, GpufenceError) else type(error).__name__
