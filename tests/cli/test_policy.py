"""`gpufence policy`: show, check and crd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from policy.crd import crd_yaml
from policy.default import DEFAULT_DOCUMENT
from policy.labels import short_form
from policy.load import effective, load_policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POLICY = """\
apiVersion: gpufence.io/v1alpha1
kind: GpuPolicy
metadata: {name: default}
spec:
  profile: restricted
  gpu:
    sharingProviders: [kai]
  teams:
  - name: vision
    namespaces: ["vision", "vision-*"]
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_show_prints_the_builtin_policy_which_loads_again_as_the_same(gpufence: Callable[..., Any]) -> None:
    shown = yaml.safe_load(gpufence("policy", "show").out)
    assert shown == effective(DEFAULT_DOCUMENT)
    assert load_policy(shown).policy.version == load_policy(DEFAULT_DOCUMENT).policy.version


def test_show_writes_the_defaults_out_and_marks_them(gpufence: Callable[..., Any], policy: Path) -> None:
    ran = gpufence("policy", "show", policy)
    lines = ran.out.splitlines()
    assert yaml.safe_load(ran.out) == effective(yaml.safe_load(POLICY))
    assert "  profile: restricted" in lines
    assert "  enforcement: enforce  # default" in lines
    assert "    sharingProviders:" in lines
    assert "    notGpu:  # default" in lines
    assert "  teams:" in lines


def test_check_tells_what_a_good_policy_holds(gpufence: Callable[..., Any], policy: Path) -> None:
    ran = gpufence("policy", "check", policy)
    version = load_policy(yaml.safe_load(POLICY)).policy.version
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{policy}: valid, version {version}: profile restricted, enforced, 1 team, ")


def test_check_names_every_problem_in_the_order_of_the_file(
    gpufence: Callable[..., Any], policy: Path
) -> None:
    text = POLICY.replace('["vision", "vision-*"]', "[Vision]").replace("profile: restricted", "colour: red")
    policy.write_text(text + "    names: []\n  - name: vision\n  profile: strict\n")
    ran = gpufence("policy", "check", policy)
    assert (ran.code, ran.out) == (2, "")
    found = [line.strip() for line in ran.err.splitlines() if line.startswith("  line")]
    assert [": ".join(line.split(": ")[:2]) for line in found] == [
        "line 5: spec.colour",
        "line 10: spec.teams[0].namespaces[0]",
        "line 11: spec.teams[0].names",
        "line 12: spec.teams[1].name",
        "line 13: spec.profile",
    ]
    assert ran.err.splitlines()[0] == f"{policy}:"
    assert ran.err.splitlines()[-1] == "5 problems."
    assert ran.err.count(str(policy)) == 1


def test_check_wraps_at_the_width_of_the_terminal(
    gpufence: Callable[..., Any], policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    policy.write_text(POLICY.replace("profile: restricted", "profile: strict"))
    ran = gpufence("policy", "check", policy)
    assert all(len(line) <= 60 for line in ran.err.splitlines()[1:])


def test_off_without_quotes_is_told_with_the_quotes_it_needs(
    gpufence: Callable[..., Any], policy: Path
) -> None:
    policy.write_text(POLICY + "  rules:\n  - {rule: GF301, mode: off}\n")
    ran = gpufence("policy", "check", policy)
    assert 'Put it in quotes ("off")' in " ".join(ran.err.split())


def test_an_expired_exception_is_a_warning_with_its_place_and_is_counted(
    gpufence: Callable[..., Any], policy: Path
) -> None:
    entry = (
        "{name: old, rules: [GF201], namespaces: [a], reason: r, owner: ada, expires: '2020-01-01T00:00:00Z'}"
    )
    policy.write_text(f"{POLICY}  exceptions:\n  - {entry}\n")
    ran = gpufence("policy", "check", policy)
    assert ran.code == 0
    told = " ".join(ran.err.split())
    assert "line 12: warning: spec.exceptions[0]: the exception old of ada ended at 2020-01-01" in told
    assert told.endswith("1 warning.")
    assert ran.out.endswith(", 1 exception (1 expired).\n")


def test_check_says_under_which_label_a_team_is_found(gpufence: Callable[..., Any], policy: Path) -> None:
    policy.write_text(POLICY.replace("name: vision", "name: R & D"))
    ran = gpufence("policy", "check", policy)
    assert (ran.code, ran.err) == (0, "")
    assert f"Pods of team R & D carry the label gpufence.io/team={short_form('R & D')}." in ran.out


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read: No such file or directory."),
        ("a: [", "line 2: not valid YAML"),
        ("a: 1\n---\nb: 1\n", "line 2: one document expected, 2 found. Fix: Keep one"),
        ("a:\n\tb: 1\n", "line 2: a tab stands in the indentation"),
        ("a: 1\na: 2\n", "line 2: the key 'a' is there twice"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_once(
    gpufence: Callable[..., Any], tmp_path: Path, command: str, text: str | None, told: str
) -> None:
    if text is not None:
        (tmp_path / "bad.yaml").write_text(text)
    ran = gpufence("policy", command, "bad.yaml")
    assert ran.code == 2
    assert ran.err.count("bad.yaml") == 1
    assert told in " ".join(ran.err.split())
    assert ".." not in ran.err


def test_crd_prints_the_definition(gpufence: Callable[..., Any]) -> None:
    assert gpufence("policy", "crd").out == crd_yaml()
