"""A YAML reader that gives a manifest the meaning kubectl gives it, and survives hostile text.

It builds JSON values straight from the parser's events (libyaml where it is there), without recursion:

- Depth is bounded, and so is what aliases unfold to ("billion laughs": nine lines stand for 10^9 nodes).
- A key that is there twice: the last one counts, as with kubectl, and a warning names it. Silence would hide
  a container from the check that its author sees in the file.
- `<<` merges in the order of the file: a key that stands before it is overwritten (go-yaml 2 does so).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from serve.scalars import ScalarError, plain, shown_tag, tagged

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 200  # the schema of the Prometheus operator's CRDs, the deepest known, has some 60
# Nodes that aliases may add in one document; a scalar counts one node per 64 characters. Real manifests reach
# some hundreds.
MAX_ALIASED = 100_000
_CHARACTERS_PER_NODE = 64

_PLAIN_TAGS = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


class YamlError(Exception):
    """The text cannot be read. `line` counts from 1 within the text that was given."""

    def __init__(self, line: int, message: str, fix: str) -> None:
        self.line = line
        self.message = message
        self.fix = fix
        super().__init__(f"line {line}: {message}")


class YamlDocument(msgspec.Struct, frozen=True):
    """One document.

    `lines` has the line of every object and list in it by `id()`, which is theirs as long as `value` lives.
    """

    value: Any
    line: int
    lines: dict[int, int]
    warnings: tuple[str, ...]


def read(text: str, first_line: int = 1) -> Iterator[YamlDocument]:
    """Yield the documents of the text, and YamlError at the first fault.

    The first line of the text is line `first_line` of its file.
    """
    try:
        events = _events(text)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                yield _Builder(events, event, first_line).document()
    except yaml.MarkedYAMLError as error:
        line = _line(error) + first_line
        raise YamlError(line, _syntax(error), "Correct the YAML at this line.") from error
    except yaml.reader.ReaderError as error:
        line = first_line + text.count("\n", 0, error.position)
        message = f"the character #x{_code(error.character):04x} is not allowed in YAML"
        raise YamlError(line, message, "Remove the character.") from error


def _events(text: str) -> Iterator[Any]:
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _code(character: int | str | bytes) -> int:
    return character if isinstance(character, int) else ord(character)


def _line(error: yaml.MarkedYAMLError) -> int:
    for mark in (error.problem_mark, error.context_mark):
        if mark is not None:
            return mark.line
    return 0


def _syntax(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "it cannot be parsed"
    return f"not valid YAML: {problem}" + (f" {error.context}" if error.context else "")


class _Open:
    """An object or list whose end has not been seen."""

    __slots__ = ("anchor", "height", "inherited", "key", "key_line", "line", "start", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int, start: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.start = start  # nodes before this one, to tell how many are within
        self.height = 1  # levels, this one included
        self.key: str | _Merge | None = None  # the key that waits for its value
        self.key_line = line
        self.inherited: set[str] = set()  # keys that only a merge has set: no duplicates


class _Merge:
    """Stands for the key `<<`."""


class _Anchored(msgspec.Struct, frozen=True):
    """A complete node that aliases can name."""

    value: Any
    nodes: int
    height: int


_MERGE = _Merge()


class _Builder:
    """Builds one document from its events. Each method takes the next part; `document` drives them."""

    def __init__(self, events: Iterator[Any], start: Any, first_line: int) -> None:
        self._events = events
        self._line = start.start_mark.line + first_line
        self._first_line = first_line
        self._open: list[_Open] = []
        self._anchors: dict[
            str, _Anchored | None
        ] = {}  # None: not complete, so an alias would contain itself
        self._nodes = 0
        self._aliased = 0
        self._root: Any = None
        self._lines: dict[int, int] = {}
        self._warnings: list[str] = []

    def document(self) -> YamlDocument:
        handlers = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
        }
        for event in self._events:
            if isinstance(event, yaml.DocumentEndEvent):
                break
            handlers[type(event)](event)
        return YamlDocument(self._root, self._line, self._lines, tuple(self._warnings))

    def _fail(self, event: Any, message: str, fix: str) -> YamlError:
        return YamlError(event.start_mark.line + self._first_line, message, fix)

    def _scalar(self, event: Any) -> None:
        text = event.value
        self._nodes += 1 + len(text) // _CHARACTERS_PER_NODE
        if text == "<<" and event.implicit[0] and self._at_key():
            self._open[-1].key = _MERGE
            return
        value = self._value_of(event, text)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1 + len(text) // _CHARACTERS_PER_NODE, 0)
        self._add(event, value, 0)

    def _value_of(self, event: Any, text: str) -> Any:
        try:
            if event.tag is not None:
                return tagged(text, event.tag)
            return plain(text) if event.implicit[0] else text
        except ScalarError as error:
            raise self._fail(event, str(error), "Remove the tag, or put the value in quotes.") from error

    def _start(self, event: Any) -> None:
        if event.tag not in _PLAIN_TAGS:
            message = f"the tag {shown_tag(event.tag)} has no meaning in a Kubernetes manifest"
            raise self._fail(event, message, "Remove the tag.")
        if self._at_key():
            raise self._fail(event, "an object or list stands where a key should", "Put the key in quotes.")
        if len(self._open) >= MAX_DEPTH:
            raise self._fail(
                event, f"nested more than {MAX_DEPTH} deep", "No manifest needs this; flatten it."
            )
        self._nodes += 1
        line = event.start_mark.line + self._first_line
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(value, event.anchor, line, self._nodes - 1))

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        self._lines[id(done.value)] = done.line
        if done.anchor is not None:
            self._anchors[done.anchor] = _Anchored(done.value, self._nodes - done.start, done.height)
        self._add(event, done.value, done.height)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._fail(
                event, f"the alias *{event.anchor} has no anchor", f"Define &{event.anchor} before it."
            )
        target = self._anchors[event.anchor]
        if target is None:
            raise self._fail(event, f"the anchor &{event.anchor} contains itself", "Write the content out.")
        self._nodes += target.nodes
        self._aliased += target.nodes
        if self._aliased > MAX_ALIASED:
            message = f"aliases unfold to more than {MAX_ALIASED} nodes"
            raise self._fail(event, message, "Write the content out instead of using aliases.")
        if len(self._open) + target.height > MAX_DEPTH:
            raise self._fail(
                event, f"nested more than {MAX_DEPTH} deep", "No manifest needs this; flatten it."
            )
        self._add(event, target.value, target.height)

    def _at_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _add(self, event: Any, value: Any, height: int) -> None:
        if not self._open:
            self._root = value
            return
        parent = self._open[-1]
        parent.height = max(parent.height, height + 1)
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            parent.key = self._key(event, value)
            parent.key_line = event.start_mark.line + self._first_line
        elif isinstance(parent.key, _Merge):
            self._merge(event, parent, parent.value, value)
            parent.key = None
        else:
            self._set(parent, parent.value, parent.key, value)
            parent.key = None

    def _key(self, event: Any, value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        raise self._fail(event, "a key is neither text nor a whole number", "Put the key in quotes.")

    def _set(self, parent: _Open, target: dict[str, Any], key: str, value: Any) -> None:
        if key in target and key not in parent.inherited:
            where = f"line {parent.key_line}: the key {key[:63]!r}"
            self._warnings.append(f"{where} is there twice in one object; the last one counts")
        parent.inherited.discard(key)
        target[key] = value

    def _merge(self, event: Any, parent: _Open, target: dict[str, Any], value: Any) -> None:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise self._fail(event, "`<<` merges something that is no object", "Merge objects only.")
        for source in reversed(sources):  # of several, the first has the last word
            parent.inherited.update(key for key in source if key not in target)
            target.update(source)
