"""The CEL that splits `gpu` and `void`: its patterns say what the tables of policy/gpu.py say.

No CEL is evaluated here; the expression is of the few forms that are compared below.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from cli.generated.match_conditions import gpu_relevant
from policy import gpu

EXPRESSION = gpu_relevant()
DEVICES, NOT_GPU, ANNOTATIONS = re.findall(r"\.matches\('([^']*)'\)", EXPRESSION)
TABLE = (*gpu.NVIDIA_DEVICES, *gpu.AMD_DEVICES, *gpu.INTEL_DEVICES, *gpu.OTHER_DEVICES)
NAMES = [
    *(glob.replace("*", "x1") for glob in (*TABLE, *gpu.NOT_GPU)),
    *(
        "cpu",
        "memory",
        "example.com/nvidia.com/gpu",
        "nvidiaXcom/gpu",
        "nvidia.com.example/gpu",
        "amd.com/nic",
    ),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_resource_is_a_gpu_where_the_tables_say_so(name: str) -> None:
    said = any(fnmatchcase(name, glob) for glob in TABLE)
    excepted = any(fnmatchcase(name, glob) for glob in gpu.NOT_GPU)
    assert bool(re.search(DEVICES, name)) is said
    assert bool(re.search(NOT_GPU, name)) is excepted


@pytest.mark.parametrize(
    ("key", "counts"),
    [
        ("cdi.k8s.io/gpu", True),
        ("nvidia.cdi.k8s.io", True),
        ("nvidia.cdi.k8s.io/container.main", True),
        ("devices.gke.io/container.main", True),
        ("devices.gke.io/other", False),
        ("nvidia.cdi.k8s.io.example/x", False),
        ("example/cdi.k8s.io", False),
    ],
)
def test_an_annotation_counts_where_a_runtime_reads_it(key: str, counts: bool) -> None:
    assert bool(re.search(ANNOTATIONS, key)) is counts


def test_every_variable_that_chooses_devices_counts() -> None:
    chosen = [each.name for each in gpu.RESERVED_NAMES if each.name.startswith("NVIDIA_")]
    chosen.remove("NVIDIA_DISABLE_REQUIRE")
    assert re.findall(r"'(NVIDIA_\w+)'", EXPRESSION) == chosen


def test_the_text_needs_no_escape_in_cel_or_yaml() -> None:
    assert "\\" not in EXPRESSION
    assert '"' not in EXPRESSION


def test_each_optional_field_is_tested_before_it_is_read() -> None:
    """A read of an absent field is an error, and an error refuses the pod under failurePolicy Fail."""
    required = {"object.spec", "object.metadata", "object.spec.containers", "e.name"}
    read = set(re.findall(r"\b(?:object|c|e)(?:\.[a-zA-Z]+)+(?!\w|\()", EXPRESSION))
    tested = set(re.findall(r"has\(([\w.]+)\)", EXPRESSION))
    assert read - required - tested == set()


def test_the_braces_match() -> None:
    depth = 0
    for character in re.sub(r"'[^']*'", "", EXPRESSION):
        depth += {"(": 1, ")": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
