"""Any text ends in exit status 0, 1 or 2: never in a traceback, never in output that cannot be read."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cli.check import output_json, output_junit, output_sarif
from cli.check.output_text import TextOutput
from cli.check.results import Judged

if TYPE_CHECKING:
    from collections.abc import Callable

EACH = settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)

# Pieces of which texts are made that come far into the reader.
_FRAGMENTS = st.sampled_from(
    [
        "apiVersion: v1\n", "kind: Pod\n", "kind: List\n", "items:\n", "- ", "  ", "spec:\n", "  containers:\n",
        "  - name: a\n", "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]\n", "---\n", "...\n", "%YAML 1.1\n",
        "&a ", "*a", "<<: ", "!!str ", "!!python/object:x ", "? ", ": ", "{", "}", "[", "]", ",", '"', "'", "|\n",
        "{{ x }}", "\t", "\x00", "\x85", "\u2028", "\ufeff", "\ud7ff", "null", "1e999", ".nan", "0x", "~", "\n",
    ]
)  # fmt: skip
_TEXT = st.text() | st.lists(_FRAGMENTS, max_size=25).map("".join)

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3)
            | st.sampled_from(["apiVersion", "kind", "metadata", "spec", "containers", "items"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
_POD_FIELDS = st.sampled_from(
    ["name", "image", "env", "envFrom", "resources", "limits", "volumeMounts", "securityContext", "valueFrom"]
)
_OBJECT = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(["v1", "apps/v1", "batch/v1", "example.com/v1"]) | _JSON,
        "kind": st.sampled_from(["Pod", "Deployment", "CronJob", "PodList", "AdmissionReview", "JobSet"])
        | _JSON,
    },
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"name": _JSON, "namespace": _JSON, "labels": _JSON})
        | _JSON,
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(st.dictionaries(_POD_FIELDS, _JSON, max_size=4), max_size=3)},
            optional={"volumes": _JSON, "hostPID": _JSON, "template": _JSON},
        )
        | _JSON,
        "items": _JSON,
        "request": _JSON,
    },
)


def printed(found: list[Any], summary: Any) -> None:
    """Print everything in every form, and read it back."""
    for output, reads in (
        (output_json, json.loads),
        (output_sarif, json.loads),
        (output_junit, ET.fromstring),
    ):
        out = io.BytesIO()
        output.write(found, summary, out)
        reads(out.getvalue())
    lines: list[str] = []
    for everything in (True, False):
        TextOutput(lambda text: lines.append(text.plain), 80, everything=everything).write(found, summary)
    assert all(character.isprintable() or character == "\n" for line in lines for character in line)


@EACH
@given(text=_TEXT)
@example(text="a: &a {b: *a}")
@example(text='{"a": ' * 500)
@example(text="- " * 2000)
@example(text="0" * 5000)
@example(text="[0" + "9" * 5000 + "]")
def test_any_text_is_judged_skipped_or_refused(judged: Callable[..., Any], text: str) -> None:
    for name in ("-", "pods.jsonl", "pod.json"):
        found, summary = judged(text, name)
        assert summary.exit_code in {0, 1, 2}
        printed(found, summary)


@EACH
@given(document=_OBJECT)
def test_any_object_is_judged_skipped_or_refused(
    judged: Callable[..., Any], document: dict[str, Any]
) -> None:
    found, summary = judged(json.dumps(document))
    assert summary.allowed + summary.denied + summary.skipped + summary.problems > 0
    assert all(each.namespace for each in found if isinstance(each, Judged) and each.kind == "Pod")
    printed(found, summary)


@EACH
@given(value=_JSON)
def test_json_has_the_same_outcome_when_it_is_read_as_yaml(judged: Callable[..., Any], value: Any) -> None:
    """All JSON but its escapes of astral characters is YAML; a document marker makes the YAML reader take it."""
    text = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": value}, ensure_ascii=False)
    if text.isprintable():
        assert judged(f"--- {text}")[1] == judged(text)[1]
