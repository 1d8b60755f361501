"""A GpuPolicy as people write it.

The only place that defines pydantic models: pydantic lists every error with its place, and makes the JSON
schema that `policy.crd` turns into the CRD. Nothing that decides about pods imports this module, because
importing pydantic takes longer than many decisions.

A limit here is a limit of the CRD too. The lengths of lists are bounded so that the API server can estimate
the cost of the CEL rules.
"""
# Without `from __future__ import annotations`: pydantic reads the annotations when a class is made.

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from policy import default, formats, gpu
from policy.catalogue import RULES
from policy.formats import Format
from policy.model import UNASSIGNED, Mode, Profile, Vendor
from policy.paths import node_path
from policy.suggest import instead

PROBLEM = "gpufence"  # the type of the errors that this module raises; `policy.load` prints them as they are

NAMES = 256  # the longest list of names
FEW_NAMES = 64  # the longest list of names that a CEL rule walks through
OBJECTS = 256  # the longest list of teams, rule settings, exemptions or exceptions
SELECTORS = 16  # the longest list within a label selector
MOST_DEVICES = 2**31 - 1

_ONLY_STARS = re.compile(r"[*]+")
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[-+][0-9]{2}:[0-9]{2})$"


def problem(message: str, fix: str, field: str = "") -> PydanticCustomError:
    """Return an error for people. `field` is the field at fault below the place where it is raised."""
    return PydanticCustomError(PROBLEM, "{message}", {"message": message, "fix": fix, "field": field})


def _not_null(value: object) -> object:
    if value is None:
        raise problem("is null, which may mean nothing or everything", "Give it a value, or remove the line.")
    return value


T = TypeVar("T")
Given = Annotated[
    T | None, BeforeValidator(_not_null)
]  # a field without a default: a value, or not there at all


def _text(form: Format) -> Any:
    return Field(
        min_length=0 if form is formats.LABEL_VALUE else 1, max_length=form.longest, pattern=form.pattern
    )


def _one_line(text: str) -> str:
    if text != text.strip():
        raise problem("begins or ends with a space", "Remove the space.")
    if not text.isprintable():
        raise problem("has control or invisible characters", formats.NAME_FOR_PEOPLE.fix)
    return text


def _known_rule(rule: str) -> str:
    if rule not in RULES:
        # No guess: the ids that look alike stand for rules that have nothing in common.
        raise problem("there is no rule of this id", formats.RULE_ID.fix)
    return rule


def _known_provider(name: str) -> str:
    if name not in gpu.SHARING_PROVIDERS:
        raise problem("gpufence knows no sharing provider of this name", instead(name, gpu.SHARING_PROVIDERS))
    return name


def _extra_variable(name: str) -> str:
    if name == gpu.VISIBLE_DEVICES:
        raise problem("is always the main visibility variable", "Remove it from the list.")
    for reserved in gpu.RESERVED_NAMES:
        if name == reserved.name:
            raise problem(f"is judged by rule {reserved.rule}", "Remove it from the list.")
    return name


def _team_name(name: str) -> str:
    if name == UNASSIGNED:
        raise problem("stands for pods without a team", "Choose another name.")
    return name


def _moment(value: object) -> datetime:
    """Read an RFC 3339 time, or what a YAML reader made of one that was not quoted."""
    fix = "Write a date, a time and a time zone, as in `2027-03-01T00:00:00Z`."
    if isinstance(value, str) and re.fullmatch(_TIME, value):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise problem("is not a point in time", fix) from None
    if not isinstance(value, datetime):
        raise problem("is not a point in time", fix)
    if value.tzinfo is None:
        raise problem("has no time zone", fix)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise problem("is not a point in time", fix) from None


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


