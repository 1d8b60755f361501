"""YAML is read as Kubernetes reads it."""

from __future__ import annotations

import pytest

from policy.errors import WorldError
from serve.documents import DocumentError, parse_document, parse_documents, read_text


def test_a_date_stays_the_text_that_was_written():
    assert parse_document("expires: 2027-01-31\nat: 2027-01-31T10:00:00Z\n", "f") == {
        "expires": "2027-01-31",
        "at": "2027-01-31T10:00:00Z",
    }


def test_numbers_and_booleans_keep_their_type():
    assert parse_document("a: 1\nb: 1.5\nc: true\nd: null\n", "f") == {"a": 1, "b": 1.5, "c": True, "d": None}


def test_empty_documents_are_left_out():
    assert parse_documents("---\n---\na: 1\n---\n# nothing\n", "f") == [{"a": 1}]
    assert parse_document("", "f") is None


def test_a_second_document_is_refused_where_one_is_expected():
    with pytest.raises(DocumentError, match=r"f line 2: one document expected, 2 found\. Keep one"):
        parse_document("a: 1\n---\na: 2\n", "f")


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: b: c",
        "!!python/object/apply:os.system ['true']",
        "\x00",
        "[" * 5000,
        "a: 1\na: 2",
        "{[1]: 2}",
    ],
)
def test_what_cannot_be_read_names_the_file(text):
    with pytest.raises(DocumentError, match=r"^file\.yaml"):
        parse_documents(text, "file.yaml")


@pytest.mark.parametrize("text", ["a:\n\tb: 1\n", "a:\n- x\n\t- y\n", "a:\n  \t- x\n", "- a: 1\n-\tb: 1\n"])
def test_a_tab_in_the_indentation_is_told_as_a_tab(text):
    with pytest.raises(DocumentError, match=r"a tab stands in the indentation.*spaces"):
        parse_documents(text, "f")


def test_a_tab_that_yaml_allows_is_left_alone():
    assert parse_document("a:\t1\nb: [1,\n\t2]\n", "f") == {"a": 1, "b": [1, 2]}


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"ab\xff")
    with pytest.raises(DocumentError, match=r"not UTF-8 text \(byte 2\)"):
        read_text(tmp_path / "f")


def test_a_directory_is_not_a_file(tmp_path):
    with pytest.raises(WorldError, match="Is a directory"):
        read_text(tmp_path)
