"""The certificate directory: what is written, what is refused, and that keys stay private."""

from __future__ import annotations

import stat
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from certs.authority import ServingNames, issue_serving, new_authority
from certs.check import names_of, reasons_against
from certs.store import CertificateError, read_authority, read_bundle, write
from cli.certs import app
from policy.errors import WorldError
from policy.unreadable import Unreadable

NOW = datetime(2026, 12, 1, tzinfo=UTC)
AUTHORITY = new_authority("test CA", NOW)
LEAF = issue_serving(AUTHORITY, ServingNames(("localhost",)), NOW)


def written(directory, authority=AUTHORITY, leaf=LEAF, *, keep=False, replace=False):
    write(directory, authority, leaf, keep_ca_key=keep, replace_ca=replace)
    return directory


def init(*arguments):
    return CliRunner().invoke(app, ["init", *map(str, arguments)])


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_was_written_is_read_back(tmp_path):
    bundle = read_bundle(written(tmp_path / "new" / "dir"))
    assert bundle.chain == (LEAF.certificate,)
    assert bundle.trusted == (AUTHORITY.certificate,)


def test_the_key_is_for_its_owner_only_and_nothing_else_is_left_behind(tmp_path):
    written(tmp_path)
    assert mode(tmp_path / "tls.key") == 0o600
    assert mode(tmp_path / "tls.crt") == mode(tmp_path / "ca.crt") == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]


def test_the_key_of_the_authority_is_kept_only_when_asked(tmp_path):
    assert read_authority(written(tmp_path / "a")) is None
    kept = read_authority(written(tmp_path / "b", keep=True))
    assert kept is not None
    assert kept.certificate == AUTHORITY.certificate
    assert mode(tmp_path / "b" / "ca.key") == 0o600


def test_another_authority_is_replaced_only_when_told(tmp_path):
    written(tmp_path, keep=True)
    other = new_authority("test CA", NOW)
    leaf = issue_serving(other, ServingNames(("localhost",)), NOW)
    with pytest.raises(CertificateError, match=r"holds another authority.*--force"):
        written(tmp_path, other, leaf)
    assert read_bundle(tmp_path).chain == (LEAF.certificate,)
    written(tmp_path, other, leaf, replace=True)
    assert read_bundle(tmp_path).trusted == (other.certificate,)
    assert read_authority(tmp_path) is None  # the key of the old authority is gone with it


def test_without_ca_crt_the_authority_is_unknown_and_not_empty(tmp_path):
    (written(tmp_path) / "ca.crt").unlink()
    assert isinstance(read_bundle(tmp_path).trusted, Unreadable)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_an_absent_file_is_named(tmp_path, name):
    (written(tmp_path) / name).unlink()
    with pytest.raises(WorldError, match=rf"cannot read .*{name}: No such file"):
        read_bundle(tmp_path)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_a_file_of_rubbish_is_named_and_not_quoted(tmp_path, name):
    (written(tmp_path) / name).write_bytes(b"hunter2")
    with pytest.raises(CertificateError, match=rf"{name} holds no usable") as caught:
        read_bundle(tmp_path)
    assert "hunter2" not in str(caught.value)


def test_a_key_of_another_certificate_is_refused(tmp_path):
    (written(tmp_path) / "tls.key").write_bytes(AUTHORITY.key_pem)
    with pytest.raises(CertificateError, match=r"tls.key is not the key of .*tls.crt"):
        read_bundle(tmp_path)


def test_a_kept_key_that_does_not_fit_is_refused(tmp_path):
    (written(tmp_path, keep=True) / "ca.key").write_bytes(LEAF.key_pem)
    with pytest.raises(CertificateError, match=r"ca.key is not the ECDSA key of .*ca.crt"):
        read_authority(tmp_path)


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError, match="cannot write certificates to"):
        written(tmp_path / "file" / "below")


def test_init_writes_a_certificate_for_the_usual_names(tmp_path):
    result = init(tmp_path / "certs")
    assert result.exit_code == 0, result.output
    bundle = read_bundle(tmp_path / "certs")
    assert set(names_of(bundle.chain[0])) == {
        "localhost",
        "127.0.0.1",
        "::1",
        "gpufence-webhook.gpufence-system.svc",
    }
    assert reasons_against(bundle.chain, bundle.trusted, datetime.now(UTC), "localhost") == ()
    assert not (tmp_path / "certs" / "ca.key").exists()


def test_init_takes_names_and_days(tmp_path):
    assert init(tmp_path, "--dns", "a.example", "--ip", "10.0.0.1", "--days", "3650").exit_code == 0
    leaf = read_bundle(tmp_path).chain[0]
    assert names_of(leaf) == ("a.example", "10.0.0.1")
    assert (leaf.not_valid_after_utc - datetime.now(UTC)).days in {3649, 3650}


def test_init_does_not_replace_an_authority_unless_forced(tmp_path):
    init(tmp_path)
    before = (tmp_path / "ca.crt").read_bytes()
    refused = init(tmp_path)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert (tmp_path / "ca.crt").read_bytes() == before
    assert init(tmp_path, "--force").exit_code == 0
    assert (tmp_path / "ca.crt").read_bytes() != before


def test_init_renews_with_the_authority_that_was_kept(tmp_path):
    init(tmp_path, "--keep-ca-key")
    ca, crt = (tmp_path / "ca.crt").read_bytes(), (tmp_path / "tls.crt").read_bytes()
    assert init(tmp_path).exit_code == 0
    assert (tmp_path / "ca.crt").read_bytes() == ca
    assert (tmp_path / "tls.crt").read_bytes() != crt


def test_init_names_a_bad_name_and_exits_with_2(tmp_path):
    result = init(tmp_path, "--dns", "not a name")
    assert result.exit_code == 2
    assert "'not a name' is not a DNS name" in result.stderr
    assert not list(tmp_path.iterdir())
