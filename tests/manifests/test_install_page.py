"""docs/install.md: its commands exist, its lists are the manifests', and its caBundle step works and lasts."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml
from typer.main import get_command

from cli.main import app
from policy.default import DEFAULT_DOCUMENT
from sandbox.apiserver import ApiServer
from sandbox.cluster import cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    Object = dict[str, Any]
    One = Callable[..., Object]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    ")]
OURS = [
    words[words.index("gpufence") :]
    for line in COMMANDS
    for words in [shlex.split(part) for part in line.split("|")]
    if "gpufence" in words[:1]
]


@pytest.mark.parametrize("words", OURS, ids=" ".join)
def test_every_gpufence_command_of_the_page_exists(words: list[str]) -> None:
    command: Any = get_command(app)
    rest = words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    assert not hasattr(command, "commands"), words
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in rest if word.startswith("-") and word != "-"} <= options


def test_there_are_such_commands() -> None:
    assert len(OURS) >= 3


def test_every_path_of_the_page_exists() -> None:
    paths = re.findall(r"(?<![\w./])(?:\.\./)?(manifests/[\w./-]+)", PAGE)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_page_names_every_entry_and_every_namespace_left_out(hooks: dict[str, Object]) -> None:
    (_, names) = PAGE.split("Left out altogether", 1)
    for name, hook in hooks.items():
        assert f"`{name}`" in PAGE
        for each in hook["namespaceSelector"].get("matchExpressions", []):
            if each["operator"] == "NotIn" and each["key"] == "kubernetes.io/metadata.name":
                assert [value for value in each["values"] if f"`{value}`" not in names] == []


def test_the_secret_has_the_name_and_the_files_that_the_deployment_mounts(one: One) -> None:
    (volume,) = (
        each for each in one("Deployment")["spec"]["template"]["spec"]["volumes"] if "secret" in each
    )
    made = [line for line in COMMANDS if "create secret" in line]
    assert len(made) == 2
    for line in made:
        words = shlex.split(line)
        assert words[words.index("generic") + 1] == volume["secret"]["secretName"]
        files = re.findall(r"--from-file=([\w.]+)=certs/\1", line)
        assert files == ["tls.crt", "tls.key", "ca.crt"]


async def test_the_ca_bundle_step_reaches_every_entry_and_a_later_apply_keeps_it(
    kubectl: str, one: One, tmp_path: Path
) -> None:
    """C25, C23: applying the manifests again must not take the caBundle away."""
    (script,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n" + "A" * 200 + "\n")
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    (tmp_path / "hooks.yaml").write_text(yaml.safe_dump_all([one(kind) for kind in kinds]))
    async with ApiServer() as api, aiohttp.ClientSession() as session:
        _write_kubeconfig(tmp_path, api.url)
        apply = "kubectl apply --validate=false -f hooks.yaml"
        for step in (apply, script, apply):
            await _bash(step, tmp_path, kubectl)
        bundles = []
        for kind in kinds:
            path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/gpufence"
            async with session.get(api.url + path) as answer:
                stored = await answer.json()
            bundles += [hook["clientConfig"].get("caBundle") for hook in stored["webhooks"]]
    expected = base64.b64encode((tmp_path / "certs" / "ca.crt").read_bytes()).decode()
    assert bundles == [expected] * 7


async def test_the_check_step_shows_what_the_page_says(kubectl: str, tmp_path: Path) -> None:
    (step,) = [line for line in COMMANDS if "--dry-run=server" in line]
    (tmp_path / "namespaces.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text(json.dumps(DEFAULT_DOCUMENT))
    async with cluster(tmp_path / "tls", policy, tmp_path / "namespaces.yaml") as running:
        _write_kubeconfig(tmp_path, running.url, running.ca)
        pod = yaml.safe_load(await _bash(step, tmp_path, kubectl))
    (container,) = pod["spec"]["containers"]
    assert container["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert "NVIDIA_VISIBLE_DEVICES` with the value `void`" in PAGE


def _write_kubeconfig(folder: Path, url: str, ca: Path | None = None) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": url, **({"certificate-authority": str(ca)} if ca else {})}}
        ],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        # Over TLS, kubectl asks the terminal for a name where there is none.
        "users": [{"name": "u", "user": {"username": "anybody", "password": "none"}}],
        "current-context": "c",
    }
    (folder / "kubeconfig").write_text(json.dumps(config))


async def _bash(script: str, folder: Path, kubectl: str) -> str:
    """Run a step of the page as it stands; return what it prints."""
    bash = shutil.which("bash")
    assert bash is not None
    environment = {
        "PATH": f"{Path(kubectl).parent}:/usr/bin:/bin",
        "KUBECONFIG": str(folder / "kubeconfig"),
        "KUBECACHEDIR": str(folder / "cache"),
        "HOME": str(folder),
    }
    process = await asyncio.create_subprocess_exec(
        bash,
        "-euo",
        "pipefail",
        "-c",
        script,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return out.decode()
