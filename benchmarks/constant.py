"""The least that the webhook's server can do: read the body and answer a constant, with the same bounds on clients."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import uvloop
from aiohttp import web

from serve.certificate import ServedCertificate
from serve.http import Drain, listening_socket
from serve.serving import answering
from serve.settings import Address
from webhook.settings import WebhookSettings


async def serve(certificates: Path, size: int) -> None:
    """Answer every POST with `size` bytes until the process is ended."""
    constant = b"x" * size

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=constant, content_type="application/json")

    settings = WebhookSettings()
    app = web.Application(client_max_size=settings.max_body_bytes, handler_args={"auto_decompress": False})
    app.router.add_post("/mutate", answer)
    listener = listening_socket(Address("127.0.0.1", 0))
    tls = ServedCertificate(certificates, datetime.now(UTC)).context
    async with answering(app, Drain(), listener, settings, most=settings.max_connections, tls=tls):
        print(f"ready on https://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Serve: arguments are the directory of the certificates and the size of the answer."""
    uvloop.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
