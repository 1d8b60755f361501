"""Whatever happens to the store and the connection, the cache comes to equal the store."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube.client import Client
from kube.config import Connection
from kube.errors import AlreadyExists, NotFound
from sandbox.apiserver import ApiServer

_NAMES = st.sampled_from(["a", "b", "c", "d"])
_STEPS = st.one_of(
    st.tuples(st.just("create"), _NAMES, st.sampled_from("123")),
    st.tuples(st.just("change"), _NAMES, st.sampled_from("123")),
    st.tuples(st.just("delete"), _NAMES),
    st.tuples(st.sampled_from(["drop", "expire", "away", "back"])),
    st.tuples(st.just("turns"), st.integers(1, 40)),
)


async def _write(client: Client, kit: Any, step: Any) -> None:
    path = f"{kit.IN_DEFAULT}/{step[1]}"
    try:
        match step:
            case ("create", name, value):
                await client.create(kit.IN_DEFAULT, kit.config_map(name, value))
            case ("change", _, value):
                await client.patch(path, {"data": {"v": value}})
            case ("delete", _):
                await client.delete(path)
    except (AlreadyExists, NotFound):
        pass


async def _step(api: ApiServer, client: Client, kit: Any, step: Any) -> None:
    match step:
        case ("drop",):
            api.drop_watches()
        case ("expire",):
            api.expire_history()
        case ("away",):
            api.refuse("away")
        case ("back",):
            api.refuse("")
        case ("turns", turns):
            for _ in range(turns):
                await asyncio.sleep(0)
        case _:
            away, api._refusal = api._refusal, ""  # the world goes on while the cache cannot see it
            await _write(client, kit, step)
            api.refuse(away)


async def _run(kit: Any, steps: list[Any], page: int, window: int) -> None:
    async with (
        ApiServer(window=window) as api,
        Client(Connection(server=api.url)) as client,
        kit.following(client, page=page) as follower,
    ):
        for step in steps:
            await _step(api, client, kit, step)
        api.refuse("")
        await follower.until(lambda: follower.cache.synced and follower.content == kit.stored(api))
        told: dict[str, Any] = {}
        for changed in follower.changes:
            told.update(changed)
        assert {key: value for key, value in told.items() if value is not None} == follower.content


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_STEPS, max_size=25), st.integers(1, 3), st.sampled_from([2, 1000]))
def test_the_cache_comes_to_equal_the_store(kit: Any, steps: list[Any], page: int, window: int) -> None:
    asyncio.run(_run(kit, steps, page, window))
