"""What every decision test needs: a policy from a few lines of spec, and a pod judged in one call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest

from policy.decide import judge_final, mutate
from policy.load import load_policy
from policy.model import Context, Decision, Policy
from policy.pod import PodView, ephemeral_view, pod_view
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
VISION = {"name": "vision", "namespaces": ["vision", "vision-*"]}


class Judge:
    """One pod in, one decision out; `final` judges it after its own patch, as /validate does."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def context(
        self, namespace: str, user: str, groups: tuple[str, ...], labels: dict[str, str] | None
    ) -> Context:
        known = labels if labels is not None else Unreadable("the test gave none")
        return Context(namespace, NOW, known, user, groups)

    def __call__(
        self,
        pod: dict[str, Any] | PodView,
        *,
        namespace: str = "vision",
        user: str = "alice",
        groups: tuple[str, ...] = (),
        labels: dict[str, str] | None = None,
    ) -> Decision:
        view = pod if isinstance(pod, PodView) else pod_view(pod)
        return mutate(view, self.policy, self.context(namespace, user, groups, labels))

    def final(self, pod: dict[str, Any], *, namespace: str = "vision", user: str = "alice") -> Decision:
        return judge_final(pod_view(pod), self.policy, self.context(namespace, user, (), None))

    def patched(self, pod: dict[str, Any], **where: Any) -> dict[str, Any]:
        decision = self(pod, **where)
        assert decision.allowed, decision.message
        patched: dict[str, Any] = jsonpatch.apply_patch(pod, list(decision.patch))
        return patched


def policy_from(**spec: Any) -> Policy:
    document = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": {"teams": [VISION], **spec},
    }
    return load_policy(document).policy


@pytest.fixture(scope="session")
def judge_with() -> Callable[..., Judge]:
    """Make a judge from the fields of a spec."""
    return lambda **spec: Judge(policy_from(**spec))


@pytest.fixture(scope="session")
def judge() -> Judge:
    """Judge by the baseline policy with one team, vision."""
    return Judge(policy_from())


@pytest.fixture(scope="session")
def strict() -> Judge:
    """Judge by the restricted profile."""
    return Judge(policy_from(profile="restricted"))


@pytest.fixture(scope="session")
def pod_with() -> Callable[..., dict[str, Any]]:
    """Make a pod from the fields of its only container, and `spec`, `metadata` of the pod."""

    def make(*, gpus: Any = None, spec: Any = None, metadata: Any = None, **container: Any) -> dict[str, Any]:
        if gpus is not None:
            container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
        main = {"name": "main", "image": "registry.example/cuda-app:1", **container}
        return {"metadata": {"name": "p", **(metadata or {})}, "spec": {"containers": [main], **(spec or {})}}

    return make


@pytest.fixture(scope="session")
def rules() -> Callable[..., set[str]]:
    """Return the ids of the rules that hit, optionally only those with one action."""

    def ids(decision: Decision, action: str | None = None) -> set[str]:
        return {judged.hit.rule for judged in decision.hits if action in (None, judged.action)}

    return ids


@pytest.fixture(scope="session")
def debug_view() -> Callable[..., PodView]:
    """View an ephemeral container added to a pod, in the form since 1.22."""

    def make(container: dict[str, Any], spec: dict[str, Any] | None = None) -> PodView:
        base = {"containers": [{"name": "main", "image": "i"}], **(spec or {})}
        old = {"metadata": {"name": "p"}, "spec": base}
        new = {"metadata": {"name": "p"}, "spec": {**base, "ephemeralContainers": [container]}}
        return ephemeral_view(new, old)

    return make
