"""The least that a server on the webhook's stack can do: read the body and answer a constant, over the same TLS."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop
from aiohttp import web

from serve.http import KEEP_ALIVE_SECONDS, LINGER_SECONDS, listening_socket, tls_context
from serve.settings import Address


async def serve(certificates: Path, size: int) -> None:
    """Answer every POST with `size` bytes until the process is ended."""
    constant = b"x" * size

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=constant, content_type="application/json")

    app = web.Application(client_max_size=10 << 20)
    app.router.add_post("/mutate", answer)
    runner = web.AppRunner(
        app, access_log=None, keepalive_timeout=KEEP_ALIVE_SECONDS, lingering_time=LINGER_SECONDS
    )
    await runner.setup()
    listener = listening_socket(Address("127.0.0.1", 0))
    await web.SockSite(runner, listener, ssl_context=tls_context(certificates)).start()
    print(f"ready on https://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve: arguments are the directory of the certificates and the size of the answer."""
    uvloop.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