NamespacePattern = Annotated[str, _text(formats.NAMESPACE_PATTERN)]
ServiceAccountPattern = Annotated[str, _text(formats.SERVICE_ACCOUNT_PATTERN)]
ServiceAccountPath = Annotated[str, _text(formats.SERVICE_ACCOUNT_PATH_PATTERN)]
ResourcePattern = Annotated[str, _text(formats.RESOURCE_PATTERN)]
ObjectName = Annotated[str, _text(formats.OBJECT_NAME)]
ExceptionName = Annotated[str, _text(formats.EXCEPTION_NAME)]
RuleId = Annotated[str, _text(formats.RULE_ID), AfterValidator(_known_rule)]
CaseName = Annotated[str, _text(formats.CASE_NAME)]
ExtraVariable = Annotated[str, _text(formats.ENVIRONMENT_NAME), AfterValidator(_extra_variable)]
AnnotationKey = Annotated[str, _text(formats.ANNOTATION_KEY)]
LabelKey = Annotated[str, _text(formats.LABEL_KEY)]
LabelValue = Annotated[str, _text(formats.LABEL_VALUE)]
QueueName = Annotated[str, _text(formats.QUEUE_NAME)]
Capability = Annotated[str, _text(formats.CAPABILITY)]
ProviderName = Annotated[str, _text(formats.PROVIDER_NAME), AfterValidator(_known_provider)]
NodePath = Annotated[str, _text(formats.ABSOLUTE_PATH), AfterValidator(node_path)]
Line = Annotated[str, _text(formats.NAME_FOR_PEOPLE), AfterValidator(_one_line)]
TeamName = Annotated[Line, AfterValidator(_team_name)]
Devices = Annotated[int, Field(ge=0, le=MOST_DEVICES)]
Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    PlainSerializer(_written, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 40, "pattern": _TIME}),
]


