"""The documentation of settings, made from the settings. A test compares docs/settings.md with it."""

from __future__ import annotations

from inspect import getdoc
from typing import TYPE_CHECKING

from serve.settings import documented

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from serve.settings import Setting

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
        # The text of the type behind its first line, which only says whose settings these are.
        start = (getdoc(kind) or "").partition("\n")[2].strip()
        parts.append(f"\n## `{command}`\n\n{start}\n" if start else f"\n## `{command}`\n")
        parts += [_section(setting) for setting in documented(kind)]
    return "".join(parts)


def _section(setting: Setting) -> str:
    expected = setting.expected[0].upper() + setting.expected[1:]
    facts = f"{expected}. Default `{setting.default}`, variable `{setting.variable}`."
    return f"\n### `{setting.key}`\n\n{facts}\n\n{setting.text}\n"
