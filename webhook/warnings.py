"""Warnings within the limits of the API server, which passes them to the client as HTTP header 299.

It drops repeated ones; when all together pass 4096 characters it cuts each to 256 and drops those that no
longer fit; and a control character makes a header invalid (apiserver, pkg/endpoints/filters/warning.go).
Cutting here lets us say how many were left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

TOTAL = 4096
EACH = 256
_RESERVED = 64  # for the sentence about those left out


def fit(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings as the client can see them all: on one line each, no repeats, within the limits."""
    lines = tuple(dict.fromkeys(line for warning in warnings if (line := one_line(warning))))
    if sum(map(len, lines)) <= TOTAL:
        return lines
    kept: list[str] = []
    left = TOTAL - _RESERVED
    for line in lines:
        short = line if len(line) <= EACH else line[: EACH - 3] + "..."
        if len(short) > left:
            break
        kept.append(short)
        left -= len(short)
    if len(kept) < len(lines):
        kept.append(f"gpufence: {len(lines) - len(kept)} more warnings were left out")
    return tuple(kept)


def one_line(text: str) -> str:
    """Return the text without control characters, its words one space apart."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
