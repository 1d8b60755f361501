"""The policy in force, from a file or from a watch. Either way a bad one leaves the last good one in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from policy.default import DEFAULT_DOCUMENT, NAME
from policy.errors import PolicyError
from policy.load import Loaded, load_policy
from policy.problems import Problem
from policy.unreadable import Unreadable
from serve.documents import DocumentError, UnreadableFileError, parse_document, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

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


class Taken(msgspec.Struct, frozen=True):
    """What became of a change of the GpuPolicy objects. `uid` is that of the object, where there is one."""

    policy: Policy | Unreadable
    warnings: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()
    uid: str = ""
    built_in: bool = False


class WatchedPolicy:
    """The policy in force, by what a watch tells of the GpuPolicy objects.

    Only the one named `default` counts; where there is none, the built-in policy is in force. Before the
    first word of the watch, and where the first object that it tells of is a bad one, nobody can say.
    """

    def __init__(self) -> None:
        self.policy: Policy | Unreadable = Unreadable("the GpuPolicy objects have not been listed yet")
        self.valid = True
        self._told = False

    def take(self, changed: Mapping[str, Mapping[str, Any] | Unreadable | None]) -> Taken | None:
        """Take note of changed objects by name, None for one that is gone. None where nothing follows.

        The first call is about all the objects that there are.
        """
        if NAME not in changed and self._told:
            return None
        self._told = True
        found = changed.get(NAME)
        if isinstance(found, Unreadable):
            return self._refuse((Problem(f"GpuPolicy {NAME}", found.reason),), None)
        try:
            # A field of a later version may be in the cluster already: it must not stop this one.
            loaded = load_policy(DEFAULT_DOCUMENT if found is None else found, unknown_fields="warn")
        except PolicyError as error:
            return self._refuse(error.problems, found)
        self.policy, self.valid = loaded.policy, True
        return Taken(self.policy, loaded.warnings, built_in=found is None)

    def _refuse(self, problems: tuple[Problem, ...], found: Mapping[str, Any] | None) -> Taken:
        self.valid = False
        if isinstance(self.policy, Unreadable):
            self.policy = Unreadable(
                f"GpuPolicy {NAME} has problems, and none was in force before: {problems[0]}"
            )
        return Taken(self.policy, problems=problems, uid=_uid(found))


def version_of(policy: Policy | Unreadable) -> str:
    """Return the version of the policy in force, "none" where there is none."""
    return "none" if isinstance(policy, Unreadable) else policy.version


def _uid(found: Mapping[str, Any] | None) -> str:
    metadata = found.get("metadata") if found is not None else None
    return str(metadata.get("uid", "")) if isinstance(metadata, dict) else ""


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
