"""The bytes of a record: canonical, bounded, and readable for years."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.bounds import (
    GROUPS_MAX,
    HITS_MAX,
    NOTES_MAX,
    PATCH_MAX,
    TEXT_MAX,
    bounded,
    bounded_text,
)
from audit.identity import record_id, timestamp
from audit.record import Actor, Cut, Hit, PatchOperation, Record, Subject, decode, encode, gap_record, size
from policy.catalogue import RULES

AT = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
MINIMAL = Record(id="i", time="t", kind="admission")


def hit(rule: str = "GF101", action: Any = "fixed", **fields: str) -> Hit:
    texts = {"case": "any", "path": "/spec", "message": "m", **fields}
    return Hit(rule=rule, mode="fix", action=action, **texts)


texts = st.text(max_size=20)
hits = st.builds(
    Hit, rule=texts, case=texts, path=texts, container=texts, because=texts, message=texts,
    mode=st.sampled_from(["fix", "deny", "warn", "audit"]),
    action=st.sampled_from(["fixed", "denied", "warned", "audited"]),
)  # fmt: skip
entries = st.dictionaries(st.sampled_from(["name", "value"]), texts)
owned = st.dictionaries(st.sampled_from(["gpufence.io/team", "gpufence.io/cost-center", "labels"]), texts)
operations = st.builds(
    PatchOperation,
    op=st.sampled_from(["add", "replace", "remove"]),
    path=texts,
    value=st.just(msgspec.UNSET) | texts | entries | owned | st.lists(entries, max_size=3),
)
records = st.builds(
    Record, id=texts, time=texts,
    kind=st.sampled_from(["admission", "policy_change", "gap", "closing", "policy_in_force"]),
    verdict=st.none() | st.sampled_from(["allow", "deny", "undecided"]),
    endpoint=st.none() | st.sampled_from(["mutate", "validate"]),
    operation=texts, request_uid=texts, team=texts, exempt=texts, fault=texts, fail_mode=texts,
    actor=st.none() | st.builds(Actor, username=texts, groups=st.lists(texts, max_size=40).map(tuple)),
    subject=st.none() | st.builds(Subject, name=texts, uid=texts),
    hits=st.lists(hits, max_size=5).map(tuple),
    patch=st.lists(operations, max_size=5).map(tuple),
    notes=st.lists(texts, max_size=20).map(tuple),
    latency_micros=st.none() | st.integers(0, 2**40),
    missing=st.integers(0, 2**40),
)  # fmt: skip


@given(records)
def test_the_bytes_are_canonical_json(record):
    data = encode(record)
    assert data == rfc8785.dumps(json.loads(data))


@given(records)
def test_a_record_is_read_back_and_written_again_as_the_same_bytes(record):
    data = encode(record)
    assert decode(data) == record
    assert encode(decode(data)) == data
    assert size(record) == len(data)


def test_what_is_unknown_is_left_out_and_the_version_never_is():
    assert encode(MINIMAL) == b'{"id":"i","kind":"admission","time":"t","version":1}'


def test_an_unknown_latency_is_no_latency_of_zero():
    assert b"latencyMicros" not in encode(MINIMAL)
    assert b'"latencyMicros":0' in encode(replace(MINIMAL, latency_micros=0))


def test_fields_of_a_later_version_are_skipped():
    later = b'{"id":"i","kind":"admission","time":"t","version":2,"new":{"a":1}}'
    assert decode(later) == replace(MINIMAL, version=2)


def test_what_is_no_record_is_refused():
    for data in (b"{}", b"[]", b"{", b'{"id":"i","kind":"other","time":"t","version":1}'):
        with pytest.raises(msgspec.DecodeError):
            decode(data)


def test_no_field_of_the_format_holds_a_floating_point_number():
    assert '"number"' not in json.dumps(msgspec.json.schema(Record))


def test_a_gap_says_how_many_are_missing():
    record = gap_record(identifier="i", time="t", writer="w", missing=7)
    assert encode(record) == b'{"id":"i","kind":"gap","missing":7,"time":"t","version":1,"writer":"w"}'


def test_an_id_is_a_uuid_of_version_7_with_the_time_in_it():
    uuid = UUID(record_id(AT, b"\xff" * 8))
    assert (uuid.version, uuid.variant) == (7, "specified in RFC 4122")
    assert uuid.int >> 80 == 1_796_040_000_123
    assert str(uuid) == record_id(AT, b"\xff" * 8)


moments = st.datetimes(datetime(1971, 1, 1), datetime(9999, 1, 1)).map(  # noqa: DTZ001 - the zone comes next
    lambda naive: naive.replace(tzinfo=UTC)
)


@given(moments, moments, st.binary(min_size=8, max_size=8), st.binary(min_size=8, max_size=8))
def test_ids_sort_by_time_to_the_microsecond(one, other, random, more):
    if one != other:
        assert (record_id(one, random) < record_id(other, more)) == (one < other)


@given(st.binary(min_size=8, max_size=8), st.binary(min_size=8, max_size=8))
def test_ids_of_one_moment_differ_by_the_random_bytes(random, more):
    same = int.from_bytes(random) % 2**62 == int.from_bytes(more) % 2**62
    assert (record_id(AT, random) == record_id(AT, more)) == same


def test_an_id_needs_eight_random_bytes_and_a_time_with_a_zone():
    with pytest.raises(ValueError, match="8 random bytes"):
        record_id(AT, b"1234567")
    with pytest.raises(ValueError, match="zone"):
        record_id(AT.replace(tzinfo=None), b"12345678")
    with pytest.raises(ValueError, match="zone"):
        timestamp(AT.replace(tzinfo=None))


def test_a_time_is_in_utc_with_microseconds():
    assert timestamp(AT) == "2026-11-30T12:00:00.123456Z"
    assert timestamp(AT.replace(microsecond=0)) == "2026-11-30T12:00:00.000000Z"
    elsewhere = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert timestamp(elsewhere) == timestamp(AT)
    assert record_id(elsewhere, bytes(8)) == record_id(AT, bytes(8))


def test_an_ordinary_record_is_not_touched():
    record = replace(MINIMAL, hits=(hit(),), notes=("n",), actor=Actor(groups=("g",) * GROUPS_MAX))
    assert bounded(record) is record or bounded(record) == record
    assert bounded(record).cut is None


def test_lists_are_cut_and_what_is_left_out_is_counted():
    operation = PatchOperation(op="remove", path="/x")
    record = replace(
        MINIMAL,
        actor=Actor(groups=tuple(f"g{number}" for number in range(GROUPS_MAX + 1))),
        hits=(hit(),) * (HITS_MAX + 2),
        patch=(operation,) * (PATCH_MAX + 3),
        notes=("n",) * (NOTES_MAX + 4),
    )
    found = bounded(record)
    assert found.cut == Cut(groups=1, hits=2, patch=3, notes=4)
    assert (len(found.hits), len(found.patch), len(found.notes)) == (HITS_MAX, PATCH_MAX, NOTES_MAX)
    assert found.actor.groups[-1] == f"g{GROUPS_MAX - 1}"


def test_many_harmless_hits_do_not_push_out_the_one_that_denied():
    many = (hit("GF105", "audited"),) * 500
    found = bounded(replace(MINIMAL, hits=(*many, hit("GF204", "denied"), *many))).hits
    assert [each.rule for each in found if each.action == "denied"] == ["GF204"]
    assert found.index(hit("GF204", "denied")) == HITS_MAX - 1  # behind those that came before it


def test_many_denials_do_not_push_out_another_rule():
    found = bounded(replace(MINIMAL, hits=(*((hit("GF201", "denied"),) * 500), hit("GF301", "warned")))).hits
    assert {each.rule for each in found} == {"GF201", "GF301"}


def test_every_case_of_every_rule_finds_room():
    assert sum(len(rule.cases) for rule in RULES.values()) <= HITS_MAX


@given(st.text() | st.text(alphabet=st.characters(codec=None), min_size=100, max_size=900))
def test_a_text_is_bounded_printable_and_utf_8_whatever_it_was(text):
    found = bounded_text(text)
    assert len(found.encode()) <= TEXT_MAX
    assert found.isprintable()
    if text.isprintable() and len(text.encode()) <= TEXT_MAX:
        assert found == text


def test_texts_that_changed_are_counted_wherever_they_are():
    record = replace(
        MINIMAL,
        fault="f" * 600,
        hits=(hit(container="a\nb"),),
        subject=Subject(name="\ud800"),
        patch=(PatchOperation(op="add", path="/env", value=[{"name": "x" * 600}]),),
    )
    found = bounded(record)
    assert found.cut == Cut(texts=4)
    assert found.hits[0].container == "a\ufffdb"
    assert found.patch[0].value == [{"name": "x" * TEXT_MAX}]
    assert decode(encode(found)) == found


@given(records)
def test_bounding_twice_changes_nothing_more(record):
    once = bounded(record)
    again = bounded(replace(once, cut=None))
    assert again == replace(once, cut=None)
