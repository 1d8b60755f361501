"""What the README shows is what the command prints."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = "gpufence check -f examples/trainer.yaml --namespace vision"


def test_the_capture_in_the_readme_is_what_the_command_prints():
    readme = (ROOT / "README.md").read_text()
    shown = readme.split(f"    $ {COMMAND}\n")[1].split("\n## ")[0]
    ran = subprocess.run(
        [Path(sys.executable).with_name("gpufence"), *COMMAND.split()[1:]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "80"},
        check=False,
    )
    assert ran.returncode == 1
    printed = "\n".join(line.rstrip() for line in ran.stdout.splitlines())
    assert textwrap.dedent(shown).strip() == printed.strip()


def test_every_page_that_the_readme_links_exists():
    readme = (ROOT / "README.md").read_text()
    linked = [part.split(")")[0] for part in readme.split("](")[1:]]
    assert linked
    assert [link for link in linked if not link.startswith("http") and not (ROOT / link).exists()] == []
