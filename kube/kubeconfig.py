"""A kubeconfig (k8s.io/client-go tools/clientcmd/api/v1) to a Connection."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml

from kube.config import Connection, ConnectionConfigError, in_cluster, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

_REFUSED = {
    "exec": "runs a plugin to log in",
    "auth_provider": "uses an auth provider",
    "username": "logs in with a password",
}


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    exec: Any = None
    auth_provider: Any = None
    username: str = ""


class _Context(msgspec.Struct):
    cluster: str
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _Config(msgspec.Struct, rename="kebab"):
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


def find_connection(environ: Mapping[str, str], home: Path) -> Connection:
    """Return the connection of a pod where this is one, else that of $KUBECONFIG or ~/.kube/config."""
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ)
    named = environ.get("KUBECONFIG", "")
    if ":" in named:
        raise ConnectionConfigError(
            "KUBECONFIG names several files; name one (`kubectl config view --flatten` makes it)"
        )
    return from_kubeconfig(Path(named) if named else home / ".kube" / "config")


def from_kubeconfig(path: Path, context: str = "") -> Connection:
    """Return the connection that a context of a kubeconfig describes, by default its current one.

    Relative paths are relative to the file, as for kubectl. ConnectionConfigError where something is absent
    or cannot be used; users with an exec plugin, an auth provider or a password are refused.
    """
    config = _parse(path)
    contexts = {each.name: each.context for each in config.contexts or ()}
    chosen = _named(path, "context", context or config.current_context, contexts)
    clusters = {each.name: each.cluster for each in config.clusters or ()}
    users = {each.name: each.user or _User() for each in config.users or ()}
    user = _named(path, "user", chosen.user, users) if chosen.user else _User()
    _refuse_logins(path, chosen.user, user)
    cluster = _named(path, "cluster", chosen.cluster, clusters)
    return _connection(path, cluster, user, chosen.namespace or "default")


def _connection(path: Path, cluster: _Cluster, user: _User, namespace: str) -> Connection:
    """Put the parts together. Data wins over a file, and a token file over a token, as in client-go."""
    authority = _decoded(path, "certificate-authority-data", cluster.certificate_authority_data)
    certificate = _pem(path, "client-certificate", user.client_certificate, user.client_certificate_data)
    key = _pem(path, "client-key", user.client_key, user.client_key_data)
    if bool(certificate) is not bool(key):
        raise ConnectionConfigError(f"{path}: a client certificate needs its key, and a key its certificate")
    by_file = cluster.certificate_authority and not authority
    return Connection(
        server=cluster.server.rstrip("/"),
        ca_file=path.parent / cluster.certificate_authority if by_file else None,
        ca_data=authority.decode("ascii", "replace"),
        certificate=certificate,
        key=key,
        token=user.token,
        token_file=path.parent / user.token_file if user.token_file else None,
        tls_server_name=cluster.tls_server_name,
        proxy=cluster.proxy_url,
        verify=not cluster.insecure_skip_tls_verify,
        namespace=namespace,
    )


def _parse(path: Path) -> _Config:
    content = read_file(path)
    try:
        return msgspec.convert(yaml.safe_load(content), _Config)
    except msgspec.ValidationError as error:  # names the field and the types, not the value
        raise ConnectionConfigError(f"{path} is no kubeconfig: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError):  # quotes the line that it failed on, maybe a token
        raise ConnectionConfigError(f"{path} is no kubeconfig: it is not YAML") from None


def _refuse_logins(path: Path, name: str, user: _User) -> None:
    for field, what in _REFUSED.items():
        if getattr(user, field):
            raise ConnectionConfigError(
                f"{path}: user {name!r} {what}, which is not supported; use a token or a client certificate"
                " (`kubectl create token` makes a token)"
            )


def _named(path: Path, what: str, name: str, among: Mapping[str, T]) -> T:
    if name not in among:
        raise ConnectionConfigError(f"{path} has no {what} named {name!r}")
    return among[name]


def _pem(path: Path, field: str, file: str, data: str) -> bytes:
    return _decoded(path, f"{field}-data", data) or (read_file(path.parent / file) if file else b"")


def _decoded(path: Path, field: str, data: str) -> bytes:
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ConnectionConfigError(f"{path}: {field} is not base64") from None
