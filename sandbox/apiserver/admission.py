"""Calling the webhooks: order, reinvocation, time limits, failure policy, and the list of every call made."""

from __future__ import annotations

import asyncio
import copy
import ssl
import uuid
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from sandbox.apiserver.defaults import apply_defaults
from sandbox.apiserver.patches import apply_operations
from sandbox.apiserver.resources import MUTATING, NAMESPACES, VALIDATING, Object, Resource, labels_of
from sandbox.apiserver.reviews import (
    Attributes,
    Hook,
    Phase,
    Response,
    audit_annotations,
    denial,
    hooks_of,
    matches,
    operations_of,
    review_of,
    verified,
)
from sandbox.apiserver.shapes import decoded
from sandbox.apiserver.status import internal_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from sandbox.apiserver.storage import Store


class Call(msgspec.Struct):
    """One call of a webhook: the AdmissionReview's `request` and `response` as they were sent and received.

    `response` is None where no answer came; `error` is why the call counts as failed, "" where it does not.
    `round` is 1 for a reinvocation. `audit_annotations` are what the audit event of the request would carry.
    """

    webhook: str
    configuration: str
    phase: Phase
    round: int
    request: Object
    response: Object | None = None
    error: str = ""
    milliseconds: float = 0.0
    audit_annotations: dict[str, str] = msgspec.field(default_factory=dict)


class CallFailedError(Exception):
    """A webhook could not be called, or its answer breaks the rules: the failure policy decides."""


class Admission:
    """The webhook half of kube-apiserver. `calls` is every call so far, in the order in which they began."""

    def __init__(
        self,
        store: Store,
        services: Mapping[str, str],
        clock: Callable[[], datetime],
        entropy: Callable[[int], bytes],
    ) -> None:
        self.calls: list[Call] = []
        self._store = store
        self._services = services
        self._clock = clock
        self._entropy = entropy
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the HTTP client; needs a running loop."""
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        """Close all connections to webhooks."""
        if self._session is not None:
            await self._session.close()

    async def mutate(self, attributes: Attributes, warnings: list[str]) -> Attributes:
        """Call the mutating webhooks one after another and return the request with the object they made.

        Warnings are added to `warnings`, also when StatusError is raised.
        """
        attributes, again = await self._mutate_round(attributes, warnings, None)
        if again:
            attributes, _ = await self._mutate_round(attributes, warnings, again)
        return attributes

    async def validate(self, attributes: Attributes, warnings: list[str]) -> None:
        """Call the validating webhooks at the same time. StatusError is the first refusal in their order."""
        hooks = [hook for hook in self._hooks("validating") if self._matches(hook, attributes)]
        answers = [self._call(hook, attributes, 0, warnings) for hook in hooks]
        for outcome in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _mutate_round(
        self, attributes: Attributes, warnings: list[str], only: set[tuple[str, str]] | None
    ) -> tuple[Attributes, set[tuple[str, str]]]:
        """Run one round. Returns also the hooks to run again, since a later one changed the object."""
        invoked: set[tuple[str, str]] = set()
        again: set[tuple[str, str]] = set()
        for hook in self._hooks("mutating"):
            skipped = only is not None and hook.identity not in only
            if skipped or not self._matches(hook, attributes):
                continue
            response = await self._call(hook, attributes, 0 if only is None else 1, warnings)
            changed = _patched(hook, attributes, response)
            if changed is not attributes:
                attributes = changed
                again |= invoked
            if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                invoked.add(hook.identity)
        return attributes, again

    def _hooks(self, phase: Phase) -> list[Hook]:
        return hooks_of(phase, self._store.items(MUTATING if phase == "mutating" else VALIDATING))

    def _matches(self, hook: Hook, attributes: Attributes) -> bool:
        namespace = self._store.get(NAMESPACES, "", attributes.namespace) or {}
        return matches(hook, attributes, labels_of(namespace))

    async def _call(self, hook: Hook, attributes: Attributes, number: int, warnings: list[str]) -> Response:
        """Call once, keep the record. A failed call is an empty consent or a 500, by the failure policy."""
        uid = str(uuid.UUID(bytes=self._entropy(16), version=4))
        review = review_of(attributes, uid)
        call = Call(hook.name, hook.configuration, hook.phase, number, copy.deepcopy(review["request"]))
        self.calls.append(call)
        begin = self._clock()
        try:
            response = await self._answer(hook, review, call)
        except CallFailedError as error:
            call.error = str(error)
            if hook.ignores_failure:
                return Response(allowed=True)
            raise internal_error(f'failed calling webhook "{hook.name}": {error}') from error
        finally:
            call.milliseconds = (self._clock() - begin).total_seconds() * 1000
        call.audit_annotations = audit_annotations(hook, response)
        warnings += response.warnings or ()
        if not response.allowed:
            raise denial(hook, response)
        return response

    async def _answer(self, hook: Hook, review: Object, call: Call) -> Response:
        body = await self._post(hook, msgspec.json.encode(review))
        call.response = _response_part(body)
        try:
            response = verified(body, review["request"]["uid"], hook.phase)
        except ValueError as error:
            raise CallFailedError(f"received invalid webhook response: {error}") from error
        try:
            operations_of(response)
        except ValueError as error:
            raise CallFailedError(f"received undecodable patch in webhook response: {error}") from error
        return response

    async def _post(self, hook: Hook, body: bytes) -> bytes:
        if self._session is None:
            raise RuntimeError("open() comes before the first request")
        seconds = hook.spec["timeoutSeconds"]
        shown, target, server_name = self._target(hook)
        query = f"?timeout={seconds}s"
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.post(
                    target + query,
                    data=body,
                    headers={"Content-Type": "application/json", "Accept": "application/json, */*"},
                    ssl=self._context(hook),
                    server_hostname=server_name,
                    allow_redirects=False,
                ) as answer,
            ):
                content = await answer.read()
                if answer.status not in range(200, 207):
                    raise CallFailedError(f"failed to call webhook: {_http_error(answer.status, content)}")
                return content
        except TimeoutError as error:
            raise CallFailedError(
                f'failed to call webhook: Post "{shown}{query}": context deadline exceeded'
            ) from error
        except aiohttp.ClientError as error:
            raise CallFailedError(f'failed to call webhook: Post "{shown}{query}": {error}') from error

    def _target(self, hook: Hook) -> tuple[str, str, str | None]:
        """Return the URL for messages, the URL to call, and the certificate's name (None: the host)."""
        client = hook.spec["clientConfig"]
        service = client.get("service")
        if service is None:
            return client["url"], client["url"], None
        path = str(service.get("path") or "/")
        host = f"{service['name']}.{service['namespace']}.svc"
        base = self._services.get(f"{service['namespace']}/{service['name']}")
        if base is None:
            raise CallFailedError(f'failed to call webhook: service "{service["name"]}" not found')
        return f"https://{host}:{service['port']}{path}", base.rstrip("/") + path, host

    def _context(self, hook: Hook) -> ssl.SSLContext:
        """Trust exactly caBundle, or the system's CAs without one. Kept by bundle: connections stay open."""
        bundle = str(hook.spec["clientConfig"].get("caBundle") or "")
        if bundle not in self._contexts:
            try:
                self._contexts[bundle] = _trusting(bundle)
            except (ValueError, ssl.SSLError) as error:
                raise CallFailedError(
                    f"could not get REST client: unable to load root certificates: {error}"
                ) from error
        return self._contexts[bundle]


