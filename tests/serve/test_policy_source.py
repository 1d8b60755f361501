"""A process starts with a good policy or not at all, and keeps the last good one."""

from __future__ import annotations

import pytest

from policy.errors import PolicyError
from serve.policy_source import PolicySource, in_file

GOOD = """
apiVersion: gpufence.io/v1alpha1
kind: GpuPolicy
metadata: {name: default}
spec: {profile: PROFILE}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD.replace("PROFILE", "baseline"))
    return path


def test_the_policy_of_the_file_is_in_force(file):
    assert PolicySource(file).policy.profile == "baseline"


def test_every_problem_stops_the_start(file):
    file.write_text(GOOD.replace("PROFILE", "loose") + "unknown: 1\n")
    with pytest.raises(PolicyError) as caught:
        PolicySource(file)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("text", [None, "a: [", "a: 1\n---\nb: 1\n", "", "- 1\n"])
def test_a_file_that_holds_no_policy_is_a_problem_of_the_policy(file, text):
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(PolicyError):
        PolicySource(file)


def test_a_reload_puts_the_new_policy_in_force(file):
    source = PolicySource(file)
    file.write_text(GOOD.replace("PROFILE", "restricted"))
    assert source.reload() == ()
    assert source.policy.profile == "restricted"


def test_a_bad_reload_keeps_the_last_good_policy_and_says_why(file):
    source = PolicySource(file)
    before = source.policy
    file.write_text(GOOD.replace("PROFILE", "loose"))
    (problem,) = source.reload()
    assert "loose" in str(problem)
    assert source.policy is before


@pytest.mark.parametrize("text", [None, "a: [", "a: 1\n---\nb: 1\n", "kind: x\n"])
def test_a_line_about_the_file_names_it_once_and_ends_its_sentences_once(file, text):
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        PolicySource(file)
    for problem in caught.value.problems:
        told = in_file(file, problem)
        assert told.count(str(file)) == 1
        assert " Fix: " in told
        assert ".." not in told.replace(str(file), "")
