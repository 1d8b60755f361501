"""A cache follows the server through pages, drops, 410s, outages and nonsense."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Self

import pytest
from aiohttp import web

from kube.client import Client, Limits, Page
from kube.config import Connection
from kube.errors import Unreachable
from kube.watch import PAGES_MAX, Cache
from policy.unreadable import Unreadable
from sandbox.apiserver.resources import find


async def _fill(client: Any, kit: Any, *names: str) -> None:
    for name in names:
        await client.create(kit.IN_DEFAULT, kit.config_map(name))


async def test_before_the_first_list_nothing_is_known(client: Any, kit: Any) -> None:
    cache: Cache[Any] = Cache(client, kit.MAPS, lambda obj: obj, log=print)
    assert not cache.synced
    for unknown in (cache.get("default/a"), cache.items(), cache.age()):
        assert isinstance(unknown, Unreadable)


async def test_an_empty_collection_is_known_to_be_empty(client: Any, kit: Any) -> None:
    async with kit.following(client) as follower:
        await follower.until(lambda: follower.cache.synced)
        assert follower.content == {}
        assert follower.cache.get("default/a") is None
        assert follower.changes == [{}]


async def test_a_list_comes_in_pages_and_changes_come_by_watch(client: Any, kit: Any) -> None:
    await _fill(client, kit, "a", "b", "c")
    async with kit.following(client, page=1) as follower:
        await follower.until(lambda: len(follower.content) == 3 if follower.cache.synced else False)
        await _fill(client, kit, "d")
        await client.patch(f"{kit.IN_DEFAULT}/a", {"data": {"v": "2"}})
        await client.delete(f"{kit.IN_DEFAULT}/b")
        expected = {"default/a": "2", "default/c": "1", "default/d": "1"}
        await follower.until(lambda: follower.content == expected)
        assert follower.changes[1:] == [{"default/d": "1"}, {"default/a": "2"}, {"default/b": None}]
        assert follower.cache.failures == 0


async def test_thousands_of_objects_are_stripped(client: Any, kit: Any, api: Any) -> None:
    resource = find("", "v1", "configmaps")
    for number in range(3000):
        obj = kit.config_map(f"m{number}", str(number))
        obj["metadata"]["namespace"] = "default"
        api.store.put(resource, obj)
    async with kit.following(client) as follower:
        await follower.until(lambda: follower.cache.synced)
        assert follower.content == kit.stored(api)
        assert follower.cache.get("default/m2999") == "2999"


async def test_a_change_of_what_is_not_kept_is_no_change(client: Any, kit: Any) -> None:
    await _fill(client, kit, "a")
    async with kit.following(client) as follower:
        await follower.until(lambda: follower.cache.synced)
        await client.patch(f"{kit.IN_DEFAULT}/a", {"metadata": {"labels": {"x": "y"}}})
        await _fill(client, kit, "b")
        await follower.until(lambda: len(follower.changes) > 1)
        assert follower.changes[1:] == [{"default/b": "1"}]


async def test_a_selector_limits_what_is_followed(client: Any, kit: Any) -> None:
    await _fill(client, kit, "a", "b")
    query = {"fieldSelector": "metadata.name=b"}
    async with kit.following(client, query=query) as follower:
        await follower.until(lambda: follower.cache.synced)
        await client.patch(f"{kit.IN_DEFAULT}/a", {"data": {"v": "2"}})
        await client.patch(f"{kit.IN_DEFAULT}/b", {"data": {"v": "3"}})
        await follower.until(lambda: follower.content == {"default/b": "3"})


async def test_dropped_watches_begin_again_and_miss_nothing(client: Any, kit: Any, api: Any) -> None:
    await _fill(client, kit, "a", "b")
    async with kit.following(client) as follower:
        await follower.until(lambda: follower.cache.synced)
        for number in range(3):
            await _fill(client, kit, f"n{number}")
            await follower.until(lambda number=number: f"default/n{number}" in follower.content)
            api.drop_watches()
        await follower.until(lambda: len(follower.slept) >= 3)
        await client.delete(f"{kit.IN_DEFAULT}/a")
        await follower.until(lambda: follower.content == kit.stored(api))
        assert all(0.25 <= seconds <= 0.5 for seconds in follower.slept[:3])


async def test_a_watch_goes_on_after_the_last_event_and_repeats_none(client: Any, kit: Any, api: Any) -> None:
    await _fill(client, kit, "a")
    async with kit.following(client) as follower:
        await follower.until(lambda: follower.cache.synced)
        for value in ("2", "3"):
            await client.patch(f"{kit.IN_DEFAULT}/a", {"data": {"v": value}})
        await follower.until(lambda: follower.content == {"default/a": "3"})
        api.drop_watches()
        await follower.until(lambda: follower.slept)
        await client.patch(f"{kit.IN_DEFAULT}/a", {"data": {"v": "4"}})
        await follower.until(lambda: follower.content == {"default/a": "4"})
        assert [changed["default/a"] for changed in follower.changes] == ["1", "2", "3", "4"]


async def test_what_is_deleted_while_disconnected_is_gone_after_a_new_list(
    client: Any, kit: Any, api: Any
) -> None:
    await _fill(client, kit, "a", "b")
    async with kit.following(client) as follower:
        await follower.until(lambda: follower.cache.synced)
        api.refuse("restarting")
        api.drop_watches()
        await follower.until(lambda: follower.slept)
        api.refuse("")
        await client.delete(f"{kit.IN_DEFAULT}/a")
        api.expire_history()
        await follower.until(lambda: follower.content == {"default/b": "1"})
        assert follower.changes[-1] == {"default/a": None}


async def test_a_410_between_pages_begins_the_list_again(client: Any, kit: Any, api: Any) -> None:
    await _fill(client, kit, "a", "b", "c")
    expired = []

    def strip(obj: Any) -> str:
        if not expired:
            expired.append(1)
            api.expire_history()
        return obj["data"]["v"]

    async with kit.following(client, page=1, strip=strip) as follower:
        await follower.until(lambda: follower.cache.synced)
        assert follower.content == kit.stored(api)
        assert follower.cache.failures == 1
        assert "410" in follower.lines[0]["fault"]


async def test_old_content_stays_until_the_new_list_is_complete(client: Any, kit: Any, api: Any) -> None:
    await _fill(client, kit, "a", "b", "c")
    seen: list[dict[str, Any]] = []

    def strip(obj: Any) -> str:
        if follower.cache.synced:
            seen.append(follower.content)
        return obj["data"]["v"]

    async with kit.following(client, page=1, strip=strip) as follower:
        await follower.until(lambda: follower.cache.synced)
        before = follower.content
        api.refuse("restarting")
        api.drop_watches()
        await follower.until(lambda: follower.slept)
        api.refuse("")
        await client.delete(f"{kit.IN_DEFAULT}/a")
        api.expire_history()
        await follower.until(lambda: "default/a" not in follower.content)
        assert len(seen) >= 2
        assert all(content == before for content in seen)


async def test_an_outage_makes_the_content_old_and_the_waits_longer(client: Any, kit: Any, api: Any) -> None:
    await _fill(client, kit, "a")
    async with kit.following(client) as follower:
        await follower.until(lambda: follower.cache.synced)
        api.refuse("no quorum")
        api.drop_watches()
        await follower.until(lambda: len(follower.slept) >= 12)
        follower.now += 600
        assert follower.cache.age() == 600
        assert follower.cache.get("default/a") == "1"
        assert all(
            later > earlier for earlier, later in zip(follower.slept[:6], follower.slept[1:7], strict=True)
        )
        assert 15 <= follower.slept[11] <= 30
        api.refuse("")
        await _fill(client, kit, "b")
        await follower.until(lambda: "default/b" in follower.content)
        assert follower.cache.age() == 0


async def test_failures_are_logged_once_a_minute_with_how_many_were_left_out(
    client: Any, kit: Any, api: Any
) -> None:
    api.refuse("no quorum")
    async with kit.following(client) as follower:
        await follower.until(lambda: len(follower.slept) >= 5)
        assert [line["event"] for line in follower.lines] == ["watch_failed"]
        assert "503 no quorum" in follower.lines[0]["fault"]
        follower.now += 61
        await follower.until(lambda: len(follower.lines) == 2)
        assert follower.lines[1]["left_out"] >= 3


async def test_an_object_that_cannot_be_stripped_is_unreadable_and_hides_no_other(
    client: Any, kit: Any
) -> None:
    def strip(obj: Any) -> str:
        if obj["metadata"]["name"] == "odd":
            raise KeyError("secret")
        return "fine"

    await _fill(client, kit, "a", "odd")
    async with kit.following(client, strip=strip) as follower:
        await follower.until(lambda: follower.cache.synced)
        assert follower.cache.get("default/a") == "fine"
        assert isinstance(follower.cache.get("default/odd"), Unreadable)
        assert "secret" not in str(follower.lines)


async def test_a_reader_that_fails_stops_nothing(client: Any, kit: Any) -> None:
    async with kit.following(client) as follower:
        changed = follower.cache._on_change

        def failing(changes: Any) -> None:
            changed(changes)
            raise RuntimeError

        await follower.until(lambda: follower.cache.synced)
        follower.cache._on_change = failing
        await _fill(client, kit, "a", "b")
        await follower.until(lambda: len(follower.content) == 2)
        assert follower.lines[0]["event"] == "reader_of_a_change_failed"


class Odd:
    """A server that lists one object and answers each watch with the next of `watches`, the last for ever."""

    def __init__(self, *watches: bytes | None, item: str = "") -> None:
        self.watches = list(watches)
        self.opened = 0
        self.opened_often = asyncio.Event()  # 20 times
        self.limits: list[str] = []
        self.item = item

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/maps", self._handle)
        self.runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.limits.append(request.query["limit"])
            item = {"metadata": {"name": "a"}, "data": {"v": self.item}}
            return web.json_response({"metadata": {"resourceVersion": "5"}, "items": [item]})
        answer = self.watches[min(self.opened, len(self.watches) - 1)]
        self.opened += 1
        if self.opened >= 20:
            self.opened_often.set()
        response = web.StreamResponse()
        await response.prepare(request)
        if answer is None:
            await asyncio.Event().wait()
        await response.write(answer)
        return response


async def test_a_watch_that_goes_silent_is_opened_again(kit: Any) -> None:
    async with (
        Odd(None) as odd,
        Client(Connection(server=odd.url), Limits(silence=0.05)) as client,
        kit.following(client, "/maps", seconds=0) as follower,
    ):
        await follower.until(lambda: odd.opened >= 3)
        assert "no whole answer within 0.05 s" in follower.lines[0]["fault"]
        assert len(odd.limits) == 1


async def test_a_watch_that_ends_in_time_is_no_failure_and_shows_the_content_is_current(kit: Any) -> None:
    async with (
        Odd(b"") as odd,
        Client(Connection(server=odd.url)) as client,
        kit.following(client, "/maps", tick=2.0) as follower,
    ):
        await odd.opened_often.wait()
        assert follower.cache.age() <= 6
        assert (follower.cache.failures, len(odd.limits)) == (0, 1)


@pytest.mark.parametrize(
    ("answer", "lists_again"),
    [
        (b"", False),
        (b"not json\n", True),
        (b'{"type":"MODIFIED","object":{}}\n', True),
        (b'{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"6"}}}\n', True),
        (b'{"type":"NEW","object":{"metadata":{"resourceVersion":"6","name":"a"}}}\n', True),
        (b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"m"}}\n', True),
        (b'{"type":"ERROR","object":{"kind":"Status","code":504,"message":"too large"}}\n', True),
        (b'{"type":"ERROR","object":null}\n', True),
        (b"x" * 2000, True),
    ],
)
async def test_nonsense_is_waited_out_and_never_becomes_content(
    kit: Any, answer: bytes, lists_again: bool
) -> None:
    async with (
        Odd(answer, item="1") as odd,
        Client(Connection(server=odd.url), Limits(line=1000)) as client,
        kit.following(client, "/maps") as follower,
    ):
        await follower.until(lambda: len(follower.slept) >= 4)
        assert follower.content == {"a": "1"}
        assert (len(odd.limits) > 1) is lists_again
        assert follower.slept[3] > follower.slept[0]


async def test_pages_that_are_too_large_are_asked_for_in_smaller_ones(kit: Any) -> None:
    async with (
        Odd(None, item="x" * 5000) as odd,
        Client(Connection(server=odd.url), Limits(body=1000)) as client,
        kit.following(client, "/maps", page=4) as follower,
    ):
        await follower.until(lambda: len(follower.slept) >= 4)
        assert odd.limits[:4] == ["4", "2", "1", "1"]
        assert not follower.cache.synced


@pytest.mark.parametrize("seconds", [0.1, 5.0])
async def test_the_pause_grows_however_long_each_attempt_takes_to_fail(seconds):
    """A black-holed server takes its time to fail, and has not stood for that."""
    now, pauses = [0.0], []

    class Failing:
        async def list_page(self, *_, **__):
            return Page([], "1", "")

        async def watch(self, *_, **__):
            now[0] += seconds
            raise Unreachable("gone")
            yield

    async def sleep(pause):
        pauses.append(pause)
        if len(pauses) == 10:
            raise asyncio.CancelledError

    cache = Cache(
        Failing(),
        "/x",
        lambda obj: obj,
        log=lambda *_, **__: None,
        clock=lambda: now[0],
        random=Random(1),
        sleep=sleep,
    )
    with pytest.raises(asyncio.CancelledError):
        await cache.run()
    assert pauses[-1] > 15


async def test_a_list_that_never_ends_is_given_up():
    asked, log = [], []

    class Endless:
        async def list_page(self, *_, **__):
            asked.append(1)
            return Page([], "1", "more")

    async def sleep(_):
        raise asyncio.CancelledError

    cache = Cache(
        Endless(),
        "/x",
        lambda obj: obj,
        log=lambda _, **fields: log.append(fields),
        random=Random(1),
        sleep=sleep,
    )
    with pytest.raises(asyncio.CancelledError):
        await cache.run()
    assert len(asked) == PAGES_MAX
    assert "more than 2000 pages" in log[0]["fault"]
    assert not cache.synced
