"""The files that `-f` names."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.check.documents import MAX_JSON, MIB
from cli.check.results import STDIN, Problem
from policy.templates import RENDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")


def expand(names: Iterable[str]) -> Iterator[str | Problem]:
    """Yield every file: those named, and in a directory those with a known ending, sorted, at every depth."""
    for name in names:
        if name == STDIN or not Path(name).is_dir():
            yield name
            continue
        closed: list[OSError] = []
        charts: list[str] = []
        found = sorted(_within(name, closed, charts))
        yield from found
        yield from (Problem(chart, None, "this is a Helm chart", RENDER) for chart in sorted(charts))
        yield from (_unreadable(str(error.filename), error) for error in closed)
        if not found and not closed and not charts:
            yield Problem(name, None, f"the directory has no {', '.join(SUFFIXES)} file", "Name another one.")


def _within(directory: str, closed: list[OSError], charts: list[str]) -> Iterator[str]:
    """Yield the files at every depth. Links to directories are not followed: they could lead in circles.

    Of a Helm chart only what Helm does not render is yielded; the chart itself is added to `charts`.
    """
    for folder, folders, files in os.walk(directory, onerror=closed.append):
        if "Chart.yaml" in files:
            charts.append(folder)
            folders[:] = [inner for inner in folders if inner not in {"templates", "charts"}]
        yield from (str(Path(folder, file)) for file in files if _is_input(file, chart="Chart.yaml" in files))


def _is_input(file: str, *, chart: bool) -> bool:
    """Whether the file holds manifests by its name. Helm's own files in the folder of a chart do not."""
    helms = chart and (file == "Chart.yaml" or file.startswith("values"))
    return file.endswith(SUFFIXES) and not helms


def read_text(name: str) -> str | Problem:
    """Return the text of a file, or of standard input for `-`."""
    try:
        raw = _read(name)
        if len(raw) > MAX_JSON:
            return Problem(name, None, f"more than {MAX_JSON // MIB} MiB", "Split the input.")
        text = raw.decode("utf-8-sig")
    except OSError as error:
        return _unreadable(name, error)
    except UnicodeDecodeError as error:
        return Problem(name, None, f"byte {error.start} is not UTF-8", "Save the file as UTF-8.")
    return text


def _read(name: str) -> bytes:
    if name == STDIN:
        return sys.stdin.buffer.read(MAX_JSON + 1)
    with Path(name).open("rb") as file:
        return file.read(MAX_JSON + 1)


def _unreadable(name: str, error: OSError) -> Problem:
    return Problem(name, None, f"cannot be read: {error.strerror}", "Check the name and your rights to it.")
