"""What is right by the schema and probably not what its author meant: warnings about a valid GpuPolicy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from policy import default
from policy.catalogue import RULES
from policy.complaints import as_found
from policy.problems import Problem
from policy.selectors import Patterns

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from policy.schema import Document, ExceptionSpec, LabelSelector, RuleSpec, TeamSpec

_STARS = re.compile(r"[*]+")
# With more claims of teams than these, patterns are not compared with each other: that takes quadratic time.
_MOST_COMPARED = 1000
# Groups of the API server that hold everybody, or every controller's service account.
_EVERYBODY = frozenset({"system:authenticated", "system:unauthenticated", "system:serviceaccounts"})


def doubts(document: Document) -> tuple[Problem, ...]:
    """Return the warnings, in the order of the document."""
    spec = document.spec
    return (
        *_name(document),
        *_rules(spec.rules),
        *_teams(spec.teams),
        *_exceptions(spec.exceptions),
    )


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


class _Claim(msgspec.Struct, frozen=True):
    """One claim of a team. `namespaces` is the pattern of those it is confined to, empty where it names none."""

    kind: str
    what: Hashable
    namespaces: str = ""


_EVERY_POD = (
    _Claim("namespace", "*", "*"),
    _Claim("account", "*/*", "*"),
    _Claim("selector", frozenset()),
)


def _teams(teams: list[TeamSpec]) -> Iterator[Problem]:
    claims = [list(_claims(team)) for team in teams]
    owners = _Owners(sum(map(len, claims)))
    for index, team in enumerate(teams):
        path = f"spec.teams[{index}]"
        yield from _claims_of_everybody(path, team)
        earlier = [owners.of(claim) for claim in claims[index]]
        if not earlier:
            fix = "Add namespaces, namespaceSelector, serviceAccounts, groups or queues."
            yield Problem(path, "claims no pod", as_found(team.name), fix)
        elif None not in earlier and not owners.every_pod:
            message = f"never applies: {_first(earlier)} all that it claims"
            yield Problem(path, message, as_found(team.name), "Move the team to the front, or remove it.")
        for claim in claims[index]:
            owners.add(claim, index)


def _first(owners: list[int | None]) -> str:
    names = [f"spec.teams[{owner}]" for owner in sorted({owner for owner in owners if owner is not None})]
    return f"{' and '.join(names)} " + (
        "come first and claim" if len(names) > 1 else "comes first and claims"
    )


class _Owners:
    """The first team that makes each claim, for teams in the order of the policy."""

    def __init__(self, claims: int) -> None:
        self._exact: dict[_Claim, int] = {}
        self._patterns: list[tuple[_Claim, Patterns, int]] = []
        self.every_pod = (
            False  # one team claims them all; `policy.dangers` then tells of those behind it, once
        )
        self._compare_patterns = claims <= _MOST_COMPARED

    def of(self, claim: _Claim) -> int | None:
        """Return the first team with a claim that holds wherever this one does, None where there is none."""
        wider = (index for earlier, names, index in self._patterns if _covers(earlier, names, claim))
        owners = (self._exact.get(claim), next(wider, None))
        return min((owner for owner in owners if owner is not None), default=None)

    def add(self, claim: _Claim, index: int) -> None:
        """Note a claim of a team."""
        self._exact.setdefault(claim, index)
        self.every_pod = self.every_pod or claim in _EVERY_POD
        if self._compare_patterns and claim.namespaces:
            pattern = str(claim.what) if claim.kind == "account" else claim.namespaces
            self._patterns.append((claim, Patterns([pattern]), index))


def _covers(earlier: _Claim, names: Patterns, later: _Claim) -> bool:
    """Whether the earlier claim holds wherever the later one does.

    The later pattern is matched like a name: only a wildcard of the earlier one can take up its `*`.
    """
    if earlier.kind == "namespace":
        return names.match(later.namespaces) if later.namespaces else False
    if earlier.kind != later.kind:
        return False
    if earlier.kind == "account":
        return names.match(str(later.what))
    return earlier.what == later.what and names.match(later.namespaces)


def _claims_of_everybody(path: str, team: TeamSpec) -> Iterator[Problem]:
    for index, group in enumerate(team.groups):
        if group in _EVERYBODY:
            fix = "Name a group that only the team is in."
            yield Problem(f"{path}.groups[{index}]", "holds people of every team", as_found(group), fix)
    for index, queue in enumerate(team.queues):
        for at, namespaces in enumerate(queue.namespaces):
            if _STARS.fullmatch(namespaces):
                message = "lets every tenant become this team by writing the queue's name on a pod"
                fix = "Name the namespaces that may use the queue."
                yield Problem(f"{path}.queues[{index}].namespaces[{at}]", message, as_found(namespaces), fix)


def _claims(team: TeamSpec) -> Iterator[_Claim]:
    """Yield each claim of a team as a value: equal claims match the same pods."""
    for namespace in team.namespaces:
        pattern = _starred(namespace)
        yield _Claim("namespace", pattern, pattern)
    if team.namespace_selector is not None:
        yield _Claim("selector", _selector(team.namespace_selector))
    for account in team.service_accounts:
        pattern = _starred(account)
        yield _Claim("account", pattern, pattern.partition("/")[0])
    for group in team.groups:
        yield _Claim("group", group)
    for queue in team.queues:
        for namespace in queue.namespaces:
            yield _Claim("queue", queue.queue, _starred(namespace))


def _starred(pattern: str) -> str:
    """Return the pattern with runs of `*` as one, so that equal patterns are equal texts."""
    return _STARS.sub("*", pattern)


def _selector(selector: LabelSelector) -> Hashable:
    labels = {(key, "In", frozenset({value})) for key, value in selector.match_labels.items()}
    rest = {(each.key, each.operator, frozenset(each.values)) for each in selector.match_expressions}
    return frozenset(labels | rest)


def _exceptions(exceptions: list[ExceptionSpec]) -> Iterator[Problem]:
    for index, exception in enumerate(exceptions):
        for at, rule in enumerate(exception.rules):
            if rule in exception.rules[:at]:
                path = f"spec.exceptions[{index}].rules[{at}]"
                yield Problem(path, "is in the list twice", as_found(rule), "Remove one of the two.")
