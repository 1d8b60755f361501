"""The line of a file that a finding is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cli.check.results import Judged


def line_of(judged: Judged, pointer: str = "") -> int | None:
    """Return the line of the innermost object or list on the way of a JSON pointer into the pod.

    None where the input gave no lines (JSON, AdmissionReviews).
    """
    at: Any = judged.pod
    line = judged.lines.get(id(at)) or judged.lines.get(id(at.get("spec")))
    for token in pointer.split("/")[1:]:
        at = _step(at, token.replace("~1", "/").replace("~0", "~"))
        if at is None:
            break
        line = judged.lines.get(id(at), line)
    return line


def _step(at: Any, token: str) -> Any:
    if isinstance(at, dict):
        return at.get(token)
    if isinstance(at, list) and token.isdecimal() and int(token) < len(at):
        return at[int(token)]
    return None
