"""Does a serving certificate hold, for a name and at a time? Pure: certificates in, readable reasons out.

The checks are those that Go's crypto/x509 makes for kube-apiserver: signatures up to a trusted certificate,
the dates of every certificate on the way, the CA flag, serverAuth, and the name among the subject alternative
names (Go ignores the common name since 1.15). Name constraints and revocation are not looked at.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID

from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Path = list[x509.Certificate]


def reasons_against(
    chain: Sequence[x509.Certificate],
    trusted: Sequence[x509.Certificate] | Unreadable,
    at: datetime,
    name: str | None = None,
) -> tuple[str, ...]:
    """Return every reason why a client that trusts `trusted` would refuse the chain; empty when it would not.

    `chain` is the leaf followed by its intermediates, as in tls.crt. `name` is the host name or IP address
    that the client dials; None leaves the name unchecked. Where `trusted` is Unreadable, nobody can say
    whether the chain is signed by it; the dates of the whole chain are judged all the same.
    """
    leaf = chain[0]
    path = list(chain) if isinstance(trusted, Unreadable) else _path_to_trust(leaf, chain[1:], trusted)
    reasons = [] if path else [f"{describe(leaf)} is not signed by any certificate in ca.crt"]
    for certificate in path or [leaf]:
        reasons += _date_reasons(certificate, at)
    reasons += _purpose_reasons(leaf)
    if not names_of(leaf):
        reasons.append(
            f"{describe(leaf)} has no subject alternative name, without which an API server refuses it"
        )
    elif name is not None and not covers(leaf, name):
        reasons.append(
            f"{describe(leaf)} is not for {name!r}, only for {', '.join(names_of(leaf)) or 'no name at all'}"
        )
    return tuple(reasons)


def expires_at(chain: Sequence[x509.Certificate]) -> datetime:
    """Return the time from which the chain no longer holds: the earliest end of any certificate in it."""
    return min(certificate.not_valid_after_utc for certificate in chain)


def names_of(leaf: x509.Certificate) -> tuple[str, ...]:
    """Return the DNS names and IP addresses that the certificate is for."""
    try:
        extension = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    ips = extension.get_values_for_type(x509.IPAddress)
    return (*extension.get_values_for_type(x509.DNSName), *(str(ip) for ip in ips))


def covers(leaf: x509.Certificate, name: str) -> bool:
    """Whether the certificate is for the name: an IP address, or a DNS name (RFC 6125 wildcards)."""
    try:
        return str(ipaddress.ip_address(name.strip("[]"))) in names_of(leaf)
    except ValueError:
        wanted = name.rstrip(".").lower()
    _, _, parent = wanted.partition(".")
    return any(pattern.lower() in {wanted, f"*.{parent}"} for pattern in names_of(leaf))


def describe(certificate: x509.Certificate) -> str:
    """Name a certificate for people: its subject and serial number."""
    return f"certificate {certificate.subject.rfc4514_string()!r} (serial {certificate.serial_number:x})"


def _path_to_trust(
    leaf: x509.Certificate, intermediates: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate]
) -> Path:
    """Return leaf, intermediates, trusted certificate; empty when there is no such path.

    A chain file lists each issuer once, so following the first that fits is enough, and the loop is bounded.
    """
    path = [leaf]
    unused = list(intermediates)
    while True:
        anchor = _issuer(path[-1], trusted)
        if anchor is not None:
            return [*path, anchor]
        issuer = _issuer(path[-1], unused)
        if issuer is None:
            return []
        unused.remove(issuer)
        path.append(issuer)


def _issuer(certificate: x509.Certificate, candidates: Sequence[x509.Certificate]) -> x509.Certificate | None:
    return next((other for other in candidates if _may_sign(other) and _signed(certificate, other)), None)


def _signed(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        # ValueError: the issuer's name differs; TypeError: the issuer's key is of a kind that cannot sign.
        return False
    return True


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _date_reasons(certificate: x509.Certificate, at: datetime) -> list[str]:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if at < start:
        return [f"{describe(certificate)} is not valid before {start:%Y-%m-%d %H:%M:%S} UTC"]
    if at > end:
        return [f"{describe(certificate)} ended at {end:%Y-%m-%d %H:%M:%S} UTC"]
    return []


def _purpose_reasons(leaf: x509.Certificate) -> list[str]:
    try:
        purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return []  # RFC 5280 4.2.1.12: without the extension every purpose is allowed
    allowed = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
    return (
        []
        if allowed.intersection(purposes)
        else [f"{describe(leaf)} may not be used by a server (no serverAuth)"]
    )
