"""One thing that is wrong with a policy: where, what, and how to fix it."""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """A problem of a GpuPolicy file or object.

    `path` is written as people write it (`spec.teams[0].name`), `value` is the offending value as text
    (empty when the field is missing), `fix` is one imperative sentence.
    """

    path: str
    message: str
    value: str = ""
    fix: str = ""

    def __str__(self) -> str:
        value = f" (found {self.value})" if self.value else ""
        fix = f" Fix: {self.fix}" if self.fix else ""
        return f"{self.path}: {self.message}{value}.{fix}"
