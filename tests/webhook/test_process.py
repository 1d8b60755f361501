"""`gpufence webhook run` as a process: the ready line, signals, and what it says when it cannot start."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

PROGRAM = "import sys; from cli.webhook import app; app(sys.argv[1:])"


@pytest.fixture
def config(files):
    (files / "config.yaml").write_text("listen: 127.0.0.1:0\ncertificates: .\npolicyFile: policy.yaml\n")
    return files / "config.yaml"


def environment(**extra):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUFENCE_")}
    return {**kept, "GPUFENCE_STOP_DELAY_SECONDS": "0", **extra}


def command(config):
    return [sys.executable, "-W", "error", "-c", PROGRAM, "run", "--config", str(config)]


@contextmanager
def started(config, **extra):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command(config), env=environment(**extra), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def url_of(process):
    words = process.stdout.readline().split()
    assert words[:-1] == ["gpufence", "webhook", "ready", "on"]
    return words[-1]


def healthy(url, ca):
    trusting = ssl.create_default_context(cafile=ca)
    with urllib.request.urlopen(f"{url}/healthz", context=trusting, timeout=10) as response:  # noqa: S310 - our own URL
        return response.status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_stops_with_0(config, files, number):
    with started(config) as process:
        assert healthy(url_of(process), files / "ca.crt")
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines()]
    told = [line.get("event") or line["kind"] for line in lines]
    assert [name for name in told if name != "policy_in_force"] == ["ready", "stopping", "closing", "stopped"]


def test_sighup_reloads_and_a_bad_policy_keeps_it_running(config, files):
    with started(config) as process:
        url = url_of(process)
        (files / "policy.yaml").write_text("a: [")
        process.send_signal(signal.SIGHUP)
        lines = []
        while len(lines) < 3:
            line = json.loads(process.stderr.readline())
            lines += [line] if "event" in line else []  # not the record of the policy in force
        assert [line["event"] for line in lines] == ["ready", "reload_problem", "reload_refused"]
        assert [line["level"] for line in lines] == ["info", "error", "error"]
        assert lines[2]["kept"] == ["policy"]
        assert lines[2]["policy_in_force"] == lines[0]["policy"]
        assert healthy(url, files / "ca.crt")
        process.terminate()
        rest = process.communicate(timeout=20)[1]
    assert process.returncode == 0
    assert "reloaded" not in [json.loads(line).get("event") for line in rest.splitlines()]


def events_until(process, event):
    """The names of the log lines up to one event. Reading waits for the process, and pytest's time limit for us."""
    names = []
    while event not in names:
        names.append(json.loads(process.stderr.readline()).get("event"))
    return names


def test_it_says_that_it_is_not_ready_before_it_stops_to_listen(config, files):
    trusting = ssl.create_default_context(cafile=files / "ca.crt")
    with started(config, GPUFENCE_STOP_DELAY_SECONDS="30") as process:
        url = url_of(process)
        assert status(f"{url}/readyz", trusting) == 200
        process.send_signal(signal.SIGTERM)
        events_until(process, "stopping")
        assert status(f"{url}/readyz", trusting) == 503
        assert status(f"{url}/healthz", trusting) == 200


def test_ctrl_c_does_not_wait_for_anybody_to_hear_of_it(config):
    with started(config, GPUFENCE_STOP_DELAY_SECONDS="120") as process:
        url_of(process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 0


def status(url, trusting):
    try:
        with urllib.request.urlopen(url, context=trusting, timeout=10) as response:  # noqa: S310 - our own URL
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def run(config, **extra):
    return subprocess.run(
        command(config), env=environment(**extra), capture_output=True, text=True, timeout=30, check=False
    )


def test_every_problem_of_the_settings_is_on_stderr_and_it_exits_with_2(config):
    config.write_text("listn: 127.0.0.1:0\ncertificates: .\npolicyFile: gone.yaml\nfailMode: maybe\n")
    result = run(config, GPUFENCE_LOG_LEVEL="loud")
    assert result.returncode == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 4
    assert f"policyFile: there is no file {config.parent}/gone.yaml. Fix: Create it with" in result.stderr
    assert "gpufence webhook: listn: there is no such setting. Fix: Did you mean `listen`?" in lines


def test_every_problem_of_the_policy_is_on_stderr_and_it_exits_with_2(config, files):
    text = json.loads((files / "policy.yaml").read_text())
    text["spec"]["profile"] = "loose"
    text["spec"]["teams"][0]["names"] = []
    (files / "policy.yaml").write_text(json.dumps(text))
    result = run(config)
    assert result.returncode == 2
    assert "spec.profile" in result.stderr
    assert "spec.teams[0].names" in result.stderr


@pytest.mark.parametrize("text", [None, "a: [", "- 1"])
def test_a_file_that_is_no_configuration_exits_with_2(config, text):
    config.unlink() if text is None else config.write_text(text)
    result = run(config)
    assert result.returncode == 2
    assert "config.yaml" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_address_that_cannot_be_had_exits_with_2(config):
    result = run(config, GPUFENCE_LISTEN="host.invalid:0")
    assert result.returncode == 2
    assert "cannot listen on host.invalid:0" in result.stderr
