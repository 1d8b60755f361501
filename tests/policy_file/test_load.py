"""What a GpuPolicy becomes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from policy import gpu
from policy.default import DEFAULT_DOCUMENT, EXEMPTIONS
from policy.errors import PolicyError
from policy.load import effective, expired, load_policy
from policy.model import RuleSetting
from policy.selectors import NamespaceSelector, Patterns, Requirement

if TYPE_CHECKING:
    from collections.abc import Callable


EVERYTHING = """
apiVersion: gpufence.io/v1alpha1
kind: GpuPolicy
metadata: {name: default, labels: {app: gpufence}, uid: 1b4e28ba}
spec:
  profile: restricted
  enforcement: audit
  gpu:
    resources:
    - vendor: nvidia
      devices: ["nvidia.com/*"]
      attributes: ["nvidia.com/gpumem"]
    notGpu: ["nvidia.com/hostdev*"]
    visibilityVariables: [SWARM_GPUS]
    deviceClasses: [gpu.nvidia.com]
    deviceAnnotations: ["cdi.k8s.io/"]
    runtimeClasses: [nvidia]
    driverCapabilities: [compute]
    sharingProviders: [kai]
    guardedPaths: [/var/run/nvidia, /dev/]
    auditedPaths: [/dev/shm]
  rules:
  - {rule: GF201, case: other, mode: warn, namespaces: ["research-*"]}
  - rule: GF201
    mode: audit
    namespaceSelector:
      matchLabels: {tier: lab}
      matchExpressions:
      - {key: owner, operator: NotIn, values: [prod]}
      - {key: gpu, operator: Exists}
  - {rule: GF301, mode: deny}
  teams:
  - name: vision
    namespaces: ["vision", "vision-*"]
    namespaceSelector: {matchLabels: {team: vision}}
    serviceAccounts: ["shared/vision-*"]
    groups: ["oidc:vision"]
    queues: [{queue: vision-lq, namespaces: ["shared"]}]
    maxPerPod: {"nvidia.com/gpu": 4, "nvidia.com/mig-*": 0}
    resources: ["nvidia.com/gpu", "nvidia.com/mig-1g.*"]
    costCenter: "CC 4711"
  exemptions:
  - {namespaces: [monitoring], serviceAccounts: ["newrelic"], reason: "reads the host"}
  exceptions:
  - name: vision-legacy
    rules: [GF201, GF203]
    namespaces: [vision]
    serviceAccounts: [legacy]
    reason: "moves in spring"
    owner: "ops@example.com"
    expires: "2027-03-01T01:00:00+01:00"
