"""JSON that another process wrote, decoded within bounds: what is beyond them is Unreadable, and nothing raises."""

from __future__ import annotations

from typing import Any

import msgspec

from policy.unreadable import Unreadable


def decode_text(text: bytes, shape: Any, what: str, *, max_bytes: int, max_elements: int) -> Any:
    """Return the text as a value of that shape, or Unreadable; `what` begins the reason.

    Every element but the first of an array or object follows a comma, so that counting those (1 ms for 8 MB) bounds
    the elements before any is made: 8 MB of `{},{},...` would become 700 MB of values.
    """
    if len(text) > max_bytes:
        return Unreadable(f"{what} has {len(text)} bytes, more than {max_bytes}")
    commas = text.count(b",")
    if commas > max_elements:
        return Unreadable(f"{what} has some {commas} elements, more than {max_elements}")
    return decode_part(text, shape, what)


def decode_part(raw: bytes | msgspec.Raw, shape: Any, what: str) -> Any:
    """Return a part of a text that was found within bounds as a value of that shape, or Unreadable."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except RecursionError:  # msgspec stops at the interpreter's limit, also in what it skips
        return Unreadable(f"{what} is nested too deeply")
    except (msgspec.DecodeError, ValueError) as error:  # a ValueError where a string is not UTF-8
        return Unreadable(f"{what} cannot be read: {error}")  # names positions and types, never values
