"""`-o json` has the promised shape, and nothing else is on standard output."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import jsonpatch

from serve.kubeyaml import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RESULT = {
    "source", "document", "kind", "namespace", "name", "templatePath", "verdict", "team", "findings", "warnings",
    "patch", "object",
}  # fmt: skip
FINDING = {"rule", "severity", "mode", "action", "container", "path", "message"}

WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: vision}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: nginx}]
"""


def test_the_whole_has_the_promised_keys(check: Callable[..., Any], pod: str, service: str) -> None:
    whole = check(f"{pod}---\n{service}", "-o", "json").json()
    assert set(whole) == {"version", "results", "problems", "summary"}
    assert whole["version"] == 1
    assert whole["summary"] == {"allowed": 1, "denied": 0, "skipped": 1, "problems": 0}
    (result,) = whole["results"]
    assert set(result) == RESULT
    assert all(set(finding) == FINDING for finding in result["findings"])


def test_an_allowed_pod_has_its_patch_and_the_pod_after_it(results: Callable[..., Any], pod: str) -> None:
    (result,) = results(pod)
    assert (result["kind"], result["namespace"], result["name"]) == ("Pod", "vision", "web")
    assert (result["templatePath"], result["verdict"], result["team"]) == ("spec", "allow", None)
    (finding,) = result["findings"]
    assert (finding["rule"], finding["action"], finding["mode"]) == ("GF101", "fixed", "fix")
    (before,) = read(pod)
    after = jsonpatch.apply_patch(copy.deepcopy(before.value), result["patch"])
    assert result["object"] == after
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in after["spec"]["containers"][0]["env"]


def test_a_denied_pod_has_no_patch_and_is_shown_as_it_came(
    results: Callable[..., Any], privileged: str
) -> None:
    (result,) = results(privileged)
    (before,) = read(privileged)
    assert result["verdict"] == "deny"
    assert result["patch"] == []
    assert result["object"] == before.value
    (denied,) = [finding for finding in result["findings"] if finding["action"] == "denied"]
    assert denied == {
        "rule": "GF201",
        "severity": "critical",
        "mode": "deny",
        "action": "denied",
        "container": "cuda",
        "path": "/spec/containers/0/securityContext/privileged",
        "message": denied["message"],
    }


def test_the_object_of_a_workload_is_its_template_and_the_paths_are_relative_to_it(
    results: Callable[..., Any],
) -> None:
    (result,) = results(WORKLOAD)
    assert result["templatePath"] == "spec.template.spec"
    assert set(result["object"]) == {"metadata", "spec"}
    assert result["object"]["metadata"]["labels"]["app"] == "web"
    assert all(operation["path"].startswith(("/spec/", "/metadata")) for operation in result["patch"])


def test_a_second_run_over_the_patched_pod_changes_nothing(results: Callable[..., Any], pod: str) -> None:
    import msgspec

    (first,) = results(pod)
    (second,) = results(msgspec.json.encode(first["object"]))
    assert (second["findings"], second["patch"]) == ([], [])


def test_results_of_the_public_manifests_apply_to_every_template(
    gpufence: Callable[..., Any], shared: Path
) -> None:
    ran = gpufence("check", "-f", shared / "corpus", "-o", "json")
    assert (ran.code, ran.err) == (1, "")
    assert ran.json()["summary"]["allowed"] + ran.json()["summary"]["denied"] == 158
    for result in ran.json()["results"]:
        assert bool(result["patch"]) <= (result["verdict"] == "allow")
        assert result["object"]["spec"]["containers"]
