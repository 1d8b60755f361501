"""`gpufence policy`: show, check and crd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from policy.crd import crd_yaml
from policy.default import DEFAULT_DOCUMENT
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


def test_check_names_every_problem_with_status_2(gpufence: Callable[..., Any], policy: Path) -> None:
    policy.write_text(POLICY.replace("profile: restricted", "profile: strict\n  colour: red"))
    ran = gpufence("policy", "check", policy)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 2
    assert f"gpufence policy: {policy}: spec.profile: " in ran.err
    assert f"gpufence policy: {policy}: spec.colour: " in ran.err


def test_check_reports_an_expired_exception_as_a_warning(gpufence: Callable[..., Any], policy: Path) -> None:
    entry = (
        "{name: old, rules: [GF201], namespaces: [a], reason: r, owner: ada, expires: '2020-01-01T00:00:00Z'}"
    )
    policy.write_text(f"{POLICY}  exceptions: [{entry}]\n")
    ran = gpufence("policy", "check", policy)
    assert ran.code == 0
    assert f"{policy}: warning: the exception old of ada ended at 2020-01-01" in ran.err


@pytest.mark.parametrize("command", ["show", "check"])
def test_a_missing_file_is_named(gpufence: Callable[..., Any], command: str) -> None:
    ran = gpufence("policy", command, "gone.yaml")
    assert ran.code == 2
    assert ran.err.count("gone.yaml") == 2
    assert "cannot read gone.yaml" in ran.err


def test_crd_prints_the_definition(gpufence: Callable[..., Any]) -> None:
    assert gpufence("policy", "crd").out == crd_yaml()
