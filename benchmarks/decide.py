"""How long a decision takes, as a ratio to decoding the same body.

    make bench                     all sizes, about 15 seconds
    make bench ARGS='--rounds 3'   a shorter look

The baseline is msgspec's decode of the AdmissionReview that holds the pod, in the same run: absolute times change with
the machine, the ratio hardly. `jsonpatch` is timed beside it to show why it is not on the request path.
"""

from __future__ import annotations

import argparse
import statistics
import timeit
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jsonpatch
import msgspec

from policy.decide import judge_final, mutate
from policy.load import load_policy
from policy.model import Context, Policy
from policy.pod import pod_view

if TYPE_CHECKING:
    from collections.abc import Callable

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_BUDGET_US = 50.0


def pod_of(containers: int) -> dict[str, Any]:
    """Return a pod as an API server sends it: defaults set, every second container with a GPU; 2 containers: 3 KB."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "train-7d9f8c6b5-",
            "namespace": "vision",
            "labels": {"app": "train", "pod-template-hash": "7d9f8c6b5"},
            "annotations": {"prometheus.io/scrape": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "train-7d9f8c6b5",
                    "uid": "u",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "containers": [_container(index) for index in range(containers)],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "shm", "emptyDir": {"medium": "Memory"}},
            ],
            "restartPolicy": "Always",
            "serviceAccountName": "default",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "schedulerName": "default-scheduler",
        },
    }


def _container(index: int) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "64Gi"} | ({"nvidia.com/gpu": "1"} if index % 2 == 0 else {})
    return {
        "name": f"container-{index}",
        "image": "registry.example/team/train:2026.1",
        "command": ["python", "-m", "train", "--config", "/etc/train/config.yaml", "--epochs", "90"],
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(8)]
        + [
            {
                "name": "POD_NAME",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
            }
        ],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "shm", "mountPath": "/dev/shm"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": 8080},
            "periodSeconds": 10,
            "failureThreshold": 3,
        },
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


def best_us(work: Callable[[], object], rounds: int) -> float:
    """Return the median microseconds per call of the best of `rounds` batches of about 0.1 s."""
    timer = timeit.Timer(work)
    number, _ = timer.autorange()
    number = max(1, number // 2)
    return statistics.median(sorted(timer.repeat(rounds, number))[: max(1, rounds // 2)]) / number * 1e6


def policy_of(teams: int) -> Policy:
    """Return the baseline policy with that many teams; the last one owns the namespace of the pod."""
    names = [
        {"name": f"team-{number}", "namespaces": [f"team-{number}", f"team-{number}-*"]}
        for number in range(teams - 1)
    ]
    spec = {"teams": [*names, {"name": "vision", "namespaces": ["vision", "vision-*"]}]}
    document = {
        "apiVersion": "gpufence.io/v1alpha1",
        "kind": "GpuPolicy",
        "metadata": {"name": "default"},
        "spec": spec,
    }
    return load_policy(document).policy


def row(containers: int, teams: int, rounds: int) -> tuple[int, float, float, float, float, float]:
    """Return (bytes, decode, pod_view, mutate, judge_final, jsonpatch) in microseconds for one size."""
    policy, context = (
        policy_of(teams),
        Context("vision", _NOW, {"kubernetes.io/metadata.name": "vision"}, "alice"),
    )
    pod = pod_of(containers)
    body = msgspec.json.encode({"request": {"object": pod}})
    decoder = msgspec.json.Decoder()
    patch = list(mutate(pod_view(pod), policy, context).patch)
    view, final = pod_view(pod), pod_view(jsonpatch.apply_patch(pod, patch))
    return (
        len(msgspec.json.encode(pod)),
        best_us(lambda: decoder.decode(body), rounds),
        best_us(lambda: pod_view(pod), rounds),
        best_us(lambda: mutate(view, policy, context), rounds),
        best_us(lambda: judge_final(final, policy, context), rounds),
        best_us(lambda: jsonpatch.apply_patch(pod, patch), rounds),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Time the decision, as ratios to decoding the same body.")
    parser.add_argument("--rounds", type=int, default=9, help="batches per figure (default 9)")
    rounds = parser.parse_args().rounds
    print("microseconds per call; ratios to decoding the same body with msgspec in the same run")
    print("view = pod_view, mutate and final = the decision alone")
    heads = (
        "containers",
        "teams",
        "bytes",
        "decode",
        "view",
        "mutate",
        "ratio",
        "final",
        "ratio",
        "jsonpatch",
    )
    print(" ".join(f"{head:>{max(7, len(head))}}" for head in heads))
    mutated = {}
    for containers, teams in ((1, 1), (2, 1), (2, 200), (10, 1), (50, 1)):
        size, decode, view, mutate_us, final, patch = row(containers, teams, rounds)
        mutated[containers, teams] = mutate_us
        print(
            f"{containers:>10} {teams:>7} {size:>7} {decode:7.1f} {view:7.1f} {mutate_us:7.1f}"
            f" {mutate_us / decode:7.1f} {final:7.1f} {final / decode:7.1f} {patch:9.1f}"
        )
    small, large = mutated[2, 1], mutated[50, 1]
    print(
        f"mutate per container: {large / 50:.1f} at 50 containers, {small / 2:.1f} at 2: no worse than linear"
    )
    print(
        f"budget for 2 containers: {_BUDGET_US:.0f}; measured {small:.1f}: {'met' if small < _BUDGET_US else 'MISSED'}"
    )


if __name__ == "__main__":
    main()
