"""Exceptions of a policy that are over, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.load import expired
from policy.problems import Problem

if TYPE_CHECKING:
    from datetime import datetime

    from policy.model import Policy, RuleException


def expiry_warnings(policy: Policy, now: datetime) -> list[Problem]:
    """Return a warning for every exception that no longer applies."""
    over = expired(policy, now)
    return [
        _warning(index, exception) for index, exception in enumerate(policy.exceptions) if exception in over
    ]


def expiry_notes(policy: Policy, now: datetime) -> list[str]:
    """Return the warnings as lines of text."""
    return [f"warning: {warning}" for warning in expiry_warnings(policy, now)]


def _warning(index: int, exception: RuleException) -> Problem:
    ended = f"the exception {exception.name} of {exception.owner} ended at {exception.expires.isoformat()}"
    fix = "Remove it, or set a later date."
    return Problem(f"spec.exceptions[{index}]", f"{ended} and no longer applies", fix=fix)
