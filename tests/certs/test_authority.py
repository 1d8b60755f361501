"""What `gpufence certs init` issues is what Go and OpenSSL ask of a server certificate."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from certs.authority import ServingNames, issue_serving, new_authority
from policy.errors import CallerError

NOW = datetime(2026, 12, 1, 12, 0, 0, 250_000, tzinfo=UTC)
NAMES = ServingNames(dns=("gpufence-webhook.gpufence-system.svc", "localhost"), ips=("127.0.0.1", "::1"))


def test_an_independent_verifier_accepts_the_leaf_for_each_of_its_names():
    authority = new_authority("test CA", NOW)
    leaf = issue_serving(authority, NAMES, NOW)
    verifier = PolicyBuilder().store(Store([authority.certificate])).time(NOW)
    for name in (x509.DNSName("localhost"), x509.DNSName(NAMES.dns[0])):
        chain = verifier.build_server_verifier(name).verify(leaf.certificate, [])
        assert chain == [leaf.certificate, authority.certificate]


def test_certificates_start_an_hour_early_and_end_when_asked():
    authority = new_authority("test CA", NOW)
    leaf = issue_serving(authority, NAMES, NOW, days=30)
    second = NOW.replace(microsecond=0)
    assert leaf.certificate.not_valid_before_utc == second - timedelta(hours=1)
    assert leaf.certificate.not_valid_after_utc == second + timedelta(days=30)
    assert authority.certificate.not_valid_after_utc == second + timedelta(days=3650)


def test_the_authority_may_sign_leaves_and_nothing_else():
    certificate = new_authority("test CA", NOW).certificate
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert constraints.value.ca
    assert constraints.value.path_length == 0
    assert usage.critical
    assert usage.value.key_cert_sign
    assert not usage.value.digital_signature


def test_the_leaf_may_serve_and_names_the_key_that_signed_it():
    authority = new_authority("test CA", NOW)
    extensions = issue_serving(authority, NAMES, NOW).certificate.extensions
    key_id = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier == key_id


def test_every_certificate_has_a_key_and_a_serial_number_of_its_own():
    authority = new_authority("test CA", NOW)
    pairs = [authority, *(issue_serving(authority, NAMES, NOW) for _ in range(3))]
    assert len({pair.certificate.serial_number for pair in pairs}) == 4
    assert len({pair.key.private_numbers().private_value for pair in pairs}) == 4
    assert all(isinstance(pair.key.curve, ec.SECP256R1) for pair in pairs)


def test_openssl_takes_the_pem_files(tmp_path):
    leaf = issue_serving(new_authority("test CA", NOW), NAMES, NOW)
    (tmp_path / "crt").write_bytes(leaf.certificate_pem)
    (tmp_path / "key").write_bytes(leaf.key_pem)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "crt", tmp_path / "key")


def test_every_unusable_name_is_reported_at_once():
    names = ServingNames(
        dns=("ok.example", "not a name", "a.*.example", "-x"), ips=("127.0.0.1", "300.1.1.1")
    )
    with pytest.raises(CallerError) as caught:
        names.general_names()
    assert str(caught.value) == (
        "'not a name' is not a DNS name; 'a.*.example' is not a DNS name; '-x' is not a DNS name;"
        " '300.1.1.1' is not an IP address"
    )


def test_a_certificate_without_a_name_is_refused():
    with pytest.raises(CallerError, match="at least one"):
        ServingNames().general_names()


def test_a_leaf_does_not_outlive_its_authority():
    authority = new_authority("test CA", NOW, days=10)
    issue_serving(authority, NAMES, NOW, days=9)
    with pytest.raises(CallerError, match="would outlive its authority"):
        issue_serving(authority, NAMES, NOW, days=11)


def test_a_certificate_of_no_days_is_refused():
    with pytest.raises(CallerError, match="at least one day"):
        new_authority("test CA", NOW, days=0)