def _trusting(bundle: str) -> ssl.SSLContext:
    pem = msgspec.convert(bundle, bytes).decode("ascii")
    return ssl.create_default_context(cadata=pem or None)


def _response_part(body: bytes) -> Object | None:
    """Return `response` as it came, None where the body has none: for the record only."""
    try:
        review = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return None
    response = review.get("response") if isinstance(review, dict) else None
    return response if isinstance(response, dict) else None


def _http_error(code: int, content: bytes) -> str:
    try:
        message = msgspec.json.decode(content, type=dict[str, object]).get("message")
    except msgspec.MsgspecError:
        message = None
    return str(message or f"the server responded with the status code {code} but did not return more details")


def _patched(hook: Hook, attributes: Attributes, response: Response) -> Attributes:
    """Apply the patch and the defaults again. `attributes` itself comes back where nothing changed.

    A patch that cannot be applied is a 500 whatever the failure policy says.
    """
    operations = operations_of(response)
    if not operations:
        return attributes
    if attributes.object is None:
        what = f'admission webhook "{hook.name}" attempted to modify the object'
        raise internal_error(f"{what}, which is not supported for this operation")
    patched = _apply(attributes.resource, operations, attributes.object)
    if patched == attributes.object:
        return attributes
    apply_defaults(attributes.resource, patched)
    return msgspec.structs.replace(attributes, object=patched)


def _apply(resource: Resource, operations: list[Object], obj: Object) -> Object:
    try:
        return decoded(resource, apply_operations(obj, operations))
    except ValueError as error:
        raise internal_error(str(error)) from error
