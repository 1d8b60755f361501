"""The only unknown in the code base: a measurement that failed is this value, never zero and never an empty list."""

from __future__ import annotations

import msgspec


class Unreadable(msgspec.Struct, frozen=True):
    """A value that could not be had. `reason` is for people: what was tried, and what came back."""

    reason: str

    def __bool__(self) -> bool:
        """Refuse truth tests, so that `if labels:` cannot pass an unknown off as an empty value."""
        raise TypeError(f"an Unreadable has no truth value; test with isinstance() first ({self.reason})")
