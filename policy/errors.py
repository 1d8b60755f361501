"""The error tree: each branch says whose fault it is and therefore who can mend it.

GpufenceError
├── CallerError        what was sent or typed is unusable
│   └── MalformedPod   a field of the pod has the wrong JSON type
├── PolicyError        the GpuPolicy has problems; carries all of them
├── WorldError         a file, socket, certificate or peer is not as it must be
└── InternalError      a promise of our own was broken; please report it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.problems import Problem


class GpufenceError(Exception):
    """Base of every error that gpufence raises on purpose."""


class CallerError(GpufenceError):
    """What the caller sent or typed cannot be used; the message says what, where and how to fix it."""


class MalformedPod(CallerError):
    """A field of a pod has another JSON type than the Kubernetes API gives it.

    `pointer` is the JSON pointer of the field, `expected` the type in words.
    """

    def __init__(self, pointer: str, expected: str, value: object) -> None:
        self.pointer = pointer
        self.expected = expected
        super().__init__(f"{pointer or '/'}: expected {expected}, found {_json_type(value)}")


class PolicyError(GpufenceError):
    """A GpuPolicy cannot be used. `problems` holds every one of them, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


class WorldError(GpufenceError):
    """Something outside of us (a file, a socket, a certificate, a peer) is not as it must be."""


class InternalError(GpufenceError):
    """A promise that gpufence makes to itself was broken."""


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        str: "a string",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)
