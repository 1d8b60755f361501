"""Where the API server is and who we are: the service account of a pod, or a kubeconfig."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from policy.errors import WorldError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Where the kubelet mounts the token, the CA and the namespace of a pod's service account
# (kubernetes.io/docs/tasks/run-application/access-api-from-pod).
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ConnectionConfigError(WorldError):
    """The service account or the kubeconfig cannot be used; the message says which part, never its content."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach an API server.

    `server` has no slash at its end. Without `ca_file` and `ca_data` (PEM) the system's authorities are
    trusted. `token_file` is read for every request: the kubelet replaces a projected token when 80 % of
    its life is over (kubernetes.io/docs/concepts/storage/projected-volumes). `certificate` and `key` are
    PEM. `verify` is False only where a kubeconfig says insecure-skip-tls-verify.
    """

    server: str
    ca_file: Path | None = None
    ca_data: str = ""
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""
    token_file: Path | None = None
    tls_server_name: str = ""
    proxy: str = ""
    verify: bool = True
    namespace: str = "default"

    def __repr__(self) -> str:
        """Name the server only: the rest is secret or long."""
        return f"Connection({self.server})"

    def bearer(self) -> str:
        """Return the token of now, "" where none is used. ConnectionConfigError where its file is unusable."""
        if self.token_file is None:
            return self.token
        token = read_file(self.token_file).decode("utf-8", "replace").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise ConnectionConfigError(f"{self.token_file} holds no token")
        return token


def in_cluster(environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Connection:
    """Return the connection of a pod's service account; ConnectionConfigError where it has none."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConnectionConfigError("KUBERNETES_SERVICE_HOST is not set: this is no pod")
    connection = Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_file=directory / "ca.crt",
        token_file=directory / "token",
        namespace=_namespace(directory / "namespace"),
    )
    connection.bearer()  # a pod with automountServiceAccountToken: false is told now, not at the first list
    read_file(directory / "ca.crt")
    return connection


def read_file(path: Path) -> bytes:
    """Return what the file holds, or raise ConnectionConfigError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConnectionConfigError(
            f"cannot read {path}: {error.strerror or type(error).__name__}"
        ) from error


def _namespace(file: Path) -> str:
    return read_file(file).decode("utf-8", "replace").strip() if file.exists() else "default"
