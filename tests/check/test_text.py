"""`-o text` is read by people, most at 80 columns, some in a log without colour."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from cli import terminal

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_denied_pod_is_told_with_what_where_why_and_fix(check: Callable[..., Any], privileged: str) -> None:
    out = check(privileged).out
    head, place, *rest = out.splitlines()
    assert head == "DENIED  Pod vision/train"
    assert place.strip() == "standard input:1, document 0, spec"
    text = " ".join(" ".join(rest).split())
    assert "GF201 denied: container cuda is privileged" in text
    assert "at /spec/containers/0/securityContext/privileged (line 12)" in text
    assert "why: A privileged container gets every device node of the host" in text
    assert "fix: Remove securityContext.privileged" in text


def test_a_fixed_pod_is_told_with_the_diff_of_what_changes(check: Callable[..., Any], pod: str) -> None:
    lines = check(pod).out.splitlines()
    assert lines[0] == "FIXED   Pod vision/web"
    diff = [line.strip() for line in lines[lines.index("        @@ spec.containers[0] main") :]]
    assert diff[1:6] == [
        "name: main",
        "image: nginx",
        "+env:",
        "+- name: NVIDIA_VISIBLE_DEVICES",
        "+  value: void",
    ]


def test_a_clean_pod_takes_one_line(check: Callable[..., Any], results: Callable[..., Any], pod: str) -> None:
    (result,) = results(pod)
    assert check(json.dumps(result["object"])).out.splitlines() == [
        "ok      Pod vision/web  standard input, document 0, spec",
        "1 pod template: 0 denied, 1 allowed.",
    ]


def test_denied_pods_come_first(check: Callable[..., Any], pod: str, privileged: str) -> None:
    heads = [line for line in check(f"{pod}---\n{privileged}").out.splitlines() if line[:1].isupper()]
    assert heads == ["DENIED  Pod vision/train", "FIXED   Pod vision/web"]


def test_the_reason_of_a_rule_is_told_once(check: Callable[..., Any], privileged: str) -> None:
    out = check(f"{privileged}---\n{privileged.replace('train', 'other')}").out
    assert out.count("why: A privileged container") == 1
    assert out.count("fix: Remove securityContext.privileged") == 2


def test_the_summary_counts_everything(
    check: Callable[..., Any], pod: str, privileged: str, service: str
) -> None:
    ran = check(f"{pod}---\n{privileged}---\n{service}---\na: b: c\n")
    assert ran.out.splitlines()[-1] == (
        "2 pod templates: 1 denied, 1 allowed, 1 of them fixed. 1 document without a pod. "
        "1 input could not be judged (see standard error)."
    )


def test_prose_fits_80_columns(check: Callable[..., Any], pod: str, privileged: str) -> None:
    lines = check(f"{pod}---\n{privileged}").out.splitlines()
    assert max(map(len, lines)) <= 80


@pytest.fixture
def crowd(pod: str, privileged: str) -> str:
    """Return a List of 300 pods, a third of them denied for one and the same reason."""
    texts = [
        text.replace("name: ", f"name: n{index}-", 1)
        for index in range(100)
        for text in (pod, privileged, pod)
    ]
    return "---\n".join(texts)


def test_many_results_are_grouped(check: Callable[..., Any], crowd: str) -> None:
    ran = check(crowd)
    assert ran.code == 1
    assert len(ran.out.splitlines()) < 40
    assert ran.out.count("DENIED") == 1
    assert "and 99 more with the same findings" in ran.out
    assert "GF101 fixed in 200: Container without a GPU request" in ran.out
    assert ran.out.splitlines()[-1] == "300 pod templates: 100 denied, 200 allowed, 200 of them fixed."


def test_all_shows_each_of_many(check: Callable[..., Any], crowd: str) -> None:
    out = check(crowd, "--all").out
    assert (out.count("DENIED"), out.count("FIXED")) == (100, 200)


def test_there_is_no_colour_where_there_is_no_terminal(check: Callable[..., Any], privileged: str) -> None:
    assert "\x1b" not in check(privileged).out


@pytest.mark.parametrize(("variable", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colour_unless_no_color_is_set(
    check: Callable[..., Any],
    privileged: str,
    monkeypatch: pytest.MonkeyPatch,
    variable: dict[str, str],
    coloured: bool,
) -> None:
    def console() -> Console:
        environment = {"TERM": "xterm-256color", **variable}
        return Console(highlight=False, markup=False, force_terminal=True, width=80, _environ=environment)

    monkeypatch.setattr(terminal, "console", console)
    assert ("\x1b[1;31m" in check(privileged).out) is coloured


def test_a_warning_of_the_reader_is_shown(check: Callable[..., Any], pod: str) -> None:
    out = " ".join(check(pod + "  containers:\n  - name: other\n").out.split())
    assert "warning: line 8: the key 'containers' is there twice in one object; the last one counts" in out


def test_an_exempt_pod_says_so(check: Callable[..., Any], privileged: str) -> None:
    line = check(privileged.replace("namespace: vision", "namespace: kube-system")).out.splitlines()[0]
    assert line.startswith("ok      Pod kube-system/train")
    assert line.endswith("recorded: GF201, GF301, exempt")
