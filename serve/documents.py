"""YAML files whose form is ours: policies, settings, scenes. Strict where `serve.kubeyaml` only warns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policy.errors import CallerError, WorldError
from serve.kubeyaml import YamlDocument, YamlError, read

if TYPE_CHECKING:
    from pathlib import Path

# libyaml names a tab in the indentation only in some places; elsewhere it is a "character that cannot start
# any token".
_TAB = re.compile(r"[- ]*\t")


class DocumentError(CallerError):
    """A file is not the YAML that it should be. `line` is 0 where no line is at fault."""

    def __init__(self, source: str, line: int, message: str, fix: str) -> None:
        self.source = source
        self.line = line
        self.message = message
        self.fix = fix
        super().__init__(f"{source}{f' line {line}' if line else ''}: {message}. {fix}")


class UnreadableFileError(WorldError):
    """A file cannot be read; `message` says why without its name, `fix` what to do."""

    fix = "Check the name, and your rights to the file."

    def __init__(self, path: Path, reason: str) -> None:
        self.message = f"cannot be read: {reason}"
        super().__init__(f"cannot read {path}: {reason}")


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file; UnreadableFileError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableFileError(path, error.strerror or type(error).__name__) from error
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text (byte {error.start})"
        raise DocumentError(str(path), 0, message, "Save the file as UTF-8.") from error


def parse_documents(text: str, source: str) -> list[Any]:
    """Return every document of the text that is not empty; DocumentError names `source` and the line.

    A key that is there twice is an error here: its author sees one value in the file, and another would count.
    """
    return [document.value for document in _documents(text, source)]


def parse_document(text: str, source: str) -> Any:
    """Return the only document of the text, None when it is empty."""
    return parse_lines(text, source).value


def parse_lines(text: str, source: str) -> YamlDocument:
    """Return the only document of the text with the lines of its parts; its value is None when it is empty."""
    documents = _documents(text, source)
    if len(documents) > 1:
        message = f"one document expected, {len(documents)} found"
        fix = "Keep one, and remove the others with the `---` between them."
        raise DocumentError(source, documents[1].line, message, fix)
    return documents[0] if documents else YamlDocument(None, 1, {}, ())


def _documents(text: str, source: str) -> list[YamlDocument]:
    try:
        documents = list(read(text))
    except YamlError as error:
        raise _fault(text, source, error) from error
    for document in documents:
        for warning in document.warnings:
            line, message = _repeated_key(warning)
            raise DocumentError(source, line, message, "Remove one of them.")
    return [document for document in documents if document.value is not None]


def _fault(text: str, source: str, error: YamlError) -> DocumentError:
    lines = text.splitlines()
    at = lines[error.line - 1] if error.line <= len(lines) else ""
    if _TAB.match(at) and ("tab" in error.message or "cannot start any token" in error.message):
        message = "a tab stands in the indentation, and YAML takes only spaces there"
        return DocumentError(source, error.line, message, "Replace the tab with spaces.")
    return DocumentError(source, error.line, error.message, error.fix)


def _repeated_key(warning: str) -> tuple[int, str]:
    """Return (line, message) of a warning of the reader: `line 2: the key 'a' is there twice ...; ...`."""
    where, _, message = warning.partition(";")[0].partition(": ")
    return int(where.removeprefix("line ")), message
