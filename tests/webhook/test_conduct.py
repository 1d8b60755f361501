"""What clients that are slow, silent, greedy or gone can do to the others: nothing."""

from __future__ import annotations

import asyncio
import json
import ssl
from datetime import UTC, datetime

import pytest

from certs.authority import ServingNames, issue_serving, new_authority
from certs.store import write
from webhook.run import running

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /mutate HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"


@pytest.fixture
def trusting(files):
    return ssl.create_default_context(cafile=str(files / "ca.crt"))


async def connect(server, trusting):
    return await asyncio.open_connection(server.address.host, server.address.port, ssl=trusting)


async def closed(reader):
    """Read until the server closes, in whichever way."""
    try:
        return await reader.read()
    except (ConnectionResetError, ssl.SSLError):
        return b""


@pytest.mark.parametrize(
    "sent", [b"P", b"POST /mutate HTTP/1.1\r\nHost: h\r\n", b"GET /healthz HTTP/1.1\r\nHost: h"]
)
async def test_a_request_whose_head_does_not_arrive_ends_its_connection(settings, trusting, sent):
    async with running(settings(request_timeout_seconds=0.4)) as server, asyncio.timeout(10):
        reader, writer = await connect(server, trusting)
        writer.write(sent)
        assert await closed(reader) == b""
        writer.close()


async def test_a_client_that_sends_its_head_byte_by_byte_gets_no_more_time(settings, trusting):
    async with running(settings(request_timeout_seconds=0.4)) as server, asyncio.timeout(10):
        reader, writer = await connect(server, trusting)
        end = asyncio.create_task(closed(reader))
        writer.write(b"GET /")
        while not end.done():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        assert await end == b""
        writer.close()


async def test_a_connection_that_never_says_hello_is_closed(settings):
    async with running(settings(request_timeout_seconds=0.4)) as server, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
        assert await closed(reader) == b""
        writer.close()


async def flushed(writer):
    await writer.drain()
    await writer.wait_closed()


async def test_a_client_that_pipelines_and_never_reads_is_closed(settings, trusting):
    asks = b"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n" + b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n" * 50_000
    asks = asks.partition(b"\r\n\r\n")[2]
    async with running(settings(request_timeout_seconds=0.2)) as server, asyncio.timeout(30):
        reader, writer = await connect(server, trusting)
        writer.transport.pause_reading()
        for _ in range(20):
            writer.write(asks)
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await flushed(writer)
        assert reader is not None


async def test_pipelined_requests_are_answered_in_order(settings, trusting, review):
    bodies = [json.dumps(review(uid=f"u{number}")).encode() for number in range(5)]
    async with running(settings()) as server, asyncio.timeout(10):
        reader, writer = await connect(server, trusting)
        writer.write(b"".join(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies))
        for number in range(5):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            assert json.loads(await reader.readexactly(length))["response"]["uid"] == f"u{number}"
        writer.close()


async def test_large_bodies_share_a_room_and_small_ones_need_none(webhook, review):
    """Of 64 KiB for each: four that do not come fill it, one more is 429 at once, and an ordinary one is answered."""
    body = json.dumps(review()).encode()
    reading = asyncio.Event()

    async def never():
        yield b"{"
        reading.set()
        await asyncio.Event().wait()

    async with webhook(max_body_bytes=100_000, request_timeout_seconds=30) as (server, client):
        held = []
        for _ in range(4):
            reading.clear()
            held.append(asyncio.create_task(client.post("/mutate", data=never(), headers=JSON)))
            await reading.wait()
        async with client.get("/healthz") as response:  # by then the server has seen them
            assert response.status == 200
        assert server.drain.in_flight == 4
        large = json.dumps(review(name="x" * 70_000)).encode()
        async with client.post("/mutate", data=large, headers=JSON) as response:
            assert response.status == 429
            assert response.headers["Retry-After"] == "1"
            assert response.headers["Connection"] == "close"
        async with client.post("/mutate", data=body, headers=JSON) as response:
            assert response.status == 200
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)


async def test_many_slow_bodies_of_one_caller_leave_the_others_answered(settings, trusting, review):
    """More than there are places for: each takes the place of another slow one."""
    body = json.dumps(review()).encode()
    async with (
        running(settings(max_connections=16, request_timeout_seconds=30)) as server,
        asyncio.timeout(30),
    ):
        slow = []
        for _ in range(40):
            _, writer = await connect(server, trusting)
            writer.write(HEAD + b"Content-Length: 100\r\n\r\n{")
            slow.append(writer)
        reader, writer = await connect(server, trusting)
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for each in (*slow, writer):
            each.transport.abort()


async def test_an_answer_is_one_tls_record_whatever_its_size(settings, trusting, review):
    """Counted on the wire: headers and body in one write, and nothing that waits for an acknowledgement."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    body = json.dumps(review()).encode()
    async with running(settings()) as server, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(server.address.host, server.address.port)

        async def record():
            header = await reader.readexactly(5)
            incoming.write(header + await reader.readexactly(int.from_bytes(header[3:], "big")))

        async def until(call):
            while True:
                try:
                    return call()
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    await record()

        await until(tls.do_handshake)
        for _ in range(3):
            tls.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            writer.write(outgoing.read())
            answer = await until(lambda: tls.read(65536))  # what one record holds, tickets aside
            head, _, rest = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert len(rest) == int(head.lower().partition(b"content-length:")[2].split()[0])
        writer.close()


def swapped(directory, name):
    """Put new certificates in force as the kubelet does: a new folder, and `..data` renamed onto it."""
    folder = directory / name
    folder.mkdir(parents=True)
    authority = new_authority(name, datetime.now(UTC))
    leaf = issue_serving(authority, ServingNames(ips=("127.0.0.1",)), datetime.now(UTC))
    write(folder, authority, leaf, keep_ca_key=False, replace_ca=True)
    (directory / "..new").symlink_to(name)
    (directory / "..new").replace(directory / "..data")
    return ssl.create_default_context(cafile=str(folder / "ca.crt"))


async def test_a_new_secret_in_the_directory_is_served_and_no_connection_is_dropped(settings, files, review):
    mounted = files / "mounted"
    old = swapped(mounted, "first")
    for file in ("tls.crt", "tls.key", "ca.crt"):
        (mounted / file).symlink_to(f"..data/{file}")
    body = json.dumps(review()).encode()
    async with running(settings(certificates=mounted)) as server, asyncio.timeout(20):
        reader, writer = await connect(server, old)
        new = swapped(mounted, "second")
        await server.look()
        _, other = await connect(server, new)
        other.close()
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
