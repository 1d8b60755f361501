"""The whole of a check but its output: files in, outcomes out, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from cli.check.documents import documents
from cli.check.judge import judge
from cli.check.results import Judged, Problem, Skipped, Summary
from cli.check.sources import expand, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cli.check.judge import Asked
    from cli.check.results import Outcome


def outcomes(names: Iterable[str], asked: Asked) -> Iterator[Outcome]:
    """Yield what became of everything in the named files, in their order."""
    empty = True
    for name in expand(names):
        for outcome in _of_file(name, asked):
            empty = False
            yield outcome
    if empty:
        # An empty pipe is a command that failed, not a manifest without faults.
        yield Problem(", ".join(names), None, "there is nothing to check", "Pass at least one document.")


def _of_file(name: str | Problem, asked: Asked) -> Iterator[Outcome]:
    text = read_text(name) if isinstance(name, str) else name
    if isinstance(text, Problem):
        yield replace(text, source=_label(text.source))
    elif isinstance(name, str):
        yield from judge_text(_label(name), text, asked)


def _label(name: str) -> str:
    """Return a file's name as text: bytes that are no UTF-8 have no place in JSON."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def judge_text(name: str, text: str, asked: Asked) -> Iterator[Outcome]:
    """Yield what becomes of everything in one text. Never raises, whatever the text is."""
    for document in documents(name, text, json_lines=name.endswith(".jsonl")):
        if isinstance(document, Problem):
            yield document
        else:
            yield from judge(document, asked)


def counted(found: Iterable[Outcome], summary: Summary) -> Iterator[Judged | Problem]:
    """Pass on what outputs show, and count everything into the summary."""
    for outcome in found:
        if isinstance(outcome, Skipped):
            summary.skipped += 1
        elif isinstance(outcome, Problem):
            summary.problems += 1
            yield outcome
        else:
            summary.denied += outcome.denied
            summary.allowed += not outcome.denied
            yield outcome
