"""The wheel builds, installs in an empty environment, and runs there without this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: main, image: i, securityContext: {privileged: true}, resources: {limits: {nvidia.com/gpu: 1}}}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with nothing but the wheel; libraries come from this one through a .pth file, not the network."""
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = directory.glob("gpufence-*.whl")
    venv.create(directory / "env", with_pip=True)
    python = directory / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True)
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    # The editable install of this checkout is in there too, as a .pth file that is not followed from a path entry.
    (Path(site) / "libraries.pth").write_text("\n".join(libraries))
    return directory / "env" / "bin"


def run(installed, *arguments, stdin=""):
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "NO_COLOR": "1"}
    return subprocess.run(
        [installed / arguments[0], *arguments[1:]],
        input=stdin,
        capture_output=True,
        text=True,
        cwd="/",
        env=environment,
        check=False,
    )


def test_the_installed_command_judges_a_manifest(installed):
    result = run(installed, "gpufence", "check", "-f", "-", stdin=POD)
    assert result.returncode == 1, result.stderr
    assert "GF201" in result.stdout


def test_the_code_that_runs_is_the_code_of_the_wheel(installed):
    result = run(installed, "python", "-c", "import policy; print(policy.__file__)")
    assert str(installed.parent) in result.stdout


def test_the_scenes_of_the_demo_are_in_the_wheel(installed):
    result = run(installed, "gpufence", "demo", "--once")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "all as expected" in result.stdout


def test_it_is_a_plugin_of_kubectl_too(installed):
    result = run(installed, "kubectl-gpufence", "--help")
    assert result.returncode == 0
    assert "Usage: kubectl gpufence" in result.stdout
