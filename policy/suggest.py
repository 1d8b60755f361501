"""Words for people who mistyped a name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

# What YAML 1.1 reads as a boolean where it is not in quotes, besides true and false themselves.
_BOOLEAN_WORDS = {False: ("off", "no", "n"), True: ("on", "yes", "y")}
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


def choice(written: object, known: Collection[str]) -> str:
    """Return a sentence that says what to write where one of a few values is expected.

    Of two values both are named: a guess would make the other look as if it did not exist.
    """
    if isinstance(written, bool) and not any(word in known for word in _BOOLEAN_WORDS[written]):
        return f"Write one of: {', '.join(known)}. {_read_as(written)}"
    if isinstance(written, bool):
        return in_quotes(written, known)
    if len(known) == 2:  # noqa: PLR2004 - both
        return f"Write {' or '.join(known)}."
    return instead(written if isinstance(written, str) else "", known)


def in_quotes(value: bool, known: Collection[str] = ()) -> str:
    """Return a sentence for a word that YAML made a boolean because it is not in quotes."""
    word = next((word for word in _BOOLEAN_WORDS[value] if word in known), "")
    if word:
        return f'Put it in quotes ("{word}"): YAML reads {word} without quotes as {str(value).lower()}.'
    return f"Put it in quotes: {_read_as(value)}"


def _read_as(value: bool) -> str:
    *words, last = _BOOLEAN_WORDS[value]
    return f"YAML reads {', '.join(words)} and {last} without quotes as {str(value).lower()}."
