"""What fits in a Kubernetes label value, and a short form of what does not."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256

LONGEST = 63
_DIGEST = 8
_READABLE = LONGEST - _DIGEST - 1
_FALLBACK = "x"  # stands for a text without a single letter or digit of the alphabet

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_OTHERS = re.compile(r"[^A-Za-z0-9]+")


def is_label_value(text: str) -> bool:
    """Whether Kubernetes takes the text as a label value; the empty text is one."""
    return _LABEL_VALUE.fullmatch(text) is not None


def short_form(text: str) -> str:
    """Return a label value that stands for the text: what can be read of it, and a digest of the whole.

    The digest keeps apart texts of which the same can be read, such as two names in Chinese. Case is kept, as
    label values have both.
    """
    folded = unicodedata.normalize("NFKD", text)
    readable = _OTHERS.sub("-", "".join(char for char in folded if not unicodedata.combining(char)))
    readable = readable.strip("-")[:_READABLE].rstrip("-") or _FALLBACK
    # A lone surrogate can come out of JSON, and UTF-8 has no place for it.
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{readable}-{digest}"


def as_label(text: str) -> str:
    """Return the text where it is a label value, and its short form otherwise."""
    return text if is_label_value(text) else short_form(text)
