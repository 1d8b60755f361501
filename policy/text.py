"""Text that tenants wrote, made fit for a message."""

from __future__ import annotations

_LONGEST = 63  # a label; longer text would push the reason out of an admission warning (256 bytes)


def shown(value: object) -> str:
    """Return the value on one line, without control characters, and cut to 63 characters."""
    text = str(value if value is not None else "")
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "?" for character in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
