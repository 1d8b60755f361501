"""How long to wait before the next attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
# A server that is overloaded may ask for more patience, but not for so much that nobody notices it is back.
RETRY_AFTER_MAX = 120.0
_DOUBLINGS = 16  # past the longest delay; bounds the power


class Backoff:
    """Doubles from 0.5 s to 30 s; each delay is drawn from its upper half, so that replicas part."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0

    def reset(self) -> None:
        """Start again: something worked."""
        self._failures = 0

    def next(self, at_least: float | None = None) -> float:
        """Return the seconds to wait after one more failure; `at_least` is what the server asked for."""
        longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures, _DOUBLINGS))
        self._failures += 1
        asked = min(at_least or 0.0, RETRY_AFTER_MAX)
        return max(self._random.uniform(longest / 2, longest), asked)
