"""What a valid GpuPolicy must not be, and what it should not: values that quietly switch gpufence off or break jobs.

Found by asking the compiled policy about things that everybody means, not by reading the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy import default, gpu
from policy.catalogue import RULES
from policy.complaints import as_found
from policy.facts import resource_group
from policy.paths import touches, within
from policy.problems import Problem
from policy.visibility import is_device_annotation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.model import Policy
    from policy.schema import ExceptionSpec, ExemptionSpec, RuleSpec, Spec, TeamSpec

# Set to `void` in every container without a request, these break programs that have nothing to do with GPUs.
_NOT_FOR_VOID = frozenset(
    {"PATH", "HOME", "SHELL", "USER", "HOSTNAME", "TMPDIR", "PYTHONPATH", "CUDA_VISIBLE_DEVICES"}
)
_COMMON_GPU = "nvidia.com/gpu"
_NO_GPU = "example.com/widget"


def refusals(spec: Spec) -> tuple[Problem, ...]:
    """Return what a policy must not say."""
    found = []
    for index, path in enumerate(spec.gpu.audited_paths):
        covered = [guarded for guarded in spec.gpu.guarded_paths if within(guarded, path)]
        if covered:
            message = f"would only record a hostPath to {covered[0]}, which is guarded"
            fix = "Name a path below the guarded one, or take that one out of guardedPaths."
            found.append(Problem(f"spec.gpu.auditedPaths[{index}]", message, as_found(path), fix))
    for index, name in enumerate(spec.gpu.visibility_variables):
        if name in _NOT_FOR_VOID or name.startswith("LD_"):
            message = "would be set to `void` in every container without a GPU request"
            fix = "Name only variables in the toolkit's swarm-resource option."
            found.append(Problem(f"spec.gpu.visibilityVariables[{index}]", message, as_found(name), fix))
    return tuple(found)


def dangers(spec: Spec, policy: Policy) -> tuple[Problem, ...]:
    """Return warnings about what a policy can say and its author probably does not mean."""
    return (
        *_resources(policy),
        *_host(policy),
        *_rules(spec.rules),
        *_teams(spec.teams),
        *_exemptions(spec.exemptions),
        *_exceptions(spec.exceptions),
    )


def _resources(policy: Policy) -> Iterator[Problem]:
    group = resource_group(_COMMON_GPU, policy)
    if group is None or group.vendor != "nvidia":
        message = f"{_COMMON_GPU} is no NVIDIA device by this policy: containers that request it get `void`, and no GPU"
        fix = "Add it to the devices of vendor nvidia, or take it out of notGpu."
        yield Problem("spec.gpu", message, fix=fix)
    if resource_group(_NO_GPU, policy) is not None:
        message = (
            "every extended resource counts as a GPU: a container that asks for a network card sees all GPUs"
        )
        yield Problem(
            "spec.gpu.resources", message, fix="Name the domains of GPU resources, such as nvidia.com/*."
        )


def _host(policy: Policy) -> Iterator[Problem]:
    open_paths = [
        path for path in gpu.GUARDED_PATHS if not any(touches(path, own) for own in policy.guarded_paths)
    ]
    if open_paths:
        message = f"leaves out {len(open_paths)} of the built-in paths: {', '.join(open_paths[:3])}"
        yield Problem(
            "spec.gpu.guardedPaths",
            message,
            fix="A list replaces the built-in one: repeat what it should keep.",
        )
    unread = [entry for entry in gpu.DEVICE_ANNOTATIONS if not is_device_annotation(_key(entry), policy)]
    if unread:
        message = f"lets pods ask for devices by {', '.join(_key(entry) for entry in unread[:3])}"
        fix = "A list replaces the built-in one: repeat what it should keep, with its `/` or `.` at the end."
        yield Problem("spec.gpu.deviceAnnotations", message, fix=fix)


def _key(entry: str) -> str:
    return entry + "x" if entry[-1] in "/." else entry


def _rules(rules: list[RuleSpec]) -> Iterator[Problem]:
    for index, rule in enumerate(rules):
        everywhere = rule.namespaces is None and rule.namespace_selector is None and rule.case is None
        grave = RULES[rule.rule].severity in {"critical", "high"}
        if rule.mode == "off" and everywhere and grave:
            message = f"{rule.rule} is off everywhere, and leaves no record ({RULES[rule.rule].title})"
            yield Problem(f"spec.rules[{index}]", message, fix="Use `audit`, or name the namespaces.")


def _teams(teams: list[TeamSpec]) -> Iterator[Problem]:
    for index, team in enumerate(teams[:-1]):
        if _claims_all(team):
            message = "claims every pod: no team behind it owns one"
            yield Problem(
                f"spec.teams[{index}]", message, as_found(team.name), "Move the team to the end of the list."
            )
            return


def _claims_all(team: TeamSpec) -> bool:
    selector = team.namespace_selector
    empty = selector is not None and not selector.match_labels and not selector.match_expressions
    return "*" in team.namespaces or empty or not {"*", "*/*"}.isdisjoint(team.service_accounts)


def _exemptions(exemptions: list[ExemptionSpec]) -> Iterator[Problem]:
    shipped = [(row["namespaces"], row["serviceAccounts"]) for row in default.EXEMPTIONS]
    for index, exemption in enumerate(exemptions):
        wide = {"default", "*"}.intersection(exemption.service_accounts)
        if wide and (exemption.namespaces, exemption.service_accounts) not in shipped:
            message = "exempts pods that nobody gave an account of their own"
            fix = "Name the service account of the component, and give it one if it has none."
            yield Problem(f"spec.exemptions[{index}].serviceAccounts", message, as_found(min(wide)), fix)


def _exceptions(exceptions: list[ExceptionSpec]) -> Iterator[Problem]:
    for index, exception in enumerate(exceptions):
        if "*" in exception.namespaces:
            message = "excepts every namespace"
            fix = "Name the namespaces, or set the mode of the rule."
            yield Problem(f"spec.exceptions[{index}].namespaces", message, as_found("*"), fix)
