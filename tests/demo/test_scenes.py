"""The demo: scenes are files, and the runner tells when one does not come out as it says."""

from __future__ import annotations

import asyncio
import os
import shutil

import msgspec
import pytest

from policy.errors import CallerError
from sandbox.cluster import cluster
from sandbox.runner import play
from sandbox.scene import SCENES, WORLD, Expected, Scene, Step, read_scene, read_scenes

ALL = sorted(SCENES.glob("*.yaml"))


@pytest.fixture
async def running(tmp_path):
    async with cluster(tmp_path, WORLD / "policy.yaml", WORLD / "namespaces.yaml") as made:
        yield made


@pytest.mark.parametrize("path", ALL, ids=[path.stem for path in ALL])
async def test_every_scene_comes_out_as_it_says(running, path):
    outcomes = await play(read_scene(path), running)
    assert [difference for outcome in outcomes for difference in outcome.differences] == []


async def test_pods_travel_through_both_webhooks_over_tls(running):
    await play(read_scene(ALL[0]), running)
    assert [(call.webhook, call.phase) for call in running.api.calls] == [
        ("mutate.gpufence.io", "mutating"),
        ("validate.gpufence.io", "validating"),
    ]
    assert running.webhook_url.startswith("https://")


POD = {
    "metadata": {"name": "p", "namespace": "vision"},
    "spec": {"containers": [{"name": "main", "image": "i"}]},
}


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        (Expected(allowed=False), "expected denied, was allowed"),
        (Expected(allowed=True, rules=("GF201",)), "no hit of GF201"),
        (Expected(allowed=True, env={"main": {}}), "container main has env"),
        (Expected(allowed=True, env={"side": {}}), "there is no container side"),
        (Expected(allowed=True, labels={"a": "b"}), "label a is None"),
        (Expected(allowed=True, warnings=("GF301",)), "no warning about GF301"),
    ],
)
async def test_a_scene_that_comes_out_otherwise_is_told(running, expected, told):
    (outcome,) = await play(Scene("t", (Step("a pod", expected, create=POD),)), running)
    assert any(told in difference for difference in outcome.differences)


async def test_an_answer_that_is_an_error_of_the_sandbox_is_told_and_not_taken_for_a_denial(running):
    step = Step("twice", Expected(allowed=True), create=POD)
    _, second = await play(Scene("t", (step, step)), running)
    assert "already exists" in second.message
    assert second.differences


async def test_a_refusal_that_no_webhook_made_is_no_denial(running):
    step = Step("twice", Expected(allowed=False), create=POD)
    _, second = await play(Scene("t", (step, step)), running)
    assert any("not by gpufence" in difference for difference in second.differences)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"create": None}, "exactly one of"),
        ({"label": {"namespace": "n", "pod": "p", "labels": {}}}, "exactly one of"),
        ({"x": 1}, "x"),
    ],
)
def test_a_file_that_is_no_scene_is_refused_by_name(tmp_path, change, told):
    step = {"asked": "a", "expect": {"allowed": True}, "create": POD, **change}
    path = tmp_path / "scene.yaml"
    path.write_bytes(msgspec.json.encode({"title": "t", "steps": [step]}))
    with pytest.raises(CallerError, match=r"scene\.yaml") as raised:
        read_scene(path)
    assert told in str(raised.value)


def test_there_are_scenes_and_their_titles_differ():
    titles = [scene.title for scene in read_scenes()]
    assert len(titles) >= 10
    assert len(set(titles)) == len(titles)


async def kubectl(running, *arguments, stdin=b""):
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        "--kubeconfig",
        running.kubeconfig,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "HOME": str(running.ca.parent)},
    )
    output, _ = await process.communicate(stdin)
    return process.returncode, output.decode()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
async def test_a_real_kubectl_sends_a_pod_with_the_kubeconfig_that_the_demo_names(running):
    pod = {"apiVersion": "v1", "kind": "Pod", **POD}
    code, output = await kubectl(
        running, "create", "--validate=false", "-f", "-", stdin=msgspec.json.encode(pod)
    )
    assert (code, output) == (0, "pod/p created\n")
    pod["metadata"] = {"name": "q", "namespace": "vision"}
    pod["spec"] = {
        "hostPID": True,
        "containers": [{"name": "m", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    }
    code, output = await kubectl(
        running, "create", "--validate=false", "-f", "-", stdin=msgspec.json.encode(pod)
    )
    assert code == 1
    assert 'admission webhook "mutate.gpufence.io" denied the request' in output
    assert "[GF204]" in output
