"""The one place that knows the kubernetes library: a Connection to an ApiClient, of which only `call_api` is used.

docs/decisions/0010-raw-json-over-apiclient.md has what its import costs.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from kube.config import ConnectionConfigError

if TYPE_CHECKING:
    import ssl
    from contextlib import AbstractContextManager

    from kube.config import Connection


def api_client(connection: Connection) -> Any:
    """Return an ApiClient; ConnectionConfigError where a certificate or key cannot be used.

    By itself its session would take proxies and .netrc from the environment. aiohttp knows no CIDR in
    NO_PROXY, so a pod with the usual HTTPS_PROXY could not reach its API server. A kubeconfig's proxy counts.
    """
    try:
        with _folder(connection) as directory:
            return ApiClient(_configuration(connection, Path(directory)))
    except (OSError, ValueError) as error:  # ValueError: CA data that is no PEM. SSLError is an OSError
        raise ConnectionConfigError(
            f"the certificates for {connection.server} cannot be used: {_why(error)}"
        ) from error


def _folder(connection: Connection) -> AbstractContextManager[str]:
    """Return a folder for a client certificate, which ssl takes from files only.

    Nothing is written without one: the file system of a pod may be read-only as a whole.
    """
    return tempfile.TemporaryDirectory() if connection.certificate else nullcontext("")


def trust_again(api: Any, connection: Connection) -> None:
    """Read the CA file again, after a certificate that it did not verify: the cluster's CA may be a new one."""
    if connection.ca_file is None:
        return
    context: ssl.SSLContext = api.rest_client.ssl_context
    try:
        context.load_verify_locations(connection.ca_file)
    except OSError as error:
        raise ConnectionConfigError(f"cannot use {connection.ca_file}: {_why(error)}") from error


def _configuration(connection: Connection, directory: Path) -> Configuration:
    configuration = Configuration(
        host=connection.server,
        ssl_ca_cert=str(connection.ca_file) if connection.ca_file else None,
        ca_cert_data=connection.ca_data or None,
        verify_ssl=connection.verify,
        tls_server_name=connection.tls_server_name or None,
        proxy=connection.proxy or None,
        client_session_kwargs={"trust_env": False},
    )
    # Python 3.13 refuses authorities without key identifiers, which Go, and so kubectl, accepts.
    configuration.disable_strict_ssl_verification = True
    if connection.certificate:
        configuration.cert_file = _written(directory / "tls.crt", connection.certificate)
        configuration.key_file = _written(directory / "tls.key", connection.key)
    return configuration


def _written(path: Path, content: bytes) -> str:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return str(path)


def _why(error: Exception) -> str:
    """Say what is wrong; OpenSSL's texts name what it missed and no content."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
