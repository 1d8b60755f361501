"""The version of the installed distribution."""

from __future__ import annotations


def version() -> str:
    """Return it, or 0+unknown where gpufence runs from a tree that was never installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gpufence")
    except PackageNotFoundError:
        return "0+unknown"
