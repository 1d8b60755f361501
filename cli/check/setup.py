"""The question that the options of the command line make up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cli import policy_file
from cli.check.judge import Asked
from cli.expired import expiry_notes
from policy.unreadable import Unreadable
from webhook.namespaces import read_namespaces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def asked(
    *,
    policy: Path | None,
    namespaces: Path | None,
    namespace: str,
    user: str,
    groups: tuple[str, ...],
    tell: Callable[[str], None],
) -> Asked:
    """Read the policy and the namespaces, and `tell` what their author should look at again.

    The time is taken here, once: every pod of a run is judged at the same moment.
    """
    now = datetime.now(UTC)
    loaded = policy_file.read(policy, tell)
    for note in expiry_notes(loaded.policy, now):
        tell(f"{policy}: {note}")
    labels_of = read_namespaces(namespaces).of if namespaces else _no_namespaces
    return Asked(loaded.policy, now, labels_of, namespace, user, groups)


def _no_namespaces(_namespace: str) -> Unreadable:
    return Unreadable("no file with namespaces was given (--namespaces FILE)")
