"""The webhook over TLS: what each request gets, and that nothing a client sends gets a worse answer."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
import zlib
from datetime import UTC, datetime

import aiohttp
import msgspec
import pytest
import trustme

from certs.authority import ServingNames, issue_serving, new_authority
from certs.store import write
from webhook.answer import Terms, answer_body
from webhook.inputs import StartError
from webhook.reviews import encode
from webhook.run import running

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("endpoint", ["mutate", "validate"])
async def test_a_review_posted_over_tls_gets_the_answer_of_answer_body(webhook, review, policy, endpoint):
    body = json.dumps(review()).encode()
    async with webhook() as (_, client), client.post(f"/{endpoint}", data=body, headers=JSON) as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        terms = Terms(policy, lambda _: {}, NOW, "allow")
        expected = encode(answer_body(body, endpoint, terms).response)
        assert await response.read() == expected


async def test_a_certificate_of_another_authority_serves_as_well(settings, files, review):
    ca = trustme.CA()
    leaf = ca.issue_cert("127.0.0.1")
    (files / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(files / "tls.key")
    ca.cert_pem.write_to_path(files / "ca.crt")
    trusting = ssl.create_default_context()
    ca.configure_trust(trusting)
    async with (
        running(settings()) as server,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as client,
        client.post(f"{server.url}/mutate", json=review()) as response,
    ):
        assert response.status == 200


async def test_a_client_that_trusts_another_authority_is_not_served(settings):
    strange = ssl.create_default_context()
    trustme.CA().configure_trust(strange)
    async with (
        running(settings()) as server,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=strange)) as client,
    ):
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.get(f"{server.url}/healthz")


async def test_healthz_says_ok(webhook):
    async with webhook() as (_, client), client.get("/healthz") as response:
        assert response.status == 200
        assert await response.text() == "ok\n"


async def test_no_review_is_400_and_says_what_was_expected(webhook):
    async with webhook() as (_, client), client.post("/mutate", json={"kind": "Pod"}) as response:
        assert response.status == 400
        assert "expected a JSON object with apiVersion admission.k8s.io/v1" in await response.text()


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/yaml", "", "application/jsonx", "\u00e9"]
)
async def test_another_content_type_is_415(webhook, review, content_type):
    headers = {"Content-Type": content_type}
    body = json.dumps(review())
    async with webhook() as (_, client), client.post("/validate", data=body, headers=headers) as response:
        assert response.status == 415
        assert "must be application/json" in await response.text()


async def test_a_content_type_with_parameters_is_fine(webhook, review):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    body = json.dumps(review())
    async with webhook() as (_, client), client.post("/validate", data=body, headers=headers) as response:
        assert response.status == 200


async def in_chunks(size):
    for _ in range(size // 1024):
        yield b" " * 1024


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_413(webhook, chunked):
    body = in_chunks(8192) if chunked else b" " * 8192
    async with (
        webhook(max_body_bytes=4096) as (_, client),
        client.post("/mutate", data=body, headers=JSON) as response,
    ):
        assert response.status == 413
        assert await response.text() == "the body is larger than 4096 bytes\n"


async def test_a_large_review_below_the_limit_is_answered(webhook, review):
    big = io.BytesIO(json.dumps(review(options={"padding": "x" * (9 * 1024 * 1024)})).encode())
    async with webhook() as (_, client), client.post("/mutate", data=big, headers=JSON) as response:
        assert response.status == 200


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_another_method_is_405(webhook, method, path):
    async with webhook() as (_, client), client.request(method, path) as response:
        assert response.status == 405
        assert "POST" in response.headers["Allow"]


async def test_another_path_is_404(webhook):
    async with webhook() as (_, client), client.post("/", json={}) as response:
        assert response.status == 404


async def test_a_body_that_does_not_arrive_is_408(webhook):
    arrived = asyncio.Event()

    async def never():
        yield b"{"
        await arrived.wait()

    async with (
        webhook(request_timeout_seconds=0.01) as (_, client),
        client.post("/mutate", data=never(), headers=JSON) as response,
    ):
        assert response.status == 408
        assert "0.01 seconds" in await response.text()
        arrived.set()


@pytest.mark.parametrize("body", [b"hunter2", zlib.compress(b" " * 1_000_000)])
async def test_a_compressed_body_is_415_and_is_not_inflated(webhook, body):
    headers = {**JSON, "Content-Encoding": "deflate"}
    async with webhook() as (_, client), client.post("/mutate", data=body, headers=headers) as response:
        assert response.status == 415
        assert "must not be compressed" in await response.text()


async def test_an_error_of_our_own_is_a_valid_review_and_not_a_500(webhook, review, monkeypatch):
    monkeypatch.setattr("webhook.answer.mutate", lambda *_: 1 / 0)
    async with webhook(fail_mode="deny") as (_, client), client.post("/mutate", json=review()) as response:
        assert response.status == 200
        raw = await response.json()
        assert not raw["response"]["allowed"]
        assert "ZeroDivisionError" in raw["response"]["status"]["message"]


async def test_labels_of_the_namespaces_file_reach_the_decision(webhook, files, review):
    policy = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": {"teams": [{"name": "t", "namespaceSelector": {"matchLabels": {"owner": "t"}}}]},
    }
    (files / "policy.yaml").write_bytes(msgspec.json.encode(policy))
    (files / "n.yaml").write_text("kind: Namespace\nmetadata: {name: vision, labels: {owner: t}}\n")
    async with (
        webhook(namespaces_file=files / "n.yaml") as (_, client),
        client.post("/mutate", json=review()) as response,
    ):
        assert (await response.json())["response"]["auditAnnotations"]["team"] == "t"


async def test_every_problem_of_the_files_stops_the_start(settings, files):
    (files / "policy.yaml").write_text("kind: GpuPolicy\nspec: {profile: loose}\n")
    (files / "n.yaml").write_text("kind: Pod\n")
    (files / "tls.key").unlink()
    with pytest.raises(StartError) as caught:
        async with running(settings(namespaces_file=files / "n.yaml")):
            pass
    text = "\n".join(caught.value.problems)
    assert f"policy {files}/policy.yaml: apiVersion" in text
    assert f"policy {files}/policy.yaml: spec.profile" in text
    assert "namespaces: " in text
    assert "certificate: cannot read" in text


async def test_a_certificate_that_has_ended_stops_the_start(settings):
    with pytest.raises(StartError, match="ended at"):
        async with running(settings(), clock=lambda: datetime(2099, 1, 1, tzinfo=UTC)):
            pass


async def test_a_reload_puts_policy_and_certificate_in_force(webhook, files, settings, review):
    async with webhook() as (server, client):
        before = server.inputs.policy.version
        text = (files / "policy.yaml").read_text().replace("baseline", "restricted")
        (files / "policy.yaml").write_text(text)
        now = datetime.now(UTC)
        other = new_authority("other CA", now)
        leaf = issue_serving(other, ServingNames(ips=("127.0.0.1",)), now)
        write(files, other, leaf, keep_ca_key=False, replace_ca=True)
        assert await server.reload() == ()
        assert server.inputs.policy.version != before
        trusting = ssl.create_default_context(cafile=str(files / "ca.crt"))
        async with client.post("/mutate", json=review(), ssl=trusting) as response:
            assert response.status == 200


async def test_a_reload_with_problems_keeps_what_was_good(webhook, files, review):
    async with webhook() as (server, client):
        before = server.inputs.policy
        (files / "policy.yaml").write_text("a: [")
        (files / "tls.crt").write_text("rubbish")
        problems = await server.reload()
        assert len(problems) == 2
        assert server.inputs.policy is before
        async with client.post("/mutate", json=review(), headers={"Connection": "close"}) as response:
            assert response.status == 200


async def test_it_is_ready_while_its_certificate_holds(settings, files):
    clock = {"now": datetime.now(UTC)}
    trusting = ssl.create_default_context(cafile=str(files / "ca.crt"))
    async with running(settings(), clock=lambda: clock["now"]) as server, aiohttp.ClientSession() as session:
        async with session.get(f"{server.url}/readyz", ssl=trusting) as response:
            assert (response.status, await response.text()) == (200, "ok\n")
        clock["now"] = datetime(2099, 1, 1, tzinfo=UTC)
        async with session.get(f"{server.url}/readyz", ssl=trusting) as response:
            assert response.status == 503
            assert "ended at" in await response.text()


async def test_it_is_not_ready_while_callers_may_already_trust_another_authority(webhook, files):
    """The CA was replaced and the leaf not yet, as between the two updates of a rotation."""
    good = (files / "ca.crt").read_bytes()
    async with webhook() as (server, client):
        (files / "ca.crt").write_bytes(new_authority("other CA", datetime.now(UTC)).certificate_pem)
        await server.reload()
        async with client.get("/readyz") as response:
            assert response.status == 503
            assert "not signed by any certificate in ca.crt" in await response.text()
        (files / "ca.crt").write_bytes(good)
        await server.reload()
        async with client.get("/readyz") as response:
            assert response.status == 200


async def test_a_reload_says_what_it_took_and_what_it_refused(webhook, files):
    async with webhook() as (server, _):
        (files / "policy.yaml").write_text("a: [")
        authority = new_authority("other CA", datetime.now(UTC))
        leaf = issue_serving(authority, ServingNames(ips=("127.0.0.1",)), datetime.now(UTC))
        write(files, authority, leaf, keep_ca_key=False, replace_ca=True)
        done = server.inputs.reload(datetime.now(UTC))
        assert (done.changed, done.kept, len(done.problems)) == (("certificate",), ("policy",), 1)
        again = server.inputs.reload(datetime.now(UTC))
        assert (again.changed, again.kept) == ((), ("policy",))


async def test_requests_in_flight_are_answered_before_the_server_stops(settings, files, review):
    trusting = ssl.create_default_context(cafile=str(files / "ca.crt"))
    reading, leave = asyncio.Event(), asyncio.Event()
    body = json.dumps(review()).encode()

    async def slowly():
        yield body[:10]
        reading.set()
        await leave.wait()
        yield body[10:]

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as client:
        async with running(settings(request_timeout_seconds=30)) as server:
            call = asyncio.create_task(client.post(f"{server.url}/mutate", data=slowly(), headers=JSON))
            await reading.wait()
            await (
                await client.get(f"{server.url}/healthz")
            ).read()  # so the server has seen the first request
            asyncio.get_running_loop().call_later(0, leave.set)  # once the server has begun to stop
        response = await call
        assert response.status == 200
        assert (await response.json())["response"]["allowed"]


async def test_a_request_that_never_ends_holds_up_the_stop_for_no_longer_than_the_setting(settings, files):
    trusting = ssl.create_default_context(cafile=str(files / "ca.crt"))
    reading, never = asyncio.Event(), asyncio.Event()

    async def endless():
        yield b"{"
        reading.set()
        await never.wait()

    patient = settings(request_timeout_seconds=30, shutdown_timeout_seconds=0.01)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as client:
        async with asyncio.timeout(10), running(patient) as server:
            call = asyncio.create_task(client.post(f"{server.url}/mutate", data=endless(), headers=JSON))
            await reading.wait()
            await (await client.get(f"{server.url}/healthz")).read()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await call
