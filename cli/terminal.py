"""Text for terminals: colour where it is wanted, and nothing in it that steers the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.text import Text

_WIDEST_PROSE = 100  # longer lines of prose are hard to read


def console() -> Console:
    """Return standard output as a console: plain where it is no terminal or NO_COLOR is set."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def prose_width(terminal: Console) -> int:
    """Return the width to wrap prose at."""
    return min(terminal.width, _WIDEST_PROSE)


def show(terminal: Console) -> Callable[[Text], None]:
    """Return a function that prints a text as it is, without breaking its lines."""
    return lambda text: terminal.print(text, soft_wrap=True)


def clean(text: str) -> str:
    """Return text on one line and without control characters: a name must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)
