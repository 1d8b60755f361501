"""Events for those who would otherwise not hear of it: the owner of a controller, the author of a policy.

Whoever creates a pod reads the refusal. A controller that creates one keeps it to itself, or says it where its author
does not look (a ReplicaSet below a Deployment, a custom controller's log): the Event is on that controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kube.events import Notice, Regarding
from policy.default import API_VERSION, KIND, NAME
from policy.unreadable import Unreadable
from policy.wording import denial, would_be_denied
from webhook.objects import namespace_of, owner_of
from webhook.warnings import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.model import Policy
    from policy.problems import Problem
    from webhook.answer import Answered, Endpoint

# Bytes; the API refuses more (kubernetes pkg/apis/core/validation/events.go).
NOTE_MAX = 1024
# Bytes; the name of no object is longer. A longer one names nothing that `kubectl describe` could show.
_NAME_MAX = 253


def notice_of(endpoint: Endpoint, answered: Answered) -> Notice | None:
    """Return the Event about a pod that a controller may not create; None where nobody needs to be told.

    Under `enforcement: audit` it is of type Normal and says what would be refused, once for both calls (at
    /validate): nobody should believe that the pod does not start. Repeats for the same controller and rules have
    the same key, whatever the pod: the note is that of the first. It holds no value of an environment variable.
    """
    request, decision = answered.request, answered.decision
    if request is None or decision is None or request.dry_run:
        return None
    refused = not decision.allowed
    told = [judged for judged in decision.hits if judged.action == "denied" or would_be_denied(judged)]
    if not told or (not refused and endpoint == "mutate"):
        return None
    if request.operation != "CREATE":
        return (
            None  # whoever updates a pod or adds a debug container reads the refusal, as its owner does not
        )
    owner = owner_of(request)
    if owner is None:
        return None
    regarding = Regarding(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.name,
        namespace=namespace_of(request),
        uid=owner.uid,
    )
    if not _is_real(regarding):
        return None
    plain = [replace(judged, hit=replace(judged.hit, message=judged.hit.lasting)) for judged in told]
    text = denial(plain)
    return Notice(
        regarding=regarding,
        key=",".join(sorted({judged.hit.rule for judged in told})),
        type="Warning" if refused else "Normal",
        reason="GPUPolicyDenied" if refused else "GPUPolicyWouldDeny",
        action="Deny" if refused else "Audit",
        note=_note(text if refused else f"Let in (enforcement: audit); enforced, it would be denied. {text}"),
    )


def invalid_policy_notice(uid: str, problems: Sequence[Problem], in_force: Policy | Unreadable) -> Notice:
    """Return the Warning about a GpuPolicy object that cannot be put in force; `in_force` is what stays.

    Other problems make another Event: the note of one that exists cannot change.
    """
    listed = "; ".join(str(problem) for problem in problems)
    count = f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'}"
    stays = (
        "No policy is in force, and this replica is not ready"
        if isinstance(in_force, Unreadable)
        else f"The last good policy stays in force, version {in_force.version}"
    )
    note = _note(f"{stays}: this one has {count}. {listed}")
    return Notice(
        regarding=Regarding(api_version=API_VERSION, kind=KIND, name=NAME, uid=uid),
        key=note,
        type="Warning",
        reason="InvalidPolicy",
        action="Refuse",
        note=note,
    )


def _is_real(regarding: Regarding) -> bool:
    """Whether the owner can be the object of an Event in the pod's namespace.

    Tenants write owner references; a Node has no namespace, and no author who would look.
    """
    texts = (regarding.api_version, regarding.kind, regarding.name, regarding.namespace)
    is_node = (regarding.api_version, regarding.kind) == ("v1", "Node")
    return not is_node and all(0 < len(text.encode(errors="replace")) <= _NAME_MAX for text in texts)


def _note(text: str) -> str:
    line = one_line(text)
    raw = line.encode(errors="replace")
    if len(raw) <= NOTE_MAX:
        return line
    return raw[: NOTE_MAX - 3].decode(errors="ignore") + "..."