class Written(BaseModel):
    """Base of the parts of a policy: camelCase, exact types, no unknown field."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True)


class LabelExpression(Written):
    """One requirement on the labels of a namespace."""

    key: LabelKey = Field(description="Key of the label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(
        description="In and NotIn compare with `values`; Exists and DoesNotExist look at the key alone."
    )
    values: list[LabelValue] = Field(
        default=[], max_length=SELECTORS, description="Values for In and NotIn; absent otherwise."
    )

    @model_validator(mode="after")
    def _values_fit_the_operator(self) -> Self:
        if self.operator in {"In", "NotIn"} and not self.values:
            raise problem(f"{self.operator} compares with nothing", "List at least one value.", "values")
        if self.operator in {"Exists", "DoesNotExist"} and self.values:
            raise problem(
                f"{self.operator} takes no values", "Remove the values, or write In or NotIn.", "values"
            )
        return self


class LabelSelector(Written):
    """Namespaces by their labels; every part must hold. An empty selector selects every namespace."""

    match_labels: dict[LabelKey, LabelValue] = Field(
        default={},
        max_length=SELECTORS,
        description="Labels that the namespace has, with exactly these values.",
    )
    match_expressions: list[LabelExpression] = Field(
        default=[], max_length=SELECTORS, description="Further requirements; all must hold."
    )


class ResourceSpec(Written):
    """Resource names of one vendor."""

    vendor: Vendor = Field(description="Vendor of the GPUs. The visibility rules concern nvidia only.")
    devices: list[ResourcePattern] = Field(
        min_length=1,
        max_length=NAMES,
        description="Names of resources that are counted in devices. `*` stands for any run of characters.",
    )
    attributes: list[ResourcePattern] = Field(
        default=[],
        max_length=NAMES,
        description=(
            "Names that describe a share of a device, such as memory: they ask for a GPU and are not counted "
            "in devices. A name that is in both lists is an attribute."
        ),
    )


class GpuSpec(Written):
    """What a GPU is in this cluster. A list that is given replaces the built-in one."""

    resources: list[ResourceSpec] = Field(
        default_factory=lambda: [ResourceSpec.model_validate(row) for row in default.RESOURCES],
        max_length=16,
        description="Extended resources that are GPUs, by vendor. The first entry that has a name counts.",
    )
    not_gpu: list[ResourcePattern] = Field(
        default_factory=lambda: list(gpu.NOT_GPU),
        max_length=NAMES,
        description="Names that are no GPU although `resources` has them, such as network cards.",
    )
    visibility_variables: list[ExtraVariable] = Field(
        default=[],
        max_length=16,
        description="Variables that the toolkit reads beside NVIDIA_VISIBLE_DEVICES (option swarm-resource).",
    )
    device_classes: list[ObjectName] = Field(
        default_factory=lambda: list(gpu.DEVICE_CLASSES),
        max_length=NAMES,
        description="DeviceClasses whose ResourceClaims are for GPUs.",
    )
    device_annotations: list[AnnotationKey] = Field(
        default_factory=lambda: list(gpu.DEVICE_ANNOTATIONS),
        max_length=NAMES,
        description=(
            "Annotations that a runtime reads as a device request: "
            "a prefix that ends in `/` or `.`, or a domain with all keys below it."
        ),
    )
    runtime_classes: list[ObjectName] = Field(
        default_factory=lambda: list(gpu.RUNTIME_CLASSES),
        max_length=NAMES,
        description="RuntimeClasses that run containers with the NVIDIA runtime.",
    )
    driver_capabilities: list[Capability] = Field(
        default_factory=lambda: list(gpu.DRIVER_CAPABILITIES),
        max_length=NAMES,
        description="Values of NVIDIA_DRIVER_CAPABILITIES that are allowed.",
    )
    sharing_providers: list[ProviderName] = Field(
        default=[],
        max_length=16,
        description="Schedulers of this cluster that give shares of a GPU by pod annotation: kai.",
    )
    guarded_paths: list[NodePath] = Field(
        default_factory=lambda: list(gpu.GUARDED_PATHS),
        max_length=NAMES,
        description="Paths of the node that lead to GPUs. Each guards itself, what is below, its parents.",
    )
    audited_paths: list[NodePath] = Field(
        default_factory=lambda: list(gpu.AUDITED_PATHS),
        max_length=NAMES,
        description="Paths below a guarded one that are only recorded.",
    )


class RuleSpec(Written):
    """The mode of a rule. For each case and namespace the first entry that applies counts."""

    rule: RuleId = Field(description="Id of the rule, as in GF201.")
    case: Given[CaseName] = Field(default=None, description="One case of the rule; absent: all its cases.")
    mode: Mode = Field(description="fix, deny, warn, audit or off. The rule, or the case, must support it.")
    namespaces: Given[list[NamespacePattern]] = Field(
        default=None,
        min_length=1,
        max_length=NAMES,
        description="Name patterns of namespaces; absent: every namespace.",
    )
    namespace_selector: Given[LabelSelector] = Field(
        default=None, description="Labels of the namespace. Where `namespaces` is given too, both must match."
    )

    @model_validator(mode="after")
    def _case_and_mode_are_the_rules(self) -> Self:
        rule = RULES[self.rule]
        cases = {case.name: case for case in rule.cases}
        if self.case is not None and self.case not in cases:
            raise problem(f"{rule.id} has no case of this name", instead(self.case, cases), "case")
        concerned = tuple(cases.values()) if self.case is None else (cases[self.case],)
        if not any(self.mode in case.modes for case in concerned):
            where = rule.id if self.case is None else f"case {self.case} of {rule.id}"
            supported = dict.fromkeys(mode for case in concerned for mode in case.modes)
            raise problem(f"{where} cannot have this mode", f"Write one of: {', '.join(supported)}.", "mode")
        return self


class QueueSpec(Written):
    """A queue name that makes pods the team's, in these namespaces only, because tenants write it."""

    queue: QueueName = Field(description="Exact name of the queue (Kueue, KAI, Volcano).")
    namespaces: list[NamespacePattern] = Field(
        min_length=1,
        max_length=NAMES,
        description="Name patterns of the namespaces in which the queue name counts.",
    )


class TeamSpec(Written):
    """A team. One of namespaces, namespaceSelector, serviceAccounts, groups and queues claims a pod."""

    name: TeamName = Field(
        description="Name of the team. One that cannot be a label value is carried by pods in a short form."
    )
    namespaces: list[NamespacePattern] = Field(
        default=[], max_length=NAMES, description="Name patterns of namespaces that are the team's."
    )
    namespace_selector: Given[LabelSelector] = Field(
        default=None, description="Labels of namespaces that are the team's."
    )
    service_accounts: list[ServiceAccountPath] = Field(
        default=[],
        max_length=NAMES,
        description="Service accounts whose pods are the team's: namespace/name, wildcards in both parts.",
    )
    groups: list[Line] = Field(
        default=[],
        max_length=NAMES,
        description="Groups of people. They count only for pods that a person creates, not a controller.",
    )
    queues: list[QueueSpec] = Field(default=[], max_length=NAMES, description="Queues that are the team's.")
    max_per_pod: dict[ResourcePattern, Devices] = Field(
        default={},
        max_length=64,
        description="Most devices that one pod may request, by resource name pattern. 0: none.",
    )
    resources: Given[list[ResourcePattern]] = Field(
        default=None,
        max_length=NAMES,
        description="Resource name patterns that the team may request; absent: all; empty: none.",
    )
    cost_center: Given[Line] = Field(
        default=None,
        description="Who pays. One that cannot be a label value is carried by pods in a short form.",
    )


