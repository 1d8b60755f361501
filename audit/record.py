"""The record of a decision: one JSON object, written once and read for years.

It becomes a leaf of a log that is proved by hashes, so its bytes are fixed: canonical JSON (RFC 8785), without
floating point numbers, with integers within 2^53. Fields are only ever added, each with a default that is left out;
a change of meaning is a new `version`. Whoever checks a hash takes the bytes as they were stored: decoding drops
fields of later versions.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

VERSION = 1

Kind = Literal["admission", "policy_change", "policy_in_force", "gap", "closing"]
Endpoint = Literal["mutate", "validate"]
Verdict = Literal["allow", "deny", "undecided"]
Value = str | dict[str, str | dict[str, str]] | list[dict[str, str]]


def _is(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of a record: what is unknown or does not apply is left out."""


class Actor(_Part, frozen=True, kw_only=True):
    """Who made the request, as the API server authenticated them."""

    username: Annotated[str, _is("Name of the user or service account")] = ""
    uid: Annotated[str, _is("Uid of the user, where the authenticator gives one")] = ""
    groups: Annotated[tuple[str, ...], _is("Groups, in the order of the request")] = ()


class Owner(_Part, frozen=True, kw_only=True):
    """The controller that the pod names as its owner. Whoever creates a pod can write any."""

    api_version: Annotated[str, _is("As in the ownerReference")] = ""
    kind: Annotated[str, _is("As in the ownerReference")] = ""
    name: Annotated[str, _is("As in the ownerReference")] = ""
    uid: Annotated[str, _is("As in the ownerReference")] = ""


class Subject(_Part, frozen=True, kw_only=True):
    """What the decision is about. At `mutate` a new pod has no uid yet, and with generateName no name."""

    api_version: Annotated[str, _is("apiVersion of the object")] = ""
    kind: Annotated[str, _is("Kind of the object")] = ""
    subresource: Annotated[str, _is("Subresource of the request, such as ephemeralcontainers")] = ""
    namespace: Annotated[str, _is("Namespace of the request")] = ""
    name: Annotated[str, _is("Name of the object")] = ""
    generate_name: Annotated[str, _is("What the API server makes the name from")] = ""
    uid: Annotated[str, _is("Uid of the object")] = ""
    owner: Annotated[Owner | None, _is("Its controller")] = None


class Hit(_Part, frozen=True, kw_only=True):
    """A rule that applied, and what followed. No value of an environment variable is in it."""

    rule: Annotated[str, _is("Id of the rule (docs/rules.md)")]
    case: Annotated[str, _is("Case of the rule")]
    path: Annotated[str, _is("JSON pointer into the object")]
    container: Annotated[str, _is("Name of the container")] = ""
    mode: Annotated[Literal["fix", "deny", "warn", "audit"], _is("Mode by the policy")]
    action: Annotated[Literal["fixed", "denied", "warned", "audited"], _is("What was done")]
    because: Annotated[str, _is("Why the action is another than the mode says")] = ""
    message: Annotated[str, _is("What is wrong, in words")]


class PatchOperation(_Part, frozen=True, kw_only=True):
    """An RFC 6902 operation on a field that gpufence owns."""

    op: Annotated[Literal["add", "replace", "remove"], _is("The operation")]
    path: Annotated[str, _is("JSON pointer into the object")]
    value: Annotated[Value | msgspec.UnsetType, _is("The new value; absent for remove")] = msgspec.UNSET


class Cut(_Part, frozen=True, kw_only=True):
    """What the bounds of a record left out: how many items of each list, and how many texts are not as they were."""

    groups: Annotated[int, _is("Groups of the actor that are left out")] = 0
    hits: Annotated[int, _is("Hits that are left out")] = 0
    patch: Annotated[int, _is("Patch operations that are left out")] = 0
    notes: Annotated[int, _is("Notes that are left out")] = 0
    texts: Annotated[int, _is("Texts cut short, or with characters replaced by U+FFFD")] = 0


class Record(_Part, frozen=True, kw_only=True):
    """One entry. `version`, `id`, `time` and `kind` are in every record; the rest where it applies and is known."""

    # A factory, because a plain default would be left out, and the version must be in every record.
    version: Annotated[int, _is("Version of this format")] = msgspec.field(default_factory=lambda: VERSION)
    id: Annotated[str, _is("UUIDv7; ids sort by time")]
    time: Annotated[str, _is("RFC 3339, UTC, microseconds")]
    kind: Annotated[Kind, _is("What the record tells of")]
    writer: Annotated[str, _is("Who wrote it: the pod and the process id of the worker")] = ""
    verdict: Annotated[Verdict | None, _is("The answer; undecided: see fault and failMode")] = None
    endpoint: Annotated[Endpoint | None, _is("The call that decided")] = None
    operation: Annotated[str, _is("CREATE or UPDATE")] = ""
    request_uid: Annotated[str, _is("Uid of the AdmissionReview; the API server makes one for each call")] = (
        ""
    )
    actor: Annotated[Actor | None, _is("Who asked")] = None
    subject: Annotated[Subject | None, _is("About what")] = None
    team: Annotated[str, _is("Team that the policy gives the pod to; absent: no team claims it")] = ""
    hits: Annotated[tuple[Hit, ...], _is("Rules that applied")] = ()
    patch: Annotated[tuple[PatchOperation, ...], _is("What /mutate changed")] = ()
    exempt: Annotated[str, _is("Reason of the exemption that applied")] = ""
    policy_version: Annotated[str, _is("Policy that decided; in a policy_change the new one, if valid")] = ""
    decision: Annotated[str, _is("Digest that the annotation gpufence.io/decision carries")] = ""
    fault: Annotated[str, _is("Why nothing could be decided")] = ""
    fail_mode: Annotated[str, _is("Setting that answered in place of a decision")] = ""
    notes: Annotated[tuple[str, ...], _is("What could not be known, or what a policy's author was told")] = ()
    latency_micros: Annotated[
        int | None, _is("From the head of the request to its answer, in microseconds")
    ] = None
    missing: Annotated[int, _is("In a gap: how many records are missing here")] = 0
    cut: Annotated[Cut | None, _is("What is not in the record because it would be too long")] = None


# Sorts by code point and RFC 8785 by UTF-16 unit: the same for the keys in here, which are ASCII (labels that we own).
_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    """Return the record as canonical JSON (RFC 8785): the bytes that are hashed and stored."""
    return _encoder.encode(record)


def size(record: Record) -> int:
    """Return the bytes of the record as it is stored."""
    return len(encode(record))


def decode(data: bytes) -> Record:
    """Read a record; msgspec.DecodeError where it is none, or of a kind that came later. Later fields are skipped."""
    return _decoder.decode(data)


def policy_record(*, identifier: str, time: str, writer: str, policy_version: str, built_in: bool) -> Record:
    """Return the record that from now on this writer decides by a policy."""
    notes = ("the built-in policy",) if built_in else ()
    return Record(
        id=identifier,
        time=time,
        writer=writer,
        kind="policy_in_force",
        policy_version=policy_version,
        notes=notes,
    )


def closing_record(*, identifier: str, time: str, writer: str, policy_version: str) -> Record:
    """Return the last record of a writer that ends in order. Without one, records may be missing behind the last."""
    return Record(id=identifier, time=time, writer=writer, kind="closing", policy_version=policy_version)


def gap_record(*, identifier: str, time: str, writer: str, missing: int) -> Record:
    """Return the record that stands where `missing` others could not be kept."""
    return Record(id=identifier, time=time, writer=writer, kind="gap", missing=missing)
