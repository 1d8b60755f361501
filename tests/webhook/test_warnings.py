"""Warnings are made to fit what the API server passes on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webhook.warnings import EACH, TOTAL, fit


def test_short_warnings_stay_as_they_are():
    assert fit(["one", "two"]) == ("one", "two")


def test_repeats_and_empty_ones_are_dropped():
    assert fit(["one", "", "one", "  "]) == ("one",)


def test_a_warning_is_one_line_without_control_characters():
    assert fit(["a\nb\x00\tc\u2028d"]) == ("a b c d",)


def test_one_long_warning_is_kept_whole():
    assert fit(["x" * 3000]) == ("x" * 3000,)


def test_too_many_are_cut_and_the_rest_is_counted():
    warnings = fit(f"{index:03} {'x' * 500}" for index in range(40))
    assert len(warnings[0]) == EACH
    assert warnings[0].endswith("...")
    assert warnings[-1] == f"gpufence: {40 - len(warnings) + 1} more warnings were left out"


@given(st.lists(st.text(max_size=600), max_size=60))
def test_the_limits_hold_for_any_warnings(texts):
    warnings = fit(texts)
    assert sum(map(len, warnings)) <= TOTAL
    assert len(set(warnings)) == len(warnings)
    assert all(warning.isprintable() and warning for warning in warnings)
