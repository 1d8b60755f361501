"""Commands of the tree in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def gpufence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Ran]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Ran:
        monkeypatch.setattr("sys.argv", ["gpufence", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return run
