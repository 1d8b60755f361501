"""What a person reads: the text of a denial and of an admission warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.model import Decision, JudgedHit

# The API server cuts a warning at 256 bytes, and all of them once they pass 4096 together
# (kubernetes apiserver pkg/endpoints/filters/warning.go).
_WARNING_BYTES = 256
_DENIALS_TOLD = 8

# Why a hit that would be denied is only audited while a policy is being rolled out.
AUDIT_MODE = "the policy has enforcement: audit"
# Why what can be fixed is not: a denied pod has no patch.
UNFIXED = "would be fixed; the pod is denied for another reason"


def denial(denied: Sequence[JudgedHit]) -> str:
    """Return the text behind `admission webhook "..." denied the request: `: each fault, its place and its fix."""
    lines = [f"{len(denied)} {'reason' if len(denied) == 1 else 'reasons'} by gpufence:"]
    lines += [
        f"[{judged.hit.rule}] {_place(judged)}. Fix: {RULES[judged.hit.rule].fix}"
        for judged in denied[:_DENIALS_TOLD]
    ]
    if len(denied) > _DENIALS_TOLD:
        lines.append(f"and {len(denied) - _DENIALS_TOLD} more: gpufence check -f FILE lists all of them")
    return "\n".join(lines)


def would_be_denied(judged: JudgedHit) -> bool:
    """Whether the pod is only let in because the policy is being rolled out (`enforcement: audit`)."""
    return judged.mode == "deny" and judged.because == AUDIT_MODE


def warning(judged: JudgedHit) -> str:
    """Return the admission warning for a hit, or nothing.

    Under `enforcement: audit` nothing is refused; the text then says what would be.
    """
    if judged.action == "warned":
        return _cut(f"[{judged.hit.rule}] {_text(judged)}")
    if would_be_denied(judged):
        return _cut(f"[{judged.hit.rule}] would be denied: {_text(judged)}")
    return ""


def of_template(decision: Decision) -> tuple[str, ...]:
    """Return the warnings for the author of a pod template: what its pods will be refused for, then the others."""
    denied = [judged for judged in decision.hits if judged.action == "denied"]
    refused = [_cut(f"[{judged.hit.rule}] its pods will be denied: {_text(judged)}") for judged in denied]
    return (*refused, *decision.warnings)


def _text(judged: JudgedHit) -> str:
    container = judged.hit.container
    return f"container {container} {judged.hit.message}" if container else judged.hit.message


def _place(judged: JudgedHit) -> str:
    return f"{_text(judged)} (at {judged.hit.path})"


def _cut(text: str) -> str:
    raw = text.encode("utf-8", "replace")
    if len(raw) <= _WARNING_BYTES:
        return text
    return raw[: _WARNING_BYTES - 3].decode("utf-8", "ignore") + "..."
