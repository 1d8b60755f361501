"""Verbs, TLS, tokens, limits, and what errors say and do not say."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme
from aiohttp import web

from kube.client import JSON_PATCH, Client, Limits, path_of
from kube.config import Connection, ConnectionConfigError
from kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Gone,
    Invalid,
    KubeError,
    Malformed,
    NotFound,
    ServerFault,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
    error_of,
)
from sandbox.apiserver import ApiServer


async def test_objects_are_created_read_changed_and_deleted(client: Any, kit: Any) -> None:
    created = await client.create(kit.IN_DEFAULT, kit.config_map("a"))
    path = path_of(kit.IN_DEFAULT, "a")
    assert await client.get(path) == created
    assert (await client.patch(path, {"data": {"w": "2"}}))["data"] == {"v": "1", "w": "2"}
    operation = {"op": "remove", "path": "/data/w"}
    changed = await client.patch(path, [operation], JSON_PATCH)
    assert changed["data"] == {"v": "1"}
    assert (await client.put(path, {**changed, "data": {}}))["data"] == {}
    with pytest.raises(Conflict):
        await client.put(path, created)
    await client.delete(path, {"propagationPolicy": "Background"})
    with pytest.raises(NotFound):
        await client.get(path)


async def test_each_refusal_has_its_error(client: Any, kit: Any, api: Any) -> None:
    await client.create(kit.IN_DEFAULT, kit.config_map("a"))
    with pytest.raises(AlreadyExists, match=r'409 configmaps "a" already exists') as found:
        await client.create(kit.IN_DEFAULT, kit.config_map("a"))
    assert (found.value.code, found.value.reason) == (409, "AlreadyExists")
    with pytest.raises(Invalid):
        await client.create(kit.IN_DEFAULT, kit.config_map("A"))
    with pytest.raises(BadRequest):
        await client.list_page(kit.MAPS, limit=1, more="junk")
    await client.create(kit.IN_DEFAULT, kit.config_map("b"))
    page = await client.list_page(kit.MAPS, limit=1)
    api.expire_history()
    with pytest.raises(Gone):
        await client.list_page(kit.MAPS, limit=1, more=page.more)
    api.refuse("starting")
    with pytest.raises(Unavailable, match="starting"):
        await client.get(kit.MAPS)


async def test_a_name_cannot_leave_its_collection() -> None:
    assert path_of("/api/v1/pods", "../secrets?x") == "/api/v1/pods/..%2Fsecrets%3Fx"


async def test_a_server_that_is_not_there_is_unreachable(unused_port: int) -> None:
    async with Client(Connection(server=f"http://127.0.0.1:{unused_port}")) as client:
        with pytest.raises(Unreachable, match="GET /x: cannot connect"):
            await client.get("/x")


async def test_a_certificate_of_another_authority_is_refused(api: Any) -> None:
    other = trustme.CA().cert_pem.bytes().decode()
    async with Client(Connection(server=api.url, ca_data=other)) as client:
        with pytest.raises(Unreachable, match="does not verify"):
            await client.get("/api/v1/namespaces/default")


async def test_a_ca_file_that_was_replaced_is_read_again(api: Any, authority: Any, tmp_path: Any) -> None:
    file = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(file)
    async with Client(Connection(server=api.url, ca_file=file)) as client:
        with pytest.raises(Unreachable):
            await client.get("/api/v1/namespaces/default")
        authority.cert_pem.write_to_path(file)
        with pytest.raises(Unreachable):
            await client.get("/api/v1/namespaces/default")
        assert (await client.get("/api/v1/namespaces/default"))["kind"] == "Namespace"


async def test_a_client_certificate_is_shown_and_leaves_no_file(authority: Any, tmp_path: Any) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    pair = authority.issue_cert("admin")
    ca = authority.cert_pem.bytes().decode()
    certificate, key = pair.cert_chain_pems[0].bytes(), pair.private_key_pem.bytes()
    async with ApiServer(tls=tls) as api:
        async with Client(Connection(server=api.url, ca_data=ca)) as nobody:
            with pytest.raises(Unreachable):
                await nobody.get("/api/v1/namespaces/default")
        shown = Connection(server=api.url, ca_data=ca, certificate=certificate, key=key)
        async with Client(shown) as admin:
            assert await admin.get("/api/v1/namespaces/default")


@pytest.mark.parametrize("broken", [{"ca_data": "no PEM"}, {"certificate": b"x", "key": b"y"}])
def test_certificates_that_cannot_be_used_are_refused_at_once(broken: Any) -> None:
    with pytest.raises(ConnectionConfigError, match=r"https://api\.test"):
        Client(Connection(server="https://api.test", **broken))


async def test_a_token_is_read_anew_for_every_request(
    kit: Any, api: Any, connection: Any, tmp_path: Any
) -> None:
    token = tmp_path / "token"
    token.write_text("old-token\n")
    rotating = Connection(server=api.url, ca_data=connection.ca_data, token_file=token)
    async with Client(rotating) as client:
        with pytest.raises(Unauthorized):
            await client.get("/api/v1/namespaces/default")
        async with kit.following(client) as follower:
            await follower.until(lambda: follower.slept)
            token.unlink()
            await follower.until(lambda: len(follower.slept) >= 20)
            token.write_text("new-token\n")
            await follower.until(lambda: follower.cache.synced)
            assert "old-token" not in str(follower.lines)


@asynccontextmanager
async def _answering(handler: Any) -> Any:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>proxy secret</html>", Malformed),
        (b'["secret"]', Malformed),
        (b"[" * 5000, Malformed),
        (b'{"items":[1],"metadata":{"resourceVersion":"1"}}', Malformed),
        (b'{"items":[]}', Malformed),
        (b'{"a":"' + b"s" * 1000 + b'"}', TooLarge),
    ],
)
async def test_answers_of_another_shape_or_size_are_refused_unquoted(
    body: bytes, error: type[Exception]
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body)

    limits = Limits(body=6000 if body.startswith(b"[[") else 900)
    async with _answering(handler) as url, Client(Connection(server=url), limits) as client:
        with pytest.raises(error) as found:
            await client.list_page("/x", limit=1)
        assert "secret" not in str(found.value)


async def test_a_compressed_answer_is_measured_unpacked() -> None:
    async def handler(_: web.Request) -> web.Response:
        response = web.Response(body=b'{"a":"' + b"s" * 1_000_000 + b'"}')
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with _answering(handler) as url, Client(Connection(server=url), Limits(body=100_000)) as client:
        with pytest.raises(TooLarge):
            await client.get("/x")


async def test_an_answer_that_breaks_off_is_unreachable() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"secret":')
        request.transport.abort()
        return response

    async with _answering(handler) as url, Client(Connection(server=url)) as client:
        with pytest.raises(Unreachable) as found:
            await client.get("/x")
        assert "secret" not in str(found.value)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: Any, kit: Any, client: Any) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert await client.get("/api/v1/namespaces/default")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (429, TooManyRequests),
        (500, ServerFault),
        (503, Unavailable),
        (418, KubeError),
    ],
)
def test_an_error_quotes_a_status_and_nothing_else(code: int, error: type[KubeError]) -> None:
    status = b'{"kind":"Status","message":"why\\nso","reason":"R","details":{"retryAfterSeconds":3}}'
    found = error_of("GET /x", code, status)
    assert type(found) is error
    assert (str(found), found.reason, found.retry_after) == (f"GET /x: {code} why so", "R", 3.0)
    for body in (b'{"message":"secret"}', b'{"kind":"Secret","message":"secret"}', b"secret", b"\xff", b""):
        assert str(error_of("GET /x", code, body)) == f"GET /x: {code} the body is no Status"
    assert error_of("GET /x", code, b"", "7").retry_after == 7.0
    assert error_of("GET /x", code, b"", "Wed, 21 Oct 2026 07:28:00 GMT").retry_after is None
    long = error_of("GET /x", code, b'{"kind":"Status","message":"' + b"m" * 9000 + b'"}')
    assert len(str(long)) < 450
