"""What fits in a label, and what stands for the rest."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.labels import as_label, is_label_value, short_form

# As written in Kubernetes: apimachinery pkg/util/validation/validation.go.
KUBERNETES = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

ANYTHING = st.text(st.characters(), max_size=300)


@given(st.one_of(ANYTHING, st.text("aZ0-_.", max_size=70)))
def test_a_label_value_is_what_kubernetes_takes_for_one(text: str) -> None:
    assert is_label_value(text) == (len(text) <= 63 and KUBERNETES.fullmatch(text) is not None)


@given(ANYTHING)
def test_a_short_form_is_always_a_label_value_and_never_empty(text: str) -> None:
    assert is_label_value(short_form(text))
    assert short_form(text)


@given(ANYTHING)
def test_a_short_form_is_the_same_each_time(text: str) -> None:
    assert short_form(text) == short_form(text)


def test_a_lone_surrogate_has_a_short_form_too() -> None:
    assert is_label_value(short_form("team \ud800"))


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("Forschung & Entwicklung", "Forschung-Entwicklung"),
        ("Équipe Génie", "Equipe-Genie"),
        ("CC 4711", "CC-4711"),
        ("研究", "x"),
        ("...", "x"),
        ("a" * 100, "a" * 54),
        ("a" * 53 + " b", "a" * 53),
    ],
)
def test_a_short_form_keeps_what_can_be_read(text: str, readable: str) -> None:
    assert re.fullmatch(rf"{readable}-[0-9a-f]{{8}}", short_form(text))


@pytest.mark.parametrize(
    ("one", "other"), [("研究", "開発"), ("R & D", "R + D"), ("a" * 64, "a" * 65), ("é!", "e!")]
)
def test_texts_that_read_alike_have_different_short_forms(one: str, other: str) -> None:
    assert short_form(one) != short_form(other)


def test_a_short_form_never_changes_between_versions() -> None:
    assert short_form("Forschung & Entwicklung") == "Forschung-Entwicklung-f3612d33"


@given(ANYTHING)
def test_only_what_is_no_label_value_is_shortened(text: str) -> None:
    assert as_label(text) == (text if is_label_value(text) else short_form(text))
