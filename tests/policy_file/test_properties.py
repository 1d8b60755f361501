"""Whatever is handed to the loader: a policy, or a PolicyError with problems that can be read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.catalogue import RULES
from policy.default import DEFAULT_DOCUMENT
from policy.errors import PolicyError
from policy.load import effective, load_policy
from policy.model import UNASSIGNED
from policy.schema import Document

TEXT = st.text(st.characters(), max_size=20)
# What a YAML reader returns: JSON, and dates, bytes and keys that are no text.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXT,
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(),
    st.just(date.max),
    st.just(datetime.max.replace(tzinfo=UTC)),
)
KEYS = st.one_of(TEXT, st.integers(), st.none(), st.booleans())
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


def _names(node: object) -> set[str]:
    """Collect every field name of the schema, so that generated documents get past the first gate."""
    if isinstance(node, dict):
        inner = {name for value in node.values() for name in _names(value)}
        return inner | set(node.get("properties", ()))
    return {name for value in node for name in _names(value)} if isinstance(node, list) else set()


FIELDS = sorted(_names(Document.model_json_schema(by_alias=True)))
PLAUSIBLE = st.sampled_from(
    [
        *RULES,
        "fix",
        "deny",
        "warn",
        "audit",
        "off",
        "In",
        "Exists",
        "nvidia",
        "a",
        "*",
        "a/b",
        "nvidia.com/gpu",
        "/dev",
    ]
)
NEARLY = st.recursive(
    st.one_of(SCALARS, PLAUSIBLE, st.just("2027-03-01T00:00:00Z")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6)
    ),
    max_leaves=30,
)


def _loads(document: object) -> bool:
    try:
        load_policy(document)
    except PolicyError:
        return False
    return True


def _check(document: object) -> None:
    if _loads(document):
        assert load_policy(effective(document)).policy == load_policy(document).policy
        return
    with pytest.raises(PolicyError) as caught:
        load_policy(document)
    assert caught.value.problems
    for problem in caught.value.problems:
        assert problem.path
        assert problem.message
        assert problem.fix
        assert str(problem).isprintable()
        assert len(str(problem)) < 1000


@given(ANYTHING)
@settings(deadline=None)
def test_anything_at_all(document: object) -> None:
    _check(document)


@given(
    st.dictionaries(st.sampled_from(["profile", "gpu", "rules", "teams", "exemptions", "exceptions"]), NEARLY)
)
@settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a time limit is the machine's, not ours
def test_documents_made_of_the_right_words(spec: dict[str, Any]) -> None:
    _check({**DEFAULT_DOCUMENT, "spec": spec})


PATTERN = st.sampled_from(["vision", "vision-*", "*", "a*b", "x1"])
SELECTOR = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"matchLabels": st.dictionaries(st.sampled_from(["team", "a.b/c"]), st.sampled_from(["x", ""]))}
    ),
)
NAME = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=80).filter(
    lambda name: name != UNASSIGNED
)
TEAM = st.fixed_dictionaries(
    {"name": NAME},
    optional={
        "namespaces": st.lists(PATTERN, max_size=3),
        "namespaceSelector": SELECTOR,
        "serviceAccounts": st.lists(st.sampled_from(["a/b", "*/b", "a/*"]), max_size=2),
        "groups": st.lists(st.sampled_from(["oidc:a", "b"]), max_size=2),
        "maxPerPod": st.dictionaries(
            st.sampled_from(["nvidia.com/gpu", "nvidia.com/*"]), st.integers(0, 2**31 - 1)
        ),
        "resources": st.lists(st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-*"]), max_size=2),
        "costCenter": st.sampled_from(["4711", "CC 4711"]),
    },
)


@given(st.lists(TEAM, max_size=4, unique_by=lambda team: str(team["name"])))
@settings(deadline=None)
def test_right_documents_load_and_are_shown_as_the_same_policy(teams: list[dict[str, Any]]) -> None:
    document = {**DEFAULT_DOCUMENT, "spec": {"teams": teams}}
    loaded = load_policy(document).policy
    assert [team.name for team in loaded.teams] == [team["name"] for team in teams]
    assert load_policy(effective(document)).policy == loaded
