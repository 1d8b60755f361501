"""The command line in this process, and checks of a text without files."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from cli.check.judge import Asked
from cli.check.results import Summary
from cli.check.run import counted, judge_text
from cli.main import main
from policy.default import DEFAULT_DOCUMENT
from policy.load import load_policy
from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: vision}
spec:
  containers:
  - name: main
    image: nginx
"""
PRIVILEGED = """\
apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: vision
spec:
  containers:
  - name: cuda
    image: nvidia/cuda
    resources: {limits: {nvidia.com/gpu: 1}}
    securityContext:
      privileged: true
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def gpufence(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Callable[..., Ran]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, stdin: str | bytes = b"") -> Ran:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        monkeypatch.setattr(sys, "argv", ["gpufence", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsysbinary.readouterr()
        code = ended.value.code
        return Ran(int(code or 0), captured.out.decode(), captured.err.decode())

    return run


@pytest.fixture
def check(gpufence: Callable[..., Ran]) -> Callable[..., Ran]:
    """Run `gpufence check -f -` over a text."""

    def run(text: str | bytes, *options: str | Path) -> Ran:
        return gpufence("check", "-f", "-", *options, stdin=text)

    return run


@pytest.fixture
def results(check: Callable[..., Ran]) -> Callable[..., list[dict[str, Any]]]:
    """Return the results of a text as `-o json` prints them."""

    def run(text: str | bytes, *options: str | Path) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = check(text, "-o", "json", *options).json()["results"]
        return found

    return run


@pytest.fixture(scope="session")
def asked() -> Asked:
    return Asked(load_policy(DEFAULT_DOCUMENT).policy, NOW, lambda _: Unreadable("the test gave none"))


@pytest.fixture(scope="session")
def judged(asked: Asked) -> Callable[..., tuple[list[Any], Summary]]:
    """Judge a text without the command line: (what outputs get, summary)."""

    def run(text: str, name: str = "-") -> tuple[list[Any], Summary]:
        summary = Summary()
        return list(counted(judge_text(name, text, asked), summary)), summary

    return run


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of public manifests and captures, which is not part of the repository."""
    folder = Path(__file__).parents[2].parent / "shared"
    if not folder.is_dir():
        pytest.skip("../shared is not here: its manifests and captures were not tried")
    return folder


@pytest.fixture
def pod() -> str:
    """Return a pod without a GPU, which is fixed."""
    return POD


@pytest.fixture
def privileged() -> str:
    """Return a privileged pod with a GPU, which is denied."""
    return PRIVILEGED


@pytest.fixture
def service() -> str:
    """Return an object without a pod."""
    return SERVICE
