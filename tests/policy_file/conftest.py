from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from policy.default import DEFAULT_DOCUMENT
from policy.errors import PolicyError
from policy.load import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.problems import Problem


@pytest.fixture
def written() -> Callable[..., dict[str, Any]]:
    """Return a maker of policy documents: the smallest one with these fields in its spec."""

    def make(**spec: Any) -> dict[str, Any]:
        return {**DEFAULT_DOCUMENT, "spec": {**DEFAULT_DOCUMENT["spec"], **spec}}

    return make


@pytest.fixture
def problems_of() -> Callable[[object], list[Problem]]:
    """Return a reader of the problems of a document that has some."""

    def read(document: object) -> list[Problem]:
        with pytest.raises(PolicyError) as caught:
            load_policy(document)
        return list(caught.value.problems)

    return read
