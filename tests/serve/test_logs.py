"""Logs are structured lines without values that pods carry."""

from __future__ import annotations

import json
import logging

import pytest
import structlog

from policy.errors import MalformedPod
from serve.faults import describe_fault
from serve.logs import configure, logger

SECRET = "hunter2"  # noqa: S105 - stands for the value of an environment variable


@pytest.fixture(autouse=True)
def _restored():
    handlers = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


def fail(secret):
    local = {"name": "PASSWORD", "value": secret}
    return int(local["value"])


def failure():
    try:
        fail(SECRET)
    except ValueError as error:
        return error
    raise AssertionError


def test_a_line_is_one_json_object_on_stderr(capfd):
    configure("info", "json")
    logger("part").info("happened", answer=42)
    out, err = capfd.readouterr()
    line = json.loads(err)
    assert out == ""
    assert line["event"] == "happened"
    assert line["part"] == "part"
    assert line["answer"] == 42
    assert line["level"] == "info"
    assert line["timestamp"].endswith("Z")


def test_lines_below_the_level_are_left_out(capfd):
    configure("warning", "json")
    logger("part").info("happened")
    assert capfd.readouterr().err == ""


def test_console_lines_are_for_people(capfd):
    configure("info", "console")
    logger("part").info("happened", answer=42)
    err = capfd.readouterr().err
    assert "happened" in err
    assert "answer=42" in err
    assert "{" not in err


@pytest.mark.parametrize("key", ["body", "object", "patch", "env"])
def test_raw_objects_are_withheld(capfd, key):
    configure("info", "json")
    logger("part").info("happened", **{key: {"value": SECRET}})
    err = capfd.readouterr().err
    assert SECRET not in err
    assert json.loads(err)[key] == "[withheld]"


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_library_that_logs_an_error_does_not_quote_what_it_failed_on(capfd, form):
    configure("info", form)
    logging.getLogger("aiohttp.server").error(
        "Error handling request from %s", "127.0.0.1", exc_info=failure()
    )
    err = capfd.readouterr().err
    assert SECRET not in err
    assert "Error handling request from 127.0.0.1" in err
    assert "ValueError" in err
    assert err.count("\n") == 1


def test_a_fault_is_described_by_type_and_place():
    text = describe_fault(failure())
    assert text.startswith("ValueError at serve/test_logs.py:")
    assert SECRET not in text


def test_an_error_raised_on_purpose_says_what_it_says():
    assert describe_fault(MalformedPod("/spec", "an object", [])) == "/spec: expected an object, found a list"


def test_an_error_without_a_place_is_still_described():
    assert describe_fault(KeyError(SECRET)) == "KeyError"


class Broken:
    """A stream whose disk is full, or whose reader has gone."""

    def __init__(self, error):
        self.error = error

    def write(self, _text):
        raise self.error

    def flush(self):
        raise self.error


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), BrokenPipeError(32, "gone"), ValueError("closed")]
)
def test_a_log_that_cannot_be_written_ends_nothing(monkeypatch, error):
    monkeypatch.setattr("sys.stderr", Broken(error))
    configure("info", "json")
    logger("part").error("lost")
    logging.getLogger("aiohttp.server").error("lost too")


def test_a_process_without_stderr_logs_nowhere(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    configure("info", "json")
    logger("part").error("lost")
