"""`Warning` response headers, by the rules of k8s.io/apiserver endpoints/filters/warning.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

TOTAL_MAX = 4096
ITEM_MAX = 256


def warning_headers(warnings: Iterable[str]) -> list[str]:
    """Return the header values. Duplicates and texts with control characters are lost.

    When all together pass 4096 characters each is cut to 256, and those that still do not fit are dropped.
    """
    texts = [text for text in dict.fromkeys(warnings) if text and text.isprintable()]
    if sum(map(len, texts)) > TOTAL_MAX:
        texts = _fitting([text[:ITEM_MAX] for text in texts])
    return ['299 - "' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts]


def _fitting(texts: list[str]) -> list[str]:
    fitting: list[str] = []
    for text in texts:
        if sum(map(len, fitting)) + len(text) > TOTAL_MAX:
            break
        fitting.append(text)
    return fitting
