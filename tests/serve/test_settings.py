"""Settings come from a file and from variables, and every mistake is reported at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from policy.errors import WorldError
from serve.documents import DocumentError
from serve.settings import (
    _SERVICE_LINK,
    Address,
    ExistingDirectory,
    ExistingFile,
    SettingsError,
    _expected,
    documented,
    load_settings,
)
from serve.settings_page import settings_page
from webhook.settings import WebhookSettings

ROOT = Path(__file__).parents[2]
ALL = {"gpufence webhook run": WebhookSettings}


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    listen_on: Address = Address("::", 1)
    """Where."""
    data: Path = Path("/data")
    """What."""
    size: Annotated[int, msgspec.Meta(ge=1)] = 5
    """How many."""
    mode: Literal["one", "two"] = "one"
    """Which
    way."""


def load(tmp_path, text="", **environment):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load_settings(Sample, file, environment)


def problems(tmp_path, text="", **environment):
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text, **environment)
    return [str(problem) for problem in caught.value.problems]


def test_without_a_file_everything_has_its_default():
    assert load_settings(Sample, None, {"HOME": "/root"}) == Sample()


def test_an_empty_file_is_a_file_of_defaults(tmp_path):
    assert load(tmp_path, "# nothing\n") == Sample()


def test_variables_override_the_file(tmp_path):
    settings = load(tmp_path, "size: 7\nmode: two\n", GPUFENCE_SIZE="9")
    assert settings == Sample(size=9, mode="two")


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path):
    assert load(tmp_path, "data: d\n").data == tmp_path / "d"
    assert load(tmp_path, "data: /d\n").data == Path("/d")
    assert load(tmp_path, GPUFENCE_DATA="d").data == Path("d")


def test_every_problem_is_reported_at_once_with_path_value_and_fix(tmp_path):
    assert problems(tmp_path, "Size: 1\nlistenOn: here\nmode: three\nsize: many\n", GPUFENCE_MODES="x") == [
        "Size: there is no such setting. Fix: Did you mean `size`?",
        "environment variable GPUFENCE_MODES: there is no such setting. Fix: Did you mean `GPUFENCE_MODE`?",
        (
            'listenOn: must be host:port, or [address]:port for IPv6 (found "here").'
            " Fix: Write it as in `listenOn: [::]:1`. Leave it out for the default, [::]:1."
        ),
        (
            'size: must be a whole number of at least 1 (found "many").'
            " Fix: Write it as in `size: 5`. Leave it out for the default, 5."
        ),
        'mode: must be one of one, two (found "three"). Fix: Write one or two. Leave it out for the default, one.',
    ]


def test_a_port_alone_is_told_with_the_address_that_was_meant(tmp_path):
    (problem,) = problems(tmp_path, "listenOn: 8443\n")
    assert "must be host:port" in problem
    assert "Write it as in `listenOn: [::]:8443`." in problem


@pytest.mark.parametrize("value", ["off", "no"])
def test_a_word_that_yaml_reads_as_a_boolean_is_told_with_the_quotes_it_needs(tmp_path, value):
    for key in ("data", "mode"):
        (problem,) = problems(tmp_path, f"{key}: {value}\n")
        assert "YAML reads off, no and n without quotes as false." in problem


def test_a_number_out_of_range_is_a_problem_in_a_variable_too(tmp_path):
    (problem,) = problems(tmp_path, GPUFENCE_SIZE="0")
    assert problem == (
        'environment variable GPUFENCE_SIZE: must be a whole number of at least 1 (found "0").'
        " Fix: Write it as in `GPUFENCE_SIZE=5`. Leave it out for the default, 5."
    )


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({}, "a number"),
        ({"gt": 0, "le": 30}, "a number above 0 and at most 30"),
        ({"ge": 0, "le": 30}, "a number from 0 to 30"),
        ({"ge": 1}, "a number of at least 1"),
        ({"le": 9}, "a number of at most 9"),
    ],
)
def test_a_range_is_told_in_words(bounds, told):
    assert _expected(Annotated[float, msgspec.Meta(**bounds)]) == told


class Files(msgspec.Struct, frozen=True, rename="camel"):
    keys: ExistingDirectory = Path("keys")
    """Directory."""
    policy: ExistingFile = Path("policy")
    """File."""
    extra: ExistingFile | None = None
    """File or none."""


def test_paths_that_must_be_there_are_reported_with_everything_else(tmp_path):
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "config.yaml").write_text("keys: gone\npolicy: policy.d\nextra: none.yaml\ncolour: red\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(Files, tmp_path / "config.yaml", {})
    found = [str(problem) for problem in caught.value.problems]
    assert len(found) == 4
    assert found[0].startswith("colour: there is no such setting")
    assert found[1] == (
        f"keys: there is no directory {tmp_path}/gone."
        " Fix: Create it, or set keys (variable GPUFENCE_KEYS) to another one."
    )
    assert f"policy: there is no file {tmp_path}/policy.d" in found[2]
    assert f"extra: there is no file {tmp_path}/none.yaml" in found[3]


def test_paths_that_are_there_are_taken(tmp_path):
    (tmp_path / "config.yaml").write_text("keys: .\npolicy: config.yaml\n")
    assert load_settings(Files, tmp_path / "config.yaml", {}).extra is None


def test_a_number_written_as_text_is_refused_in_the_file(tmp_path):
    assert len(problems(tmp_path, "size: '7'\n")) == 1


@pytest.mark.parametrize("value", ["''", "null", "7", "[]"])
def test_a_path_must_be_text(tmp_path, value):
    assert len(problems(tmp_path, f"data: {value}\n")) == 1


def test_variables_that_kubernetes_sets_for_services_are_not_settings(tmp_path):
    links = {
        "GPUFENCE_WEBHOOK_SERVICE_HOST": "10.0.0.1",
        "GPUFENCE_WEBHOOK_SERVICE_PORT_HTTPS": "443",
        "GPUFENCE_WEBHOOK_PORT": "tcp://10.0.0.1:443",
        "GPUFENCE_WEBHOOK_PORT_443_TCP_ADDR": "10.0.0.1",
        "GPUFENCE_PORT": "tcp://10.0.0.1:443",
    }
    assert load(tmp_path, **links) == Sample()


def test_no_setting_has_the_name_of_such_a_variable():
    for kind in ALL.values():
        assert not [
            setting.variable for setting in documented(kind) if _SERVICE_LINK.fullmatch(setting.variable)
        ]


def test_a_file_that_is_no_mapping_is_refused(tmp_path):
    assert len(problems(tmp_path, "- a\n- b\n")) == 1


def test_a_key_that_occurs_twice_is_refused_with_its_line(tmp_path):
    with pytest.raises(DocumentError, match=r"config.yaml line 2: the key 'size' is there twice"):
        load(tmp_path, "size: 1\nsize: 2\n")


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(WorldError, match=r"cannot read .*none\.yaml: No such file"):
        load_settings(Sample, tmp_path / "none.yaml", {})


def test_settings_cannot_change_after_they_were_read():
    with pytest.raises(AttributeError):
        Sample().size = 6


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:65535", "::1", 65535), ("localhost:443", "localhost", 443)],
)
def test_addresses_are_read_and_written_the_same_way(text, host, port):
    address = Address.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "text", ["", "8443", ":8443", "host:", "host:x", "host:65536", "::1:80", "[::1]", "host:-1"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        Address.parse(text)


def test_each_setting_says_what_it_means():
    told = [(one.key, one.variable, one.default, one.expected, one.text) for one in documented(Sample)]
    assert told == [
        ("listenOn", "GPUFENCE_LISTEN_ON", "[::]:1", "host:port, or [address]:port for IPv6", "Where."),
        ("data", "GPUFENCE_DATA", "/data", "a path", "What."),
        ("size", "GPUFENCE_SIZE", "5", "a whole number of at least 1", "How many."),
        ("mode", "GPUFENCE_MODE", "one", "one of one, two", "Which way."),
    ]


def test_a_setting_without_a_text_is_an_error():
    class Bare(msgspec.Struct):
        one: int = 1
        two: int = 2

    with pytest.raises(TypeError, match=r"Bare\.one is not documented"):
        documented(Bare)


def test_the_page_of_settings_is_the_one_in_the_repository():
    assert (ROOT / "docs" / "settings.md").read_text() == settings_page(ALL)


def test_the_example_of_the_page_has_every_setting_and_is_read(tmp_path):
    page = settings_page(ALL)
    example = page.partition("<<'END'\n")[2].partition("END\n")[0]
    (tmp_path / "certs").mkdir()
    for name in ("policy.yaml", "namespaces.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "config.yaml").write_text(example)
    load_settings(WebhookSettings, tmp_path / "config.yaml", {})
    assert [line.partition(":")[0] for line in example.splitlines()] == [
        setting.key for setting in documented(WebhookSettings) if setting.key != "kubeconfig"
    ]
    for command in ("gpufence certs init", "gpufence webhook run --config", "curl --cacert"):
        assert command in page
