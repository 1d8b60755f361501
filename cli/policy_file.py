"""A GpuPolicy that a person named on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from policy.load import Loaded

UNUSABLE = 2


def read(path: Path | None, tell: Callable[[str], None]) -> Loaded:
    """Return the policy of the file, or the built-in one; tell every problem and warning with its place.

    Exits with status 2 where the policy cannot be used.
    """
    from policy.default import DEFAULT_DOCUMENT
    from policy.errors import PolicyError
    from policy.load import load_policy
    from serve.policy_source import read_policy

    try:
        loaded = load_policy(DEFAULT_DOCUMENT) if path is None else read_policy(path)
    except PolicyError as error:
        for problem in error.problems:
            tell(str(problem) if problem.path == str(path) else f"{path}: {problem}")
        raise typer.Exit(UNUSABLE) from error
    for warning in loaded.warnings:
        tell(f"{path}: warning: {warning}")
    return loaded
