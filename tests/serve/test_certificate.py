"""A certificate is exchanged under a running listener, and one that callers would refuse is not."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID, NameOID

from certs.authority import ServingNames, issue_serving, new_authority
from certs.store import write
from serve.certificate import RefusedError, ServedCertificate, follow

NAMES = ServingNames(ips=("127.0.0.1",))


@pytest.fixture
def now():
    return datetime.now(UTC)  # TLS looks at the real clock


@pytest.fixture
def put(tmp_path, now):
    """Write a certificate of a new authority to the directory; return a context that trusts it."""

    def make(name, at=now):
        authority = new_authority(name, at)
        write(tmp_path, authority, issue_serving(authority, NAMES, at), keep_ca_key=False, replace_ca=True)
        return ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))

    return make


async def handshake(server, trusting):
    host, port = server.sockets[0].getsockname()[:2]
    _, writer = await asyncio.open_connection(host, port, ssl=trusting)
    writer.close()
    await writer.wait_closed()


async def test_every_handshake_of_a_listener_gets_the_newest_certificate(put, tmp_path, now):
    old = put("old")
    served = ServedCertificate(tmp_path, now)
    async with await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", ssl=served.context
    ) as server:
        await handshake(server, old)
        new = put("new")
        await handshake(server, old)  # nobody has looked
        assert served.look(now).changed
        await handshake(server, new)
        with pytest.raises(ssl.SSLCertVerificationError):
            await handshake(server, old)


def test_a_look_at_the_same_files_changes_nothing(put, tmp_path, now):
    put("only")
    served = ServedCertificate(tmp_path, now)
    assert served.look(now) == served.look(now)
    assert not served.look(now).changed


def test_files_that_do_not_belong_together_are_refused_and_the_old_ones_served(put, tmp_path, now):
    put("old")
    served = ServedCertificate(tmp_path, now)
    before = served.not_after
    key = (tmp_path / "tls.key").read_bytes()
    put("new", now + timedelta(seconds=1))
    fitting = (tmp_path / "tls.key").read_bytes()
    (tmp_path / "tls.key").write_bytes(key)
    found = served.look(now + timedelta(seconds=2))
    assert not found.changed
    assert "is not the key of" in found.problems[0]
    assert served.not_after == before
    (tmp_path / "tls.key").write_bytes(fitting)
    assert served.look(now + timedelta(seconds=2)).changed
    assert served.not_ready(now + timedelta(seconds=2)) == ()


def test_a_bad_new_certificate_is_no_reason_to_stop_serving_the_good_old_one(put, tmp_path, now):
    """Every replica gets the same Secret: one mistake in it must not take all of them away."""
    put("old")
    served = ServedCertificate(tmp_path, now)
    (tmp_path / "tls.crt").write_text("rubbish")
    assert served.look(now).problems
    assert served.not_ready(now) == ()


def test_other_authorities_that_do_not_cover_what_is_served_are_a_reason(put, tmp_path, now):
    """C25: callers may already trust only what ca.crt publishes."""
    put("old")
    served = ServedCertificate(tmp_path, now)
    (tmp_path / "ca.crt").write_bytes(new_authority("other", now).certificate_pem)
    assert served.look(now).problems
    assert "not signed by any certificate in ca.crt" in served.not_ready(now)[0]


def test_the_same_refusal_is_news_once(put, tmp_path, now):
    put("old")
    served = ServedCertificate(tmp_path, now)
    (tmp_path / "tls.crt").write_text("rubbish")
    assert [served.look(now).news for _ in range(3)] == [True, False, False]
    (tmp_path / "tls.crt").write_text("other rubbish in a file that is longer")
    assert served.look(now).problems


def test_a_certificate_that_no_parser_bears_is_refused_like_any_other(put, tmp_path, now):
    put("old")
    served = ServedCertificate(tmp_path, now)
    odd = odd_basic_constraints(now)
    (tmp_path / "ca.crt").write_bytes(odd + (tmp_path / "ca.crt").read_bytes())
    assert served.look(now).problems
    put("new", now)
    assert served.look(now).changed
    (tmp_path / "ca.crt").write_bytes(odd)
    with pytest.raises(RefusedError):
        ServedCertificate(tmp_path, now)


def odd_basic_constraints(now):
    """A certificate whose BasicConstraints are no ASN.1: it parses, and its extensions do not."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "odd")])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=1),
    ).add_extension(x509.UnrecognizedExtension(ExtensionOID.BASIC_CONSTRAINTS, b"rubbish"), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def test_one_that_begins_later_is_taken_once_it_has_begun_though_the_files_stay_the_same(put, tmp_path, now):
    put("old")
    served = ServedCertificate(tmp_path, now)
    later = now + timedelta(days=1)
    put("new", later)
    assert "is not valid before" in served.look(now).problems[0]
    assert "is not valid before" in served.look(now).problems[0]
    assert served.look(later).changed


def test_a_directory_that_vanishes_for_a_while_costs_nothing(put, tmp_path, now):
    put("only")
    served = ServedCertificate(tmp_path, now)
    away = tmp_path.with_name("away")
    tmp_path.rename(away)
    assert "cannot read" in served.look(now).problems[0]
    away.rename(tmp_path)
    assert not served.look(now).changed
    assert served.not_ready(now) == ()


def test_an_unusable_certificate_is_refused_at_the_start(put, tmp_path, now):
    put("ended", now - timedelta(days=10_000))
    with pytest.raises(RefusedError, match="ended at"):
        ServedCertificate(tmp_path, now)


async def test_it_looks_every_few_seconds_until_it_is_cancelled():
    waits, looks = [], []

    async def sleep(seconds):
        waits.append(seconds)
        if len(waits) > 3:
            raise asyncio.CancelledError

    async def look():
        looks.append(len(waits))

    with pytest.raises(asyncio.CancelledError):
        await follow(look, sleep, 5)
    assert (waits, looks) == ([5] * 4, [1, 2, 3])
