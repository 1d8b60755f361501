"""YAML files whose form is ours: policies, settings, scenes. Strict where `serve.kubeyaml` only warns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.errors import CallerError, WorldError
from serve.kubeyaml import YamlError, read

if TYPE_CHECKING:
    from pathlib import Path


class DocumentError(CallerError):
    """A file is not the YAML that it should be; the message names the file and, where known, the line."""


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file; WorldError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise WorldError(f"cannot read {path}: {error.strerror or type(error).__name__}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path} is not UTF-8 text (byte {error.start})") from error


def parse_documents(text: str, source: str) -> list[Any]:
    """Return every document of the text that is not empty; DocumentError names `source` and the line.

    A key that is there twice is an error here: its author sees one value in the file, and another would count.
    """
    try:
        documents = list(read(text))
    except YamlError as error:
        raise DocumentError(f"{source} line {error.line}: {error.message}. {error.fix}") from error
    for document in documents:
        for warning in document.warnings:
            raise DocumentError(f"{source} {warning.partition(';')[0]}. Remove one of them.")
    return [document.value for document in documents if document.value is not None]


def parse_document(text: str, source: str) -> Any:
    """Return the only document of the text, None when it is empty."""
    documents = parse_documents(text, source)
    if len(documents) > 1:
        raise DocumentError(f"{source}: one document expected, {len(documents)} found")
    return documents[0] if documents else None
