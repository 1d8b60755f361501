"""docs/cli.md, from the tree of commands."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = """\
<!-- Generated from cli/; do not edit. To change it: make generate -->

# Command line

`gpufence` and the kubectl plugin `kubectl gpufence` are the same program. `--install-completion` sets up
completion for the current shell.

Exit status of every command: 0 done; 1 the answer is no (something is denied, an outcome is not as expected);
2 what was given cannot be used; 70 a bug of gpufence itself, which the message says.
"""

# Typer adds these by itself, and they say the same everywhere.
_EVERYWHERE = frozenset({"--help", "--install-completion", "--show-completion"})


def command_reference() -> str:
    """Return the page."""
    from cli.main import app

    return "\n".join([_HEAD, *_sections(typer.main.get_command(app), ("gpufence",))])


def _sections(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    yield from _section(command, path)
    for name, inner in getattr(command, "commands", {}).items():
        yield from _sections(inner, (*path, name))


def _section(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    yield f"{'#' * min(len(path) + 1, 4)} {' '.join(path)}"
    yield ""
    yield inspect.cleandoc(command.help or "")
    yield ""
    inner = getattr(command, "commands", {})
    if inner:
        yield "Commands: " + ", ".join(f"`{name}`" for name in inner)
        yield ""
    rows = list(_rows(command, path))
    if rows:
        yield "| argument or option | meaning |"
        yield "|---|---|"
        yield from rows
        yield ""


def _rows(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    context = typer.Context(command, info_name=path[-1])
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None and _EVERYWHERE.isdisjoint(parameter.opts):
            names, meaning = record
            yield f"| `{_cell(names)}` | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
