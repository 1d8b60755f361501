"""The pod as it would be admitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonpatch
import msgspec

from policy.errors import InternalError

if TYPE_CHECKING:
    from cli.check.results import Judged


def patched(judged: Judged) -> dict[str, Any]:
    """Return the pod after the patch; the pod itself where there is none."""
    patch = judged.decision.patch
    if not patch:
        return judged.pod
    # A copy by way of JSON takes a quarter of the time of the deep copy that jsonpatch would make.
    copy = msgspec.json.decode(msgspec.json.encode(judged.pod))
    try:
        result: dict[str, Any] = jsonpatch.JsonPatch(list(patch)).apply(copy, in_place=True)
    except jsonpatch.JsonPatchException as error:
        raise InternalError(f"the patch for {judged.title} cannot be applied: {error}") from error
    return result
