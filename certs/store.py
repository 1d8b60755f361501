"""A directory with tls.crt, tls.key and ca.crt: the layout of a Kubernetes TLS Secret mounted as a volume."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from certs.authority import KeyPair
from policy.errors import WorldError
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

CHAIN, KEY, CA, CA_KEY = "tls.crt", "tls.key", "ca.crt", "ca.key"
_PUBLIC, _PRIVATE = 0o644, 0o600


class CertificateError(WorldError):
    """A file of the certificate directory is absent or not what it must be; the message names the file."""


Authorities = tuple[x509.Certificate, ...] | Unreadable


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a server needs: the leaf with its intermediates, and the authorities that clients trust.

    `trusted` is Unreadable where the directory has no ca.crt, as in a Secret made by
    `kubectl create secret tls`: then nobody can say whether the leaf verifies.
    """

    chain: tuple[x509.Certificate, ...]
    trusted: Authorities


def read_bundle(directory: Path) -> Bundle:
    """Read the directory; CertificateError when a file is unusable or tls.key is not the key of tls.crt."""
    chain = _certificates(directory / CHAIN)
    key = _private_key(directory / KEY)
    if _public_bytes(key) != chain[0].public_key().public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    ):
        raise CertificateError(f"{directory / KEY} is not the key of {directory / CHAIN}")
    return Bundle(chain, read_authorities(directory))


def read_authorities(directory: Path) -> Authorities:
    """Return the certificates of ca.crt; CertificateError when it is unusable, Unreadable where there is none."""
    ca = directory / CA
    return _certificates(ca) if ca.exists() else Unreadable(f"{ca} does not exist")


def read_authority(directory: Path) -> KeyPair | None:
    """Return the authority kept in the directory, None where its key was not kept."""
    if not (directory / CA_KEY).exists():
        return None
    key = _private_key(directory / CA_KEY)
    certificate = _certificates(directory / CA)[0]
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise CertificateError(f"{directory / CA_KEY} is not the ECDSA key of {directory / CA}")
    return KeyPair(certificate, key)


def write(directory: Path, authority: KeyPair, leaf: KeyPair, *, keep_ca_key: bool, replace_ca: bool) -> None:
    """Write the certificates, each file atomically.

    A ca.crt of another authority is only replaced when `replace_ca`: whoever trusts it would refuse the new
    leaf. The files change one after the other, so a server that reads in between sees a key that does not
    fit; it keeps what it has (`read_bundle` refuses the pair) and reads again when told.
    """
    _refuse_other_authority(directory / CA, authority, replace_ca=replace_ca)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if keep_ca_key:
            _write_file(directory / CA_KEY, authority.key_pem, _PRIVATE)
        elif replace_ca:
            (directory / CA_KEY).unlink(
                missing_ok=True
            )  # the key of the authority that ca.crt no longer names
        _write_file(directory / CA, authority.certificate_pem, _PUBLIC)
        _write_file(directory / KEY, leaf.key_pem, _PRIVATE)
        _write_file(directory / CHAIN, leaf.certificate_pem, _PUBLIC)
    except OSError as error:
        raise CertificateError(f"cannot write certificates to {directory}: {_why(error)}") from error


def _refuse_other_authority(path: Path, authority: KeyPair, *, replace_ca: bool) -> None:
    if replace_ca or not path.exists():
        return
    if _certificates(path)[0] != authority.certificate:
        raise CertificateError(
            f"{path} holds another authority. Webhook configurations that trust it would refuse the new"
            " certificate. Use --force to replace it, and put the new ca.crt into their caBundle"
        )


def _write_file(path: Path, content: bytes, mode: int) -> None:
    """Write a temporary file beside it and rename, so that a reader sees the old file or the new."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105 - `temporary` is a str from mkstemp; nothing is gained by Path
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - as above
        raise


def _certificates(path: Path) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_pem_x509_certificates(_read(path)))
    except ValueError as error:
        raise CertificateError(f"{path} holds no usable PEM certificate: {error}") from error


def _private_key(path: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # The error's text is left out: it may quote the file, which is a secret. TypeError: encrypted.
        raise CertificateError(f"{path} holds no usable unencrypted PEM private key") from error


def _public_bytes(key: PrivateKeyTypes) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise CertificateError(f"{path} is no file")  # reading a FIFO would never end
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read {path}: {_why(error)}") from error


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__
