"""Where policy and namespaces come from: files, or watches of the API server. Decisions read values in memory."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kube.watch import Cache
from policy.default import API_VERSION, KIND, NAME
from policy.errors import CallerError, PolicyError, WorldError
from policy.unreadable import Unreadable
from serve.policy_source import PolicySource, Taken, WatchedPolicy, in_file
from webhook.namespaces import NAME_LABEL, NamespaceLabels, no_labels, read_namespaces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kube.client import Client
    from kube.log import Log
    from policy.model import Policy
    from policy.problems import Problem

POLICY, NAMESPACES = "policy", "namespaces"
COLLECTIONS = (POLICY, NAMESPACES)
POLICIES_PATH = "/apis/gpufence.io/v1alpha1/gpupolicies"
NAMESPACES_PATH = "/api/v1/namespaces"


class Sources(Protocol):
    """What decisions rest on. `policy` is Unreadable while nobody can say which one is in force."""

    @property
    def policy(self) -> Policy | Unreadable:
        """The policy in force."""

    @property
    def valid(self) -> bool:
        """Whether the newest policy is the one in force, and not the last good one before it."""

    def labels_of(self, namespace: str) -> dict[str, str] | Unreadable:
        """Return the labels of a namespace."""

    def not_ready(self) -> tuple[str, ...]:
        """Return why no decision can be made, one line each."""


class FileSources:
    """Policy and namespaces from files, read at the start and again when told."""

    def __init__(self, file: PolicySource, path: Path | None, namespaces: NamespaceLabels | None) -> None:
        self._file = file
        self.valid = True
        self._path = path
        self._namespaces = namespaces

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._file.policy

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What the author of the policy should look at again."""
        return self._file.loaded.warnings

    def labels_of(self, namespace: str) -> dict[str, str] | Unreadable:
        """Return the labels of a namespace."""
        return no_labels(namespace) if self._namespaces is None else self._namespaces.of(namespace)

    def not_ready(self) -> tuple[str, ...]:
        """Return nothing: without its files the process does not start."""
        return ()

    def reload(self) -> tuple[list[str], dict[str, Sequence[str]]]:
        """Read the files again: which of them changed, and the problems of each. What has problems stays as it was."""
        version, namespaces = self.policy.version, self._namespaces
        refused = [in_file(self._file.path, problem) for problem in self._file.reload()]
        self.valid = not refused
        unusable: list[str] = []
        try:
            self._namespaces = _namespaces(self._path)
        except (CallerError, WorldError) as error:
            unusable = [str(error)]
        changed = {POLICY: self.policy.version != version, NAMESPACES: self._namespaces != namespaces}
        return [name for name, is_new in changed.items() if is_new], {POLICY: refused, NAMESPACES: unusable}


def file_sources(policy: Path, path: Path | None) -> tuple[FileSources | None, list[str]]:
    """Read both files; return every problem of both, and the sources where there is none."""
    problems: list[str] = []
    loaded: PolicySource | None = None
    namespaces: NamespaceLabels | None = None
    try:
        loaded = PolicySource(policy)
    except PolicyError as error:
        problems += [f"{POLICY} {in_file(policy.absolute(), problem)}" for problem in error.problems]
    try:
        namespaces = _namespaces(path)
    except (CallerError, WorldError) as error:
        problems.append(f"{NAMESPACES}: {error}")
    return (None if problems or loaded is None else FileSources(loaded, path, namespaces)), problems


def _namespaces(path: Path | None) -> NamespaceLabels | None:
    return None if path is None else read_namespaces(path)


class Space(msgspec.Struct, frozen=True):
    """What is kept of a Namespace object."""

    labels: dict[str, str]
    terminating: bool


class ClusterSources:
    """Policy and namespaces by watches. `taken` hears what became of each change of the policy."""

    def __init__(
        self,
        client: Client,
        taken: Callable[[Taken], None],
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known = asyncio.Event()
        """Set once both have been listed and a policy is in force."""
        self._watched = WatchedPolicy()
        self._taken = taken
        self._log = log
        self.policies: Cache[Mapping[str, Any]] = Cache(
            client, POLICIES_PATH, _policy_object, log=log, on_change=self._changed, clock=clock
        )
        self.namespaces: Cache[Space] = Cache(
            client, NAMESPACES_PATH, space, log=log, on_change=lambda _: self._note(), clock=clock
        )

    @property
    def caches(self) -> dict[str, Cache[Any]]:
        """The caches by what they hold. Each has to be run."""
        return {POLICY: self.policies, NAMESPACES: self.namespaces}

    @property
    def policy(self) -> Policy | Unreadable:
        """The policy in force; Unreadable until the namespaces are known too: teams and rules select by them."""
        if not self.namespaces.synced:
            return Unreadable("the namespaces have not been listed yet")
        return self._watched.policy

    @property
    def valid(self) -> bool:
        """Whether the newest policy is the one in force."""
        return self._watched.valid

    def labels_of(self, namespace: str) -> dict[str, str] | Unreadable:
        """Return the labels of a namespace. One that was made a moment ago may not be known yet."""
        found = self._space(namespace)
        return found if isinstance(found, Unreadable) else found.labels

    def terminating(self, namespace: str) -> bool | Unreadable:
        """Return whether a namespace is being deleted."""
        found = self._space(namespace)
        return found if isinstance(found, Unreadable) else found.terminating

    def _space(self, namespace: str) -> Space | Unreadable:
        found = self.namespaces.get(namespace)
        return (
            Unreadable(f"the watch has not told of the namespace {namespace} yet") if found is None else found
        )

    def not_ready(self) -> tuple[str, ...]:
        """Return why no decision can be made.

        A cache that was filled once stays good enough however old it becomes: all replicas lose the API server
        at the same moment, and without it nobody creates a pod.
        """
        policy = self.policy
        if not isinstance(policy, Unreadable):
            return ()
        return tuple(cache.trouble for cache in self.caches.values() if cache.trouble) or (policy.reason,)

    def _changed(self, changed: Mapping[str, Mapping[str, Any] | Unreadable | None]) -> None:
        for name, found in changed.items():
            if name != NAME and found is not None:
                self._log(
                    "policy_ignored",
                    name=name,
                    fix=f"Only the GpuPolicy named {NAME} is in force; name it so.",
                )
        taken = self._watched.take(changed)
        if taken is not None:
            self._taken(taken)
            self._note()

    def _note(self) -> None:
        if not isinstance(self.policy, Unreadable):
            self.known.set()


def space(obj: dict[str, Any]) -> Space:
    """Return what is kept of a Namespace as the API server sends it."""
    metadata = obj["metadata"]
    labels = {NAME_LABEL: metadata["name"], **(metadata.get("labels") or {})}
    return Space(msgspec.convert(labels, dict[str, str]), bool(metadata.get("deletionTimestamp")))


def _policy_object(obj: dict[str, Any]) -> Mapping[str, Any]:
    """Return a GpuPolicy without what changes while the policy stays the same."""
    metadata = {key: value for key, value in obj["metadata"].items() if key in {"name", "uid"}}
    rest = {key: value for key, value in obj.items() if key not in {"metadata", "status"}}
    # The items of a list may leave out kind and apiVersion, because the list has them.
    return {"apiVersion": API_VERSION, "kind": KIND, **rest, "metadata": metadata}
