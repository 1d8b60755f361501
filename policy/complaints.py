"""What pydantic found wrong with a GpuPolicy, in our own words: where, what, and what to write instead."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from pydantic import BaseModel

from policy.formats import FORMATS
from policy.labels import as_label
from policy.problems import Problem
from policy.schema import PROBLEM, Document
from policy.suggest import choice, in_quotes, instead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Loc = tuple[int | str, ...]

MOST_PROBLEMS = 1000  # a person reads a page of them; the bound keeps a hostile document from costing minutes

_LONGEST_VALUE = 60
_PLAIN_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_OF_A_KEY = "[key]"  # pydantic's last step to an error that is about the key of a map, not its value


class Complaint(msgspec.Struct, frozen=True):
    """A problem, and the steps that lead to it from the top of the document."""

    loc: Loc
    problem: Problem
    unknown_field: bool = False


def complain(error: ValidationError) -> tuple[Complaint, ...]:
    """Return a complaint for each error, in the order of the schema; past a bound, how many more."""
    errors = error.errors(include_url=False)
    complaints = [_complaint(details) for details in errors[:MOST_PROBLEMS]]
    if len(errors) > MOST_PROBLEMS:
        more = f"{len(errors) - MOST_PROBLEMS} more problems are not listed"
        complaints.append(Complaint((), Problem("document", more, fix="Mend these first.")))
    return tuple(complaints)


def written_path(loc: Loc) -> str:
    """Return the path as people write it: `spec.teams[0].maxPerPod["nvidia.com/gpu"]`."""
    path = ""
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_FIELD.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{as_found(step)}]"
    return path or "document"


def as_found(value: object) -> str:
    """Return a value as text for a message: short, on one line, without the inside of lists and objects."""
    if isinstance(value, str):
        text = value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…"
        return json.dumps(text, ensure_ascii=not text.isprintable())
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        # int to text takes time quadratic in the digits, and Python refuses more than 4300 of them.
        return str(value) if value.bit_length() <= 128 else "a huge number"  # noqa: PLR2004 - 39 digits are plenty
    if isinstance(value, float):
        return str(value)
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    return f"a {type(value).__name__}"


def _complaint(details: ErrorDetails) -> Complaint:
    kind, loc, value, context = details["type"], details["loc"], details["input"], details.get("ctx", {})
    if loc and loc[-1] == _OF_A_KEY and kind != "extra_forbidden":
        loc = loc[:-1]
    if kind == PROBLEM:
        return _own(loc, value, context)
    if kind == "extra_forbidden":
        field = str(loc[-1])
        fix = instead(field, known_fields(loc[:-1]))
        return Complaint(
            loc, Problem(written_path(loc), "there is no such field", as_found(value), fix), True
        )
    message, fix = _SENTENCES.get(kind, _unforeseen)(details["msg"], context, value)
    found = "" if kind == "missing" else as_found(value)
    return Complaint(loc, Problem(written_path(loc), message, found, fix))


def _own(loc: Loc, value: object, context: dict[str, Any]) -> Complaint:
    """Return the complaint of an error that `policy.schema` raised, maybe about one field of the value."""
    if field := context["field"]:
        loc = (*loc, field)
        value = value.get(field) if isinstance(value, dict) else value
    return Complaint(loc, Problem(written_path(loc), context["message"], as_found(value), context["fix"]))


def known_fields(loc: Loc) -> tuple[str, ...]:
    """Return the names of the fields that the schema has at a place, none where it has no fields."""
    model: type[BaseModel] | None = Document
    for step in loc:
        if isinstance(step, int) or model is None:
            continue
        fields = {field.alias: field for field in model.model_fields.values()}
        if step not in fields:
            return ()
        model = next(_models(fields[step].annotation), None)
    return () if model is None else tuple(str(field.alias) for field in model.model_fields.values())


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


Sentence = tuple[str, str]  # the message, the fix


def _wrong_type(expected: str, fix: str) -> Callable[[str, dict[str, Any], object], Sentence]:
    def sentence(_message: str, _context: dict[str, Any], value: object) -> Sentence:
        if value is None:
            return f"must be {expected}, and is null", f"{fix} To take the built-in value, remove the line."
        return f"must be {expected}", fix

    return sentence


def _missing(_message: str, _context: dict[str, Any], _value: object) -> Sentence:
    return "is missing", "Add it."


def _not_text(_message: str, _context: dict[str, Any], value: object) -> Sentence:
    if isinstance(value, bool):
        return "must be text, and is a boolean", in_quotes(value)
    if isinstance(value, int | float):
        return "must be text, and is a number", "Put it in quotes: YAML reads it as a number without them."
    return "must be text", "Write one line of text."


def _not_a_choice(_message: str, context: dict[str, Any], value: object) -> Sentence:
    choices = re.findall(r"'([^']*)'", context["expected"])
    if len(choices) == 1:
        return f"must be {choices[0]}", f"Write {choices[0]}."
    what = "is a boolean, and must be" if isinstance(value, bool) else "must be"
    return f"{what} one of {', '.join(choices)}", choice(value, choices)


def _wrong_form(_message: str, context: dict[str, Any], _value: object) -> Sentence:
    form = FORMATS[context["pattern"]]
    return f"is not {form.what}", form.fix


def _too_short(_message: str, _context: dict[str, Any], _value: object) -> Sentence:
    return "is empty", "Give at least one entry."


def _empty_text(_message: str, _context: dict[str, Any], _value: object) -> Sentence:
    return "is empty", "Write at least one character."


def _too_long(_message: str, context: dict[str, Any], _value: object) -> Sentence:
    most = context["max_length"]
    return f"has more than {most} entries", "Use wildcards, or remove entries."


def _long_text(_message: str, context: dict[str, Any], _value: object) -> Sentence:
    most = context["max_length"]
    return f"is longer than {most} characters", f"Write at most {most} characters."


def _too_small(_message: str, context: dict[str, Any], _value: object) -> Sentence:
    return f"must not be less than {context['ge']}", "Write 0 to allow none."


def _too_large(_message: str, context: dict[str, Any], _value: object) -> Sentence:
    return f"must not be more than {context['le']}", "Remove the line to set no limit."


def _not_unicode(_message: str, _context: dict[str, Any], _value: object) -> Sentence:
    return "is not Unicode text", "Save the file as UTF-8, and write no lone surrogates such as \\ud800."


def _unforeseen(message: str, _context: dict[str, Any], _value: object) -> Sentence:
    return message, "See docs/policy.md for what the field takes."


_NOT_AN_OBJECT = _wrong_type("an object of fields", "Write `field: value` lines below it.")

# By pydantic's name of the error (https://docs.pydantic.dev/latest/errors/validation_errors).
_SENTENCES: dict[str, Callable[[str, dict[str, Any], object], Sentence]] = {
    "missing": _missing,
    "model_type": _NOT_AN_OBJECT,
    "model_attributes_type": _NOT_AN_OBJECT,
    "dict_type": _NOT_AN_OBJECT,
    "list_type": _wrong_type("a list", "Write one `- ` line per entry, or `[a, b]`."),
    "int_type": _wrong_type("a whole number", "Write a number without quotes."),
    "string_type": _not_text,
    "invalid_key": lambda *_: (
        "the name of a field must be text",
        "Put it in quotes: YAML reads it as something else.",
    ),
    "literal_error": _not_a_choice,
    "string_pattern_mismatch": _wrong_form,
    "string_too_short": _empty_text,
    "string_too_long": _long_text,
    "string_unicode": _not_unicode,
    "too_short": _too_short,
    "too_long": _too_long,
    "greater_than_equal": _too_small,
    "less_than_equal": _too_large,
}


def repeated_names(document: object) -> list[Problem]:
    """Return a problem for each team or exception whose name, or for teams label, an earlier one has.

    Works on the document as it was read, so that repetitions are reported together with errors of form.
    """
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(spec, dict):
        return []
    teams, exceptions = _names(spec.get("teams")), _names(spec.get("exceptions"))
    labels = {index: as_label(name) for index, name in teams.items()}
    problems = [
        *_repeated("teams", teams, labels),
        *_repeated("exceptions", exceptions, exceptions),
    ]
    return problems[:MOST_PROBLEMS]


def _names(entries: object) -> dict[int, str]:
    named = enumerate(entries if isinstance(entries, list) else ())
    names = ((index, entry.get("name")) for index, entry in named if isinstance(entry, dict))
    return {index: name for index, name in names if isinstance(name, str)}


def _repeated(field: str, names: dict[int, str], keys: dict[int, str]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, key in keys.items():
        earlier = first.setdefault(key, index)
        if earlier == index:
            continue
        what = "name" if names[earlier] == names[index] else "label on pods"
        path = written_path(("spec", field, index, "name"))
        message = f"{written_path(('spec', field, earlier))} has the same {what}"
        yield Problem(path, message, as_found(names[index]), "Choose another name, or join the two.")


def without(document: object, locs: Sequence[Loc]) -> Any:
    """Return the document without the fields at these places; what is not on the way there is shared."""
    here = {loc[0] for loc in locs if len(loc) == 1}
    deeper: dict[int | str, list[Loc]] = {}
    for loc in locs:
        if len(loc) > 1:
            deeper.setdefault(loc[0], []).append(loc[1:])
    if isinstance(document, dict):
        return {
            key: without(value, deeper[key]) if key in deeper else value
            for key, value in document.items()
            if key not in here
        }
    if isinstance(document, list):
        return [
            without(value, deeper[index]) if index in deeper else value
            for index, value in enumerate(document)
        ]
    return document
