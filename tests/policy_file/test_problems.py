"""What is said about a GpuPolicy that cannot be used: every problem at once, with path, value and fix."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from policy.complaints import MOST_PROBLEMS
from policy.default import DEFAULT_DOCUMENT
from policy.labels import short_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.problems import Problem

    Written = Callable[..., dict[str, Any]]
    ProblemsOf = Callable[[object], list[Problem]]

EXCEPTION = {
    "name": "legacy",
    "rules": ["GF201"],
    "namespaces": ["vision"],
    "reason": "moves in spring",
    "owner": "ops@example.com",
    "expires": "2027-03-01T00:00:00Z",
}
ONLY_STAR = "`*` is the only wildcard."


def _team(**fields: Any) -> dict[str, Any]:
    return {"teams": [{"name": "vision", "namespaces": ["vision"], **fields}]}


def _rule(**fields: Any) -> dict[str, Any]:
    return {"rules": [{"rule": "GF201", "mode": "warn", **fields}]}


def _exemption(**fields: Any) -> dict[str, Any]:
    return {"exemptions": [{"namespaces": ["a"], "serviceAccounts": ["b"], "reason": "c", **fields}]}


def _exception(**fields: Any) -> dict[str, Any]:
    return {"exceptions": [{**EXCEPTION, **fields}]}


def _expression(**fields: Any) -> dict[str, Any]:
    return _rule(namespaceSelector={"matchExpressions": [{"key": "team", **fields}]})


EXPRESSION = "spec.rules[0].namespaceSelector.matchExpressions[0]"

# (the spec, the path, the message, the value as shown, what the fix says)
CASES: list[tuple[dict[str, Any], str, str, str, str]] = [
    (
        {"profile": "strict"},
        "spec.profile",
        "must be one of baseline, restricted",
        '"strict"',
        "Write baseline or restricted.",
    ),
    ({"enforcement": None}, "spec.enforcement", "must be one of enforce, audit", "null", "enforce or audit."),
    ({"teems": []}, "spec.teems", "there is no such field", "a list of 0", "Did you mean `teams`?"),
    ({"zzz": {}}, "spec.zzz", "there is no such field", "an object of 0 fields", "Write one of: profile, "),
    ({"gpu": {"notGPU": 1}}, "spec.gpu.notGPU", "there is no such field", "1", "Did you mean `notGpu`?"),
    (
        _team(namespaceSelector={"matchLabel": {}}),
        "spec.teams[0].namespaceSelector.matchLabel",
        "there is no such field",
        "an object of 0 fields",
        "Did you mean `matchLabels`?",
    ),
    (
        {"teams": None},
        "spec.teams",
        "must be a list, and is null",
        "null",
        "To take the built-in value, remove",
    ),
    (
        {"teams": {"vision": {}}},
        "spec.teams",
        "must be a list",
        "an object of 1 fields",
        "Write one `- ` line",
    ),
    (
        {"teams": ["vision"]},
        "spec.teams[0]",
        "must be an object of fields",
        '"vision"',
        "Write `field: value`",
    ),
    ({"gpu": []}, "spec.gpu", "must be an object of fields", "a list of 0", "Write `field: value`"),
    (_team(name=7), "spec.teams[0].name", "must be text, and is a number", "7", "Put it in quotes"),
    (
        _team(name=True),
        "spec.teams[0].name",
        "must be text, and is a boolean",
        "true",
        "Put it in quotes: YAML reads on, yes and y without quotes as true.",
    ),
    (
        {"enforcement": False},
        "spec.enforcement",
        "is a boolean, and must be one of enforce, audit",
        "false",
        "Write one of: enforce, audit. YAML reads off, no and n without quotes as false.",
    ),
    (_team(name=["a"]), "spec.teams[0].name", "must be text", "a list of 1", "Write one line of text."),
    (_team(name=""), "spec.teams[0].name", "is empty", '""', "Write at least one character."),
    (
        _team(name=" vision"),
        "spec.teams[0].name",
        "begins or ends with a space",
        '" vision"',
        "Remove the space.",
    ),
    (
        _team(name="a\nb"),
        "spec.teams[0].name",
        "is not one line of printable text",
        '"a\\nb"',
        "no line breaks",
    ),
    (
        _team(name="a\u200bb"),
        "spec.teams[0].name",
        "has control or invisible characters",
        '"a\\u200bb"',
        "no line breaks or other control characters",
    ),
    (_team(name="x" * 254), "spec.teams[0].name", "is longer than 253 characters", "", "Write at most 253"),
    (
        _team(name="unassigned"),
        "spec.teams[0].name",
        "stands for pods without a team",
        "",
        "Choose another name.",
    ),
    (
        _team(namespaces=["vision?"]),
        "spec.teams[0].namespaces[0]",
        "is not a namespace name, with or without wildcards",
        '"vision?"',
        ONLY_STAR,
    ),
    (
        _team(serviceAccounts=["trainer"]),
        "spec.teams[0].serviceAccounts[0]",
        "is not a service account in the form namespace/name",
        '"trainer"',
        "Write both parts, as in `shared/vision-*`",
    ),
    (
        _exemption(serviceAccounts=["ns/name"]),
        "spec.exemptions[0].serviceAccounts[0]",
        "is not a service account name, with or without wildcards",
        '"ns/name"',
        "without the namespace",
    ),
    (
        _team(resources=["gpu"]),
        "spec.teams[0].resources[0]",
        "is not a resource name in the form domain/name, with or without wildcards",
        '"gpu"',
        "Write it as a pod requests it",
    ),
    (
        _team(maxPerPod={"nvidia.com/gpu": -1}),
        'spec.teams[0].maxPerPod["nvidia.com/gpu"]',
        "must not be less than 0",
        "-1",
        "Write 0 to allow none.",
    ),
    (
        _team(maxPerPod={"nvidia.com/gpu": 2**31}),
        'spec.teams[0].maxPerPod["nvidia.com/gpu"]',
        "must not be more than 2147483647",
        "2147483648",
        "Remove the line to set no limit.",
    ),
    (
        _team(maxPerPod={"nvidia.com/gpu": "4"}),
        'spec.teams[0].maxPerPod["nvidia.com/gpu"]',
        "must be a whole number",
        '"4"',
        "Write a number without quotes.",
    ),
    (
        _team(maxPerPod={"nvidia.com/gpu": 1.5}),
        'spec.teams[0].maxPerPod["nvidia.com/gpu"]',
        "must be a whole number",
        "1.5",
        "Write a number without quotes.",
    ),
    (
        _team(maxPerPod={"gpu": 1}),
        "spec.teams[0].maxPerPod.gpu",
        "is not a resource name in the form domain/name, with or without wildcards",
        '"gpu"',
        "Write it as a pod requests it",
    ),
    (_team(queues=[{"queue": "q"}]), "spec.teams[0].queues[0].namespaces", "is missing", "", "Add it."),
    (
        _team(queues=[{"queue": "q-*", "namespaces": ["a"]}]),
        "spec.teams[0].queues[0].queue",
        "is not the name of a queue",
        '"q-*"',
        "wildcards are not possible",
    ),
    (
        _team(queues=[{"queue": "q", "namespaces": []}]),
        "spec.teams[0].queues[0].namespaces",
        "is empty",
        "a list of 0",
        "Give at least one entry.",
    ),
    (
        _team(costCenter="a\tb"),
        "spec.teams[0].costCenter",
        "is not one line of printable text",
        "",
        "control",
    ),
    (
        _team(resources=None),
        "spec.teams[0].resources",
        "is null, which may mean nothing or everything",
        "null",
        "Give it a value, or remove the line.",
    ),
    (
        _rule(rule="GF205x"),
        "spec.rules[0].rule",
        "is longer than 5 characters",
        '"GF205x"',
        "Write at most 5",
    ),
    (
        _rule(rule="gf201"),
        "spec.rules[0].rule",
        "is not the id of a rule",
        '"gf201"',
        "`gpufence rules` lists",
    ),
    (
        _rule(rule="GF210"),
        "spec.rules[0].rule",
        "there is no rule of this id",
        '"GF210"',
        "`gpufence rules` lists",
    ),
    (
        _rule(mode="block"),
        "spec.rules[0].mode",
        "must be one of fix, deny, warn, audit, off",
        '"block"',
        "Write",
    ),
    (
        _rule(mode=False),
        "spec.rules[0].mode",
        "is a boolean, and must be one of fix, deny, warn, audit, off",
        "false",
        'Put it in quotes ("off"): YAML reads off without quotes as false.',
    ),
    (
        _rule(case="othr"),
        "spec.rules[0].case",
        "GF201 has no case of this name",
        '"othr"',
        "Did you mean `other`?",
    ),
    (
        _rule(mode="fix"),
        "spec.rules[0].mode",
        "GF201 cannot have this mode",
        '"fix"',
        "Write one of: deny, warn, audit, off.",
    ),
    (
        _rule(rule="GF302", case="controlled", mode="fix"),
        "spec.rules[0].mode",
        "case controlled of GF302 cannot have this mode",
        '"fix"',
        "Write one of: deny, warn, audit, off.",
    ),
    (_rule(namespaces=[]), "spec.rules[0].namespaces", "is empty", "a list of 0", "Give at least one entry."),
    (
        _expression(operator="Equals"),
        f"{EXPRESSION}.operator",
        "must be one of In, NotIn, Exists, DoesNotExist",
        '"Equals"',
        "Write one of",
    ),
    (
        _expression(operator="In"),
        f"{EXPRESSION}.values",
        "In compares with nothing",
        "null",
        "at least one value",
    ),
    (
        _expression(operator="Exists", values=["a"]),
        f"{EXPRESSION}.values",
        "Exists takes no values",
        "a list of 1",
        "Remove the values, or write In or NotIn.",
    ),
    (
        _expression(operator="In", values=["vision-*"]),
        f"{EXPRESSION}.values[0]",
        "is not a label value",
        '"vision-*"',
        "no wildcard",
    ),
    (
        _rule(namespaceSelector={"matchLabels": {"team": 7}}),
        "spec.rules[0].namespaceSelector.matchLabels.team",
        "must be text, and is a number",
        "7",
        "Put it in quotes",
    ),
    (
        _exemption(namespaces=["*"], serviceAccounts=["**"]),
        "spec.exemptions[0]",
        "exempts every pod of the cluster, which would switch gpufence off",
        "an object of 3 fields",
        "To only watch, set spec.enforcement to audit.",
    ),
    (
        _exemption(namespaces=[]),
        "spec.exemptions[0].namespaces",
        "is empty",
        "a list of 0",
        "at least one entry",
    ),
    (_exemption(reason=""), "spec.exemptions[0].reason", "is empty", '""', "at least one character"),
    (
        _exception(rules=["GF201", "GF299"]),
        "spec.exceptions[0].rules[1]",
        "there is no rule of this id",
        '"GF299"',
        "`gpufence rules` lists",
    ),
    (
        _exception(expires="soon"),
        "spec.exceptions[0].expires",
        "is not a point in time",
        '"soon"',
        "2027-03-01T",
    ),
    (
        _exception(expires="2027-02-30T00:00:00Z"),
        "spec.exceptions[0].expires",
        "is not a point in time",
        '"2027-02-30T00:00:00Z"',
        "Write a date, a time and a time zone",
    ),
    (
        _exception(expires="2027-03-01T00:00:00"),
        "spec.exceptions[0].expires",
        "is not a point in time",
        '"2027-03-01T00:00:00"',
        "Write a date, a time and a time zone",
    ),
    (
        _exception(expires=datetime(2027, 3, 1)),  # noqa: DTZ001 - what YAML makes of an unquoted local time
        "spec.exceptions[0].expires",
        "has no time zone",
        "a datetime",
        "Write a date, a time and a time zone",
    ),
    (
        _exception(expires=date(2027, 3, 1)),
        "spec.exceptions[0].expires",
        "is not a point in time",
        "a date",
        "",
    ),
    (
        _exception(name="Legacy pods"),
        "spec.exceptions[0].name",
        "is not a name",
        '"Legacy pods"',
        "vision-legacy",
    ),
    (
        {"gpu": {"visibilityVariables": ["NVIDIA_VISIBLE_DEVICES"]}},
        "spec.gpu.visibilityVariables[0]",
        "is always the main visibility variable",
        '"NVIDIA_VISIBLE_DEVICES"',
        "Remove it from the list.",
    ),
    (
        {"gpu": {"visibilityVariables": ["NVIDIA_DRIVER_CAPABILITIES"]}},
        "spec.gpu.visibilityVariables[0]",
        "is judged by rule GF112",
        '"NVIDIA_DRIVER_CAPABILITIES"',
        "Remove it from the list.",
    ),
    (
        {"gpu": {"visibilityVariables": ["9A"]}},
        "spec.gpu.visibilityVariables[0]",
        "is not the name of an environment variable",
        '"9A"',
        "not starting with a digit",
    ),
    (
        {"gpu": {"guardedPaths": ["dev"]}},
        "spec.gpu.guardedPaths[0]",
        "is not an absolute path without wildcards",
        '"dev"',
        "Write the directory or file itself",
    ),
    (
        {"gpu": {"guardedPaths": ["/dev/nvidia*"]}},
        "spec.gpu.guardedPaths[0]",
        "is not an absolute path without wildcards",
        '"/dev/nvidia*"',
        "all that is below a path belongs to it",
    ),
    (
        {"gpu": {"sharingProviders": ["kay"]}},
        "spec.gpu.sharingProviders[0]",
        "gpufence knows no sharing provider of this name",
        '"kay"',
        "Did you mean `kai`?",
    ),
    (
        {"gpu": {"resources": [{"vendor": "nvida", "devices": ["nvidia.com/*"]}]}},
        "spec.gpu.resources[0].vendor",
        "must be one of nvidia, amd, intel, other",
        '"nvida"',
        "Did you mean `nvidia`?",
    ),
    (
        {"gpu": {"deviceAnnotations": ["*.cdi.k8s.io"]}},
        "spec.gpu.deviceAnnotations[0]",
        "is not an annotation key, a prefix of one, or a domain",
        '"*.cdi.k8s.io"',
        "Write a prefix that ends in '/' or '.'",
    ),
    (
        {"gpu": {"runtimeClasses": ["nvidia*"]}},
        "spec.gpu.runtimeClasses[0]",
        "is not the name of a Kubernetes object",
        '"nvidia*"',
        "no wildcard",
    ),
    (
        {"gpu": {"driverCapabilities": ["compute,utility"]}},
        "spec.gpu.driverCapabilities[0]",
        "is not a driver capability",
        '"compute,utility"',
        "Write one name per entry",
    ),
    (
        {"gpu": {"driverCapabilities": ["a"] * 257}},
        "spec.gpu.driverCapabilities",
        "has more than 256 entries",
        "a list of 257",
        "Use wildcards, or remove entries.",
    ),
    ({"\ud800": 1}, "spec", "is not Unicode text", '"\\ud800"', "Save the file as UTF-8"),
    ({8: 1}, "spec[8]", "the name of a field must be text", "8", "Put it in quotes"),
]


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_told_with_its_path_its_value_and_its_fix(
    problems_of: ProblemsOf, case: tuple[dict[str, Any], str, str, str, str]
) -> None:
    spec, path, message, value, fix = case
    (problem,) = problems_of({**DEFAULT_DOCUMENT, "spec": spec})
    assert (problem.path, problem.message) == (path, message)
    assert value in problem.value
    assert fix in problem.fix
    assert problem.fix.endswith((".", "?")), "a fix is a sentence"


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        (None, ["document"]),
        ([], ["document"]),
        ("kind: GpuPolicy", ["document"]),
        ({}, ["apiVersion", "kind", "metadata", "spec"]),
        ({**DEFAULT_DOCUMENT, "apiVersion": "gpufence.io/v1"}, ["apiVersion"]),
        ({**DEFAULT_DOCUMENT, "kind": "GPUPolicy"}, ["kind"]),
        ({**DEFAULT_DOCUMENT, "metadata": {}}, ["metadata.name"]),
        ({**DEFAULT_DOCUMENT, "metadata": {"name": "My Policy"}}, ["metadata.name"]),
        ({**DEFAULT_DOCUMENT, "spec": None}, ["spec"]),
        ({**DEFAULT_DOCUMENT, "sepc": {}}, ["sepc"]),
    ],
)
def test_what_surrounds_the_spec_is_checked_too(
    problems_of: ProblemsOf, document: object, paths: list[str]
) -> None:
    assert [problem.path for problem in problems_of(document)] == paths


def test_every_problem_is_told_at_once(problems_of: ProblemsOf) -> None:
    spec = {
        "profile": "strict",
        "gpu": {"guardedPaths": ["dev"], "sharingProvider": ["kai"]},
        "rules": [{"rule": "GF999", "mode": "warn"}, {"rule": "GF201", "mode": "fix"}],
        "teams": [
            {"name": "vision", "namespaces": ["Vision"]},
            {"name": "vision", "maxPerPod": {"nvidia.com/gpu": -1}},
        ],
        "exemptions": [{"namespaces": ["*"], "serviceAccounts": ["*"], "reason": "all"}],
        "exceptions": [{**EXCEPTION, "expires": "2027-03-01"}, EXCEPTION],
    }
    assert [problem.path for problem in problems_of({**DEFAULT_DOCUMENT, "spec": spec})] == [
        "spec.profile",
        "spec.gpu.guardedPaths[0]",
        "spec.gpu.sharingProvider",
        "spec.rules[0].rule",
        "spec.rules[1].mode",
        "spec.teams[0].namespaces[0]",
        'spec.teams[1].maxPerPod["nvidia.com/gpu"]',
        "spec.exemptions[0]",
        "spec.exceptions[0].expires",
        "spec.teams[1].name",
        "spec.exceptions[1].name",
    ]


def test_a_problem_reads_as_one_line_for_people(written: Written, problems_of: ProblemsOf) -> None:
    (problem,) = problems_of(written(profile="strict"))
    assert str(problem) == (
        'spec.profile: must be one of baseline, restricted (found "strict"). Fix: Write baseline or restricted.'
    )


class TestNames:
    """Teams and exceptions are known by their names."""

    def test_a_team_name_can_be_there_once(self, written: Written, problems_of: ProblemsOf) -> None:
        teams = [{"name": "vision", "namespaces": ["a"]}, {"name": "vision", "namespaces": ["b"]}]
        (problem,) = problems_of(written(teams=teams))
        assert problem.path == "spec.teams[1].name"
        assert problem.message == "spec.teams[0] has the same name"

    def test_two_teams_cannot_share_the_label_that_pods_carry(
        self, written: Written, problems_of: ProblemsOf
    ) -> None:
        teams = [{"name": "R & D", "namespaces": ["a"]}, {"name": short_form("R & D"), "namespaces": ["b"]}]
        (problem,) = problems_of(written(teams=teams))
        assert problem.message == "spec.teams[0] has the same label on pods"

    def test_an_exception_name_can_be_there_once(self, written: Written, problems_of: ProblemsOf) -> None:
        (problem,) = problems_of(written(exceptions=[EXCEPTION, EXCEPTION]))
        assert problem.path == "spec.exceptions[1].name"


class TestBounds:
    """A hostile document costs little, and its report stays readable."""

    def test_a_flood_of_problems_is_cut_and_counted(self, written: Written, problems_of: ProblemsOf) -> None:
        problems = problems_of(written(**{f"field{number}": number for number in range(5000)}))
        assert len(problems) == MOST_PROBLEMS + 1
        assert problems[-1].message == f"{5000 - MOST_PROBLEMS} more problems are not listed"

    def test_a_huge_list_is_refused_by_its_length(self, written: Written, problems_of: ProblemsOf) -> None:
        teams = [{"name": f"team-{number}", "namespaces": ["a"]} for number in range(100_000)]
        assert [problem.message for problem in problems_of(written(teams=teams))] == [
            "has more than 256 entries"
        ]

    def test_deep_nesting_is_not_followed(self, written: Written, problems_of: ProblemsOf) -> None:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        assert [problem.value for problem in problems_of(written(teams=deep, later=deep))] == [
            "a list of 1",
            "a list of 1",
        ]

    def test_a_document_that_contains_itself_is_refused(
        self, written: Written, problems_of: ProblemsOf
    ) -> None:
        document = written()
        document["spec"]["gpu"] = document
        assert "spec.gpu.spec" in [problem.path for problem in problems_of(document)]

    def test_long_values_and_names_are_cut(self, written: Written, problems_of: ProblemsOf) -> None:
        (named,) = problems_of(written(profile="x" * 1_000_000))
        assert len(str(named)) < 300
        (field,) = problems_of(written(**{"y" * 1_000_000: 1}))
        assert len(str(field)) < 300

    def test_a_number_of_a_million_digits_is_not_printed(
        self, written: Written, problems_of: ProblemsOf
    ) -> None:
        (problem,) = problems_of(written(teams=[{"name": 1 << 4_000_000, "namespaces": ["a"]}]))
        assert problem.value == "a huge number"
