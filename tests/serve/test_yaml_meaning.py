"""YAML means here what it means to kubectl.

The expected values were read off `kubectl annotate --local -o json` (kubectl 1.32.4).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from serve.kubeyaml import YamlDocument, YamlError, read


def document(text: str) -> YamlDocument:
    (found,) = read(text)
    return found


def value(text: str) -> Any:
    return document(text).value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("yes", True), ("on", True), ("y", True), ("Y", True), ("TRUE", True), ("tRue", "tRue"),
        ("no", False), ("off", False), ("n", False), ("Off", False), ('"on"', "on"), ("'no'", "no"),
        ("~", None), ("Null", None), ("nULL", "nULL"), ("", None),
        ("010", 8), ("0o10", 8), ("-010", -8), ("0_10", 8), ("09", 9), ("00", 0), ("0x1F", 31), ("0X1f", 31),
        ("0b11", 3), ("-0b11", -3), ("+12", 12), ("-0", 0), ("1_000", 1000), ("1__0", 10), ("_1", "_1"), ("0x", "0x"),
        ("1e3", 1000), ("1E3", 1000), ("1.5e-3", 0.0015), ("0.1e+2", 10), ("1.0", 1), ("1.", 1), (".5", 0.5),
        ("+.5", 0.5), ("-.5", -0.5), ("1_0.5", 10.5), ("1e25", 1e25), ("1e400", "1e400"),
        ("12345678901234567890", 12345678901234567890.0), ("123456789012345678901234", 1.2345678901234569e23),
        ("0777777777777777777777777777", 7.777777777777778e26),
        ("1:30", "1:30"), ("2020-01-01", "2020-01-01"), ("2020-01-01T10:00:00Z", "2020-01-01T10:00:00Z"),
        ("=", "="), ("32Gi", "32Gi"), ("1.2.3", "1.2.3"), ("-", [None]),
        ("!!str 12", "12"), ("! 12", "12"), ("!!int '3'", 3), ("!!float 1", 1), ("!!bool 'yes'", True),
        ("!!timestamp 2020-01-01", "2020-01-01"), ("!!binary aGk=", "hi"), ("!!map {b: c}", {"b": "c"}),
    ],
)  # fmt: skip
def test_a_scalar_has_the_value_that_kubectl_gives_it(written: str, meant: object) -> None:
    if written == "-":
        written = "\n  -"
    found = value(f"key: {written}")["key"]
    assert found == meant
    assert type(found) is type(meant) or {type(found), type(meant)} == {int, float}


def test_a_whole_float_is_an_integer_in_json() -> None:
    assert json.dumps(value("a: [1.0, 1e3, 2.5]")) == '{"a": [1, 1000, 2.5]}'


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("1", "1"),
        ("yes", "true"),
        ("y", "true"),
        ("off", "false"),
        ("010", "8"),
        ("'yes'", "yes"),
        ("!!str true", "true"),
    ],
)
def test_a_key_becomes_text_as_kubectl_makes_it(written: str, key: str) -> None:
    assert value(f"{written}: x") == {key: "x"}


@pytest.mark.parametrize("written", ["1.5", "~", "[1]", "{a: 1}"])
def test_a_key_that_is_no_text_and_no_whole_number_is_refused(written: str) -> None:
    with pytest.raises(YamlError, match="key"):
        value(f"? {written}\n: x")


def test_merge_keys_work_and_a_later_merge_overwrites_an_earlier_key() -> None:
    assert value("{<<: {a: 2, b: 3}, a: 1}") == {"a": 1, "b": 3}
    assert value("{a: 1, <<: {a: 2, b: 3}}") == {"a": 2, "b": 3}
    assert value("{<<: [{a: 2, b: 3}, {a: 4, c: 3}], d: 1}") == {"a": 2, "b": 3, "c": 3, "d": 1}


def test_overriding_a_merged_key_is_no_duplicate() -> None:
    assert document("base: &b {a: 1}\nx: {<<: *b, a: 2}").warnings == ()


@pytest.mark.parametrize("merged", ["3", "[1]", "text"])
def test_merging_something_else_than_an_object_is_refused(merged: str) -> None:
    with pytest.raises(YamlError, match="merges something that is no object"):
        value(f"a: {{<<: {merged}}}")


def test_an_alias_stands_for_its_anchor_even_as_a_key() -> None:
    assert value("a: &x {b: 1}\nc: *x") == {"a": {"b": 1}, "c": {"b": 1}}
    assert value("a: &x name\n*x : 1") == {"a": "name", "name": 1}


def test_the_last_of_two_equal_keys_counts_and_a_warning_names_key_and_line() -> None:
    found = document("spec:\n  containers: [a]\n  other: 1\n  containers:\n  - b\n")
    assert found.value == {"spec": {"containers": ["b"], "other": 1}}
    assert found.warnings == (
        "line 4: the key 'containers' is there twice in one object; the last one counts",
    )


def test_keys_that_become_equal_count_as_duplicates() -> None:
    assert document("yes: 1\ny: 2").value == {"true": 2}
    assert document("yes: 1\ny: 2").warnings != ()


def test_lines_of_objects_and_lists_are_known() -> None:
    found = document("# comment\na:\n  b:\n  - c: 1\n")
    assert found.line == 2
    assert found.lines[id(found.value["a"]["b"])] == 4
    assert found.lines[id(found.value["a"]["b"][0])] == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b: c", "line 1: not valid YAML: mapping values are not allowed in this context"),
        ("a: 1\n\tb: 2", "line 2: not valid YAML: found a tab character that violates indentation"),
        ("a: *x", r"line 1: the alias \*x has no anchor"),
        ("a: &x [*x]", "line 1: the anchor &x contains itself"),
        ("a: .nan", "line 1: .nan has no place in JSON"),
        ("a: -.inf", "line 1: -.inf has no place in JSON"),
        ("a: !!python/object/apply:os.system [x]", "line 1: the tag !!python/object/apply:os.system has no meaning"),
        ("a: !!python/name:os.system x", "line 1: the tag !!python/name:os.system has no meaning"),
        ("a: !Ref x", "line 1: the tag !Ref has no meaning"),
        ("a: !!int foo", "line 1: 'foo' is not what its tag !!int says"),
        ("a: !!null x", "line 1: 'x' is not what its tag !!null says"),
        ("a: !!binary '='", "line 1: a !!binary value is not base64 of text"),
        ("a: 1\nb: \x01", "line 2: the character #x0001 is not allowed in YAML"),
        ('a: "\\ud83d"', "line 1: not valid YAML"),
    ],
)  # fmt: skip
def test_what_kubectl_refuses_or_nobody_can_mean_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(YamlError, match=message):
        list(read(text))


def test_billion_laughs_is_refused_before_it_unfolds() -> None:
    levels = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(YamlError, match="aliases unfold to more than 100000 nodes"):
        list(read("\n".join(levels)))


def test_a_long_text_repeated_by_aliases_is_refused() -> None:
    aliases = ", ".join(["*x"] * 1000)
    with pytest.raises(YamlError, match="aliases unfold"):
        list(read(f"a: &x {'long ' * 4000}\nb: [{aliases}]"))


@pytest.mark.parametrize("text", ["[" * 250 + "]" * 250, "{a: " * 250 + "}" * 250, "- " * 250, "[" * 50_000])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(YamlError, match=r"deep|depth"):
        list(read(text))


def test_nesting_by_way_of_aliases_counts_too() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 250))]
    with pytest.raises(YamlError, match="nested more than 200 deep"):
        list(read("\n".join(lines)))


def test_the_python_parser_reads_the_same_where_libyaml_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x {b: [1, 010, yes]}\nc: *x\nd: |\n  text\n"
    expected = value(text)
    monkeypatch.delattr("yaml.CBaseLoader")
    assert value(text) == expected
