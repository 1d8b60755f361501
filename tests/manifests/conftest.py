"""The manifests as kubectl renders them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
KUSTOMIZE = ROOT / "manifests" / "kustomize"
OLDEST_KUBECTL = 21  # its kustomize is 4.0; before, it was 2.0 and knew no components

Object = dict[str, Any]


def _kubectl() -> str | None:
    """Return kubectl, None where there is none or it is too old."""
    path = shutil.which("kubectl")
    if path is None:
        return None
    asked = subprocess.run(
        [path, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False
    )
    minor = json.loads(asked.stdout or "{}").get("clientVersion", {}).get("minor", "0")
    return path if int(re.sub(r"\D", "", minor) or 0) >= OLDEST_KUBECTL else None


@pytest.fixture(scope="session")
def kubectl() -> str:
    path = _kubectl()
    if path is None:
        pytest.skip(f"kubectl 1.{OLDEST_KUBECTL} or later is not installed")
    return path


def _render(kubectl: str, folder: Path) -> list[Object]:
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="session")
def base(kubectl: str) -> list[Object]:
    return _render(kubectl, KUSTOMIZE / "base")


@pytest.fixture(scope="session")
def overlay(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    """The overlay of docs/install.md: match conditions, an image, a caBundle."""
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    folder = tmp_path_factory.mktemp("overlay").resolve()
    beside = os.path.relpath(ROOT / "manifests", folder)
    (folder / "kustomization.yaml").write_text(example.replace("../manifests", beside))
    return _render(kubectl, folder)


@pytest.fixture(scope="session")
def one(base: list[Object]) -> Callable[..., Object]:
    """Give the object of a kind in the base; there must be exactly one."""

    def find(kind: str, objects: list[Object] = base) -> Object:
        (found,) = (each for each in objects if each["kind"] == kind)
        return found

    return find


@pytest.fixture(scope="session")
def hooks(one: Callable[..., Object]) -> dict[str, Object]:
    """Every entry of both webhook configurations of the base, by name."""
    both = (one("MutatingWebhookConfiguration"), one("ValidatingWebhookConfiguration"))
    return {hook["name"]: hook for each in both for hook in each["webhooks"]}
