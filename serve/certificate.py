"""The certificate that a server shows, exchanged while it serves whenever its directory holds another one."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from certs.check import expires_at, reasons_against
from certs.store import CA, CHAIN, KEY, read_bundle
from policy.errors import WorldError
from serve.http import tls_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from certs.store import Bundle

# The kubelet brings a changed Secret into a pod within about a minute (its sync period), so a few seconds more
# change nothing; reading three small files costs a tenth of a millisecond.
LOOK_SECONDS = 5.0


class RefusedError(WorldError):
    """A certificate that a client would refuse. `problems` holds every reason, one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class Exchange(msgspec.Struct, frozen=True):
    """What a look at the directory led to: another certificate is in force, or why it was refused."""

    changed: bool = False
    problems: tuple[str, ...] = ()


class ServedCertificate:
    """The certificate of a directory. `context` is what a listener is given, once and for all.

    A new certificate gets a context of its own, and each handshake takes the newest one. Loading it into the
    context in use instead would drop the old key before the new one is there, and a handshake in between fails
    (OpenSSL, ssl/ssl_rsa.c ssl_set_cert).
    """

    def __init__(self, directory: Path, now: datetime) -> None:
        """Read the directory; RefusedError where a client would refuse what is in it."""
        self._directory = directory
        self._seen, self._bundle, self._inner = _judged(directory, now)
        self._refused: tuple[str, ...] = ()
        self.context = tls_context(directory)
        self.context.sni_callback = self._choose  # called without a server name too

    @property
    def not_after(self) -> datetime:
        """When the chain that is served ends."""
        return expires_at(self._bundle.chain)

    def not_ready(self, now: datetime) -> tuple[str, ...]:
        """Return why a caller would not trust us, one line each.

        The certificate that is served does not hold any longer, or the one in the directory was refused: then
        callers may already trust only another.
        """
        return self._refused or reasons_against(self._bundle.chain, self._bundle.trusted, now)

    def look(self, now: datetime) -> Exchange:
        """Put the certificate of the directory in force where it is another one and holds.

        One that was refused is judged again at every look: it may only have begun a little later.
        """
        if not self._refused and _digest(self._directory) == self._seen:
            return Exchange()
        before = self._seen
        try:
            self._seen, self._bundle, self._inner = _judged(self._directory, now)
        except RefusedError as error:
            self._refused = error.problems
            return Exchange(problems=self._refused)
        self._refused = ()
        return Exchange(changed=self._seen != before)

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._inner


async def follow(
    look: Callable[[], Awaitable[object]],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    seconds: float = LOOK_SECONDS,
) -> None:
    """Look again and again until cancelled.

    Not a file watch: inotify does not see what a network file system or another mount changes, and a
    directory that is replaced as a whole ends a watch silently (docs/decisions/0011).
    """
    while True:
        await sleep(seconds)
        await look()


def _judged(directory: Path, now: datetime) -> tuple[str, Bundle, ssl.SSLContext]:
    """Return a digest of the files, what is in them, and a context with it.

    RefusedError says why an API server would refuse it. Not for which name: that is in the webhook
    configuration, which this process does not see. Without ca.crt the signature is not judged.
    """
    digest = _digest(directory)
    try:
        bundle = read_bundle(directory)
        problems = reasons_against(bundle.chain, bundle.trusted, now)
        context = tls_context(directory)
    except WorldError as error:
        raise RefusedError((str(error),)) from error
    if _digest(directory) != digest:  # exchanged while we read: the files may not belong together
        problems = (f"{directory} changed while it was read",)
    if problems:
        raise RefusedError(problems)
    return digest, bundle, context


def _digest(directory: Path) -> str:
    """Return a digest of the files; one that cannot be read counts as empty."""
    whole = sha256()
    for name in (CHAIN, KEY, CA):
        whole.update(sha256(_content(directory / name)).digest())
    return whole.hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
