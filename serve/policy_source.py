"""The policy in force, from a file: read at the start, read again when told, the last good one kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.errors import PolicyError
from policy.load import Loaded, load_policy
from policy.problems import Problem
from serve.documents import DocumentError, UnreadableFileError, parse_document, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from policy.model import Policy

FILE = "the file"  # the path of a problem of the file as a whole


class PolicySource:
    """The policy in force, swapped as a whole: a decision never sees half of a new one."""

    def __init__(self, path: Path) -> None:
        """Read the policy; PolicyError holds every problem, for a process must not start without a policy."""
        self.path = path
        self.loaded = read_policy(path)

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.loaded.policy

    def reload(self) -> tuple[Problem, ...]:
        """Put the policy of the file in force, or keep the last good one and return the problems."""
        try:
            self.loaded = read_policy(self.path)
        except PolicyError as error:
            return error.problems
        return ()


def read_policy(path: Path) -> Loaded:
    """Read one GpuPolicy from a file. Whatever is wrong, with the file or in it, is a PolicyError."""
    try:
        document = parse_document(read_text(path), str(path))
    except DocumentError as error:
        where = f"line {error.line}" if error.line else FILE
        raise PolicyError([Problem(where, error.message, fix=error.fix)]) from error
    except UnreadableFileError as error:
        raise PolicyError([Problem(FILE, error.message, fix=error.fix)]) from error
    return load_policy(document)


def in_file(path: Path, problem: Problem) -> str:
    """Return a problem of `read_policy` as one line that names the file, once."""
    return f"{path}{str(problem).removeprefix(FILE)}" if problem.path == FILE else f"{path}: {problem}"
