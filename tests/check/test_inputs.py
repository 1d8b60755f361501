"""What can be passed in, and what the exit status says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from cli.check import documents as reading
from cli.check import sources
from serve.kubeyaml import read

if TYPE_CHECKING:
    from collections.abc import Callable

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers: [{name: main, image: nginx}]
"""


def as_json(text: str) -> str:
    (document,) = read(text)
    return msgspec.json.encode(document.value).decode()


def summary(found: Any) -> dict[str, int]:
    counts: dict[str, int] = found.json()["summary"]
    return counts


def test_exit_0_when_everything_is_allowed(check: Callable[..., Any], pod: str) -> None:
    assert check(pod).code == 0


def test_exit_1_when_something_is_denied(check: Callable[..., Any], pod: str, privileged: str) -> None:
    assert check(f"{pod}---\n{privileged}").code == 1


def test_exit_2_when_something_is_unusable_and_the_rest_is_still_judged(
    check: Callable[..., Any], pod: str, privileged: str
) -> None:
    ran = check(f"{pod}---\na: b: c\n---\n{privileged}", "-o", "json")
    assert ran.code == 2
    assert summary(ran) == {"allowed": 1, "denied": 1, "skipped": 0, "problems": 1}
    assert [each["document"] for each in ran.json()["results"]] == [0, 2]
    (problem,) = ran.json()["problems"]
    assert (problem["source"], problem["document"]) == ("-", 1)
    assert "gpufence check: standard input, document 1: line 9: not valid YAML" in ran.err


