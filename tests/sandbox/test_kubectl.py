"""A real kubectl against the fake server."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

POD = """
apiVersion: v1
kind: Pod
metadata: {name: trainer, labels: {app: trainer}}
spec:
  containers:
  - {name: main, image: "busybox:1"}
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def kubectl(api: Any, tmp_path: Path) -> Callable[..., Awaitable[Ended]]:
    config = f"""
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{api.url}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
    (tmp_path / "kubeconfig").write_text(config)
    (tmp_path / "pod.yaml").write_text(POD)

    async def run(*arguments: str) -> Ended:
        fixed = ("--kubeconfig", "kubeconfig", "--cache-dir", str(tmp_path / "cache"))
        process = await asyncio.create_subprocess_exec(
            str(KUBECTL),
            *fixed,
            *arguments,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return Ended(process.returncode or 0, out.decode(), err.decode())

    return run


async def test_kubectl_creates_gets_labels_and_deletes_a_pod(kubectl: Any) -> None:
    assert (await kubectl("create", "--validate=false", "-f", "pod.yaml")).out == "pod/trainer created\n"
    assert "trainer" in (await kubectl("get", "pods", "-A")).out
    assert "restartPolicy: Always" in (await kubectl("get", "pod", "trainer", "-o", "yaml")).out
    assert (await kubectl("get", "po", "-l", "app=trainer", "-o", "name")).out == "pod/trainer\n"
    assert (await kubectl("label", "pod", "trainer", "team=speech")).out == "pod/trainer labeled\n"
    assert "deleted" in (await kubectl("delete", "pod", "trainer")).out
    assert (await kubectl("get", "pod", "trainer")).err.startswith("Error from server (NotFound)")


async def test_kubectl_debugs_a_pod(kubectl: Any) -> None:
    await kubectl("create", "--validate=false", "-f", "pod.yaml")
    ended = await kubectl("debug", "trainer", "--image=busybox", "-c", "dbg", "--profile=general")
    if "unknown profile" in ended.err or "unknown flag: --profile" in ended.err:
        pytest.skip(
            "this kubectl sends debug containers in the form up to 1.21, which the sandbox does not take"
        )
    assert ended.code == 0, ended.err
    names = "jsonpath={.spec.ephemeralContainers[*].name}"
    assert (await kubectl("get", "pod", "trainer", "-o", names)).out == "dbg"


async def test_kubectl_applies_twice(kubectl: Any, tmp_path: Path) -> None:
    assert (await kubectl("apply", "--validate=false", "-f", "pod.yaml")).out == "pod/trainer created\n"
    assert (await kubectl("apply", "--validate=false", "-f", "pod.yaml")).out == "pod/trainer unchanged\n"
    (tmp_path / "pod.yaml").write_text(POD.replace("busybox:1", "busybox:2"))
    assert (await kubectl("apply", "--validate=false", "-f", "pod.yaml")).out == "pod/trainer configured\n"


async def test_kubectl_shows_a_denial_and_a_warning(kubectl: Any, hook: Any, peer: Any) -> None:
    await hook("validating")
    status = {"code": 403, "reason": "Forbidden", "message": "no team"}
    peer.answer = lambda _: {"allowed": False, "status": status, "warnings": ["ask for a team"]}
    ended = await kubectl("create", "--validate=false", "-f", "pod.yaml")
    assert ended.code == 1
    assert "Warning: ask for a team" in ended.err
    assert 'admission webhook "a.gpufence.io" denied the request: no team' in ended.err


async def test_kubectl_lists_what_there_is_and_watches_a_deletion(kubectl: Any) -> None:
    resources = (await kubectl("api-resources", "-o", "name")).out.splitlines()
    assert {"pods", "deployments.apps", "gpupolicies.gpufence.io"} <= set(resources)
    await kubectl("run", "a", "--image=busybox")
    assert (await kubectl("delete", "pods", "--all", "--wait=true", "--timeout=5s")).code == 0
