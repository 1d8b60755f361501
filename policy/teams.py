"""Whose pod it is, and GF301 to GF304.

The first team in the policy that claims the pod owns it. A team claims by namespace (name or label), by service
account, by queue (only in namespaces bound to that queue, because tenants write the queue label), or by a group of the
user (only for pods that people create directly, because a controller hides the person).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.gpu import QUEUE_LABELS, WORKLOAD_LABELS
from policy.labels import is_label_value, short_form
from policy.model import (
    COST_CENTER_LABEL,
    DECISION_ANNOTATION,
    TEAM_LABEL,
    UNASSIGNED,
    WORKLOAD_LABEL,
    MetaEdit,
    RuleHit,
)
from policy.pod import controller_of
from policy.pointer import escape
from policy.text import shown
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.facts import Facts
    from policy.model import Context, Policy, Team
    from policy.pod import PodView


def team_of(pod: PodView, policy: Policy, context: Context) -> Team | None:
    """Return the first team that claims the pod, or None."""
    return next((team for team in policy.teams if _claims(team, pod, context)), None)


def _claims(team: Team, pod: PodView, context: Context) -> bool:
    namespace = context.namespace
    return (
        team.namespaces.match(namespace)
        or (bool(team.selectors) and _selector_claims(team, context))
        or team.service_accounts.match(f"{namespace}/{pod.service_account}")
        or (bool(team.queues) and _queue_claims(team, pod, namespace))
        or (bool(team.groups) and _group_claims(team, pod, context))
    )


def _selector_claims(team: Team, context: Context) -> bool:
    return any(
        selector.match(context.namespace, context.namespace_labels) is True for selector in team.selectors
    )


def _queue_claims(team: Team, pod: PodView, namespace: str) -> bool:
    queues = {pod.labels[label] for label in QUEUE_LABELS if label in pod.labels}
    if len(queues) > 1:
        return False  # which queue system runs the pod is not known here, so a tenant could choose who pays
    return any(binding.queue in queues and binding.namespaces.match(namespace) for binding in team.queues)


def _group_claims(team: Team, pod: PodView, context: Context) -> bool:
    # Controllers act as system: users. An owner reference says nothing: anybody can write one on a pod of his own.
    if pod.templated or context.user.startswith("system:"):
        return False
    return not team.groups.isdisjoint(context.groups)


def unknown_labels_note(policy: Policy, context: Context) -> str:
    """Return which parts of the policy could not be applied because the namespace's labels are unknown, or nothing."""
    labels = context.namespace_labels
    if not isinstance(labels, Unreadable):
        return ""
    selectors = [(f"team {team.name}", selector) for team in policy.teams for selector in team.selectors]
    for rule, settings in policy.rules.items():
        selectors += [
            (f"the mode of {rule}", setting.namespaces) for setting in settings if setting.namespaces
        ]
    unsure = [
        what
        for what, selector in selectors
        if isinstance(selector.match(context.namespace, labels), Unreadable)
    ]
    if not unsure:
        return ""
    parts = ", ".join(dict.fromkeys(unsure))
    return (
        f"the labels of namespace {context.namespace} are unknown ({labels.reason}): not applied are {parts}"
    )


def attribution_hits(facts: Facts, team: Team | None, *, final: bool) -> list[RuleHit]:
    """Return the hits of the attribution rules on a whole pod; `final`: no mutation follows this judgement."""
    pod = facts.pod
    hits: list[RuleHit] = []
    if team is None and facts.requests_gpu:
        case = "request" if facts.requests_device else "claim"
        what = "requests a GPU" if facts.requests_device else "has a resource claim"
        hits.append(
            RuleHit("GF301", case, f"the pod {what}, and no team of the policy claims it", "/metadata")
        )
    hits += _claimed_labels(facts, team)
    if facts.requests_gpu:
        hits += _missing_labels(team, pod) if final else _long_names(team, pod)
    return hits


def _missing_labels(team: Team | None, pod: PodView) -> Iterator[RuleHit]:
    for key, value, _ in _stamped_labels(team):
        if key not in pod.labels:
            message = f"the label {key}={value} is missing from the final pod"
            yield RuleHit("GF302", "missing", message, "/metadata/labels")


