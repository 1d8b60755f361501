"""Events: few, valid, counted up, and never in the way of who tells."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kube.events import BURST, QUEUE_MAX, EventWriter, Notice, Regarding, event_name
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
START = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def notice(key: str = "GF101", *, name: str = "web", namespace: str = "default", **fields: Any) -> Notice:
    regarding = Regarding(api_version="apps/v1", kind="ReplicaSet", name=name, namespace=namespace, uid="u-1")
    texts = {"type": "Warning", "reason": "Denied", "action": "Deny", "note": "GF101: no", **fields}
    return Notice(regarding=regarding, key=key, **texts)


class Desk:
    """A writer with its surroundings: the clock, terminating namespaces, the log."""

    def __init__(self, client: Any) -> None:
        self.now = 0.0
        self.terminating: Any = lambda _: False
        self.lines: list[dict[str, Any]] = []
        self.writer = EventWriter(
            client,
            controller="gpufence.io/webhook",
            instance="gpufence-webhook-0",
            terminating=self._is_terminating,
            clock=lambda: self.now,
            now=lambda: START,
            log=lambda event, **fields: self.lines.append({"event": event, **fields}),
        )

    def _is_terminating(self, namespace: str) -> Any:
        return self.terminating(namespace)

    async def tell(self, *notices: Notice) -> None:
        for each in notices:
            self.writer.emit(each)
        async with asyncio.timeout(20):
            await self.writer.drained()


@asynccontextmanager
async def _desk(client: Any) -> AsyncIterator[Desk]:
    desk = Desk(client)
    task = asyncio.create_task(desk.writer.run())
    try:
        yield desk
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def desk(client: Any) -> AsyncIterator[Desk]:
    async with _desk(client) as desk:
        yield desk


async def _events(client: Any, path: str = EVENTS) -> list[Any]:
    return (await client.list_page(path, limit=500)).items


async def test_an_event_has_every_field_that_the_api_requires(client: Any, desk: Desk) -> None:
    await desk.tell(notice())
    (event,) = await _events(client)
    assert event["regarding"] == {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "namespace": "default", "uid": "u-1",
    }  # fmt: skip
    assert event["eventTime"] == "2026-01-02T03:04:05.000678Z"
    assert event["reportingController"] == "gpufence.io/webhook"
    assert event["reportingInstance"] == "gpufence-webhook-0"
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "Denied", "Deny")
    assert event["note"] == "GF101: no"
    assert "series" not in event
    assert desk.writer.written == 1


async def test_repeats_count_up_one_event(client: Any, desk: Desk) -> None:
    for _ in range(3):
        await desk.tell(notice())
    (event,) = await _events(client)
    assert event["series"] == {"count": 3, "lastObservedTime": "2026-01-02T03:04:05.000678Z"}


async def test_repeats_that_wait_become_one_request(client: Any, desk: Desk) -> None:
    await desk.tell(*[notice()] * 50)
    (event,) = await _events(client)
    assert event["series"]["count"] == 50
    assert (desk.writer.written, desk.writer.dropped.total()) == (1, 0)


async def test_other_keys_and_other_objects_have_events_of_their_own(client: Any, desk: Desk) -> None:
    await desk.tell(notice(), notice("GF102"), notice(name="other"))
    assert len(await _events(client)) == 3


async def test_replicas_count_up_the_same_event(client: Any, desk: Desk) -> None:
    async with _desk(client) as other:
        for _ in range(3):
            await desk.tell(notice())
            await other.tell(notice())
        (event,) = await _events(client)
        assert event["series"]["count"] == 6
        assert desk.writer.failed == other.writer.failed == 0


async def test_an_event_that_expired_is_made_again(client: Any, desk: Desk) -> None:
    await desk.tell(notice())
    await client.delete(f"{EVENTS}/{event_name(notice())}")
    await desk.tell(notice())
    (event,) = await _events(client)
    assert "series" not in event


async def test_a_namespace_has_a_burst_and_what_was_kept_back_is_counted_later(
    client: Any, desk: Desk
) -> None:
    for number in range(int(BURST)):
        await desk.tell(notice(str(number)))
    for _ in range(4):
        await desk.tell(notice("0"))
    assert desk.writer.dropped["rate"] == 4
    assert len(await _events(client)) == int(BURST)
    await desk.tell(notice(namespace="kube-public"))
    assert desk.writer.written == int(BURST) + 1
    desk.now += 6
    await desk.tell(notice("0"))
    event = await client.get(f"{EVENTS}/{event_name(notice('0'))}")
    assert event["series"]["count"] == 6


async def test_a_terminating_namespace_gets_none_and_an_unknown_one_is_tried(client: Any, desk: Desk) -> None:
    desk.terminating = lambda namespace: namespace == "default"
    await desk.tell(notice())
    assert desk.writer.dropped["terminating"] == 1
    answers = iter([False, True])  # it begins to end while the notice waits
    desk.terminating = lambda _: next(answers)
    await desk.tell(notice())
    assert desk.writer.dropped["terminating"] == 2
    assert await _events(client) == []
    desk.terminating = lambda _: Unreadable("not listed yet")
    await desk.tell(notice())
    assert len(await _events(client)) == 1


async def test_the_queue_is_bounded_and_says_what_it_dropped(client: Any) -> None:
    desk = Desk(client)  # its writer does not run
    for number in range(QUEUE_MAX + 5):
        desk.writer.emit(notice(namespace=f"ns{number}"))
    assert desk.writer.dropped["queue"] == 5
    for number in range(3000):
        desk.writer.emit(notice(name=f"pod{number}"))
    assert len(desk.writer._series) == 1000
    assert all(name in desk.writer._series for name in desk.writer._queue)


async def test_a_write_that_fails_is_counted_logged_and_stops_no_other(
    client: Any, desk: Desk, api: Any
) -> None:
    api.refuse("no quorum")
    await desk.tell(notice(), notice("GF102"))
    assert (desk.writer.failed, desk.writer.written) == (2, 0)
    assert [line["event"] for line in desk.lines] == ["event_not_written"]
    assert "no quorum" in desk.lines[0]["fault"]
    api.refuse("")
    await desk.tell(notice())
    (event,) = await _events(client)
    assert event["series"]["count"] == 2


async def test_a_fault_of_ours_never_reaches_who_tells(client: Any, desk: Desk) -> None:
    desk.terminating = lambda _: {}["secret"]
    await desk.tell(notice())
    assert desk.writer.failed == 1
    assert desk.lines == [{"event": "event_lost", "subject": "Denied", "fault": "KeyError"}]


async def test_long_texts_are_cut_between_characters(client: Any, desk: Desk) -> None:
    await desk.tell(notice(note="é" * 1000, reason="r" * 200, action="a" * 200))
    (event,) = await _events(client)
    assert len(event["note"].encode()) == 1024
    assert (len(event["reason"]), len(event["action"])) == (128, 128)


async def test_odd_names_still_give_an_event_name_that_the_api_takes(client: Any, desk: Desk) -> None:
    names = [
        "system:node:x",
        "A_b",
        "-.-",
        "x" * 253,
        ".".join(["a" * 60] * 4),
        "ünï",
        "a-" + "-" * 240 + "b",
    ]
    await desk.tell(*(notice(name=name) for name in names))
    assert (len(await _events(client)), desk.writer.failed) == (len(names), 0)


async def test_an_object_without_a_namespace_has_its_events_in_default(client: Any, desk: Desk) -> None:
    node = Regarding(api_version="v1", kind="Node", name="gpu-1")
    await desk.tell(msgspec.structs.replace(notice(), regarding=node))
    (event,) = await _events(client)
    assert event["metadata"]["namespace"] == "default"
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "gpu-1"}


async def test_those_about_objects_without_a_namespace_are_not_displaced_by_tenants_of_default(
    client: Any, desk: Desk
) -> None:
    await desk.tell(*[notice(name=f"o{number}") for number in range(30)])
    assert desk.writer.dropped["rate"] == 20
    regarding = Regarding(api_version="gpufence.io/v1alpha1", kind="GpuPolicy", name="default", uid="u-2")
    texts = {"reason": "InvalidPolicy", "action": "Refuse", "note": "no"}
    await desk.tell(Notice(regarding=regarding, key="k", type="Warning", **texts))
    assert "InvalidPolicy" in {event["reason"] for event in await _events(client)}


async def test_a_namespace_is_one_part_of_the_path_whatever_it_holds() -> None:
    paths: list[str] = []

    class Listening:
        async def create(self, path: str, _: Any) -> Any:
            paths.append(path)
            return {"metadata": {"resourceVersion": "1"}}

    async with _desk(Listening()) as desk:
        await desk.tell(notice(namespace="x/../../nodes?a="))
    assert paths == ["/apis/events.k8s.io/v1/namespaces/x%2F..%2F..%2Fnodes%3Fa%3D/events"]
