"""Connections of pods and of kubeconfigs."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from kube.client import Client
from kube.config import Connection, ConnectionConfigError, in_cluster
from kube.kubeconfig import find_connection, from_kubeconfig
from sandbox.kubeconfig import write_kubeconfig

HERE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def account(tmp_path: Any) -> Any:
    for name, content in (("token", "t\n"), ("ca.crt", "PEM"), ("namespace", "gpufence-system")):
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def kubeconfig(tmp_path: Any) -> Any:
    """Write a kubeconfig of one context; the arguments are its cluster and user."""

    def write(cluster: dict[str, Any] | None = None, user: Any = None) -> Any:
        path = tmp_path / "config"
        config = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": "https://api.test:6443/", **(cluster or {})}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    return write


def test_a_pod_uses_its_service_account(account: Any) -> None:
    connection = in_cluster(HERE, account)
    assert connection.server == "https://10.96.0.1:6443"
    assert (connection.ca_file, connection.namespace) == (account / "ca.crt", "gpufence-system")
    assert connection.bearer() == "t"
    (account / "token").write_text("t2")
    assert connection.bearer() == "t2"


def test_an_ipv6_service_address_is_bracketed(account: Any) -> None:
    assert in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, account).server == "https://[fd00::1]:443"


@pytest.mark.parametrize("file", ["token", "ca.crt"])
def test_a_pod_without_a_service_account_is_told_which_file_is_absent(account: Any, file: str) -> None:
    (account / file).unlink()
    with pytest.raises(ConnectionConfigError, match=rf"{file}: No such file"):
        in_cluster(HERE, account)


@pytest.mark.parametrize("content", ["", "\n", "a\nb", "tökén"])
def test_a_token_file_without_a_token_is_refused_unquoted(account: Any, content: str) -> None:
    (account / "token").write_text(content)
    with pytest.raises(ConnectionConfigError, match=r"token holds no token$"):
        in_cluster(HERE, account)


def test_outside_of_a_pod_there_is_no_service_account() -> None:
    with pytest.raises(ConnectionConfigError, match="this is no pod"):
        in_cluster({})


def test_data_wins_over_files_and_a_token_file_over_a_token(kubeconfig: Any, tmp_path: Any) -> None:
    encoded = base64.b64encode(b"PEM").decode()
    (tmp_path / "t").write_text("from-file")
    connection = from_kubeconfig(
        kubeconfig(
            {
                "certificate-authority": "absent",
                "certificate-authority-data": encoded,
                "tls-server-name": "n",
                "proxy-url": "http://p",
                "insecure-skip-tls-verify": True,
            },
            {
                "client-certificate-data": encoded,
                "client-key-data": encoded,
                "client-key": "absent",
                "token": "direct",
                "tokenFile": "t",
            },
        )
    )
    assert connection == Connection(
        server="https://api.test:6443",
        ca_data="PEM",
        certificate=b"PEM",
        key=b"PEM",
        token="direct",  # noqa: S106 - no secret
        token_file=tmp_path / "t",
        tls_server_name="n",
        proxy="http://p",
        verify=False,
        namespace="ns",
    )
    assert connection.bearer() == "from-file"
    assert repr(connection) == "Connection(https://api.test:6443)"


def test_files_are_relative_to_the_kubeconfig(kubeconfig: Any, tmp_path: Any) -> None:
    (tmp_path / "c").write_text("C")
    (tmp_path / "k").write_text("K")
    user = {"client-certificate": "c", "client-key": "k"}
    connection = from_kubeconfig(kubeconfig({"certificate-authority": "ca"}, user))
    assert (connection.certificate, connection.key) == (b"C", b"K")
    assert connection.ca_file == tmp_path / "ca"


@pytest.mark.parametrize(
    ("cluster", "user", "says"),
    [
        ({}, {"exec": {"command": "aws"}}, "user 'u' runs a plugin to log in"),
        ({}, {"auth-provider": {"name": "gcp"}}, "auth provider"),
        ({}, {"username": "u", "password": "secret"}, "password, which"),
        ({}, {"client-certificate-data": "UEVN"}, "needs its key"),
        ({}, {"client-key-data": "secret!"}, "client-key-data is not base64"),
        ({}, {"client-certificate": "absent"}, "cannot read .*absent"),
        ({"server": 5}, None, r"no kubeconfig: .*clusters"),
        ({}, {"token": ["secret"]}, r"no kubeconfig: .*users"),
    ],
)
def test_what_cannot_be_used_is_named_and_secrets_are_not(
    kubeconfig: Any, cluster: Any, user: Any, says: str
) -> None:
    with pytest.raises(ConnectionConfigError, match=says) as found:
        from_kubeconfig(kubeconfig(cluster, user))
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("text", ["token: [secret", "a: *secret", "", "[]", "\0"])
def test_a_file_of_another_form_is_refused_unquoted(tmp_path: Any, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConnectionConfigError) as found:
        from_kubeconfig(path)
    assert "secret" not in str(found.value)


def test_a_context_can_be_named_and_must_exist(kubeconfig: Any) -> None:
    path = kubeconfig()
    assert from_kubeconfig(path, "c").namespace == "ns"
    with pytest.raises(ConnectionConfigError, match="no context named 'other'"):
        from_kubeconfig(path, "other")


def test_a_kubeconfig_is_found_as_kubectl_finds_it(kubeconfig: Any, tmp_path: Any) -> None:
    path = kubeconfig()
    assert find_connection({"KUBECONFIG": str(path)}, tmp_path).namespace == "ns"
    with pytest.raises(ConnectionConfigError, match="several files"):
        find_connection({"KUBECONFIG": f"{path}:{path}"}, tmp_path)
    with pytest.raises(ConnectionConfigError, match=r"\.kube/config: No such file"):
        find_connection({}, tmp_path)


async def test_the_kubeconfig_of_the_demo_connects(api: Any, authority: Any, tmp_path: Any) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    path = write_kubeconfig(tmp_path / "config", api.url, tmp_path / "ca.crt", "new-token")
    async with Client(from_kubeconfig(path)) as client:
        assert await client.get("/api/v1/namespaces/default")