def _claimed_labels(facts: Facts, team: Team | None) -> Iterator[RuleHit]:
    pod = facts.pod
    case = "controlled" if pod.controlled else "bare"
    for key, expected, full in _owned_labels(team):
        claimed = pod.labels.get(key)
        if claimed is None or claimed == expected:
            continue
        pointer = "/metadata/labels/" + escape(key)
        edits = (MetaEdit("labels", key, expected),)
        if claimed == full:
            message = f"{key} {shown(full)!r} is no label value; the pod carries {expected}"
            yield RuleHit("GF304", "any", message, pointer, edits=edits)
        else:
            message = f"the pod claims {key}={shown(claimed)}; by the policy it is {expected}"
            yield RuleHit("GF302", case, message, pointer, edits=() if pod.controlled else edits)


def _owned_labels(team: Team | None) -> Iterator[tuple[str, str, str]]:
    """Yield (label, value that it may have, full value) of the labels that say who pays."""
    if team is None:
        yield TEAM_LABEL, UNASSIGNED, UNASSIGNED
        yield COST_CENTER_LABEL, UNASSIGNED, UNASSIGNED
        return
    yield TEAM_LABEL, team.label, team.name
    yield COST_CENTER_LABEL, team.cost_center_label or UNASSIGNED, team.cost_center or UNASSIGNED


def _stamped_labels(team: Team | None) -> Iterator[tuple[str, str, str]]:
    """Yield those that a GPU pod must have: a cost center only where the team has one."""
    for label in _owned_labels(team):
        if label[0] == TEAM_LABEL or label[1] != UNASSIGNED:
            yield label


def _long_names(team: Team | None, pod: PodView) -> Iterator[RuleHit]:
    for key, value, full in _stamped_labels(team):
        if value != full and pod.labels.get(key) is None:
            message = f"{key} {shown(full)!r} is no label value; the pod carries {value}"
            yield RuleHit(
                "GF304",
                "any",
                message,
                "/metadata/labels/" + escape(key),
                edits=(MetaEdit("labels", key, value),),
            )


def stamps(facts: Facts, team: Team | None) -> list[MetaEdit]:
    """Return the labels and annotations that a GPU pod gets. Labels that are there already are judged, not stamped."""
    pod = facts.pod
    if not facts.requests_gpu:
        return []
    edits = []
    for key, value, full in _stamped_labels(team):
        if key not in pod.labels:
            edits.append(MetaEdit("labels", key, value))
        # Also where a tenant wrote it: what it says has to be true wherever it stands.
        if (value != full or key in pod.annotations) and pod.annotations.get(key) != full:
            edits.append(MetaEdit("annotations", key, full))
    workload = workload_of(pod)
    if workload and WORKLOAD_LABEL not in pod.labels:
        edits.append(MetaEdit("labels", WORKLOAD_LABEL, workload))
    return edits


def workload_of(pod: PodView) -> str:
    """Return the name of the workload above the pod as a label value, or nothing for a bare pod.

    Never made from the pod's own name, which is empty at admission for generateName.
    """
    for label in WORKLOAD_LABELS:
        if pod.labels.get(label):
            return _as_label(pod.labels[label])
    owner = controller_of(pod.metadata)
    name = owner.get("name") if owner else None
    if not isinstance(name, str) or not name:
        return ""
    return _as_label(name.removesuffix("-" + pod.labels.get("pod-template-hash", "")))


def _as_label(text: str) -> str:
    return text if is_label_value(text) else short_form(text)


def update_hits(old: PodView, new: PodView, team: Team | None) -> list[RuleHit]:
    """Return GF303 for each label or annotation of ours that an update changes or removes.

    Only a pod that nobody pays for yet may get a label, and only the one of the policy: that is how pods from before
    gpufence are labelled. A change from one team to another is refused even where the policy now gives the other:
    tenants write the queue label, and could first change that one.
    """
    expected = {key: value for key, value, _ in _owned_labels(team)}
    hits: list[RuleHit] = []
    for key in (TEAM_LABEL, COST_CENTER_LABEL):
        before, after = old.labels.get(key), new.labels.get(key)
        if before in {None, UNASSIGNED} and after is not None and after == expected[key]:
            continue
        hits += _changed("labels", key, before, after)
    for key in (TEAM_LABEL, COST_CENTER_LABEL, DECISION_ANNOTATION):
        hits += _changed("annotations", key, old.annotations.get(key), new.annotations.get(key))
    return hits


def _changed(field: str, key: str, before: str | None, after: str | None) -> Iterator[RuleHit]:
    if before != after:
        had = f"the pod has no {key}" if before is None else f"the pod has {key}={shown(before)}"
        change = "removes it" if after is None else f"sets {shown(after)}"
        yield RuleHit("GF303", "any", f"{had}; the update {change}", f"/metadata/{field}/{escape(key)}")
