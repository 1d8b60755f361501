"""The listening socket and the TLS context."""

from __future__ import annotations

import socket
import ssl

import pytest

from policy.errors import WorldError
from serve.http import listening_socket, tls_context
from serve.settings import Address


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_port_0_takes_a_free_one(host):
    with listening_socket(Address(host, 0)) as listener:
        assert listener.getsockname()[1] > 0


def test_accepted_connections_send_small_segments_at_once():
    with (
        listening_socket(Address("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_a_clear_error():
    with listening_socket(Address("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(WorldError, match=rf"cannot listen on 127.0.0.1:{port}: Address already in use"):
            listening_socket(Address("127.0.0.1", port))


def test_an_unknown_host_is_a_clear_error():
    with pytest.raises(WorldError, match="cannot listen on"):
        listening_socket(Address("host.invalid", 0))


def test_tls_without_a_certificate_is_a_clear_error(tmp_path):
    with pytest.raises(WorldError, match="cannot serve TLS with"):
        tls_context(tmp_path)


def test_old_tls_is_refused(tmp_path):
    import trustme

    leaf = trustme.CA().issue_cert("localhost")
    leaf.private_key_pem.write_to_path(tmp_path / "tls.key")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    assert tls_context(tmp_path).minimum_version is ssl.TLSVersion.TLSv1_2
