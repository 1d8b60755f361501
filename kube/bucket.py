"""Token buckets: a burst, then a steady rate, for each of many names."""

from __future__ import annotations

_NAMES_MAX = 1000  # buckets kept; the one longest unused goes first, and its name begins with a full one


class Buckets:
    """`burst` tokens for each name, refilled at `per_second`. Times are seconds of any one clock."""

    def __init__(self, burst: float, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left: dict[str, tuple[float, float]] = {}  # name: tokens, at

    def take(self, name: str, now: float) -> bool:
        """Take one token of the name's; return whether there was one."""
        left, at = self._left.pop(name, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - at) * self._per_second)
        allowed = left >= 1.0
        self._left[name] = (left - 1.0 if allowed else left, now)
        if len(self._left) > _NAMES_MAX:
            del self._left[next(iter(self._left))]
        return allowed
