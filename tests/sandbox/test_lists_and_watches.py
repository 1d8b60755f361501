"""Lists with selectors and pages, watches, and what happens when the history is gone."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    import trustme


async def _make(client: Any, kit: Any, *names: str, **labels: str) -> None:
    for name in names:
        pod = kit.pod(name)
        pod["metadata"]["labels"] = labels
        await client.post("pods", pod)


def _names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.body["items"]]


async def test_items_of_built_in_kinds_carry_no_kind_and_those_of_custom_ones_do(
    client: Any, kit: Any
) -> None:
    await _make(client, kit, "a")
    assert "kind" not in (await client.get("/api/v1/pods")).body["items"][0]
    path = "/apis/gpufence.io/v1alpha1/gpupolicies"
    await client.post(path, {"metadata": {"name": "default"}})
    assert (await client.get(path)).body["items"][0]["kind"] == "GpuPolicy"


async def test_pages_show_the_state_of_the_first_one(client: Any, kit: Any) -> None:
    await _make(client, kit, "a", "b", "c")
    first = (await client.get("pods", limit=2)).body
    assert first["metadata"]["remainingItemCount"] == 1
    await client.delete("pods/c")
    await _make(client, kit, "d")
    second = await client.get("pods", limit=2, **{"continue": first["metadata"]["continue"]})
    assert _names(second) == ["c"]
    assert second.body["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    assert _names(await client.get("pods")) == ["a", "b", "d"]


async def test_an_old_continue_token_is_a_410(client: Any, kit: Any, api: Any) -> None:
    await _make(client, kit, "a", "b")
    token = (await client.get("pods", limit=1)).body["metadata"]["continue"]
    api.expire_history()
    code, status, _ = await client.get("pods", limit=1, **{"continue": token})
    assert (code, status["reason"]) == (410, "Expired")
    assert (await client.get("pods", **{"continue": "junk"})).code == 400


async def test_a_list_can_be_of_an_exact_version(client: Any, kit: Any) -> None:
    await _make(client, kit, "a")
    version = (await client.get("pods")).body["metadata"]["resourceVersion"]
    await _make(client, kit, "b")
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert _names(await client.get("pods", **exact)) == ["a"]
    assert _names(await client.get("pods", resourceVersion=version)) == ["a", "b"]
    code, status, _ = await client.get("pods", resourceVersion="999")
    assert (code, status["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    assert (await client.get("pods", resourceVersion="x")).code == 400


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("team=x", ["a"]),
        ("team==x", ["a"]),
        ("team!=x", ["b", "c"]),
        ("team in (x, y)", ["a", "b"]),
        ("team notin (x)", ["b", "c"]),
        ("team", ["a", "b"]),
        ("!team", ["c"]),
        ("team in (x,y),team!=y", ["a"]),
        ("", ["a", "b", "c"]),
    ],
)
async def test_label_selectors(client: Any, kit: Any, selector: str, names: list[str]) -> None:
    await _make(client, kit, "a", team="x")
    await _make(client, kit, "b", team="y")
    await _make(client, kit, "c")
    assert _names(await client.get("pods", labelSelector=selector)) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.namespace=default", ["a", "b"]),
        ("spec.nodeName=n", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("status.phase=Pending,metadata.name!=a", ["b"]),
    ],
)
async def test_field_selectors(client: Any, kit: Any, selector: str, names: list[str]) -> None:
    await client.post("pods", kit.pod("a"))
    await client.post("pods", kit.pod("b", nodeName="n"))
    assert _names(await client.get("/api/v1/pods", fieldSelector=selector)) == names


async def test_events_are_selected_by_the_object_they_are_about(client: Any) -> None:
    await client.post("events", {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}})
    assert _names(await client.get("events", fieldSelector="involvedObject.name=p")) == ["e"]
    assert _names(await client.get("events", fieldSelector="involvedObject.name=q")) == []


@pytest.mark.parametrize(
    "query", [{"labelSelector": "a in b"}, {"fieldSelector": "spec.x=1"}, {"fieldSelector": "x"}]
)
async def test_a_selector_that_cannot_be_read_is_a_400(client: Any, query: dict[str, str]) -> None:
    assert (await client.get("pods", **query)).code == 400


async def test_a_watch_shows_what_follows_its_version(client: Any, kit: Any) -> None:
    await _make(client, kit, "before")
    version = (await client.get("pods")).body["metadata"]["resourceVersion"]
    watch = client.watch("pods", resourceVersion=version)
    await _make(client, kit, "a")
    assert _brief(await anext(watch)) == ("ADDED", "a")
    await client.patch("pods/a", {"metadata": {"labels": {"x": "y"}}})
    assert _brief(await anext(watch)) == ("MODIFIED", "a")
    await client.post("/api/v1/namespaces/kube-system/pods", kit.pod("elsewhere"))
    await client.delete("pods/a")
    gone = await anext(watch)
    assert _brief(gone) == ("DELETED", "a")
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(version) + 2
    await watch.aclose()


@pytest.mark.parametrize("version", [{}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_version_begins_with_what_there_is(
    client: Any, kit: Any, version: dict[str, str]
) -> None:
    await _make(client, kit, "a")
    watch = client.watch("pods", **version)
    assert _brief(await anext(watch)) == ("ADDED", "a")
    await _make(client, kit, "b")
    assert _brief(await anext(watch)) == ("ADDED", "b")
    await watch.aclose()


async def test_an_object_enters_and_leaves_a_selecting_watch(client: Any, kit: Any) -> None:
    watch = client.watch("pods", labelSelector="team=x")
    await _make(client, kit, "a")
    change = await client.patch("pods/a", {"metadata": {"labels": {"team": "x"}}})
    assert _brief(await anext(watch)) == ("ADDED", "a")
    left = await client.patch("pods/a", {"metadata": {"labels": {"team": "y"}}})
    event = await anext(watch)
    assert _brief(event) == ("DELETED", "a")
    assert event["object"]["metadata"]["labels"] == change.body["metadata"]["labels"]
    version = left.body["metadata"]["resourceVersion"]
    assert event["object"]["metadata"]["resourceVersion"] == version
    await watch.aclose()


async def test_a_watch_ends_in_time_with_a_bookmark(client: Any, kit: Any, api: Any) -> None:
    await _make(client, kit, "a")
    query = {"resourceVersion": api.store.revision, "timeoutSeconds": 1, "allowWatchBookmarks": "true"}
    events = [event async for event in client.watch("pods", **query)]
    metadata = {"resourceVersion": str(api.store.revision)}
    assert events == [
        {"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}}
    ]


async def test_a_watch_from_too_long_ago_gets_an_error_event(client: Any, kit: Any, api: Any) -> None:
    version = api.store.revision
    await _make(client, kit, "a")
    api.expire_history()
    events = [event async for event in client.watch("pods", resourceVersion=version)]
    assert [event["type"] for event in events] == ["ERROR"]
    assert (events[0]["object"]["code"], events[0]["object"]["reason"]) == (410, "Expired")


async def test_the_history_holds_only_its_window(kit: Any) -> None:
    async with ApiServer(window=3) as api, aiohttp.ClientSession() as session:
        url = f"{api.url}/api/v1/namespaces/default/configmaps"
        for name in "abcd":
            async with session.post(url, json={"metadata": {"name": name}}) as answer:
                assert answer.status == 201
        newest = api.store.revision
        query = {"watch": "1", "timeoutSeconds": "1"}
        async with session.get(url, params={**query, "resourceVersion": str(newest - 3)}) as answer:
            assert (await answer.text()).count("ADDED") == 3
        async with session.get(url, params={**query, "resourceVersion": str(newest - 4)}) as answer:
            assert '"code":410' in await answer.text()


async def test_dropped_watches_break_off(client: Any, api: Any) -> None:
    watch = client.watch("/api/v1/namespaces")
    for _ in range(4):
        await anext(watch)
    api.drop_watches()
    with pytest.raises(aiohttp.ClientError):
        await anext(watch)


async def test_initial_events_on_request_are_refused_as_without_the_feature(client: Any) -> None:
    assert (await client.get("pods", watch="1", sendInitialEvents="true")).code == 422


async def test_it_serves_tls(authority: trustme.CA) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    async with ApiServer(tls=tls) as api, aiohttp.ClientSession() as session:
        assert api.url.startswith("https://127.0.0.1:")
        async with session.get(f"{api.url}/version", ssl=trusting) as answer:
            assert (await answer.json())["major"] == "1"


async def test_it_stops_while_a_watch_runs(kit: Any) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(5):
        async with ApiServer() as api:
            answer = await session.get(f"{api.url}/api/v1/pods?watch=1")
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


def _brief(event: Any) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]
