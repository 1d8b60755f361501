"""The values that pass between the modules of `policy`.

All are frozen. msgspec.Struct rather than dataclass because a decision makes about a dozen of them and they cost a
tenth of a microsecond each (a frozen dataclass: about one; `make bench` shows the whole).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from policy.selectors import NamespaceSelector, Patterns
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from datetime import datetime

Mode = Literal["fix", "deny", "warn", "audit", "off"]
Action = Literal["fixed", "denied", "warned", "audited"]
Profile = Literal["baseline", "restricted"]
Verdict = Literal["allow", "deny"]
Vendor = Literal["nvidia", "amd", "intel", "other"]

TEAM_LABEL = "gpufence.io/team"
COST_CENTER_LABEL = "gpufence.io/cost-center"
WORKLOAD_LABEL = "gpufence.io/workload"
DECISION_ANNOTATION = "gpufence.io/decision"
UNASSIGNED = "unassigned"


class Context(msgspec.Struct, frozen=True):
    """What a decision knows beside the pod.

    `namespace_labels` is Unreadable where nobody told us: a label selector then never matches, and the decision says
    so. `user` and `groups` are those of the request; `now` is an aware datetime and decides which exceptions are over.
    """

    namespace: str
    now: datetime
    namespace_labels: dict[str, str] | Unreadable = Unreadable("no namespace labels were given")
    user: str = ""
    groups: tuple[str, ...] = ()


class EnvEdit(msgspec.Struct, frozen=True, gc=False):
    """Give `container` exactly one literal entry `name` = `value`, or none at all where `value` is None."""

    container: str  # JSON pointer of the container
    name: str
    value: str | None


class MetaEdit(msgspec.Struct, frozen=True, gc=False):
    """Set one label or annotation."""

    field: Literal["labels", "annotations"]
    key: str
    value: str


Edit = EnvEdit | MetaEdit


class RuleHit(msgspec.Struct, frozen=True):
    """A rule applies to a pod. What follows from it (deny, fix, ...) is not known here: only `decide` knows modes.

    `case` names the row of the rule in the catalogue; `path` is a JSON pointer into the pod; `edits` mend it where
    the case can be mended. `plain` is the message without the value of an environment variable, set only where
    `message` quotes one.
    """

    rule: str
    case: str
    message: str
    path: str
    container: str | None = None
    edits: tuple[Edit, ...] = ()
    plain: str = ""

    @property
    def lasting(self) -> str:
        """The message for whatever outlives the answer (records, Events): a value may be a secret put wrong."""
        return self.plain or self.message


class JudgedHit(msgspec.Struct, frozen=True):
    """A hit with the mode that the policy gives it and what was done; `because` says why the two differ."""

    hit: RuleHit
    mode: Mode
    action: Action
    because: str = ""


class Decision(msgspec.Struct, frozen=True):
    """The answer to one pod.

    `edits` and `patch` (RFC 6902 operations) are empty for a denied or exempt pod and in every judgement that cannot
    patch. `team` is the team by the policy, None where no team claims the pod. `digest` joins the answers of /mutate
    and /validate and, later, the node's findings. `exempt` is the reason of the exemption that applies. `notes` are
    things that could not be known.
    """

    verdict: Verdict
    policy_version: str
    hits: tuple[JudgedHit, ...] = ()
    edits: tuple[Edit, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    message: str = ""
    team: str | None = None
    digest: str = ""
    exempt: str = ""
    notes: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the pod may be created."""
        return self.verdict == "allow"


class ResourceGroup(msgspec.Struct, frozen=True):
    """Resource names of one vendor.

    `devices` mean devices and are counted; `attributes` (gpumem, gpucores, ...) describe a share of one: they are a
    GPU request, but no quantity of devices.
    """

    vendor: Vendor
    devices: Patterns
    attributes: Patterns


class RuleSetting(msgspec.Struct, frozen=True):
    """A mode that the policy sets for a rule, or for one case of it, in the namespaces that the selector matches."""

    mode: Mode
    case: str | None = None
    namespaces: NamespaceSelector | None = None  # None: everywhere


class QueueBinding(msgspec.Struct, frozen=True):
    """A queue name that counts as a claim of the team, but only in these namespaces: tenants set the queue label."""

    queue: str
    namespaces: Patterns


class Team(msgspec.Struct, frozen=True):
    """Who owns a pod. `label` is what fits in a label: `name` itself, or its short form."""

    name: str
    label: str
    namespaces: Patterns
    selectors: tuple[NamespaceSelector, ...] = ()
    service_accounts: Patterns = Patterns.none()  # "namespace/name"
    groups: frozenset[str] = frozenset()
    queues: tuple[QueueBinding, ...] = ()
    max_per_pod: tuple[tuple[str, Patterns, int], ...] = ()  # (as written, compiled, devices)
    resources: Patterns | None = None  # None: every resource is granted
    cost_center: str = ""
    cost_center_label: str = ""


class Exemption(msgspec.Struct, frozen=True):
    """Pods that gpufence leaves alone: namespace AND service account must match."""

    namespaces: Patterns
    service_accounts: Patterns
    reason: str


class RuleException(msgspec.Struct, frozen=True):
    """An admin's leave to break named rules in named namespaces until a date."""

    name: str
    rules: frozenset[str]
    namespaces: Patterns
    service_accounts: Patterns | None  # None: every service account
    reason: str
    owner: str
    expires: datetime


class Policy(msgspec.Struct, frozen=True):
    """A GpuPolicy, compiled. `version` is a digest of the whole, so equal policies have equal versions."""

    version: str
    profile: Profile
    enforce: bool
    resources: tuple[ResourceGroup, ...]
    not_gpu: Patterns  # in lower case
    visibility: tuple[str, ...]  # the main variable first, then the policy's extra ones
    device_classes: frozenset[str]  # claims name no class in the pod: for the node agent, which sees them
    device_annotations: tuple[str, ...]
    runtime_classes: frozenset[str]
    driver_capabilities: frozenset[str]
    sharing_providers: frozenset[str]
    guarded_paths: tuple[str, ...]
    audited_paths: tuple[str, ...]
    rules: dict[str, tuple[RuleSetting, ...]]
    teams: tuple[Team, ...]
    exemptions: tuple[Exemption, ...]
    exceptions: tuple[RuleException, ...]
