"""What the options say beside the manifests: policy, namespace, labels, user and groups."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POLICY = """\
apiVersion: gpufence.io/v1alpha1
kind: GpuPolicy
metadata: {name: default}
spec:
  teams:
  - name: vision
    namespaces: ["vision"]
  - name: speech
    namespaceSelector: {matchLabels: {team: speech}}
  - name: research
    groups: [researchers]
"""
GPU_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - name: cuda
    resources: {limits: {nvidia.com/gpu: 1}}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    metadata: {labels: {gpufence.io/team: speech}}
    spec:
      containers:
      - name: cuda
        resources: {limits: {nvidia.com/gpu: 1}}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_a_namespace_that_is_not_named_is_default(results: Callable[..., Any]) -> None:
    assert results(GPU_POD)[0]["namespace"] == "default"


def test_the_namespace_option_fills_an_empty_one_only(results: Callable[..., Any], policy: Path) -> None:
    (empty,) = results(GPU_POD, "--policy", policy, "--namespace", "vision")
    (own,) = results(
        GPU_POD.replace("{name:", "{namespace: other, name:"), "--policy", policy, "-n", "vision"
    )
    assert (empty["namespace"], empty["team"]) == ("vision", "vision")
    assert (own["namespace"], own["team"]) == ("other", None)


def test_labels_of_namespaces_come_from_a_file(
    results: Callable[..., Any], policy: Path, tmp_path: Path
) -> None:
    namespaces = tmp_path / "namespaces.yaml"
    namespaces.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: talk, labels: {team: speech}}\n")
    (known,) = results(GPU_POD, "--policy", policy, "-n", "talk", "--namespaces", namespaces)
    (unknown,) = results(GPU_POD, "--policy", policy, "-n", "talk")
    assert known["team"] == "speech"
    assert unknown["team"] is None
    assert "--namespaces FILE" in " ".join(unknown["notes"])


def test_the_group_of_the_user_counts_for_a_pod_made_by_hand(
    results: Callable[..., Any], policy: Path
) -> None:
    options = ("--policy", policy, "--user", "ada", "--group", "researchers", "--group", "other")
    assert results(GPU_POD, *options)[0]["team"] == "research"


def test_the_pods_of_a_workload_have_a_controller(results: Callable[..., Any], policy: Path) -> None:
    """So a foreign team label is refused, not corrected, and the group of the user does not count."""
    (result,) = results(JOB, "--policy", policy, "-n", "vision", "--user", "ada", "--group", "researchers")
    assert result["verdict"] == "deny"
    assert [each["rule"] for each in result["findings"] if each["action"] == "denied"] == ["GF302"]
    assert "ownerReferences" not in result["object"]["metadata"]


def test_every_problem_of_the_policy_is_named(check: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(POLICY.replace("metadata:", "metdata:").replace("speech", "vision"))
    ran = check(GPU_POD, "--policy", path)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) > 1
    assert all(line.startswith(f"gpufence check: {path}: ") for line in ran.err.splitlines())


def test_an_expired_exception_is_reported_and_does_not_apply(
    check: Callable[..., Any], privileged: str, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    exception = (
        "  exceptions:\n  - {name: legacy, rules: [GF201], namespaces: [vision], reason: old, owner: ada,"
        " expires: '2020-01-01T00:00:00Z'}\n"
    )
    path.write_text(POLICY + exception)
    ran = check(privileged, "--policy", path, "-o", "json")
    assert ran.code == 1
    assert "the exception legacy of ada ended at 2020-01-01T00:00:00+00:00 and no longer applies" in ran.err
    path.write_text(POLICY + exception.replace("2020", "2999"))
    ran = check(privileged, "--policy", path, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    (finding,) = [each for each in ran.json()["results"][0]["findings"] if each["rule"] == "GF201"]
    assert finding["action"] == "audited"
    assert "exception legacy until 2999-01-01: old" in finding["because"]


@pytest.mark.parametrize("option", ["--policy", "--namespaces"])
def test_a_missing_file_of_an_option_is_named(check: Callable[..., Any], option: str) -> None:
    ran = check(GPU_POD, option, "gone.yaml")
    assert ran.code == 2
    assert re.search("cannot read gone.yaml|gone.yaml: cannot be read", ran.err)
    assert ran.err.count("gone.yaml") == 1
    assert "Traceback" not in ran.err
