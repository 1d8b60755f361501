"""docs/records.md and docs/record.schema.json, from the types of audit/record.py and an answer of the webhook."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from audit.bounds import GROUPS_MAX, HITS_MAX, NOTES_MAX, PATCH_MAX, TEXT_MAX
from audit.identity import RANDOM_BYTES, record_id, timestamp
from audit.record import Cut, Record, encode, gap_record
from policy.default import API_VERSION
from policy.load import load_policy
from policy.unreadable import Unreadable
from webhook.answer import Terms, answer_body
from webhook.record import record_of
from webhook.reviews import API_VERSION as REVIEW_VERSION
from webhook.reviews import KIND

if TYPE_CHECKING:
    from collections.abc import Iterator

_WRITER = "gpufence-webhook-6c9d5b7f4-x2k9q/1"

_HEAD = """\
<!-- Generated from audit/record.py; do not edit. To change it: make generate -->

# Records

A record tells of one decision of the webhook, of one change of the policy, that records are missing, or that the
process ended in order. `webhook run` writes them to stderr beside its log, a line each: `jq 'select(.kind)'` picks
them. A record is one JSON object. The form is [record.schema.json](record.schema.json); this page says
what it means.

## Which decisions

| what | recorded |
|---|---|
| a denied pod | by the call that denied it |
| an allowed pod at `/mutate` | where gpufence changed it, with the patch |
| an allowed pod or debug container at `/validate` | always: only there has the pod a uid |
| an allowed update of a pod | where a rule applied |
| a GpuPolicy at `/validate` | as `policy_change`, allowed or denied; a deletion too |
| what could not be decided | as `undecided`, with the fault and the fail mode |
| the policy that a process decides by, from its start on | as `policy_in_force`, by each writer |
| the end of a process that was told to stop | as `closing`: without it, records may be missing behind the last |
| a dry run, a workload, anything else | never |

The two records of one pod have the same `decision`, which is also the pod's annotation `gpufence.io/decision`,
unless something changed a field that gpufence owns between the two calls.

## An example

A ReplicaSet creates a pod with a GPU and a sidecar. `/mutate` stamps the team and closes the sidecar:

```json
"""

_AFTER_EXAMPLE = """\
```

It is stored on one line. And where 12 records could not be kept:

```json
"""

_RULES = f"""\
```

## What can be relied on

- **Bytes.** A record is canonical JSON (RFC 8785): sorted keys, no spaces, integers only. Check a hash against the
  bytes as they were stored, not against a record that was read and written again.
- **Absent.** A field that does not apply or is unknown is left out. An absent `latencyMicros` was not measured; it is
  not 0.
- **Order.** `id` is a UUIDv7: ids sort by time, to the microsecond, by the clock of the replica that wrote them.
- **Twice.** A record may be delivered more than once. Records with the same `id` are one.
- **Later versions.** Fields and kinds are added without a new `version`; a change of meaning is a new one. Skip
  fields that you do not know; keep a record of a kind that you do not know.
- **No secrets.** No value of an environment variable of a pod is in a record, and none of a Secret or ConfigMap. The
  values in `patch` are those that gpufence writes.
- **Who wrote it.** `actor`, `requestUid`, `operation`, `subject.namespace` and, at `/validate`, `subject.uid` come
  from the API server. Names, owner and container names are what the pod says.

## How long it can be

A tenant writes much of a record, so it is bounded: {HITS_MAX} hits, {PATCH_MAX} patch operations, {GROUPS_MAX} groups,
{NOTES_MAX} notes, {TEXT_MAX} bytes in each text. Each case of each rule keeps its first hit, and denials go
before the rest. `cut` counts what was left out, and texts that were cut or had characters that cannot be printed.

## Fields

"""

_NOW = datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)
_POLICY = {
    "apiVersion": API_VERSION,
    "kind": "GpuPolicy",
    "metadata": {"name": "default"},
    "spec": {"teams": [{"name": "vision", "namespaces": ["vision"]}]},
}
_POD = {
    "metadata": {
        "generateName": "trainer-6c9d-",
        "namespace": "vision",
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "trainer-6c9d",
                "uid": "5f0e6c1a-93a2-4c0e-8a57-0d3f1b2c4e5d",
                "controller": True,
            }
        ],
    },
    "spec": {
        "containers": [
            {"name": "main", "image": "trainer", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
            {"name": "logs", "image": "shipper"},
        ]
    },
}
_REQUEST = {
    "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "namespace": "vision",
    "operation": "CREATE",
    "userInfo": {
        "username": "system:serviceaccount:kube-system:replicaset-controller",
        "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
    },
    "object": _POD,
}


def record_page() -> str:
    """Return the page."""
    gap = gap_record(identifier=_id(1), time=timestamp(_NOW), writer=_WRITER, missing=12)
    parts = [_HEAD, _pretty(example()), _AFTER_EXAMPLE, encode(gap).decode(), "\n", _RULES, *_tables()]
    return "".join(parts).rstrip() + "\n"


def record_schema() -> str:
    """Return the JSON schema."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Record)}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def example() -> Record:
    """Return the record of an answer that the webhook gave just now."""
    review = {"apiVersion": REVIEW_VERSION, "kind": KIND, "request": _REQUEST}
    terms = Terms(load_policy(_POLICY).policy, lambda _: Unreadable("not needed"), _NOW, "allow")
    answered = answer_body(msgspec.json.encode(review), "mutate", terms)
    record = record_of("mutate", answered, at=_NOW, identifier=_id(0), writer=_WRITER, latency_micros=74)
    if record is None:
        raise AssertionError("the example is an answer that is recorded")
    return record


def _id(number: int) -> str:
    return record_id(_NOW, number.to_bytes(RANDOM_BYTES))


def _pretty(record: Record) -> str:
    return json.dumps(json.loads(encode(record)), indent=2) + "\n"


def _tables() -> Iterator[str]:
    parts: dict[str, Any] = msgspec.json.schema(Record)["$defs"]
    # The record first, its parts as they appear in it, what was cut last.
    names = [Record.__name__, *(name for name in parts if name not in {Record.__name__, Cut.__name__})]
    for name in [*names, Cut.__name__]:
        required = parts[name].get("required", [])
        yield f"### {name}\n\n{' '.join(parts[name]['description'].split())}\n\n"
        yield "| field | type | what |\n|---|---|---|\n"
        for field, described in parts[name]["properties"].items():
            kind = _type(described) + (", always" if field in {*required, "version"} else "")
            yield f"| `{field}` | {kind} | {described['description']} |\n"
        yield "\n"


def _type(described: dict[str, Any]) -> str:
    """Return a type of the schema in words."""
    if "$ref" in described:
        return str(described["$ref"]).rsplit("/", 1)[-1]
    if "enum" in described:
        return ", ".join(f"`{value}`" for value in described["enum"] if value is not None)
    if "anyOf" in described:
        return " or ".join(word for each in described["anyOf"] if (word := _type(each)) != "null")
    if described["type"] == "array":
        return f"list of {_type(described['items'])}"
    return str(described["type"])
