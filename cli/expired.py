"""Exceptions of a policy that are over, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.load import expired

if TYPE_CHECKING:
    from datetime import datetime

    from policy.model import Policy, RuleException


def expiry_notes(policy: Policy, now: datetime) -> list[str]:
    """Return a sentence for every exception that no longer applies."""
    return [_note(exception) for exception in expired(policy, now)]


def _note(exception: RuleException) -> str:
    ended = f"the exception {exception.name} of {exception.owner} ended at {exception.expires.isoformat()}"
    return f"{ended} and no longer applies. Fix: remove it, or set a later date."
