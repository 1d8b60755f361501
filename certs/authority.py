"""Issue a certificate authority and the serving certificate of the webhook.

ECDSA on P-256: every Go and OpenSSL that meets a supported API server verifies it, and keys and signatures
are small. Names and the time are arguments; the keys and serial numbers are random.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from policy.errors import CallerError

AUTHORITY_DAYS = 3650
SERVING_DAYS = 365
# API servers whose clock runs behind ours would call a fresh certificate "not yet valid".
BACKDATED = timedelta(hours=1)

# RFC 1123 labels; a wildcard only as the whole first label: Go's crypto/x509 matches it nowhere else.
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.IGNORECASE)
_MAX_DNS_NAME = 253


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key as unencrypted PKCS #8 PEM, which is what Go and OpenSSL both read."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True, slots=True)
class ServingNames:
    """What the serving certificate is for: DNS names and IP addresses, as people write them."""

    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()

    def general_names(self) -> list[x509.GeneralName]:
        """Return the subject alternative names; CallerError names every one that cannot be used."""
        bad = [f"{name!r} is not a DNS name" for name in self.dns if not _is_dns_name(name)]
        bad += [f"{text!r} is not an IP address" for text in self.ips if _ip(text) is None]
        if bad:
            raise CallerError("; ".join(bad))
        if not self.dns and not self.ips:
            raise CallerError("a serving certificate needs at least one DNS name or IP address")
        names: list[x509.GeneralName] = [x509.DNSName(name.lower()) for name in dict.fromkeys(self.dns)]
        names += [x509.IPAddress(ip) for ip in dict.fromkeys(map(_ip, self.ips)) if ip is not None]
        return names


def new_authority(common_name: str, now: datetime, days: int = AUTHORITY_DAYS) -> KeyPair:
    """Make a self-signed authority that may sign serving certificates, but no further authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(common_name)
    builder = (
        _builder(subject, subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def issue_serving(
    authority: KeyPair,
    names: ServingNames,
    now: datetime,
    days: int = SERVING_DAYS,
    common_name: str = "gpufence webhook",
) -> KeyPair:
    """Make a serving certificate for the names, signed by the authority, with a new key.

    CallerError when a name is unusable or the certificate would outlive the authority.
    """
    alternative_names = names.general_names()
    left = authority.certificate.not_valid_after_utc - now
    if timedelta(days=days) > left:
        raise CallerError(
            f"a certificate of {days} days would outlive its authority ({max(left.days, 0)} days left)"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_key_id = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_subject(common_name), authority.certificate.subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternative_names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key_id), critical=False
        )
    )
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    if days < 1:
        raise CallerError(f"a certificate must be valid for at least one day, not {days}")
    start = now.replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - BACKDATED)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    # ECDSA keys only sign; keyEncipherment belongs to RSA key exchange.
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "gpufence"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _is_dns_name(name: str) -> bool:
    return len(name) <= _MAX_DNS_NAME and _DNS_NAME.fullmatch(name) is not None


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
