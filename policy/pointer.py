"""JSON pointers (RFC 6901)."""

from __future__ import annotations


def escape(key: str) -> str:
    """Return one reference token: `~` is written ~0 and `/` is written ~1."""
    return key.replace("~", "~0").replace("/", "~1")
