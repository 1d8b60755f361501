"""Which requests reach gpufence, and what happens when nobody answers: the two webhook configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from policy.default import EXEMPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    Object = dict[str, Any]
    One = Callable[..., Object]

# Fields with a default in admissionregistration.k8s.io/v1 (k8s.io/kubernetes pkg/apis/admissionregistration/v1
# defaults.go), and those that have to be written anyway.
WRITTEN = {
    "admissionReviewVersions",
    "clientConfig",
    "failurePolicy",
    "matchPolicy",
    "name",
    "namespaceSelector",
    "objectSelector",
    "rules",
    "sideEffects",
    "timeoutSeconds",
}
WRITTEN_IN_RULES = {"apiGroups", "apiVersions", "operations", "resources", "scope"}
WRITTEN_IN_SERVICE = {"name", "namespace", "path", "port"}

NAME_LABEL = "kubernetes.io/metadata.name"
# Judged all the same: their accounts are exempt, and neither node nor GPU needs them to come up.
JUDGED = {"dcgm-exporter", "kai-resource-reservation", "kai-scale-adjust", "kai-scheduler"}

CREATE = (("CREATE",), ("pods",))
DEBUG = (("UPDATE",), ("pods/ephemeralcontainers",))
UPDATE = (("UPDATE",), ("pods",))
BOTH = ("CREATE", "UPDATE")


def _rules(hook: Object) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(tuple(rule["operations"]), tuple(rule["resources"])) for rule in hook["rules"]]


def _expressions(hook: Object) -> dict[str, Object]:
    return {each["key"]: each for each in hook["namespaceSelector"].get("matchExpressions", [])}


def test_every_field_with_a_default_is_written_out(one: One, hooks: dict[str, Object]) -> None:
    for hook in hooks.values():
        mutating = {"reinvocationPolicy"} if ".mutate." in hook["name"] else set()
        assert set(hook) == WRITTEN | mutating, hook["name"]
        assert set(hook["clientConfig"]) == {"service"}
        assert set(hook["clientConfig"]["service"]) == WRITTEN_IN_SERVICE
        assert [set(rule) for rule in hook["rules"]] == [WRITTEN_IN_RULES] * len(hook["rules"])
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert set(one(kind)) == {"apiVersion", "kind", "metadata", "webhooks"}


def test_every_entry_is_quick_free_of_side_effects_and_follows_equivalents(hooks: dict[str, Object]) -> None:
    for hook in hooks.values():
        assert hook["timeoutSeconds"] == 3
        assert hook["sideEffects"] == "None"
        assert hook["matchPolicy"] == "Equivalent"
        assert hook["admissionReviewVersions"] == ["v1"]
        assert hook.get("reinvocationPolicy", "IfNeeded") == "IfNeeded"


@pytest.mark.parametrize(
    ("name", "rules", "failure"),
    [
        ("gpu.mutate.gpufence.io", [CREATE, DEBUG], "Fail"),
        ("void.mutate.gpufence.io", [CREATE, DEBUG], "Ignore"),
        ("gpu.validate.gpufence.io", [CREATE, DEBUG], "Fail"),
        ("void.validate.gpufence.io", [CREATE, DEBUG], "Ignore"),
        ("update.validate.gpufence.io", [UPDATE], "Ignore"),
        ("policy.validate.gpufence.io", [((*BOTH, "DELETE"), ("gpupolicies",))], "Ignore"),
        (
            "template.validate.gpufence.io",
            [(BOTH, ("daemonsets", "deployments", "statefulsets")), (BOTH, ("cronjobs", "jobs"))],
            "Ignore",
        ),
    ],
)
def test_what_each_entry_asks_about_and_what_an_outage_means(
    hooks: dict[str, Object], name: str, rules: list[Any], failure: str
) -> None:
    assert _rules(hooks[name]) == rules
    assert hooks[name]["failurePolicy"] == failure


def test_there_are_no_other_entries(hooks: dict[str, Object]) -> None:
    assert len(hooks) == 7


def test_pods_are_mutated_when_created_only(hooks: dict[str, Object]) -> None:
    """C09: a patch of an update would be refused, and the pod could never lose its finalizers."""
    mutating = [rule for name, hook in hooks.items() if ".mutate." in name for rule in _rules(hook)]
    assert UPDATE not in mutating
    assert {operation for operations, resources in mutating for operation in operations} == {
        "CREATE",
        "UPDATE",
    }


def test_no_update_of_a_pod_waits_for_us(hooks: dict[str, Object]) -> None:
    """C09: a Job completes when a controller removes finalizers, which is an update of the pod."""
    failing = [rule for hook in hooks.values() if hook["failurePolicy"] == "Fail" for rule in _rules(hook)]
    assert UPDATE not in failing


def test_nothing_that_the_creator_of_an_object_chooses_leaves_it_out(hooks: dict[str, Object]) -> None:
    """C55: objectSelector matches labels that tenants set."""
    for hook in hooks.values():
        assert hook["objectSelector"] == {}
        assert set(hook["namespaceSelector"]) <= {"matchExpressions"}
        assert set(_expressions(hook)) <= {NAME_LABEL, "gpufence.io/gpu"}


def test_namespaces_are_left_out_by_the_label_that_nobody_can_set(hooks: dict[str, Object]) -> None:
    """C03. The policy entry is about objects without a namespace."""
    lists = [_expressions(hook)[NAME_LABEL] for name, hook in hooks.items() if not name.startswith("policy.")]
    assert lists == [lists[0]] * 6
    assert lists[0]["operator"] == "NotIn"
    exempt = {name for each in EXEMPTIONS for name in each["namespaces"]}
    assert set(lists[0]["values"]) == exempt - JUDGED


def test_gpu_and_void_share_every_other_namespace_between_them(hooks: dict[str, Object]) -> None:
    for phase in ("mutate", "validate"):
        gpu = _expressions(hooks[f"gpu.{phase}.gpufence.io"])["gpufence.io/gpu"]
        void = _expressions(hooks[f"void.{phase}.gpufence.io"])["gpufence.io/gpu"]
        assert (gpu["operator"], void["operator"]) == ("In", "NotIn")
        assert gpu["values"] == void["values"] == ["true"]


def test_with_match_conditions_the_label_of_the_namespace_counts_no_more(
    overlay: list[Object], one: One
) -> None:
    for kind, phase in (
        ("MutatingWebhookConfiguration", "mutate"),
        ("ValidatingWebhookConfiguration", "validate"),
    ):
        hooks = {hook["name"]: hook for hook in one(kind, overlay)["webhooks"]}
        gpu, void = hooks.pop(f"gpu.{phase}.gpufence.io"), hooks.pop(f"void.{phase}.gpufence.io")
        assert gpu["namespaceSelector"] == void["namespaceSelector"]
        assert set(_expressions(gpu)) == {NAME_LABEL}
        (relevant,), (other,) = gpu["matchConditions"], void["matchConditions"]
        assert other["expression"] == f"!( {relevant['expression']} )"
        assert (relevant["name"], other["name"]) == ("gpu-relevant", "not-gpu-relevant")
        assert (gpu["failurePolicy"], void["failurePolicy"]) == ("Fail", "Ignore")
        assert not [hook for hook in hooks.values() if "matchConditions" in hook]
