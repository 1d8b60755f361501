"""The Containerfile: pinned, hashed, non-root, and it starts what the Deployment starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
LINES = [line for line in re.sub(r"\\\n\s*", "", TEXT).splitlines() if line and not line.startswith("#")]
LAST_STAGE = LINES[max(index for index, line in enumerate(LINES) if line.startswith("FROM")) :]


def _values(instruction: str, lines: list[str] = LINES) -> list[str]:
    return [line.removeprefix(instruction + " ") for line in lines if line.startswith(instruction + " ")]


def test_every_stage_starts_from_the_one_base_image_which_is_pinned_by_digest() -> None:
    (pin,) = (each for each in _values("ARG") if each.startswith("PYTHON_IMAGE="))
    assert re.fullmatch(r"PYTHON_IMAGE=docker\.io/library/python:[\w.-]+@sha256:[0-9a-f]{64}", pin)
    assert _values("FROM") == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]


def test_nothing_is_installed_that_the_lock_does_not_name_by_hash() -> None:
    commands = [part.strip() for line in _values("RUN") for part in line.split("&&") if "pip" in part]
    fetching = [each for each in commands if "--no-index" not in each and "--without-pip" not in each]
    (download,) = fetching
    assert "--require-hashes" in download
    assert "-r requirements.lock" in download


def test_the_process_is_the_user_of_the_deployment_and_no_shell_starts_it(
    one: Callable[..., dict[str, Any]],
) -> None:
    security = one("Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert _values("USER", LAST_STAGE) == [f"{security['runAsUser']}:{security['runAsGroup']}"]
    assert _values("ENTRYPOINT", LAST_STAGE) == ['["/opt/gpufence/bin/gpufence"]']
    assert all(value.startswith("[") for value in _values("CMD", LAST_STAGE))
    assert _values("RUN", LAST_STAGE) == []


def test_the_image_says_what_it_is() -> None:
    (labels,) = _values("LABEL", LAST_STAGE)
    keys = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", labels))
    assert keys == {"title", "description", "licenses", "version", "revision"}


def test_the_context_has_what_the_build_needs_and_no_git_history() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    assert {".git", ".venv", "tests"} <= set(ignored)
    assert {"requirements.lock", "pyproject.toml", "README.md", "LICENSE", "policy", "cli"}.isdisjoint(
        ignored
    )
