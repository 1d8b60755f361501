"""Words for people who mistyped a name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_COMPARED = 80  # the comparison takes time quadratic in the length; no name that we know is longer


def did_you_mean(written: str, known: Iterable[str]) -> str | None:
    """Return the known name that is closest to the written one, None where none is close."""
    names = tuple(known)
    folded = {name.casefold(): name for name in reversed(names)}
    close = get_close_matches(written[:_LONGEST_COMPARED].casefold(), folded, n=1)
    return folded[close[0]] if close else None


def instead(written: str, known: Iterable[str]) -> str:
    """Return a sentence that says what to write: the closest known name, or the choice of them all."""
    names = tuple(known)
    close = did_you_mean(written, names)
    if close is not None:
        return f"Did you mean `{close}`?"
    return f"Write one of: {', '.join(names)}."