class ExemptionSpec(Written):
    """Pods that gpufence leaves alone, and records. Both the namespace and the service account must match."""

    namespaces: list[NamespacePattern] = Field(
        min_length=1, max_length=FEW_NAMES, description="Name patterns of namespaces."
    )
    service_accounts: list[ServiceAccountPattern] = Field(
        min_length=1,
        max_length=FEW_NAMES,
        description="Name patterns of service accounts in these namespaces.",
    )
    reason: Line = Field(description="Why these pods need it; it is recorded with each of them.")

    @model_validator(mode="after")
    def _not_everything(self) -> Self:
        if any(map(_ONLY_STARS.fullmatch, self.namespaces)) and any(
            map(_ONLY_STARS.fullmatch, self.service_accounts)
        ):
            raise problem(
                "exempts every pod of the cluster, which would switch gpufence off",
                "Name the namespaces or the service accounts. To only watch, set spec.enforcement to audit.",
            )
        return self


class ExceptionSpec(Written):
    """Leave to break named rules in named namespaces until a date."""

    name: ExceptionName = Field(description="Name of the exception; it is recorded with each use.")
    rules: list[RuleId] = Field(
        min_length=1, max_length=64, description="Ids of the rules that may be broken."
    )
    namespaces: list[NamespacePattern] = Field(
        min_length=1, max_length=NAMES, description="Name patterns of namespaces."
    )
    service_accounts: Given[list[ServiceAccountPattern]] = Field(
        default=None,
        min_length=1,
        max_length=NAMES,
        description="Name patterns of service accounts in these namespaces; absent: every one.",
    )
    reason: Line = Field(description="Why it is needed.")
    owner: Line = Field(description="Who answers for it: a person or a team that can be reached.")
    expires: Moment = Field(description="When it stops applying, with a time zone.")


class Spec(Written):
    """What gpufence allows in this cluster. A field that is left out has its built-in value."""

    profile: Profile = Field(
        default="baseline",
        description=(
            "Modes of the rules that `rules` does not set. baseline (the default) fixes and refuses what "
            "reaches GPUs and records the rest; restricted refuses exposure in every namespace, and GPU pods "
            "without a team."
        ),
    )
    enforcement: Literal["enforce", "audit"] = Field(
        default="enforce", description="enforce (the default) acts; audit only records what would be done."
    )
    gpu: GpuSpec = Field(default_factory=GpuSpec, description="What a GPU is in this cluster.")
    rules: list[RuleSpec] = Field(
        default=[],
        max_length=OBJECTS,
        description="Modes that differ from the profile. The first that applies counts.",
    )
    teams: list[TeamSpec] = Field(
        default=[], max_length=OBJECTS, description="Teams. The first in the list that claims a pod owns it."
    )
    exemptions: list[ExemptionSpec] = Field(
        default=[],
        max_length=OBJECTS,
        description="Pods to leave alone, beside those that every policy exempts.",
    )
    exceptions: list[ExceptionSpec] = Field(
        default=[], max_length=OBJECTS, description="Leave to break rules until a date."
    )


class Metadata(BaseModel):
    """The part of an object's metadata that matters; the API server owns the rest."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    name: ObjectName


class Document(Written):
    """A whole GpuPolicy. `status` is the cluster's and is not read."""

    api_version: Literal["gpufence.io/v1alpha1"]
    kind: Literal["GpuPolicy"]
    metadata: Metadata
    spec: Spec
    status: Any = None
