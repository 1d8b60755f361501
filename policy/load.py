"""From a GpuPolicy as it was read to a Policy in force, or to every problem that it has."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from pydantic import ValidationError

from policy import default, gpu
from policy.complaints import complain, repeated_names, without
from policy.dangers import dangers, refusals
from policy.doubts import doubts
from policy.errors import PolicyError
from policy.labels import as_label
from policy.model import Exemption, Policy, QueueBinding, ResourceGroup, RuleException, RuleSetting, Team
from policy.schema import Document, ExemptionSpec
from policy.selectors import NamespaceSelector, Patterns, Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pydantic import BaseModel

    from policy.problems import Problem
    from policy.schema import ExceptionSpec, LabelSelector, RuleSpec, Spec, TeamSpec

_DIGITS_OF_VERSION = 12


class Loaded(msgspec.Struct, frozen=True):
    """A policy that can be in force, and what its author should look at again."""

    policy: Policy
    warnings: tuple[Problem, ...] = ()


def load_policy(document: object, *, unknown_fields: Literal["refuse", "warn"] = "refuse") -> Loaded:
    """Compile a document as a YAML or JSON reader returned it.

    Raises PolicyError with every problem. Unknown fields are a problem in files and at apply. A running
    cluster warns and leaves them out: an object written for a later version must not stop this one.
    """
    read, unknown = _read(document, tolerant=unknown_fields == "warn")
    policy = _compile(read.spec)
    return Loaded(policy, (*unknown, *doubts(read), *dangers(read.spec, policy)))


def effective(document: object) -> dict[str, Any]:
    """Return the whole document with every default written out. It loads again, and as the same version.

    Raises PolicyError with every problem.
    """
    read, _ = _read(document, tolerant=False)
    return {
        "apiVersion": default.API_VERSION,
        "kind": default.KIND,
        "metadata": {"name": read.metadata.name},
        "spec": _written_out(read.spec),
    }


def expired(policy: Policy, now: datetime) -> tuple[RuleException, ...]:
    """Return the exceptions that no longer apply at this time."""
    return tuple(exception for exception in policy.exceptions if exception.expires <= now)


def _read(document: object, *, tolerant: bool) -> tuple[Document, tuple[Problem, ...]]:
    """Return the document by the schema, and warnings about unknown fields where they are tolerated."""
    repeated = repeated_names(document)
    try:
        read = Document.model_validate(document)
    except ValidationError as error:
        complaints = complain(error)
        problems = tuple(complaint.problem for complaint in complaints)
        if tolerant and not repeated and all(complaint.unknown_field for complaint in complaints):
            known = without(document, [complaint.loc for complaint in complaints])
            return _read(known, tolerant=False)[0], problems
        raise PolicyError((*problems, *repeated)) from None
    if refused := (*repeated, *refusals(read.spec)):
        raise PolicyError(refused)
    return read, ()


def _exemptions(spec: Spec) -> tuple[ExemptionSpec, ...]:
    """Return the shipped exemptions, then the policy's own; one that is written out again counts once."""
    shipped = tuple(ExemptionSpec.model_validate(row) for row in default.EXEMPTIONS)
    return (*shipped, *(own for own in spec.exemptions if own not in shipped))


def _written_out(spec: Spec) -> dict[str, Any]:
    """Return the spec with its defaults as plain data; list entries omit what has its default."""
    plain = spec.model_dump(by_alias=True, mode="json", include={"profile", "enforcement", "gpu"})
    for group in plain["gpu"]["resources"]:
        if not group["attributes"]:
            del group["attributes"]
    return {
        **plain,
        "rules": _rows(spec.rules),
        "teams": _rows(spec.teams),
        "exemptions": _rows(_exemptions(spec)),
        "exceptions": _rows(spec.exceptions),
    }


def _rows(entries: Iterable[BaseModel]) -> list[dict[str, Any]]:
    return [entry.model_dump(by_alias=True, mode="json", exclude_defaults=True) for entry in entries]


def _version(spec: Spec) -> str:
    canonical = json.dumps(_written_out(spec), sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()[:_DIGITS_OF_VERSION]


def _compile(spec: Spec) -> Policy:
    return Policy(
        version=_version(spec),
        profile=spec.profile,
        enforce=spec.enforcement == "enforce",
        resources=tuple(
            ResourceGroup(group.vendor, Patterns(group.devices), Patterns(group.attributes))
            for group in spec.gpu.resources
        ),
        not_gpu=Patterns(name.lower() for name in spec.gpu.not_gpu),
        visibility=(gpu.VISIBLE_DEVICES, *spec.gpu.visibility_variables),
        device_classes=frozenset(spec.gpu.device_classes),
        device_annotations=tuple(spec.gpu.device_annotations),
        runtime_classes=frozenset(spec.gpu.runtime_classes),
        driver_capabilities=frozenset(spec.gpu.driver_capabilities),
        sharing_providers=frozenset(spec.gpu.sharing_providers),
        guarded_paths=tuple(spec.gpu.guarded_paths),
        audited_paths=tuple(spec.gpu.audited_paths),
        rules=_settings(spec.rules),
        teams=tuple(map(_team, spec.teams)),
        exemptions=tuple(
            Exemption(Patterns(each.namespaces), Patterns(each.service_accounts), each.reason)
            for each in _exemptions(spec)
        ),
        exceptions=tuple(map(_exception, spec.exceptions)),
    )


def _settings(rules: list[RuleSpec]) -> dict[str, tuple[RuleSetting, ...]]:
    settings: dict[str, tuple[RuleSetting, ...]] = {}
    for rule in rules:
        setting = RuleSetting(rule.mode, rule.case, _selection(rule.namespaces, rule.namespace_selector))
        settings[rule.rule] = (*settings.get(rule.rule, ()), setting)
    return settings


def _team(team: TeamSpec) -> Team:
    selector = _selection(None, team.namespace_selector)
    return Team(
        name=team.name,
        label=as_label(team.name),
        namespaces=Patterns(team.namespaces),
        selectors=() if selector is None else (selector,),
        service_accounts=Patterns(team.service_accounts),
        groups=frozenset(team.groups),
        queues=tuple(QueueBinding(queue.queue, Patterns(queue.namespaces)) for queue in team.queues),
        max_per_pod=tuple((name, Patterns((name,)), most) for name, most in team.max_per_pod.items()),
        resources=None if team.resources is None else Patterns(team.resources),
        cost_center=team.cost_center or "",
        cost_center_label=as_label(team.cost_center or ""),
    )


def _exception(exception: ExceptionSpec) -> RuleException:
    accounts = exception.service_accounts
    return RuleException(
        name=exception.name,
        rules=frozenset(exception.rules),
        namespaces=Patterns(exception.namespaces),
        service_accounts=None if accounts is None else Patterns(accounts),
        reason=exception.reason,
        owner=exception.owner,
        expires=exception.expires,
    )


def _selection(names: list[str] | None, labels: LabelSelector | None) -> NamespaceSelector | None:
    """Return the selector of both, None where neither was written."""
    if names is None and labels is None:
        return None
    return NamespaceSelector(
        None if names is None else Patterns(names), () if labels is None else _requirements(labels)
    )


def _requirements(selector: LabelSelector) -> tuple[Requirement, ...]:
    exact = (Requirement(key, "In", frozenset({value})) for key, value in selector.match_labels.items())
    others = (
        Requirement(each.key, each.operator, frozenset(each.values)) for each in selector.match_expressions
    )
    return (*exact, *others)
