"""Generated files are as the code makes them, and Kubernetes takes them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import jsonschema
import kubernetes_validate
import pytest
import rfc8785
import yaml

from audit.record import decode, encode
from cli import generate
from cli.generated.configmap_policy import configmap_policy
from cli.generated.record_reference import example
from policy.catalogue import RULES
from policy.crd import crd_yaml
from policy.gpu import RESERVED_NAMES

if TYPE_CHECKING:
    from pathlib import Path

# ValidatingAdmissionPolicy is v1 since 1.30; the newest is the newest schema of the package.
VERSIONS = ["1.30", "1.32", "1.34", "1.37"]


def test_no_generated_file_is_stale() -> None:
    assert generate.stale(generate.ROOT) == []


def test_a_stale_or_missing_file_is_named_and_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{name} is stale. Fix: make generate" for name in generate.FILES
    ]
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0
    (tmp_path / "docs/rules.md").write_text("old")
    assert generate.stale(tmp_path) == ["docs/rules.md"]


def test_other_arguments_are_refused() -> None:
    assert generate.main(["--chek"]) == 2


def test_generating_twice_gives_the_same() -> None:
    for make in generate.FILES.values():
        assert make() == make()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("text", [configmap_policy(), crd_yaml()], ids=["configmap-policy", "crd"])
def test_kubernetes_takes_the_manifests(text: str, version: str) -> None:
    for document in yaml.safe_load_all(text):
        kubernetes_validate.validate(document, version, strict=True)


def policy_and_binding() -> tuple[dict[str, Any], dict[str, Any]]:
    policy, binding = yaml.safe_load_all(configmap_policy())
    return policy, binding


def test_the_configmap_policy_knows_every_reserved_name_and_no_other() -> None:
    policy, _ = policy_and_binding()
    variables = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
    assert re.findall(r"'([A-Z_]+)'", variables["reserved"]) == [each.name for each in RESERVED_NAMES]


def test_the_configmap_policy_refuses_nothing_unless_its_owner_says_so() -> None:
    policy, binding = policy_and_binding()
    assert binding["spec"]["validationActions"] == ["Audit"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert policy["spec"]["failurePolicy"] == "Ignore"
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["configmaps"], ["CREATE", "UPDATE"])


def test_the_rule_reference_has_a_section_and_an_anchor_per_rule() -> None:
    text = generate.FILES["docs/rules.md"]()
    for rule in RULES.values():
        assert f"\n## {rule.id}\n" in text
        assert f"[{rule.id}](#{rule.id.lower()})" in text
        for case in rule.cases:
            assert f"| `{case.name}` |" in text


def test_the_command_reference_has_a_section_per_command() -> None:
    text = generate.FILES["docs/cli.md"]()
    for command in (
        "check",
        "rules",
        "demo",
        "policy show",
        "policy check",
        "policy crd",
        "webhook run",
        "certs init",
    ):
        assert re.search(rf"^#+ gpufence {command}$", text, re.MULTILINE), command


def test_the_records_page_shows_records_as_they_are_stored() -> None:
    page = generate.FILES["docs/records.md"]()
    shown = [
        json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    ]
    assert [each["kind"] for each in shown] == ["admission", "gap"]
    for each in shown:
        stored = rfc8785.dumps(each)
        assert encode(decode(stored)) == stored


def test_the_records_page_describes_every_field() -> None:
    page = generate.FILES["docs/records.md"]()
    definitions = json.loads(generate.FILES["docs/record.schema.json"]())["$defs"]
    for name, definition in definitions.items():
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0]
        assert {field for field in definition["properties"] if f"| `{field}` |" not in section} == set()


def test_the_records_schema_takes_the_example() -> None:
    schema = json.loads(generate.FILES["docs/record.schema.json"]())
    shown = json.loads(encode(example()))
    jsonschema.validate(shown, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**shown, "verdict": "maybe"}, schema)
