"""From a pod to a decision. The only place that knows modes, exemptions and exceptions."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from policy.catalogue import RULES
from policy.exposure import exposure_hits
from policy.facts import facts_of
from policy.model import (
    COST_CENTER_LABEL,
    DECISION_ANNOTATION,
    TEAM_LABEL,
    WORKLOAD_LABEL,
    Decision,
    EnvEdit,
    JudgedHit,
    MetaEdit,
)
from policy.patch import to_json_patch
from policy.requests import request_hits
from policy.teams import attribution_hits, stamps, team_of, unknown_labels_note, update_hits
from policy.unreadable import Unreadable
from policy.visibility import annotation_hits, visibility_hits
from policy.wording import AUDIT_MODE, UNFIXED, denial, warning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.catalogue import Rule
    from policy.facts import Facts
    from policy.model import Action, Context, Edit, Mode, Policy, RuleException, RuleHit, Team
    from policy.pod import PodView

_OWNED_LABELS = (TEAM_LABEL, COST_CENTER_LABEL, WORKLOAD_LABEL)
_ACTIONS: dict[Mode, Action] = {"fix": "fixed", "deny": "denied", "warn": "warned", "audit": "audited"}


def mutate(pod: PodView, policy: Policy, context: Context) -> Decision:
    """Judge a pod that is being created (or its new debug containers) and work out the patch that makes it safe."""
    facts, team, hits = _collect(pod, policy, context, final=False)
    decision = _decide(pod, policy, context, team, hits, can_fix=True)
    if not decision.allowed or decision.exempt or not policy.enforce:
        return decision
    edits = [edit for judged in decision.hits if judged.action == "fixed" for edit in judged.hit.edits]
    if pod.whole:
        edits += stamps(facts, team)
    digest = decision_digest(pod, policy, edits)
    if pod.whole:
        edits.append(MetaEdit("annotations", DECISION_ANNOTATION, digest))
    patch = to_json_patch(pod, edits)
    return replace(decision, edits=tuple(edits), patch=patch, digest=digest)


def judge_final(pod: PodView, policy: Policy, context: Context) -> Decision:
    """Judge a pod after all mutation. What should have been fixed and is not (a later webhook undid it) is refused."""
    _, team, hits = _collect(pod, policy, context, final=True)
    decision = _decide(pod, policy, context, team, hits, can_fix=False)
    return replace(decision, digest=decision_digest(pod, policy, ()))


def judge_update(old: PodView, new: PodView, policy: Policy, context: Context) -> Decision:
    """Judge an update of a pod: only what changed, and of that who pays, and annotations that ask for devices.

    Judging the spec, which cannot change, would freeze old pods: even their finalizers could not be removed. An
    annotation can change, and is read when the sandbox is made: a pod behind a scheduling gate waits for that.
    """
    # By the old labels, and without the groups, which are those of whoever updates: neither may choose the team.
    team = team_of(old, policy, replace(context, groups=()))
    hits = [*annotation_hits(new, policy, before=old), *update_hits(old, new, team)]
    return _decide(new, policy, context, team, hits, can_fix=False)


def decision_digest(pod: PodView, policy: Policy, edits: Iterable[Edit]) -> str:
    """Return `<policy version>.<16 hex digits>` over the fields that gpufence owns, as they are after the edits.

    /mutate stamps it and /validate works it out again from the final pod: equal digests say that no one touched an
    owned field in between.
    """
    env: dict[tuple[str, str], str | None] = {}
    labels = pod.labels
    for edit in edits:
        if isinstance(edit, EnvEdit):
            env[edit.container, edit.name] = edit.value
        elif edit.field == "labels":
            labels = {**labels, edit.key: edit.value}
    owned = [policy.version]
    for view in pod.containers:
        owned.append(view.name)
        for variable in policy.visibility:
            if (edited := env.get((view.pointer, variable), ...)) is not ...:
                owned.append(edited or "")
            elif variable in view.env_names:
                owned += [
                    str(entry.get("value", "<from>")) for entry in view.env if entry["name"] == variable
                ]
            else:
                owned.append("")
    if pod.whole:
        owned += [f"{key}={labels.get(key)}" for key in _OWNED_LABELS]
    # Eight bytes join records of one cluster; they are no proof against forgery, the audit log is.
    digest = hashlib.blake2b("\0".join(owned).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{policy.version}.{digest}"


def _collect(
    pod: PodView, policy: Policy, context: Context, *, final: bool
) -> tuple[Facts, Team | None, list[RuleHit]]:
    facts = facts_of(pod, policy)
    hits = visibility_hits(facts, policy)
    hits += exposure_hits(facts, policy)
    if not pod.whole:
        return facts, None, hits
    team = team_of(pod, policy, context)
    hits += attribution_hits(facts, team, final=final and policy.enforce)
    hits += request_hits(facts, team)
    return facts, team, hits


def _decide(
    pod: PodView, policy: Policy, context: Context, team: Team | None, hits: list[RuleHit], *, can_fix: bool
) -> Decision:
    exempt = _exemption(pod, policy, context)
    results = []
    for hit in hits:
        mode = mode_of(hit, policy, context)
        if mode != "off":
            spared = f"exempt: {exempt}" if exempt else _spared(hit, pod, policy, context)
            results.append(_judge(hit, mode, spared, can_fix=can_fix))
    denied = [result for result in results if result.action == "denied"]
    if denied:
        results = [_unfixed(result) for result in results]
    return Decision(
        verdict="deny" if denied else "allow",
        policy_version=policy.version,
        hits=tuple(results),
        warnings=tuple([text for result in results if (text := warning(result))]),
        message=denial(denied) if denied else "",
        team=team.name if team else None,
        exempt=exempt,
        notes=_notes(policy, context),
    )


def _judge(hit: RuleHit, mode: Mode, spared: str, *, can_fix: bool) -> JudgedHit:
    if spared:
        return JudgedHit(hit, mode, "audited", spared)
    if mode == "fix" and not can_fix:
        return JudgedHit(hit, mode, "denied", "/mutate fixes it, and it is not fixed in the final pod")
    return JudgedHit(hit, mode, _ACTIONS[mode])


def _spared(hit: RuleHit, pod: PodView, policy: Policy, context: Context) -> str:
    """Return why the hit has no consequence, or nothing."""
    exception = _exception(hit, pod, policy, context)
    if exception is not None:
        return f"exception {exception.name} until {exception.expires.date().isoformat()}: {exception.reason}"
    return "" if policy.enforce else AUDIT_MODE


def _unfixed(result: JudgedHit) -> JudgedHit:
    if result.action != "fixed":
        return result
    return JudgedHit(result.hit, result.mode, "audited", UNFIXED)


def mode_of(hit: RuleHit, policy: Policy, context: Context) -> Mode:
    """Return the mode of a hit: the first setting of the policy that fits, else the profile's default.

    A mode that the case cannot have (fix, where nothing can be fixed) leaves it at its default.
    """
    case = RULES[hit.rule].case(hit.case)
    for setting in policy.rules.get(hit.rule, ()):
        if setting.case is not None and setting.case != hit.case:
            continue
        if setting.namespaces is not None:
            matched = setting.namespaces.match(context.namespace, context.namespace_labels)
            if isinstance(matched, Unreadable) or not matched:
                continue
        if setting.mode in case.modes:
            return setting.mode
    return case.baseline if policy.profile == "baseline" else case.restricted


def actions_of(rule: Rule, *, can_fix: bool) -> tuple[Action, ...]:
    """Return what a hit of the rule can lead to, whatever the policy says; `can_fix` for /mutate.

    "audited" is always among them: an exemption, an exception and `enforcement: audit` leave nothing else.
    """
    modes = {mode for case in rule.cases for mode in case.modes}
    if not can_fix and "fix" in modes:
        modes = modes - {"fix"} | {"deny"}
    return tuple(action for mode, action in _ACTIONS.items() if mode in modes | {"audit"})


def _exemption(pod: PodView, policy: Policy, context: Context) -> str:
    if pod.is_mirror() and context.user.startswith("system:node:") and "system:nodes" in context.groups:
        # Refusing or changing the picture of a static pod changes nothing on the node, and hides the pod.
        return "mirror pod of a static pod, written by its node"
    for exemption in policy.exemptions:
        if exemption.namespaces.match(context.namespace) and exemption.service_accounts.match(_account(pod)):
            return exemption.reason
    return ""


def _account(pod: PodView) -> str:
    # Without its pod, the account of a debug container is unknown: only an exemption of every account can match.
    return pod.service_account if pod.known else ""


def _exception(hit: RuleHit, pod: PodView, policy: Policy, context: Context) -> RuleException | None:
    for exception in policy.exceptions:
        if (
            hit.rule in exception.rules
            and context.now < exception.expires
            and exception.namespaces.match(context.namespace)
            and (exception.service_accounts is None or exception.service_accounts.match(_account(pod)))
        ):
            return exception
    return None


def _notes(policy: Policy, context: Context) -> tuple[str, ...]:
    note = unknown_labels_note(policy, context) if isinstance(context.namespace_labels, Unreadable) else ""
    return (note,) if note else ()
