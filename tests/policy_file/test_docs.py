"""docs/policy.md says what the schema says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from policy import gpu
from policy.load import load_policy
from policy.schema import Spec

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def _fields(annotation: object) -> set[str]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.values()
        return {str(field.alias) for field in fields} | {
            name for field in fields for name in _fields(field.annotation)
        }
    return {name for argument in get_args(annotation) for name in _fields(argument)}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_policy_without_problems_or_warnings(example: str) -> None:
    assert load_policy(yaml.safe_load(example)).warnings == ()


def test_words_that_yaml_reads_as_booleans_are_named_with_the_quotes_they_need() -> None:
    assert 'mode: "off"' in PAGE


def test_every_field_is_described() -> None:
    assert {name for name in _fields(Spec) if f"`{name}`" not in PAGE} == set()


@pytest.mark.parametrize(
    "values",
    [
        gpu.DEVICE_CLASSES,
        gpu.DEVICE_ANNOTATIONS,
        gpu.RUNTIME_CLASSES,
        gpu.DRIVER_CAPABILITIES,
        gpu.AUDITED_PATHS,
    ],
)
def test_built_in_values_that_are_named_are_the_ones_in_the_tables(values: tuple[str, ...]) -> None:
    assert f"| {', '.join(f'`{value}`' for value in values)} |" in PAGE
