"""What `check` hands to its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from policy.model import Decision

EXIT_ALLOWED = 0
EXIT_DENIED = 1
EXIT_UNUSABLE = 2

STDIN = "-"


class Problem(msgspec.Struct, frozen=True):
    """Input that cannot be judged: where, what, and how to fix it. `document` is None for a whole file."""

    source: str
    document: int | None
    message: str
    fix: str

    def __str__(self) -> str:
        where = "standard input" if self.source == STDIN else self.source
        if self.document is not None:
            where += f", document {self.document}"
        return f"{where}: {self.message}. {self.fix}"


class Document(msgspec.Struct, frozen=True):
    """A parsed document of an input, or one item of a long JSON list.

    `index` counts from 0 within the source. `kind` and `api_version` are those of the list it was an item of.
    `lines` is empty where the format gave none (JSON).
    """

    source: str
    index: int
    value: Any
    kind: str = ""
    api_version: str = ""
    lines: dict[int, int] = {}
    warnings: tuple[str, ...] = ()


class Judged(msgspec.Struct, frozen=True):
    """A pod template and the decision about it. `pod` is the pod before the patch."""

    source: str
    document: int
    kind: str
    namespace: str
    name: str
    path: str
    pod: dict[str, Any]
    decision: Decision
    warnings: tuple[str, ...]
    lines: dict[int, int]

    @property
    def denied(self) -> bool:
        """Whether the pod would be refused."""
        return not self.decision.allowed

    @property
    def title(self) -> str:
        """The object in words: `Deployment vision/web`."""
        return f"{self.kind} {self.namespace}/{self.name or '(no name)'}"


class Summary(msgspec.Struct):
    """How many templates were allowed and denied, documents without one skipped, and inputs unusable."""

    allowed: int = 0
    denied: int = 0
    skipped: int = 0
    problems: int = 0

    @property
    def exit_code(self) -> int:
        """2 where something could not be judged, else 1 where something is denied, else 0."""
        if self.problems:
            return EXIT_UNUSABLE
        return EXIT_DENIED if self.denied else EXIT_ALLOWED


class Skipped(msgspec.Struct, frozen=True):
    """A document without a pod."""


Outcome = Judged | Problem | Skipped
