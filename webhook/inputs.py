"""What the webhook reads from disk. At the start every problem stops it, at a reload none does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certs.check import reasons_against
from certs.store import read_bundle
from policy.errors import CallerError, PolicyError, WorldError
from serve.http import load_certificate, tls_context
from serve.policy_source import PolicySource
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


class StartError(WorldError):
    """The webhook cannot start. `problems` holds every reason, one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class LoadedInputs:
    """Policy, namespace labels and certificate in force."""

    def __init__(
        self, source: PolicySource, labels: LabelsOf, tls: ssl.SSLContext, settings: WebhookSettings
    ) -> None:
        self.source = source
        self.tls = tls
        self._labels = labels
        self._settings = settings

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.source.policy

    def labels_of(self, namespace: str) -> dict[str, str] | Unreadable:
        """Return the labels of a namespace."""
        return self._labels(namespace)

    def reload(self, now: datetime) -> tuple[str, ...]:
        """Read everything again. What has problems stays as it was; they are returned, one line each."""
        problems = [f"{self.source.path}: {problem}" for problem in self.source.reload()]
        try:
            self._labels = _labels(self._settings.namespaces_file)
        except (CallerError, WorldError) as error:
            problems.append(str(error))
        bad = certificate_problems(self._settings.certificates, now)
        try:
            if not bad:
                load_certificate(self.tls, self._settings.certificates)
        except WorldError as error:  # the files changed after they were judged
            bad = (str(error),)
        return (*problems, *bad)


def load_inputs(settings: WebhookSettings, now: datetime) -> LoadedInputs:
    """Read policy, namespaces and certificate; StartError holds every problem of them all."""
    problems: list[str] = []
    source: PolicySource | None = None
    labels: LabelsOf = no_labels
    try:
        source = PolicySource(settings.policy_file)
    except PolicyError as error:
        problems += [f"policy: {problem}" for problem in error.problems]
    try:
        labels = _labels(settings.namespaces_file)
    except (CallerError, WorldError) as error:
        problems.append(f"namespaces: {error}")
    problems += [f"certificate: {problem}" for problem in certificate_problems(settings.certificates, now)]
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
