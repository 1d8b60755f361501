"""What is right by the schema and probably not what its author meant: warnings about a valid GpuPolicy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policy import default
from policy.catalogue import RULES
from policy.complaints import as_found
from policy.labels import as_label, is_label_value
from policy.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from policy.schema import Document, LabelSelector, RuleSpec, TeamSpec

_ONLY_STARS = re.compile(r"[*]+")
# Groups of the API server that hold everybody, or every controller's service account.
_EVERYBODY = frozenset({"system:authenticated", "system:unauthenticated", "system:serviceaccounts"})


def doubts(document: Document) -> tuple[Problem, ...]:
    """Return the warnings, in the order of the document."""
    return (*_name(document), *_rules(document.spec.rules), *_teams(document.spec.teams))


def _name(document: Document) -> Iterator[Problem]:
    name = document.metadata.name
    if name != default.NAME:
        fix = f"Name it {default.NAME} to put it in force."
        yield Problem(
            "metadata.name", f"only the GpuPolicy named {default.NAME} is in force", as_found(name), fix
        )


def _rules(rules: list[RuleSpec]) -> Iterator[Problem]:
    for index, rule in enumerate(rules):
        for earlier in range(index):
            if _hides(rules[earlier], rule):
                message = f"never applies: spec.rules[{earlier}] comes first and covers it"
                yield Problem(
                    f"spec.rules[{index}]",
                    message,
                    rule.rule,
                    "Move the narrower entry to the front, or remove it.",
                )
                break


def _hides(earlier: RuleSpec, later: RuleSpec) -> bool:
    everywhere = earlier.namespaces is None and earlier.namespace_selector is None
    same_place = (earlier.namespaces, earlier.namespace_selector) == (
        later.namespaces,
        later.namespace_selector,
    )
    if earlier.rule != later.rule or not (everywhere or same_place):
        return False
    if earlier.case is not None:
        return earlier.case == later.case
    # A mode that a case does not support passes that case by, and a later entry can still set it.
    concerned = [case for case in RULES[later.rule].cases if later.case in {None, case.name}]
    return all(earlier.mode in case.modes for case in concerned)


def _teams(teams: list[TeamSpec]) -> Iterator[Problem]:
    owners: dict[Hashable, int] = {}
    for index, team in enumerate(teams):
        path = f"spec.teams[{index}]"
        yield from _labels(path, team)
        yield from _claims_of_everybody(path, team)
        claims = list(_claims(team))
        if not claims:
            fix = "Add namespaces, namespaceSelector, serviceAccounts, groups or queues."
            yield Problem(path, "claims no pod", as_found(team.name), fix)
        elif all(claim in owners for claim in claims):
            first = sorted({owners[claim] for claim in claims})
            earlier = " and ".join(f"spec.teams[{number}]" for number in first)
            message = f"can own no pod: {earlier} comes first and claims all that it claims"
            yield Problem(path, message, as_found(team.name), "Remove the team, or move it to the front.")
        for claim in claims:
            owners.setdefault(claim, index)


def _labels(path: str, team: TeamSpec) -> Iterator[Problem]:
    for field, text in (("name", team.name), ("costCenter", team.cost_center)):
        if text is not None and not is_label_value(text):
            message = (
                f"cannot be a label value: pods carry {as_label(text)}, and the full text as an annotation"
            )
            fix = "Nothing has to be done. A label value has at most 63 letters, digits, '-', '_' and '.'."
            yield Problem(f"{path}.{field}", message, as_found(text), fix)


def _claims_of_everybody(path: str, team: TeamSpec) -> Iterator[Problem]:
    for index, group in enumerate(team.groups):
        if group in _EVERYBODY:
            fix = "Name a group that only the team is in."
            yield Problem(f"{path}.groups[{index}]", "holds people of every team", as_found(group), fix)
    for index, queue in enumerate(team.queues):
        for at, namespaces in enumerate(queue.namespaces):
            if _ONLY_STARS.fullmatch(namespaces):
                message = "lets every tenant become this team by writing the queue's name on a pod"
                fix = "Name the namespaces that may use the queue."
                yield Problem(f"{path}.queues[{index}].namespaces[{at}]", message, as_found(namespaces), fix)


def _claims(team: TeamSpec) -> Iterator[Hashable]:
    """Yield each claim of a team as a value: equal claims match the same pods."""
    for namespace in team.namespaces:
        yield "namespace", namespace
    if team.namespace_selector is not None:
        yield "selector", _selector(team.namespace_selector)
    for account in team.service_accounts:
        yield "account", account
    for group in team.groups:
        yield "group", group
    for queue in team.queues:
        for namespace in queue.namespaces:
            yield "queue", queue.queue, namespace


def _selector(selector: LabelSelector) -> Hashable:
    labels = {(key, "In", frozenset({value})) for key, value in selector.match_labels.items()}
    rest = {(each.key, each.operator, frozenset(each.values)) for each in selector.match_expressions}
    return frozenset(labels | rest)