status: {anything: 1}
"""


def test_the_smallest_policy_has_the_built_in_values() -> None:
    policy = load_policy(DEFAULT_DOCUMENT).policy
    assert (policy.profile, policy.enforce) == ("baseline", True)
    assert [group.vendor for group in policy.resources] == ["nvidia", "amd", "intel", "other"]
    assert policy.resources[0].devices == Patterns(gpu.NVIDIA_DEVICES)
    assert policy.resources[0].attributes == Patterns(gpu.NVIDIA_ATTRIBUTES)
    assert policy.not_gpu == Patterns(gpu.NOT_GPU)
    assert policy.visibility == (gpu.VISIBLE_DEVICES,)
    assert policy.device_classes == frozenset(gpu.DEVICE_CLASSES)
    assert policy.device_annotations == gpu.DEVICE_ANNOTATIONS
    assert policy.runtime_classes == frozenset(gpu.RUNTIME_CLASSES)
    assert policy.driver_capabilities == frozenset(gpu.DRIVER_CAPABILITIES)
    assert policy.sharing_providers == frozenset()
    assert policy.guarded_paths == gpu.GUARDED_PATHS
    assert policy.audited_paths == gpu.AUDITED_PATHS
    assert (policy.rules, policy.teams, policy.exceptions) == ({}, (), ())
    assert len(policy.exemptions) == len(EXEMPTIONS)


def test_an_empty_spec_is_the_built_in_policy() -> None:
    assert load_policy({**DEFAULT_DOCUMENT, "spec": {}}) == load_policy(DEFAULT_DOCUMENT)


def test_the_built_in_policy_causes_no_warning() -> None:
    assert load_policy(DEFAULT_DOCUMENT).warnings == ()


def test_every_field_reaches_the_compiled_policy() -> None:
    policy = load_policy(yaml.safe_load(EVERYTHING)).policy
    assert (policy.profile, policy.enforce) == ("restricted", False)
    (group,) = policy.resources
    assert (group.devices, group.attributes) == (Patterns(["nvidia.com/*"]), Patterns(["nvidia.com/gpumem"]))
    assert policy.not_gpu == Patterns(["nvidia.com/hostdev*"])
    assert policy.visibility == ("NVIDIA_VISIBLE_DEVICES", "SWARM_GPUS")
    assert policy.device_classes == {"gpu.nvidia.com"}
    assert policy.device_annotations == ("cdi.k8s.io/",)
    assert policy.runtime_classes == {"nvidia"}
    assert policy.driver_capabilities == {"compute"}
    assert policy.sharing_providers == {"kai"}
    assert policy.audited_paths == ("/dev/shm",)
    (team,) = policy.teams
    assert (team.name, team.label) == ("vision", "vision")
    assert team.namespaces == Patterns(["vision", "vision-*"])
    assert team.selectors == (NamespaceSelector(None, (Requirement("team", "In", frozenset({"vision"})),)),)
    assert team.service_accounts.match("shared/vision-trainer")
    assert team.groups == {"oidc:vision"}
    assert [(binding.queue, binding.namespaces) for binding in team.queues] == [
        ("vision-lq", Patterns(["shared"]))
    ]
    assert team.max_per_pod == (
        ("nvidia.com/gpu", Patterns(["nvidia.com/gpu"]), 4),
        ("nvidia.com/mig-*", Patterns(["nvidia.com/mig-*"]), 0),
    )
    assert team.resources == Patterns(["nvidia.com/gpu", "nvidia.com/mig-1g.*"])
    assert (team.cost_center, team.cost_center_label.startswith("CC-4711-")) == ("CC 4711", True)
    own = policy.exemptions[-1]
    assert (own.namespaces.written, own.service_accounts.written) == (("monitoring",), ("newrelic",))
    (exception,) = policy.exceptions
    assert exception.rules == {"GF201", "GF203"}
    assert exception.service_accounts == Patterns(["legacy"])
    assert (exception.reason, exception.owner) == ("moves in spring", "ops@example.com")
    assert exception.expires == datetime(2027, 3, 1, tzinfo=UTC)


def test_rule_settings_keep_the_order_in_which_they_were_written() -> None:
    policy = load_policy(yaml.safe_load(EVERYTHING)).policy
    labels = (
        Requirement("tier", "In", frozenset({"lab"})),
        Requirement("owner", "NotIn", frozenset({"prod"})),
        Requirement("gpu", "Exists"),
    )
    assert policy.rules == {
        "GF201": (
            RuleSetting("warn", "other", NamespaceSelector(Patterns(["research-*"]))),
            RuleSetting("audit", None, NamespaceSelector(None, labels)),
        ),
        "GF301": (RuleSetting("deny"),),
    }


def test_a_list_replaces_the_built_in_one_and_other_fields_keep_theirs(written: Callable[..., Any]) -> None:
    policy = load_policy(written(gpu={"runtimeClasses": [], "notGpu": ["example.com/nic"]})).policy
    assert policy.runtime_classes == frozenset()
    assert policy.not_gpu == Patterns(["example.com/nic"])
    assert policy.device_classes == frozenset(gpu.DEVICE_CLASSES)


def test_shipped_exemptions_stay_when_a_policy_adds_its_own(written: Callable[..., Any]) -> None:
    own = {"namespaces": ["monitoring"], "serviceAccounts": ["newrelic"], "reason": "reads the host"}
    exemptions = load_policy(written(exemptions=[own])).policy.exemptions
    assert exemptions[:-1] == load_policy(DEFAULT_DOCUMENT).policy.exemptions
    assert exemptions[-1].reason == "reads the host"


def test_guarded_paths_are_cleaned_and_lose_the_alias_of_run(written: Callable[..., Any]) -> None:
    paths = ["/var/run/nvidia/", "/var/run", "/dev/../dev//", "/var/runtime"]
    assert load_policy(written(gpu={"guardedPaths": paths})).policy.guarded_paths == (
        "/run/nvidia",
        "/run",
        "/dev",
        "/var/runtime",
    )


def test_a_team_without_granted_resources_is_not_a_team_that_was_granted_all(
    written: Callable[..., Any],
) -> None:
    teams = [
        {"name": "all", "namespaces": ["a"]},
        {"name": "none", "namespaces": ["b"], "resources": []},
    ]
    everything, nothing = load_policy(written(teams=teams)).policy.teams
    assert everything.resources is None
    assert nothing.resources == Patterns.none()


def test_an_empty_label_selector_selects_every_namespace(written: Callable[..., Any]) -> None:
    (team,) = load_policy(written(teams=[{"name": "all", "namespaceSelector": {}}])).policy.teams
    assert [selector.match("any", {}) for selector in team.selectors] == [True]


@pytest.mark.parametrize(
    "expires",
    [
        "2027-03-01T00:00:00Z",
        "2027-03-01T00:00:00.000Z",
        "2027-02-28T19:00:00-05:00",
        datetime(2027, 3, 1, tzinfo=UTC),
    ],
)
def test_an_expiry_may_be_quoted_or_not_and_in_any_time_zone(
    written: Callable[..., Any], expires: object
) -> None:
    exception = {
        "name": "a",
        "rules": ["GF201"],
        "namespaces": ["b"],
        "reason": "c",
        "owner": "d",
        "expires": expires,
    }
    (loaded,) = load_policy(written(exceptions=[exception])).policy.exceptions
    assert loaded.expires == datetime(2027, 3, 1, tzinfo=UTC)


def test_an_exception_is_over_from_the_second_it_expires() -> None:
    policy = load_policy(yaml.safe_load(EVERYTHING)).policy
    end = datetime(2027, 3, 1, tzinfo=UTC)
    assert expired(policy, end - timedelta(seconds=1)) == ()
    assert expired(policy, end) == policy.exceptions


def test_an_expired_exception_is_no_problem(written: Callable[..., Any]) -> None:
    row = {"name": "a", "rules": ["GF201"], "namespaces": ["b"], "reason": "c", "owner": "d"}
    assert load_policy(written(exceptions=[{**row, "expires": "1999-01-01T00:00:00Z"}])).warnings == ()


class TestVersion:
    """The digest that decisions and records name the policy by."""

    def test_equal_policies_have_equal_versions_whatever_the_order_of_their_fields(self) -> None:
        document = yaml.safe_load(EVERYTHING)
        backwards = json.loads(json.dumps(document), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
        assert list(backwards) != list(document)
        assert load_policy(backwards).policy.version == load_policy(document).policy.version

    @pytest.mark.parametrize(
        "spec",
        [
            {"profile": "baseline"},
            {"enforcement": "enforce"},
            {"rules": [], "teams": [], "exemptions": [], "exceptions": []},
            {"gpu": {}},
            {"gpu": {"visibilityVariables": [], "runtimeClasses": list(gpu.RUNTIME_CLASSES)}},
            {"exemptions": [dict(EXEMPTIONS[0])]},
        ],
    )
    def test_a_default_that_is_written_out_changes_nothing(self, spec: dict[str, Any]) -> None:
        assert load_policy({**DEFAULT_DOCUMENT, "spec": spec}) == load_policy(DEFAULT_DOCUMENT)

    @pytest.mark.parametrize(
        "spec",
        [
            {"profile": "restricted"},
            {"enforcement": "audit"},
            {"gpu": {"visibilityVariables": ["SWARM_GPUS"]}},
            {"teams": [{"name": "a", "namespaces": ["a"]}]},
            {"rules": [{"rule": "GF301", "mode": "deny"}]},
        ],
    )
    def test_whatever_changes_a_decision_changes_the_version(self, spec: dict[str, Any]) -> None:
        version = load_policy({**DEFAULT_DOCUMENT, "spec": spec}).policy.version
        assert version != load_policy(DEFAULT_DOCUMENT).policy.version

    def test_it_is_twelve_hex_digits(self) -> None:
        version = load_policy(DEFAULT_DOCUMENT).policy.version
        assert len(version) == 12
        assert set(version) <= set("0123456789abcdef")

    def test_metadata_and_status_do_not_count(self, written: Callable[..., Any]) -> None:
        document = {
            **written(),
            "metadata": {"name": "default", "generation": 7},
            "status": {"conditions": []},
        }
        assert load_policy(document) == load_policy(DEFAULT_DOCUMENT)


class TestEffective:
    """The policy with every default written out, as `gpufence policy show` prints it."""

    @pytest.mark.parametrize("document", [DEFAULT_DOCUMENT, yaml.safe_load(EVERYTHING)])
    def test_it_loads_again_as_the_same_policy(self, document: dict[str, Any]) -> None:
        shown = yaml.safe_load(yaml.safe_dump(effective(document)))
        assert load_policy(shown).policy == load_policy(document).policy

    def test_it_shows_the_built_in_tables_and_the_shipped_exemptions(self) -> None:
        spec = effective(DEFAULT_DOCUMENT)["spec"]
        assert spec["gpu"]["notGpu"] == list(gpu.NOT_GPU)
        assert spec["exemptions"] == list(EXEMPTIONS)
        assert (spec["profile"], spec["enforcement"], spec["teams"]) == ("baseline", "enforce", [])

    def test_entries_are_shown_without_what_nobody_wrote(self, written: Callable[..., Any]) -> None:
        team = {"name": "vision", "namespaces": ["vision"]}
        assert effective(written(teams=[team]))["spec"]["teams"] == [team]

    def test_a_broken_document_is_refused(self) -> None:
        with pytest.raises(PolicyError):
            effective({"spec": {}})


class TestUnknownFields:
    """Refused in files; a running cluster warns, because an object for a later version must not stop it."""

    def test_a_cluster_warns_and_uses_the_rest(self, written: Callable[..., Any]) -> None:
        document = written(teams=[{"name": "a", "namespaces": ["a"], "quota": 3}], later={"x": 1})
        loaded = load_policy(document, unknown_fields="warn")
        assert [problem.path for problem in loaded.warnings] == ["spec.teams[0].quota", "spec.later"]
        assert [team.name for team in loaded.policy.teams] == ["a"]

    def test_the_document_itself_is_left_alone(self, written: Callable[..., Any]) -> None:
        document = written(teams=[{"name": "a", "namespaces": ["a"], "quota": 3}])
        load_policy(document, unknown_fields="warn")
        assert document["spec"]["teams"][0]["quota"] == 3

    def test_other_problems_still_refuse(self, written: Callable[..., Any]) -> None:
        with pytest.raises(PolicyError) as caught:
            load_policy(written(later=1, profile="strict"), unknown_fields="warn")
        assert [problem.path for problem in caught.value.problems] == ["spec.profile", "spec.later"]

    def test_a_field_without_which_an_entry_is_broken_is_not_forgiven(
        self, written: Callable[..., Any]
    ) -> None:
        document = written(teams=[{"name": "a", "namespaces": ["a"]}, {"name": "a", "later": 1}])
        with pytest.raises(PolicyError):
            load_policy(document, unknown_fields="warn")