def test_a_document_without_a_pod_is_skipped_and_no_error(check: Callable[..., Any], service: str) -> None:
    ran = check(service, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    assert summary(ran) == {"allowed": 0, "denied": 0, "skipped": 1, "problems": 0}


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n---\n"])
def test_an_empty_input_is_no_clean_bill(check: Callable[..., Any], text: str) -> None:
    ran = check(text)
    assert ran.code == 2
    assert "there is nothing to check" in ran.err


def test_an_empty_list_of_a_cluster_without_pods_is_fine(check: Callable[..., Any]) -> None:
    assert check('{"apiVersion": "v1", "kind": "List", "items": []}').code == 0


def test_a_file_is_named_in_every_result(gpufence: Callable[..., Any], pod: str) -> None:
    Path("web.yaml").write_text(pod)
    (result,) = gpufence("check", "-f", "web.yaml", "-o", "json").json()["results"]
    assert result["source"] == "web.yaml"


def test_a_directory_is_read_at_every_depth_in_order_and_by_ending(
    gpufence: Callable[..., Any], pod: str
) -> None:
    for name in ("z.yaml", "a/b/deep.yml", "a/one.json", "a/not-a-manifest.txt"):
        Path("deploy", name).parent.mkdir(parents=True, exist_ok=True)
        Path("deploy", name).write_text(as_json(pod) if name.endswith("json") else pod)
    ran = gpufence("check", "-f", "deploy", "-o", "json")
    sources = [each["source"] for each in ran.json()["results"]]
    assert sources == ["deploy/a/b/deep.yml", "deploy/a/one.json", "deploy/z.yaml"]


def test_several_files_and_standard_input_can_be_given(
    gpufence: Callable[..., Any], pod: str, privileged: str
) -> None:
    Path("web.yaml").write_text(pod)
    ran = gpufence("check", "-f", "web.yaml", "-f", "-", "-o", "json", stdin=privileged)
    assert [each["source"] for each in ran.json()["results"]] == ["web.yaml", "-"]


def test_a_missing_file_is_named_and_the_others_are_judged(gpufence: Callable[..., Any], pod: str) -> None:
    Path("web.yaml").write_text(pod)
    ran = gpufence("check", "-f", "gone.yaml", "-f", "web.yaml", "-o", "json")
    assert ran.code == 2
    assert summary(ran)["allowed"] == 1
    assert "gpufence check: gone.yaml: cannot be read: No such file or directory." in ran.err


def test_a_directory_without_manifests_is_a_problem(gpufence: Callable[..., Any]) -> None:
    Path("empty").mkdir()
    ran = gpufence("check", "-f", "empty")
    assert ran.code == 2
    assert "the directory has no .yaml, .yml, .json, .jsonl file" in ran.err


def test_bytes_that_are_no_text_are_a_problem(check: Callable[..., Any]) -> None:
    ran = check(b"\xff\xfe\x00")
    assert ran.code == 2
    assert "byte 0 is not UTF-8" in ran.err


def test_a_byte_order_mark_is_ignored(check: Callable[..., Any], pod: str) -> None:
    assert check(b"\xef\xbb\xbf" + pod.encode()).code == 0


def test_json_means_the_same_as_yaml(results: Callable[..., Any], privileged: str) -> None:
    assert results(as_json(privileged)) == results(privileged)


def test_json_values_in_a_row_are_documents(results: Callable[..., Any], pod: str, privileged: str) -> None:
    found = results(f"{as_json(pod)}\n{as_json(privileged)}\n")
    assert [(each["document"], each["name"]) for each in found] == [(0, "web"), (1, "train")]


def test_json_lines_are_documents_and_a_broken_line_is_named(
    gpufence: Callable[..., Any], pod: str, privileged: str
) -> None:
    Path("pods.jsonl").write_text(f"{as_json(pod)}\n\n{{broken\n{as_json(privileged)}\n")
    ran = gpufence("check", "-f", "pods.jsonl", "-o", "json")
    assert [each["document"] for each in ran.json()["results"]] == [0, 2]
    assert "pods.jsonl, document 1: line 3: not valid JSON" in ran.err


def test_kyaml_is_read(results: Callable[..., Any]) -> None:
    text = """\
---
{
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    name: "web",
  },
  spec: {
    containers: [{
      name: "main",
    }],
  },
}
"""
    assert [each["name"] for each in results(text)] == ["web"]
    assert [each["name"] for each in results(text.removeprefix("---\n"))] == ["web"]


def test_a_key_that_json_has_twice_is_warned_about(results: Callable[..., Any]) -> None:
    text = (
        '{"apiVersion": "v1", "kind": "Pod", "spec": '
        '{"containers": [], "containers": [{"name": "a"}]}}'
    )  # fmt: skip
    (result,) = results(text)
    assert "the key 'containers' is there twice in one object; the last one counts" in result["warnings"]


def test_a_key_that_yaml_has_twice_is_warned_about_with_its_line(
    results: Callable[..., Any], pod: str
) -> None:
    (result,) = results(pod + "  containers:\n  - name: other\n")
    expected = "line 8: the key 'containers' is there twice in one object; the last one counts"
    assert expected in result["warnings"]
    assert [each["name"] for each in result["object"]["spec"]["containers"]] == ["other"]


def test_pods_of_a_list_are_judged_one_by_one(results: Callable[..., Any], pod: str, privileged: str) -> None:
    items = f'{{"apiVersion":"v1","kind":"List","items":[{as_json(pod)},{as_json(privileged)}]}}'
    as_yaml = f"apiVersion: v1\nkind: List\nitems:\n- {as_json(pod)}\n- {as_json(privileged)}\n"
    for text in (items, as_yaml):
        assert [(each["document"], each["verdict"]) for each in results(text)] == [(0, "allow"), (0, "deny")]


def test_a_fault_in_one_item_of_a_list_leaves_the_others(check: Callable[..., Any], pod: str) -> None:
    ran = check(
        f'{{"apiVersion":"v1","kind":"List","items":[3,{as_json(pod)},{{"kind":"Pod"}}]}}', "-o", "json"
    )
    assert ran.code == 2
    assert summary(ran) == {"allowed": 1, "denied": 0, "skipped": 0, "problems": 2}


@pytest.mark.parametrize(
    "text",
    [
        "replicas: {{ .Values.replicas }}\n",
        "{{- if .Values.enabled }}\napiVersion: v1\n{{- end }}\n",
        'metadata:\n  labels: {{- include "x" . | nindent 4 }}\n',
    ],
)
def test_a_helm_template_is_recognised(check: Callable[..., Any], text: str) -> None:
    ran = check(text)
    assert ran.code == 2
    assert "this looks like a Helm template, not YAML" in ran.err
    assert "Render it first: helm template CHART | gpufence check -f -" in ran.err


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_chart_of_helm_is_recognised(check: Callable[..., Any], version: str) -> None:
    ran = check(f"apiVersion: {version}\nname: web\nversion: 0.1.0\n")
    assert ran.code == 2
    assert "this is the Chart.yaml of a Helm chart, not a manifest" in ran.err
    assert "Render it first: helm template CHART | gpufence check -f -" in ran.err
    assert "Add kind" not in ran.err


def test_a_helm_chart_in_a_directory_is_told_once_and_the_rest_is_judged(
    gpufence: Callable[..., Any], pod: str
) -> None:
    for name, text in {
        "chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\n",
        "chart/values.yaml": "kind: web\n",
        "chart/values.schema.json": "{}",
        "chart/templates/web.yaml": "replicas: {{ .Values.replicas }}\n",
        "chart/charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 0.1.0\n",
        "web.yaml": pod,
    }.items():
        Path("deploy", name).parent.mkdir(parents=True, exist_ok=True)
        Path("deploy", name).write_text(text)
    ran = gpufence("check", "-f", "deploy", "-o", "json")
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert line.startswith(
        "gpufence check: deploy/chart: this is a Helm chart. Render it first: helm template"
    )
    assert [each["source"] for each in ran.json()["results"]] == ["deploy/web.yaml"]


def test_broken_json_in_a_json_file_is_told_as_json(gpufence: Callable[..., Any]) -> None:
    Path("pod.json").write_text('{"apiVersion": "v1", ')
    ran = gpufence("check", "-f", "pod.json")
    assert ran.code == 2
    assert "pod.json: not valid JSON" in ran.err


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud83d"} {}', "{}{}x", "[" * 3000])
def test_what_is_no_json_is_a_problem_and_no_crash(check: Callable[..., Any], text: str) -> None:
    assert check(text, "-o", "json").code in {0, 2}


def test_json_beyond_every_depth_is_a_problem(check: Callable[..., Any]) -> None:
    deep = '{"apiVersion":"v1","kind":"Pod","spec":' + "[" * 300 + "]" * 300 + "}"
    ran = check(deep, "-o", "json")
    assert ran.code == 2
    assert "nested more than 200 deep" in ran.err


def test_too_much_yaml_is_a_problem(
    check: Callable[..., Any], pod: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_YAML", 10)
    ran = check(pod)
    assert ran.code == 2
    assert "MiB of YAML" in ran.err


def test_too_much_input_is_a_problem(
    check: Callable[..., Any], pod: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_JSON", 10)
    assert check(pod).code == 2


def test_documents_are_counted_as_a_yaml_reader_counts_them(results: Callable[..., Any], pod: str) -> None:
    (after_comment,) = results(f"# licence\n---\n{pod}")
    (after_empty,) = results(f"---\n# nothing\n---\n{pod}")
    (after_directive,) = results(f"%YAML 1.1\n---\n{pod}")
    assert [each["document"] for each in (after_comment, after_empty, after_directive)] == [0, 1, 0]


def test_text_behind_an_end_marker_is_not_passed_over_as_kubectl_does(
    check: Callable[..., Any], pod: str
) -> None:
    assert check(f"a: b\n...\n{pod}").code == 2


def test_a_malformed_field_of_a_pod_is_named(check: Callable[..., Any], pod: str) -> None:
    ran = check(pod + "  hostPID: maybe\n")
    assert ran.code == 2
    assert "Pod web: /spec/hostPID: expected a boolean, found a string" in ran.err


def test_a_malformed_field_of_a_template_says_where_the_template_is(check: Callable[..., Any]) -> None:
    ran = check(DEPLOYMENT.replace("name: main", "name: 7"))
    assert ran.code == 2
    assert "/spec/containers/0/name: expected a string, found a number" in ran.err
    assert "within the template at spec.template.spec" in ran.err


def test_a_name_cannot_steer_the_terminal(check: Callable[..., Any]) -> None:
    metadata = {"name": "a\x1b[2Jb\u202e"}
    spec = {"containers": [{"name": "\x1b[31m"}]}
    ran = check(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    assert "\x1b" not in ran.out + ran.err
    assert "\u202e" not in ran.out


def test_nothing_to_read_is_a_usage_error(gpufence: Callable[..., Any]) -> None:
    ran = gpufence("check")
    assert ran.code == 2
    assert "give -f FILE, or --review FILE" in ran.err
