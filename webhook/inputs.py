"""What the webhook reads from disk. At the start every problem stops it, at a reload none does."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from certs.check import reasons_against
from certs.store import CHAIN, read_bundle
from policy.errors import CallerError, PolicyError, WorldError
from serve.http import load_certificate, tls_context
from serve.policy_source import PolicySource, in_file
from webhook.namespaces import no_labels, read_namespaces

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from policy.model import Policy
    from policy.unreadable import Unreadable
    from webhook.settings import WebhookSettings

    LabelsOf = Callable[[str], dict[str, str] | Unreadable]

POLICY, NAMESPACES, CERTIFICATE = "policy", "namespaces", "certificate"


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


class LoadedInputs:
    """Policy, namespace labels and certificate in force."""

    def __init__(
        self, source: PolicySource, labels: LabelsOf, tls: ssl.SSLContext, settings: WebhookSettings
    ) -> None:
        self.source = source
        self.tls = tls
        self._labels = labels
        self._settings = settings
        self._bundle = read_bundle(settings.certificates)
        self._refused: tuple[str, ...] = ()
        self._marks = self._read_marks()

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.source.policy

    def labels_of(self, namespace: str) -> dict[str, str] | Unreadable:
        """Return the labels of a namespace."""
        return self._labels(namespace)

    def not_ready(self, now: datetime) -> tuple[str, ...]:
        """Return why an API server would not trust us, one line each.

        The certificate that is served does not hold any longer, or the one in the directory was refused: then
        callers may already trust only another.
        """
        return self._refused or reasons_against(self._bundle.chain, self._bundle.trusted, now)

    def reload(self, now: datetime) -> Reload:
        """Read everything again. What has problems stays as it was."""
        problems = {
            POLICY: [in_file(self.source.path, problem) for problem in self.source.reload()],
            NAMESPACES: self._reload_labels(),
            CERTIFICATE: self._reload_certificate(now),
        }
        kept = tuple(name for name, found in problems.items() if found)
        marks, before = self._read_marks(), self._marks
        changed = tuple(name for name, mark in marks.items() if name not in kept and mark != before[name])
        self._marks = {name: before[name] if name in kept else mark for name, mark in marks.items()}
        return Reload(changed, kept, tuple(problem for found in problems.values() for problem in found))

    def _reload_labels(self) -> list[str]:
        try:
            self._labels = _labels(self._settings.namespaces_file)
        except (CallerError, WorldError) as error:
            return [str(error)]
        return []

    def _reload_certificate(self, now: datetime) -> list[str]:
        directory = self._settings.certificates
        self._refused = certificate_problems(directory, now)
        try:
            if not self._refused:
                self._bundle = read_bundle(directory)
                load_certificate(self.tls, directory)
        except WorldError as error:  # the files changed after they were judged
            self._refused = (str(error),)
        return list(self._refused)

    def _read_marks(self) -> dict[str, str]:
        """Return a text for each input that differs where the input does."""
        return {
            POLICY: self.source.policy.version,
            NAMESPACES: _digest(self._settings.namespaces_file),
            CERTIFICATE: _digest(self._settings.certificates / CHAIN),
        }


def load_inputs(settings: WebhookSettings, now: datetime) -> LoadedInputs:
    """Read policy, namespaces and certificate; StartError holds every problem of them all."""
    problems: list[str] = []
    source: PolicySource | None = None
    labels: LabelsOf = no_labels
    try:
        source = PolicySource(settings.policy_file)
    except PolicyError as error:
        path = settings.policy_file.absolute()
        problems += [f"{POLICY} {in_file(path, problem)}" for problem in error.problems]
    try:
        labels = _labels(settings.namespaces_file)
    except (CallerError, WorldError) as error:
        problems.append(f"{NAMESPACES}: {error}")
    problems += [f"{CERTIFICATE}: {problem}" for problem in certificate_problems(settings.certificates, now)]
    if problems or source is None:
        raise StartError(problems)
    return LoadedInputs(source, labels, tls_context(settings.certificates), settings)


def certificate_problems(directory: Path, now: datetime) -> tuple[str, ...]:
    """Return why an API server would refuse the certificate, so far as can be told from here.

    Not for which name: that is in the webhook configuration, which this process does not see. Without ca.crt
    the signature is not judged.
    """
    try:
        bundle = read_bundle(directory)
    except WorldError as error:
        return (str(error),)
    return reasons_against(bundle.chain, bundle.trusted, now)


def _labels(path: Path | None) -> LabelsOf:
    return no_labels if path is None else read_namespaces(path).of


def _digest(path: Path | None) -> str:
    """Return a digest of a file, the same one for every file that cannot be read."""
    try:
        return sha256(path.read_bytes()).hexdigest() if path else ""
    except OSError:
        return ""
