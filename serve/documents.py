"""YAML files as Kubernetes reads them.

sigs.k8s.io/yaml turns YAML into JSON: a timestamp stays the string that was written, and a mapping key that
occurs twice is an error in strict mode. PyYAML makes a datetime of the first and keeps the last of the
second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from policy.errors import CallerError, WorldError

if TYPE_CHECKING:
    from pathlib import Path

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class DocumentError(CallerError):
    """A file is not the YAML that it should be; the message names the file and, where known, the line."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with the two differences to Kubernetes taken out."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute, narrowed
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:  # a key that is a list or a mapping is refused by PyYAML itself
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} occurs twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file; WorldError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise WorldError(f"cannot read {path}: {error.strerror or type(error).__name__}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path} is not UTF-8 text (byte {error.start})") from error


def parse_documents(text: str, source: str) -> list[Any]:
    """Return every document of the text that is not empty; DocumentError names `source` and the line."""
    try:
        # _Loader is a SafeLoader: it makes plain values only.
        return [document for document in yaml.load_all(text, _Loader) if document is not None]
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DocumentError(f"{source}{line}: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        # YAMLError: control characters; RecursionError: thousands of nested lists; ValueError: a number too
        # long.
        raise DocumentError(f"{source}: not readable as YAML ({type(error).__name__})") from error


def parse_document(text: str, source: str) -> Any:
    """Return the only document of the text, None when it is empty."""
    documents = parse_documents(text, source)
    if len(documents) > 1:
        raise DocumentError(f"{source}: one document expected, {len(documents)} found")
    return documents[0] if documents else None
