"""The documentation of settings, made from the settings. A test compares docs/settings.md with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from serve.settings import documented

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

_HEAD = """# Settings

Written from the code (`serve/settings_page.py`); do not edit.

A process reads its settings from the YAML file named by `--config`, and then from variables, which win.
An unknown key or variable is refused, and all problems are reported at once. Relative paths in the file
start at its folder.
"""


def settings_page(processes: Mapping[str, type[msgspec.Struct]]) -> str:
    """Return the page for the settings of each process, keyed by its command."""
    parts = [_HEAD]
    for command, kind in processes.items():
        parts.append(f"\n## `{command}`\n")
        for setting in documented(kind):
            parts.append(
                f"\n### `{setting.key}`\n\nVariable `{setting.variable}`, default `{setting.default}`.\n"
            )
            parts.append(f"\n{setting.text}\n")
    return "".join(parts)
