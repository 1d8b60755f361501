"""How large a record may be. A tenant writes much of what is in it: what is left out is counted, never silent.

An ordinary record has 1 to 2 KB. A pod that is made to have a long one (3000 privileged containers, 300 device
annotations, all names of quotes, which JSON doubles) gets 85 KB; with every field of the type full of quotes, which no
request can bring about, it would be 0.8 MB. So a queue of records is bounded by bytes, not by their number.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from audit.record import Cut, Record, encode

if TYPE_CHECKING:
    from audit.record import Actor, Hit

# Bytes of UTF-8. The longest thing that is valid and not prose is the pointer of an annotation: about 340.
TEXT_MAX = 512
# More than all cases of all rules together, so that each of them is in the record at least once.
HITS_MAX = 64
# Single sign-on may give hundreds; a policy that attributes by group names a few, and `team` has the outcome.
GROUPS_MAX = 32
# Problems of a refused policy. `gpufence policy check` lists all.
NOTES_MAX = 16
# Two visibility variables in sixty containers.
PATCH_MAX = 128


# Begins at a quote, so that the search is linear: from anywhere, it would look at each text once for each character.
_LONG_TEXT = re.compile(rb'"[^"]{%d}' % (TEXT_MAX + 1))


def bounded(record: Record) -> Record:
    """Return the record within the bounds, with `cut` where something is not as it was."""
    return record if _is_plain(record) else _bounded(record)


def _is_plain(record: Record) -> bool:
    """Whether the record is within the bounds as it is; nearly all are, and this takes a fifth of the time.

    JSON escapes control characters, quotes and backslashes. Where none is escaped and all is ASCII, every text is
    printable, and none is longer than what lies between two quotes.
    """
    groups = record.actor.groups if record.actor is not None else ()
    if (
        len(groups) > GROUPS_MAX
        or len(record.hits) > HITS_MAX
        or len(record.patch) > PATCH_MAX
        or len(record.notes) > NOTES_MAX
    ):
        return False
    try:
        data = encode(record)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    plain = data.isascii() and b"\\" not in data and b"\x7f" not in data
    return plain and _LONG_TEXT.search(data) is None


def _bounded(record: Record) -> Record:
    actor, groups = _bounded_actor(record.actor)
    hits, patch, notes = _foremost(record.hits), record.patch[:PATCH_MAX], record.notes[:NOTES_MAX]
    texts = _Texts()
    shorter = texts.within(replace(record, actor=actor, hits=hits, patch=patch, notes=notes))
    cut = Cut(
        groups=groups,
        hits=len(record.hits) - len(hits),
        patch=len(record.patch) - len(patch),
        notes=len(record.notes) - len(notes),
        texts=texts.changed,
    )
    return shorter if cut == _NOTHING else replace(shorter, cut=cut)


_NOTHING = Cut()


def _bounded_actor(actor: Actor | None) -> tuple[Actor | None, int]:
    if actor is None or len(actor.groups) <= GROUPS_MAX:
        return actor, 0
    return replace(actor, groups=actor.groups[:GROUPS_MAX]), len(actor.groups) - GROUPS_MAX


def _foremost(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Return the hits to keep: each case once before any twice, denials first, in the order they came.

    Otherwise sixty-four harmless hits would push the one that denied out of the record.
    """
    if len(hits) <= HITS_MAX:
        return hits
    seen: Counter[tuple[str, str]] = Counter()
    ranked = []
    for index, hit in enumerate(hits):
        case = (hit.rule, hit.case)
        ranked.append((seen[case], hit.action != "denied", index))
        seen[case] += 1
    return tuple([hits[index] for index in sorted(index for _, _, index in sorted(ranked)[:HITS_MAX])])


class _Texts:
    """Makes texts fit, and counts those that are not as they were."""

    def __init__(self) -> None:
        self.changed = 0

    def within(self, record: Record) -> Record:
        """Return the record with every text in it bounded."""
        raw = self._walk(msgspec.to_builtins(record))
        return msgspec.convert(raw, Record) if self.changed else record

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {key: self._walk(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._walk(inner) for inner in value]
        return value

    def _text(self, text: str) -> str:
        short = bounded_text(text)
        self.changed += short != text
        return short


def bounded_text(text: str) -> str:
    """Return at most TEXT_MAX bytes of UTF-8, cut between characters, with U+FFFD for what cannot be printed.

    A control character would take six bytes in JSON, and half of a surrogate pair has no encoding.
    """
    if len(text) <= TEXT_MAX and text.isascii() and text.isprintable():
        return text  # nearly always, and then nothing is copied
    short = text[:TEXT_MAX]
    if not short.isprintable():
        short = "".join([character if character.isprintable() else "\ufffd" for character in short])
    raw = short.encode()
    return short if len(raw) <= TEXT_MAX else raw[:TEXT_MAX].decode(errors="ignore")
