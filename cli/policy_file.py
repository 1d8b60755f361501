"""A GpuPolicy that a person named on the command line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from msgspec.structs import replace

from policy.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from policy.load import Loaded
    from serve.kubeyaml import YamlDocument

UNUSABLE = 2

# A step of a path as `policy.complaints.written_path` writes it: `[0]`, `["nvidia.com/gpu"]`, or a plain field.
_STEP = re.compile(r'\[(?P<index>\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\.?(?P<field>[^.\[]+)')


class Located(msgspec.Struct, frozen=True):
    """A problem and its line: of the field, or of the innermost object or list around it; 0 where there is none."""

    line: int
    problem: Problem


class PolicyFile(msgspec.Struct, frozen=True):
    """A file as it was read. `loaded` is None where the policy cannot be used, and `problems` says why."""

    document: YamlDocument | None
    loaded: Loaded | None = None
    problems: tuple[Located, ...] = ()
    text: str = ""

    @property
    def value(self) -> Any:
        """The document as plain data, None where the file could not be read."""
        return self.document.value if self.document else None

    def located(self, problems: Iterable[Problem]) -> tuple[Located, ...]:
        """Return the problems in the order of the file, each with its line."""
        document = self.document
        if document is None:
            return tuple(Located(0, problem) for problem in problems)
        lines = self.text.splitlines()
        places = [(*_place(document, lines, problem.path), problem) for problem in problems]
        places.sort(key=lambda place: place[0])
        return tuple(Located(line, problem) for _, line, problem in places)


def open_policy(path: Path) -> PolicyFile:
    """Read the policy of a file, with everything that is wrong with it."""
    from policy.errors import PolicyError
    from policy.load import load_policy
    from serve.documents import DocumentError, UnreadableFileError, parse_lines, read_text
    from serve.policy_source import FILE

    try:
        text = read_text(path)
        document = parse_lines(text, str(path))
    except DocumentError as error:
        return PolicyFile(None, None, (Located(error.line, Problem(FILE, error.message, fix=error.fix)),))
    except UnreadableFileError as error:
        return PolicyFile(None, None, (Located(0, Problem(FILE, error.message, fix=error.fix)),))
    read_only = PolicyFile(document, text=text)
    try:
        return replace(read_only, loaded=load_policy(document.value))
    except PolicyError as error:
        return replace(read_only, problems=read_only.located(error.problems))


def read(path: Path | None, tell: Callable[[str], None]) -> Loaded:
    """Return the policy of the file, or the built-in one; tell every problem and warning with its place.

    Exits with status 2 where the policy cannot be used.
    """
    from policy.default import DEFAULT_DOCUMENT
    from policy.load import load_policy

    if path is None:
        return load_policy(DEFAULT_DOCUMENT)
    file = open_policy(path)
    for found in file.problems:
        tell(f"{path}: {in_words(found)}")
    if file.loaded is None:
        raise typer.Exit(UNUSABLE)
    for found in file.located(file.loaded.warnings):
        tell(f"{path}: {in_words(found, 'warning: ')}")
    return file.loaded


def in_words(found: Located, kind: str = "") -> str:
    """Return `line 7: spec.profile: must be ... Fix: ...`; the line and the path only where they are known."""
    from serve.policy_source import FILE

    line = f"line {found.line}: " if found.line else ""
    return f"{line}{kind}{str(found.problem).removeprefix(f'{FILE}: ')}"


def _place(document: YamlDocument, lines: Sequence[str], path: str) -> tuple[tuple[int, ...], int]:
    """Return where a path leads: the positions on the way, which sort as the file does, and the line.

    A step that is not in the file (a missing field) stands behind everything that is.
    """
    at: Any = document.value
    line = document.lines.get(id(at), 0)
    positions: list[int] = []
    for match in _STEP.finditer(path):
        around = document.lines.get(id(at), line)
        position, at = _step(at, match)
        positions.append(position)
        line = document.lines.get(id(at)) or _line_of_field(lines, around, match["field"])
        if at is None:
            break
    return tuple(positions), line


def _step(at: Any, match: re.Match[str]) -> tuple[int, Any]:
    if isinstance(at, list) and match["index"]:
        index = int(match["index"])
        return index, at[index] if index < len(at) else None
    if isinstance(at, dict) and not match["index"]:
        key = msgspec.json.decode(match["quoted"]) if match["quoted"] else match["field"]
        return (list(at).index(key), at[key]) if key in at else (len(at), None)
    return 0, None


def _line_of_field(lines: Sequence[str], first: int, field: str | None) -> int:
    """Return the line of a field of the object that begins at a line; that line where the field is not found.

    Only block style has its fields on lines of their own: there all of them begin in the column of the first.
    """
    if not (field and first):
        return first
    column = len(lines[first - 1]) - len(lines[first - 1].lstrip(" -"))
    for number, text in enumerate(lines[first - 1 :], first):
        before, here = text[:column], text[column:]
        if number > first and before.strip():
            break
        if here.startswith(f"{field}:"):
            return number
    return first
