"""The certificate that a server shows, exchanged while it serves whenever its directory holds another one."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from certs.check import expires_at, reasons_against
from certs.store import CA, CHAIN, KEY, read_authorities, read_bundle
from policy.errors import WorldError
from serve.faults import describe_fault
from serve.http import tls_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from certs.store import Authorities, Bundle

# The kubelet brings a changed Secret into a pod within about a minute (its sync period), so a few seconds more
# change nothing; reading three small files costs a tenth of a millisecond.
LOOK_SECONDS = 5.0


class RefusedError(WorldError):
    """A certificate that a client would refuse. `problems` holds every reason, one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class Exchange(msgspec.Struct, frozen=True):
    """What a look at the directory led to: another certificate is in force, or why it was refused.

    `news`: it is not what the last look led to.
    """

    changed: bool = False
    problems: tuple[str, ...] = ()
    news: bool = False


class ServedCertificate:
    """The certificate of a directory. `context` is what a listener is given, once and for all.

    A new certificate gets a context of its own, and each handshake takes the newest one. Loading it into the
    context in use instead would drop the old key before the new one is there, and a handshake in between fails
    (OpenSSL, ssl/ssl_rsa.c ssl_set_cert).
    """

    def __init__(self, directory: Path, now: datetime) -> None:
        """Read the directory; RefusedError where a client would refuse what is in it."""
        self._directory = directory
        self._seen = _digest(directory)
        self._bundle, self._newest = _judged(directory, now)
        self._published = self._bundle.trusted
        self._refused: tuple[str, ...] = ()
        self.context = self._newest
        self.context.sni_callback = self._choose  # called without a server name too

    @property
    def not_after(self) -> datetime:
        """When the chain that is served ends."""
        return expires_at(self._bundle.chain)

    def not_ready(self, now: datetime) -> tuple[str, ...]:
        """Return why a caller would not trust us, one line each.

        By what is served, and the authorities that the directory publishes now: where they are others, callers may
        already trust only these. Any other fault of new files is no reason: the old certificate still serves, and
        all replicas get the same Secret at about the same time.
        """
        return reasons_against(self._bundle.chain, self._published, now)

    def look(self, now: datetime) -> Exchange:
        """Put the certificate of the directory in force where it is another one and holds.

        One that was refused is judged again at every look: it may only have begun a little later.
        """
        seen, before = _digest(self._directory), self._seen
        if seen == before and not self._refused:
            return Exchange()
        try:
            bundle, context = _judged(self._directory, now)
        except RefusedError as error:
            known, self._refused = self._refused, error.problems
            self._published = _published(self._directory, self._published)
            return Exchange(problems=self._refused, news=known != self._refused)
        if _digest(self._directory) != seen:
            return (
                Exchange()
            )  # exchanged while we read: the files may not belong together; the next look decides
        self._seen, self._bundle, self._newest, self._published = seen, bundle, context, bundle.trusted
        self._refused = ()
        return Exchange(changed=seen != before, news=seen != before)

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._newest


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


def _judged(directory: Path, now: datetime) -> tuple[Bundle, ssl.SSLContext]:
    """Return what is in the files, and a context with it.

    RefusedError says why an API server would refuse it. Not for which name: that is in the webhook
    configuration, which this process does not see. Without ca.crt the signature is not judged.
    """
    try:
        bundle = read_bundle(directory)
        problems = reasons_against(bundle.chain, bundle.trusted, now)
        context = tls_context(directory)
    except WorldError as error:
        raise RefusedError((str(error),)) from error
    except Exception as error:  # whatever is odd about a certificate, the one in force stays
        raise RefusedError((f"{directory}: {describe_fault(error)}",)) from error
    if problems:
        raise RefusedError(problems)
    return bundle, context


def _published(directory: Path, before: Authorities) -> Authorities:
    """Return the authorities of ca.crt, or those of before where it cannot be read."""
    try:
        return read_authorities(directory)
    except Exception:  # noqa: BLE001 - it was refused already, and said why
        return before


def _digest(directory: Path) -> str:
    """Return a digest of the files; one that cannot be read counts as empty."""
    whole = sha256()
    for name in (CHAIN, KEY, CA):
        whole.update(sha256(_content(directory / name)).digest())
    return whole.hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""  # reading a FIFO would never end
    except OSError:
        return b""
