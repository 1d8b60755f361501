"""What an answer rests on: policy, namespaces and certificate.

At the start every problem of the files stops the process, at a reload none does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from policy.errors import WorldError
from serve.certificate import RefusedError, ServedCertificate
from serve.policy_source import version_of
from webhook.sources import FileSources, file_sources

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from policy.model import Policy
    from policy.unreadable import Unreadable
    from webhook.settings import WebhookSettings
    from webhook.sources import Sources

CERTIFICATE = "certificate"


class StartError(WorldError):
    """The webhook cannot start. `problems` holds every reason, one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class Reload(msgspec.Struct, frozen=True):
    """What a reload did: the inputs that changed, those that stay as they were, and why, one line each."""

    changed: tuple[str, ...]
    kept: tuple[str, ...]
    problems: tuple[str, ...]


class Inputs:
    """Policy, namespace labels and certificate in force."""

    def __init__(self, sources: Sources, certificate: ServedCertificate) -> None:
        self.sources = sources
        self.certificate = certificate

    @property
    def policy(self) -> Policy | Unreadable:
        """The policy in force, Unreadable where nobody can say which one."""
        return self.sources.policy

    @property
    def version(self) -> str:
        """The version of the policy in force, "none" without one."""
        return version_of(self.sources.policy)

    def labels_of(self, namespace: str) -> dict[str, str] | Unreadable:
        """Return the labels of a namespace."""
        return self.sources.labels_of(namespace)

    def not_ready(self, now: datetime) -> tuple[str, ...]:
        """Return why no request should come here, one line each."""
        return (*self.certificate.not_ready(now), *self.sources.not_ready())

    def reload(self, now: datetime) -> Reload:
        """Read every file again. What has problems stays as it was."""
        changed: list[str] = []
        problems: dict[str, Sequence[str]] = {}
        if isinstance(self.sources, FileSources):
            changed, problems = self.sources.reload()
        looked = self.certificate.look(now)
        changed += [CERTIFICATE] if looked.changed else []
        problems[CERTIFICATE] = looked.problems
        kept = tuple(name for name, found in problems.items() if found)
        return Reload(
            tuple(changed), kept, tuple(problem for found in problems.values() for problem in found)
        )


def load_files(settings: WebhookSettings, now: datetime) -> tuple[FileSources | None, ServedCertificate]:
    """Read every file that the settings name; StartError holds every problem of them all.

    Without `policyFile` there are no file sources.
    """
    problems: list[str] = []
    sources: FileSources | None = None
    certificate: ServedCertificate | None = None
    if settings.policy_file is not None:
        sources, problems = file_sources(settings.policy_file, settings.namespaces_file)
    try:
        certificate = ServedCertificate(settings.certificates, now)
    except RefusedError as error:
        problems += [f"{CERTIFICATE}: {problem}" for problem in error.problems]
    if problems or certificate is None:
        raise StartError(problems)
    return sources, certificate
