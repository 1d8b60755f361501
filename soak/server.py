"""The webhook in a process of its own, started as an administrator starts it, on loopback with fresh certificates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from certs.authority import ServingNames, issue_serving, new_authority
from certs.store import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_POLICY: dict[str, Any] = {
    "apiVersion": "gpufence.io/v1alpha1",
    "kind": "GpuPolicy",
    "metadata": {"name": "default"},
    "spec": {"profile": "baseline", "teams": [{"name": "vision", "namespaces": ["vision", "vision-*"]}]},
}
_WEBHOOK = "from cli.main import main; main()"


class Process(NamedTuple):
    """A server: its process id, and where it listens."""

    pid: int
    host: str
    port: int


def prepare(directory: Path, settings: dict[str, Any]) -> Path:
    """Write certificates for 127.0.0.1, a policy and a configuration; return the path of the last."""
    now = datetime.now(UTC)
    authority = new_authority("soak CA", now)
    leaf = issue_serving(authority, ServingNames(("localhost",), ("127.0.0.1",)), now)
    write(directory, authority, leaf, keep_ca_key=False, replace_ca=True)
    (directory / "policy.yaml").write_text(json.dumps(_POLICY))  # JSON is YAML
    config = {
        "listen": "127.0.0.1:0",
        "certificates": ".",
        "policyFile": "policy.yaml",
        "stopDelaySeconds": 0,
    }
    (directory / "config.yaml").write_text(json.dumps(config | settings))
    return directory / "config.yaml"


@contextmanager
def webhook(
    config: Path, log: Path, cpu: int | None = None, extra_args: Sequence[str] = ()
) -> Iterator[Process]:
    """Run `gpufence webhook run` while the block runs; its log goes to a file."""
    with serving(_WEBHOOK, ("webhook", "run", "--config", str(config), *extra_args), log, cpu) as process:
        yield process


@contextmanager
def serving(code: str, arguments: Sequence[str], log: Path, cpu: int | None = None) -> Iterator[Process]:
    """Run a program that says `... https://HOST:PORT` once it listens. `cpu` is the only core that it may use."""
    pin = f"import os; os.sched_setaffinity(0, {{{cpu}}}); " if cpu is not None else ""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUFENCE_")}
    command = [sys.executable, "-c", pin + code, *arguments]
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, env=environment) as process,
    ):
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            words = process.stdout.readline().decode().split()
            if not words:
                raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
            host, _, port = words[-1].removeprefix("https://").rpartition(":")
            yield Process(process.pid, host, int(port))
        finally:
            process.terminate()
            process.wait(30)


def memory_kib(pid: int) -> tuple[int, int]:
    """Return (VmRSS, Pss) in KiB of a process and its children together, from smaps_rollup (Linux 4.14)."""
    resident, proportional = 0, 0
    for each in tree(pid):
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()[1:]
        )
        resident += int(fields["Rss"].split()[0])
        proportional += int(fields["Pss"].split()[0])
    return resident, proportional


def tree(pid: int) -> list[int]:
    """Return the process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += tree(int(child))
    return found
