"""Labels of namespaces from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from policy.errors import CallerError
from policy.unreadable import Unreadable
from serve.documents import parse_documents, read_text

if TYPE_CHECKING:
    from pathlib import Path

# The API server sets it on every namespace since 1.21; a file that people wrote may lack it.
NAME_LABEL = "kubernetes.io/metadata.name"


class NamespacesError(CallerError):
    """The file holds something other than Namespace objects; the message names every such document."""


class NamespaceLabels(msgspec.Struct, frozen=True):
    """Labels by the name of the namespace, and where they come from."""

    labels: dict[str, dict[str, str]]
    source: str

    def of(self, namespace: str) -> dict[str, str] | Unreadable:
        """Return the labels of a namespace; Unreadable, with the reason, where nobody told them."""
        labels = self.labels.get(namespace)
        return Unreadable(f"{namespace} is not in {self.source}") if labels is None else labels


def no_labels(_namespace: str) -> Unreadable:
    """Say that no labels are known, for a process without a namespaces file."""
    return Unreadable("no file of namespaces was given")


def read_namespaces(path: Path) -> NamespaceLabels:
    """Read Namespace objects from a file: documents, a List, or both."""
    return parse_namespaces(read_text(path), str(path))


def parse_namespaces(text: str, source: str) -> NamespaceLabels:
    """Read Namespace objects from text; NamespacesError names everything in it that is none."""
    labels: dict[str, dict[str, str]] = {}
    problems: list[str] = []
    for index, item in enumerate(_items(parse_documents(text, source)), start=1):
        found = _namespace(item)
        if isinstance(found, str):
            problems.append(f"{source}, object {index}: {found}")
        else:
            name, own = found
            labels[name] = {NAME_LABEL: name, **own}
    if problems:
        raise NamespacesError("; ".join(problems))
    return NamespaceLabels(labels, source)


def _items(documents: list[Any]) -> list[Any]:
    items: list[Any] = []
    for document in documents:
        inner = document.get("items") if isinstance(document, dict) else None
        # `kubectl get -o yaml` writes kind List, the API itself NamespaceList.
        is_list = isinstance(inner, list) and document.get("kind") in {"List", "NamespaceList"}
        items += inner if is_list and inner is not None else [document]
    return items


def _namespace(item: Any) -> tuple[str, dict[str, str]] | str:
    """Return (name, labels), or what is wrong with the object."""
    if not isinstance(item, dict) or item.get("kind", "Namespace") != "Namespace":
        return "a Namespace was expected"
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        return "metadata.name must be text"
    labels = metadata.get("labels") or {}
    if not isinstance(labels, dict) or not all(
        isinstance(text, str) for pair in labels.items() for text in pair
    ):
        return f"metadata.labels of {name} must map text to text; quote numbers and booleans"
    return name, labels
