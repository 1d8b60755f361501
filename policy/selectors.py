"""Names with wildcards, and namespaces by name or label."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from policy.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_LONGEST_NAME = 253 + 1 + 63  # DNS subdomain, slash, name


class Patterns:
    """Names, in which `*` stands for any run of characters. Immutable; compares by what was written.

    Exact names are looked up in a set, all the others are one regular expression. It runs before the API server has
    checked the length of what a tenant wrote, so it never backtracks: each `*` stops at the first fit (atomic groups),
    and nothing longer than a qualified Kubernetes name matches.
    """

    __slots__ = ("_exact", "_wild", "written")

    def __init__(self, written: Iterable[str]) -> None:
        self.written = tuple(written)
        self._exact = frozenset(name for name in self.written if "*" not in name)
        wild = [_glob(name) for name in self.written if "*" in name]
        self._wild = re.compile("|".join(wild), re.DOTALL) if wild else None

    @classmethod
    def none(cls) -> Patterns:
        """Return the patterns that match nothing."""
        return cls(())

    def match(self, name: str) -> bool:
        """Whether one of the patterns matches the whole name."""
        if name in self._exact:
            return True
        return (
            self._wild is not None and len(name) <= _LONGEST_NAME and self._wild.fullmatch(name) is not None
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Patterns) and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.written)

    def __repr__(self) -> str:
        return f"Patterns({list(self.written)!r})"


def _glob(pattern: str) -> str:
    """Return the pattern as a regular expression that is linear in the name.

    The first fit of each middle part is as good as any later one, so it need not be given up again.
    """
    first, *middle, last = (re.escape(part) for part in re.split(r"\*+", pattern))
    return first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last


class Requirement(msgspec.Struct, frozen=True):
    """One `matchExpressions` entry of a Kubernetes label selector."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the requirement. NotIn holds for a missing key, as in Kubernetes."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        inside = labels.get(self.key) in self.values
        return inside if self.operator == "In" else not inside


class NamespaceSelector(msgspec.Struct, frozen=True):
    """Namespaces by name pattern and by label; both must match where both are given."""

    names: Patterns | None = None
    requirements: tuple[Requirement, ...] = ()

    def match(self, name: str, labels: Mapping[str, str] | Unreadable) -> bool | Unreadable:
        """Whether the namespace is selected; Unreadable where that hangs on labels nobody told us."""
        if self.names is not None and not self.names.match(name):
            return False
        if not self.requirements:
            return True
        if isinstance(labels, Unreadable):
            return labels
        return all(requirement.holds(labels) for requirement in self.requirements)
