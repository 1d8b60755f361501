"""Labels of namespaces come from a file until watches supply them."""

from __future__ import annotations

import pytest

from policy.unreadable import Unreadable
from webhook.namespaces import NamespacesError, no_labels, parse_namespaces, read_namespaces

NAME = "kubernetes.io/metadata.name"
VISION = "kind: Namespace\nmetadata: {name: vision, labels: {team: v}}\n"
LIST = "kind: List\nitems:\n- kind: Namespace\n  metadata: {name: audio}\n- metadata: {name: text}\n"


def test_documents_and_lists_are_read():
    labels = parse_namespaces(f"{VISION}---\n{LIST}", "f")
    assert labels.of("vision") == {NAME: "vision", "team": "v"}
    assert labels.of("audio") == {NAME: "audio"}
    assert labels.of("text") == {NAME: "text"}


def test_a_namespace_that_is_not_in_the_file_is_unknown():
    assert parse_namespaces(VISION, "f").of("audio") == Unreadable("audio is not in f")


def test_without_a_file_every_namespace_is_unknown():
    assert isinstance(no_labels("vision"), Unreadable)


def test_a_file_is_read(tmp_path):
    (tmp_path / "n.yaml").write_text(VISION)
    assert read_namespaces(tmp_path / "n.yaml").of("vision") == {NAME: "vision", "team": "v"}


def test_everything_that_is_no_namespace_is_named():
    objects = [
        "kind: Pod",
        "5",
        "metadata: {name: 5}",
        "metadata: []",
        "metadata: {name: a, labels: {b: true}}",
    ]
    with pytest.raises(NamespacesError) as caught:
        parse_namespaces("\n---\n".join(objects), "f")
    assert str(caught.value) == (
        "f, object 1: a Namespace was expected; f, object 2: a Namespace was expected;"
        " f, object 3: metadata.name must be text; f, object 4: metadata.name must be text;"
        " f, object 5: metadata.labels of a must map text to text; quote numbers and booleans"
    )
