"""The server: HTTP in, a function of `creating`, `updating`, `deleting`, `reads` or `watching`, HTTP out."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from sandbox.apiserver import creating, deleting, reads, scaling, updating
from sandbox.apiserver.admission import Admission, Call
from sandbox.apiserver.applying import APPLY_PATCH, apply
from sandbox.apiserver.asks import ADMIN, Ask, target_of, user_of
from sandbox.apiserver.discovery import document
from sandbox.apiserver.headers import warning_headers
from sandbox.apiserver.resources import NAMESPACES, Object
from sandbox.apiserver.status import StatusError, method_not_allowed, no_such_path, unavailable
from sandbox.apiserver.storage import Store
from sandbox.apiserver.watching import Bell, watch
from sandbox.apiserver.world import World, stored

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping, Sequence

    from sandbox.apiserver.reviews import User

BODY_MAX = 3 * 1024 * 1024  # kube-apiserver's limit of a request body
FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def _now() -> datetime:
    return datetime.now(UTC)


class ApiServer:
    """A fake kube-apiserver: `async with ApiServer() as api:` serves at `api.url`.

    `tls` serves HTTPS, without it HTTP; `port` 0 takes a free one. `services` maps "namespace/name" to the
    base URL at which a webhook's clientConfig.service is found; its certificate must still be for
    `name.namespace.svc`. `tokens` maps bearer tokens to users; a request without one is `default_user`, and
    Impersonate-User, -Group and -Uid headers make it another. `review` answers TokenReviews and
    SubjectAccessReviews: it gets the posted object and returns its `status`; by default tokens are looked
    up in `tokens` and every access is allowed. `window` is how many events are kept for watches and earlier
    reads. `namespaces` exist from the start. `clock` returns aware datetimes, `entropy(n)` returns n random
    bytes (uids and generated names).

    `calls` lists every call of a webhook, `requests` how many requests there were. `store` may be
    read. Not emulated: see the package's docstring.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        services: Mapping[str, str] | None = None,
        tokens: Mapping[str, User] | None = None,
        default_user: User = ADMIN,
        review: Callable[[Object], Object] | None = None,
        window: int = 1000,
        namespaces: Sequence[str] = FIRST_NAMESPACES,
        clock: Callable[[], datetime] = _now,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.store = Store(window)
        self.requests = 0
        self._address = (host, port)
        self._tls = tls
        self._tokens = dict(tokens or {})
        self._default_user = default_user
        self._review = review or self._plain_review
        self._admission = Admission(self.store, {} if services is None else services, clock, entropy)
        self._bell = Bell()
        self._world = World(self.store, self._admission, clock, entropy, self._bell.ring)
        self._refusal = ""
        self._runner: web.AppRunner | None = None
        for name in namespaces:
            self._make_namespace(name)

    async def __aenter__(self) -> Self:
        """Start to serve."""
        await self._admission.open()
        app = web.Application(client_max_size=BODY_MAX)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, *self._address, ssl_context=self._tls).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Drop the watches and stop."""
        self._bell.drop()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._admission.close()

    @property
    def url(self) -> str:
        """Where it serves, without a slash at the end."""
        if self._runner is None:
            raise RuntimeError("the server has not been started")
        host, port = self._runner.addresses[0][:2]
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    @property
    def calls(self) -> list[Call]:
        """Every call of a webhook so far. Clear the list to forget them."""
        return self._admission.calls

    def drop_watches(self) -> None:
        """Cut the connection of every watch, as a restart of the API server or a broken network does."""
        self._bell.drop()

    def expire_history(self) -> None:
        """Forget all past events: watches and continue tokens from before get 410."""
        self.store.forget()
        self._bell.ring()

    def refuse(self, why: str) -> None:
        """Answer every request with 503 and this message; "" ends it. Watches that run go on."""
        self._refusal = why

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        warnings: list[str] = []
        self.requests += 1
        try:
            if self._refusal:
                raise unavailable(self._refusal)
            return await self._answer(request, warnings)
        except StatusError as error:
            return _response(int(error.status["code"]), error.status, warnings)

    async def _answer(self, request: web.Request, warnings: list[str]) -> web.StreamResponse:
        groups = request.headers.getall("Impersonate-Group", [])
        user = user_of(request.headers, groups, self._tokens, self._default_user)
        if (found := document(request.path)) is not None:
            return _response(200, found, warnings)
        if request.path in ("/healthz", "/livez", "/readyz"):
            return web.Response(text="ok")
        if not request.path.startswith(("/api/", "/apis/")):
            raise no_such_path()
        content_type = request.content_type
        ask = Ask(
            *target_of(request.path), user, dict(request.query), content_type, await request.read(), warnings
        )
        if request.method == "GET" and ask.query.get("watch") in ("1", "true"):
            return await watch(request, self.store, self._bell, ask)
        code, body = await self._object_answer(request.method, ask)
        return _response(code, body, warnings)

    async def _object_answer(self, method: str, ask: Ask) -> tuple[int, Object]:
        if ask.resource.review:
            return self._reviewed(method, ask)
        if ask.subresource == "scale":
            return 200, await self._scale(method, ask)
        match method, bool(ask.name), bool(ask.subresource):
            case "GET", True, _:
                return 200, stored(self._world, ask)
            case "GET", False, _:
                return 200, reads.list_page(self.store, ask)
            case "POST", False, _:
                return 201, await creating.create(self._world, ask)
            case "PUT", True, _:
                return 200, await updating.replace(self._world, ask)
            case "PATCH", True, _:
                return await self._patched(ask)
            case "DELETE", True, False:
                return 200, await deleting.delete(self._world, ask)
            case "DELETE", False, _:
                return 200, await self._delete_collection(ask)
        raise method_not_allowed()

    async def _scale(self, method: str, ask: Ask) -> Object:
        if method == "GET":
            return scaling.scale_of(stored(self._world, ask))
        if method not in ("PUT", "PATCH"):
            raise method_not_allowed()
        return await scaling.rescale(self._world, ask)

    async def _patched(self, ask: Ask) -> tuple[int, Object]:
        if ask.content_type == APPLY_PATCH:
            return await apply(self._world, ask)
        return 200, await updating.patch(self._world, ask)

    async def _delete_collection(self, ask: Ask) -> Object:
        deleted = await deleting.delete_collection(self._world, ask, reads.selected(self.store, ask))
        return reads.as_list(ask.resource, {"resourceVersion": str(self.store.revision)}, deleted)

    def _reviewed(self, method: str, ask: Ask) -> tuple[int, Object]:
        if method != "POST":
            raise method_not_allowed()
        posted = ask.object()
        return 201, {**posted, "status": self._review(posted)}

    def _plain_review(self, posted: Object) -> Object:
        if posted.get("kind") != "TokenReview":
            return {"allowed": True}
        user = self._tokens.get(posted.get("spec", {}).get("token", ""))
        return {"authenticated": True, "user": user.info()} if user else {"authenticated": False}

    def _make_namespace(self, name: str) -> None:
        obj: Object = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
        creating.seed(self._world, NAMESPACES, obj)


def _response(code: int, body: Object, warnings: list[str]) -> web.Response:
    headers = CIMultiDict([("Warning", text) for text in warning_headers(warnings)])
    return web.Response(
        status=code, body=msgspec.json.encode(body), headers=headers, content_type="application/json"
    )
