"""Where pods are found: by path in the workloads of Kubernetes, by structure in all others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cli.check.documents import documents
from cli.check.results import Document
from policy.templates import Item, Template, TemplateProblem, find, unfold

if TYPE_CHECKING:
    from pathlib import Path

CONTAINERS = [{"name": "main", "image": "nginx"}]
SPEC: dict[str, Any] = {"containers": CONTAINERS}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "web"}}, "spec": SPEC}


def found(document: dict[str, Any]) -> list[Template]:
    templates: list[Template] = []
    for item in unfold(document):
        assert isinstance(item, Item), item
        pods, problems = find(item)
        assert problems == []
        templates += pods
    return templates


def problems(document: Any) -> list[TemplateProblem]:
    faults: list[TemplateProblem] = []
    for item in unfold(document):
        faults += [item] if isinstance(item, TemplateProblem) else find(item)[1]
    return faults


def made(api_version: str, kind: str, spec: Any, name: str = "x") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_every_template_of_the_public_manifests_is_found_where_they_say(shared: Path) -> None:
    expectations = json.loads((shared / "corpus" / "EXPECT.json").read_text())
    assert len(expectations) > 100
    for file in expectations:
        wanted = [(each["doc"], each["kind"], each["name"], each["path"]) for each in file["templates"]]
        text = (shared / "corpus" / file["file"]).read_text()
        seen = []
        for document in documents(file["file"], text):
            assert isinstance(document, Document), document
            seen += [(document.index, each.kind, each.name, each.path) for each in found(document.value)]
        assert seen == wanted, file["file"]


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        ("v1", "PodTemplate", "template"),
        ("v1", "ReplicationController", "spec.template"),
        ("apps/v1", "Deployment", "spec.template"),
        ("apps/v1", "ReplicaSet", "spec.template"),
        ("apps/v1", "StatefulSet", "spec.template"),
        ("apps/v1", "DaemonSet", "spec.template"),
        ("extensions/v1beta1", "Deployment", "spec.template"),
        ("batch/v1", "Job", "spec.template"),
        ("batch/v1", "CronJob", "spec.jobTemplate.spec.template"),
    ],
)
def test_a_workload_of_kubernetes_is_read_by_path_and_its_pods_are_controlled(
    api_version: str, kind: str, path: str
) -> None:
    inner: Any = TEMPLATE
    for step in reversed(path.split(".")):
        inner = {step: inner}
    (template,) = found({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **inner})
    assert template.path == f"{path}.spec"
    assert template.pod is TEMPLATE
    assert template.controlled


def test_a_pod_is_judged_whole_and_is_not_controlled() -> None:
    pod = made("v1", "Pod", SPEC)
    (template,) = found(pod)
    assert template.pod is pod
    assert (template.path, template.controlled) == ("spec", False)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec.template is missing"),
        ({"template": None}, "spec.template is missing"),
        ({"template": []}, "spec.template is a list, not an object"),
        ({"template": {}}, "spec.template.spec is missing"),
        ({"template": {"spec": "x"}}, "spec.template.spec is a string, not an object"),
        (None, "spec is missing"),
        (7, "spec is a number, not an object"),
    ],
)
def test_a_missing_or_wrong_template_in_a_workload_of_kubernetes_is_a_problem(
    spec: Any, message: str
) -> None:
    (problem,) = problems(made("apps/v1", "Deployment", spec))
    assert problem.message == message
    assert problem.fix == "A Deployment needs spec.template.spec.containers."


def test_a_job_of_volcano_is_not_read_as_the_job_of_kubernetes() -> None:
    tasks = [{"name": "a", "template": TEMPLATE}, {"name": "b", "template": TEMPLATE}]
    templates = found(made("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks}))
    assert [each.path for each in templates] == ["spec.tasks[0].template.spec", "spec.tasks[1].template.spec"]


def test_an_unknown_kind_is_searched_by_structure_in_the_order_of_the_document() -> None:
    spec = {"workers": {"b": {"template": TEMPLATE}, "a": [{"podTemplate": TEMPLATE}]}, "head": SPEC}
    templates = found(made("example.com/v1", "Training", spec))
    assert [each.path for each in templates] == [
        "spec.workers.b.template.spec", "spec.workers.a[0].podTemplate.spec", "spec.head",
    ]  # fmt: skip
    assert all(each.controlled for each in templates)


def test_metadata_is_that_of_the_template_and_empty_where_the_spec_stands_alone() -> None:
    inside, alone = found(made("example.com/v1", "Training", {"template": TEMPLATE, "pod": SPEC}))
    assert inside.pod == TEMPLATE
    assert alone.pod == {"metadata": {}, "spec": SPEC}
    (top,) = found(made("serving.kserve.io/v1alpha1", "ClusterServingRuntime", SPEC, name="runtime"))
    assert top.pod == {"metadata": {}, "spec": SPEC}


@pytest.mark.parametrize(
    "document",
    [
        made("v1", "Service", {"ports": []}),
        made("example.com/v1", "Thing", {"containers": []}),
        made("example.com/v1", "Thing", {"template": {"spec": {"containers": ["a"]}}}),
        made("kyverno.io/v1", "ClusterPolicy", {"rules": [{"pattern": {"spec": SPEC}}]}),
        {**made("example.com/v1", "Thing", {}), "status": {"template": TEMPLATE}},
        {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {},
            "containers": CONTAINERS,
        },
        {"replicas": 3, "image": {"tag": "v1"}},
    ],
)
def test_an_object_without_pods_has_none(document: dict[str, Any]) -> None:
    assert found(document) == []


def test_a_search_ends_at_its_depth() -> None:
    deep: dict[str, Any] = SPEC
    for _ in range(40):
        deep = {"in": deep}
    assert found(made("example.com/v1", "Thing", deep)) == []


def test_lists_of_every_kind_are_unfolded() -> None:
    pod, job = made("v1", "Pod", SPEC, "a"), made("batch/v1", "Job", {"template": TEMPLATE}, "b")
    inner = {"apiVersion": "v1", "kind": "List", "items": [job]}
    templates = found({"apiVersion": "v1", "kind": "List", "items": [pod, inner]})
    assert [(each.kind, each.name) for each in templates] == [("Pod", "a"), ("Job", "b")]


def test_items_of_a_typed_list_may_leave_their_kind_to_it() -> None:
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}, "spec": SPEC}]}
    sets = {"apiVersion": "apps/v1", "kind": "DaemonSetList", "items": [{"spec": {"template": TEMPLATE}}]}
    assert [each.kind for each in (*found(pods), *found(sets))] == ["Pod", "DaemonSet"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("text", "the document is a string, not a Kubernetes object"),
        (3, "the document is a number, not a Kubernetes object"),
        ([made("v1", "Pod", SPEC)], "the document is a list, not a Kubernetes object"),
        ({"kind": "Pod", "spec": SPEC}, "apiVersion is missing"),
        ({"apiVersion": "v1", "spec": SPEC}, "kind is missing"),
        ({"apiVersion": 1, "kind": "Pod"}, "apiVersion is a number, not a string"),
        ({"metadata": {}, "spec": SPEC}, "spec is a pod spec in an object without apiVersion and kind"),
        ({"apiVersion": "v1", "kind": "List", "items": [3]}, "items[0] is a number, not a Kubernetes object"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": [], "spec": SPEC}, "metadata is a list, not an object"),
        ({**made("v1", "Pod", SPEC), "metadata": {"name": 1}}, "metadata.name is a number, not a string"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_kubernetes_object_is_a_problem(document: Any, message: str) -> None:
    assert [problem.message for problem in problems(document)] == [message]


def test_a_list_of_data_without_pods_is_nobodys_problem() -> None:
    assert problems([{"doc": 0, "kind": "Pod"}]) == []


def test_lists_within_lists_are_bounded() -> None:
    document: dict[str, Any] = made("v1", "Pod", SPEC)
    for _ in range(20):
        document = {"apiVersion": "v1", "kind": "List", "items": [document]}
    (problem,) = problems(document)
    assert "lists are nested more than 8 deep" in problem.message


def test_the_object_is_never_changed() -> None:
    document = made("example.com/v1", "Training", {"template": TEMPLATE, "pod": SPEC})
    before = yaml.safe_dump(document)
    found(document)
    assert yaml.safe_dump(document) == before
