"""A serving certificate is judged for a name and at a time, with reasons that people can read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import ServingNames, issue_serving, new_authority
from certs.check import covers, expires_at, names_of, reasons_against
from policy.unreadable import Unreadable

NOW = datetime(2026, 12, 1, tzinfo=UTC)
AUTHORITY = new_authority("test CA", NOW)
LEAF = issue_serving(AUTHORITY, ServingNames(("hook.ns.svc", "*.wild.example"), ("127.0.0.1", "::1")), NOW)
CHAIN, TRUSTED = [LEAF.certificate], [AUTHORITY.certificate]


@pytest.mark.parametrize(
    "name", [None, "hook.ns.svc", "HOOK.ns.svc.", "a.wild.example", "127.0.0.1", "::1", "[::1]"]
)
def test_a_good_certificate_has_no_reason_against_it(name):
    assert reasons_against(CHAIN, TRUSTED, NOW, name) == ()


@pytest.mark.parametrize("name", ["ns.svc", "x.hook.ns.svc", "wild.example", "a.b.wild.example", "127.0.0.2"])
def test_another_name_is_not_covered_and_the_reason_lists_those_that_are(name):
    (reason,) = reasons_against(CHAIN, TRUSTED, NOW, name)
    assert f"is not for {name!r}, only for hook.ns.svc, *.wild.example, 127.0.0.1, ::1" in reason


def test_a_certificate_of_another_authority_is_refused():
    (reason,) = reasons_against(CHAIN, [new_authority("test CA", NOW).certificate], NOW)
    assert "is not signed by any certificate in ca.crt" in reason


def test_one_of_several_trusted_authorities_is_enough():
    assert reasons_against(CHAIN, [new_authority("old CA", NOW).certificate, *TRUSTED], NOW) == ()


def test_dates_are_judged_at_the_time_given():
    (late,) = reasons_against(CHAIN, TRUSTED, NOW + timedelta(days=366))
    (early,) = reasons_against(CHAIN, TRUSTED, NOW - timedelta(minutes=61), "hook.ns.svc")[:1]
    assert "ended at 2027-12-01 00:00:00 UTC" in late
    assert "is not valid before 2026-11-30 23:00:00 UTC" in early


def test_an_authority_that_has_ended_is_a_reason_too():
    reasons = reasons_against(CHAIN, TRUSTED, NOW + timedelta(days=4000))
    assert len(reasons) == 2
    assert any("CN=test CA" in reason for reason in reasons)


def test_intermediates_lead_to_the_trusted_certificate():
    root = trustme.CA()
    intermediate = root.create_child_ca()
    leaf = intermediate.issue_cert("hook.ns.svc")
    chain = [x509.load_pem_x509_certificate(pem.bytes()) for pem in leaf.cert_chain_pems]
    trusted = [x509.load_pem_x509_certificate(root.cert_pem.bytes())]
    now = datetime.now(UTC)
    assert reasons_against(chain, trusted, now, "hook.ns.svc") == ()
    assert "is not signed by" in reasons_against(chain[:1], trusted, now, "hook.ns.svc")[0]


def test_a_client_certificate_cannot_serve():
    key = ec.generate_private_key(ec.SECP256R1())
    client = (
        x509.CertificateBuilder()
        .subject_name(LEAF.certificate.subject)
        .issuer_name(AUTHORITY.certificate.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(AUTHORITY.key, hashes.SHA256())
    )
    purpose, _ = reasons_against([client], TRUSTED, NOW)
    assert "no serverAuth" in purpose
    assert names_of(client) == ()


def test_a_leaf_that_is_its_own_issuer_is_no_authority():
    assert "is not signed by" in reasons_against(CHAIN, CHAIN, NOW)[0]


def test_without_an_authority_only_the_signature_goes_unjudged():
    unknown = Unreadable("no ca.crt")
    assert reasons_against(CHAIN, unknown, NOW, "hook.ns.svc") == ()
    assert "ended at" in reasons_against(CHAIN, unknown, NOW + timedelta(days=366))[0]


def test_a_chain_ends_with_its_first_certificate_to_end():
    assert expires_at([LEAF.certificate, AUTHORITY.certificate]) == LEAF.certificate.not_valid_after_utc


def test_an_address_is_never_matched_by_a_wildcard():
    leaf = issue_serving(AUTHORITY, ServingNames(("*.0.0.1",)), NOW).certificate
    assert not covers(leaf, "127.0.0.1")


def test_without_a_subject_alternative_name_no_api_server_takes_it():
    """Go ignores the common name since 1.15, so that such a certificate is for nobody."""
    key = ec.generate_private_key(ec.SECP256R1())
    plain = (
        x509.CertificateBuilder()
        .subject_name(LEAF.certificate.subject)
        .issuer_name(AUTHORITY.certificate.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
        .sign(AUTHORITY.key, hashes.SHA256())
    )
    (reason,) = reasons_against([plain], TRUSTED, NOW)
    assert "has no subject alternative name" in reason
