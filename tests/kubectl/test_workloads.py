"""Workloads through kubectl: warned about, never refused, never patched; scale is nobody's business."""

from __future__ import annotations

from typing import Any

import pytest

Object = dict[str, Any]

PRIVILEGED: Object = {
    "name": "main",
    "image": "busybox:1",
    "securityContext": {"privileged": True},
    "resources": {"limits": {"nvidia.com/gpu": 1}},
}
LABELS = {"app": "w"}


def template(**more: Any) -> Object:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [PRIVILEGED], **more}}


SELECTOR = {"matchLabels": LABELS}
JOB = {"template": template(restartPolicy="Never")}
WORKLOADS: dict[tuple[str, str], Object] = {
    ("apps/v1", "Deployment"): {"replicas": 1, "selector": SELECTOR, "template": template()},
    ("apps/v1", "StatefulSet"): {"serviceName": "w", "selector": SELECTOR, "template": template()},
    ("apps/v1", "DaemonSet"): {"selector": SELECTOR, "template": template()},
    ("batch/v1", "Job"): JOB,
    ("batch/v1", "CronJob"): {"schedule": "0 3 * * *", "jobTemplate": {"spec": JOB}},
}
WARNING = "Warning: [GF201] its pods will be denied: container main is privileged"


def workload(version: str, kind: str) -> Object:
    spec = WORKLOADS[version, kind]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}


DEPLOYMENT = workload("apps/v1", "Deployment")


@pytest.mark.parametrize(("version", "kind"), WORKLOADS)
async def test_apply_shows_the_warning_once_and_stores_the_template_as_it_is(
    cluster: Any, version: str, kind: str
) -> None:
    ended = await cluster("apply", "-f", "-", stdin=workload(version, kind))
    assert ended.code == 0
    assert ended.err.count("Warning:") == 1
    assert ended.err.startswith(WARNING)
    spec = (await cluster.get(kind, "w"))["spec"]
    assert {key: spec[key] for key in WORKLOADS[version, kind]} == WORKLOADS[version, kind]


@pytest.mark.parametrize(
    "change",
    [
        ("set", "env", "deployment/w", "A=b"),
        ("set", "image", "deployment/w", "main=busybox:2"),
        ("rollout", "restart", "deployment/w"),
    ],
)
async def test_a_change_of_the_template_is_warned_about_again_and_made(
    cluster: Any, change: tuple[str, ...]
) -> None:
    await cluster.ok("apply", "-f", "-", stdin=DEPLOYMENT)
    ended = await cluster(*change)
    assert (ended.code, ended.err.startswith(WARNING)) == (0, True)


async def test_scale_never_asks_the_webhook(cluster: Any) -> None:
    await cluster.ok("apply", "-f", "-", stdin=DEPLOYMENT)
    cluster.api.calls.clear()
    ended = await cluster("scale", "deployment/w", "--replicas=3", "--current-replicas=1")
    assert (ended.code, ended.out, ended.err) == (0, "deployment.apps/w scaled\n", "")
    assert cluster.api.calls == []
    assert (await cluster.get("deployment", "w"))["spec"]["replicas"] == 3


async def test_describe_and_delete_work_on_what_came_out(cluster: Any) -> None:
    await cluster.ok("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "nvidia.com/gpu:  1" in await cluster.ok("describe", "deployment", "w")
    cluster.api.calls.clear()
    assert "deleted" in await cluster.ok("delete", "deployment", "w")
    assert cluster.api.calls == []
