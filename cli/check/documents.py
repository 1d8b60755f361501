"""From the text of an input to its documents. A fault in one document leaves the others to be read."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import msgspec

from cli.check.results import Document, Problem
from policy.templates import RENDER, item_kind
from serve.kubeyaml import YamlError, read

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024 * 1024
MAX_YAML = 64 * MIB
# A list of 5,000 live pods with their status takes some 70 MiB.
MAX_JSON = 512 * MIB
MAX_DEPTH = 200  # as for YAML

_DOCUMENT_START = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)


class _List(msgspec.Struct, rename="camel"):
    """A List whose items are parsed one by one, so that a cluster's worth of pods never sits in memory."""

    kind: str
    items: list[msgspec.Raw]
    api_version: str = ""


def looks_like_json(text: str) -> bool:
    """Whether the text begins as JSON does. KYAML does too, and is then read as YAML."""
    return text[:4096].lstrip()[:1] in ("{", "[")


def documents(source: str, text: str, *, json_lines: bool = False) -> Iterator[Document | Problem]:
    """Yield the documents of one input, in order. Empty documents count, and are left out."""
    if json_lines:
        yield from _json_lines(source, text)
    elif looks_like_json(text):
        yield from _json(source, text)
    elif len(text) > MAX_YAML:
        message = f"more than {MAX_YAML // MIB} MiB of YAML"
        yield Problem(source, None, message, "Split the file, or pass JSON.")
    else:
        yield from _yaml(source, text)


def _yaml(source: str, text: str) -> Iterator[Document | Problem]:
    index = 0
    for chunk, line in _chunks(text):
        try:
            for document in read(chunk, line):
                if document.value is not None:
                    yield Document(
                        source, index, document.value, lines=document.lines, warnings=document.warnings
                    )
                index += 1
        except YamlError as error:
            yield _yaml_problem(source, index, chunk, error)
            index += 1


def _chunks(text: str) -> Iterator[tuple[str, int]]:
    """Yield (text, first line) between document markers, so that a fault ends one document and not the file.

    A line that begins with `---` and a space is a marker wherever it stands (YAML 1.1, 9.1.2). Directives
    belong to the document after the marker; a file with one is left whole.
    """
    if _DIRECTIVE.search(text):
        yield text, 1
        return
    starts = [match.start() for match in _DOCUMENT_START.finditer(text)]
    line = 1
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        if start < end:
            yield text[start:end], line
            line += text.count("\n", start, end)


def _yaml_problem(source: str, index: int, chunk: str, error: YamlError) -> Problem:
    if "{{" in chunk:
        message = f"line {error.line}: this looks like a Helm template, not YAML ({error.message})"
        return Problem(source, index, message, RENDER)
    return Problem(source, index, f"line {error.line}: {error.message}", error.fix)


def _json(source: str, text: str) -> Iterator[Document | Problem]:
    try:
        if (items := _list_items(text)) is not None:
            yield from _items(source, items)
            return
        value = msgspec.json.decode(text)
        yield _checked(Document(source, 0, value, warnings=_duplicates(text)))
    except RecursionError:
        yield _too_deep(source, 0)
    except (msgspec.DecodeError, ValueError) as error:  # ValueError: digits or characters beyond every bound
        yield from _not_one_json(source, text, str(error))


def _list_items(text: str) -> _List | None:
    """Return the List that the text is; None where it is any other JSON, or an empty List."""
    try:
        found = msgspec.json.decode(text, type=_List)
    except msgspec.ValidationError:
        return None
    return found if found.items and found.kind.endswith("List") else None


def _items(source: str, items: _List) -> Iterator[Document | Problem]:
    kind = item_kind(items.kind)
    api_version = items.api_version if kind else ""
    for raw in items.items:
        try:
            value = msgspec.json.decode(raw)
        except RecursionError:
            yield _too_deep(source, 0)
            continue
        yield _checked(Document(source, 0, value, kind, api_version))


def _not_one_json(source: str, text: str, reason: str) -> Iterator[Document | Problem]:
    """Read what is not one JSON value: several of them in a row, or YAML in flow style (KYAML)."""
    try:
        values = list(_concatenated(text))
    except (ValueError, RecursionError):
        found = [] if len(text) > MAX_YAML else list(_yaml(source, text))
        faulty = not found or any(isinstance(each, Problem) for each in found)
        if faulty and (not found or source.endswith(".json")):
            yield Problem(source, None, f"not valid JSON: {reason}", "Correct the JSON.")
        else:
            yield from found
        return
    for index, value in enumerate(values):
        yield _checked(Document(source, index, value))


def _concatenated(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
    at, end = 0, len(text)
    while True:
        while at < end and text[at] in " \t\r\n":
            at += 1
        if at == end:
            return
        value, at = decoder.raw_decode(text, at)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is refused, as everywhere else
        yield value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} has no place in JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits[:40]} is out of range")
    return value


def _json_lines(source: str, text: str) -> Iterator[Document | Problem]:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for index, (number, line) in enumerate(lines):
        try:
            yield _checked(Document(source, index, msgspec.json.decode(line), warnings=_duplicates(line)))
        except RecursionError:
            yield _too_deep(source, index)
        except (msgspec.DecodeError, ValueError) as error:
            yield Problem(
                source, index, f"line {number}: not valid JSON: {error}", "Put one object on each line."
            )


def _duplicates(text: str) -> tuple[str, ...]:
    """Return a warning per key that is there twice in one JSON object."""
    found: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                found.append(f"the key {key[:63]!r} is there twice in one object; the last one counts")
            seen.add(key)

    json.loads(text, object_pairs_hook=note, parse_int=len, parse_float=len)
    return tuple(found)


def _checked(document: Document) -> Document | Problem:
    """Refuse a depth that later steps (copies, YAML for the diff) would meet Python's recursion limit at."""
    level: list[Any] = [document.value]
    for _ in range(MAX_DEPTH):
        level = [child for value in level for child in _inner(value)]
        if not level:
            return document
    return _too_deep(document.source, document.index)


def _inner(value: Any) -> list[Any]:
    if type(value) is dict:
        return [child for child in value.values() if type(child) in (dict, list)]
    return [child for child in value if type(child) in (dict, list)] if type(value) is list else []


def _too_deep(source: str, index: int) -> Problem:
    return Problem(source, index, f"nested more than {MAX_DEPTH} deep", "No manifest needs this; flatten it.")
