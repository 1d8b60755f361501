"""Kubernetes quantities, exactly.

Grammar: k8s.io/apimachinery pkg/api/resource/quantity.go: a signed decimal number and one of the suffixes below, or a
decimal exponent. A JSON number is a quantity too.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_NUMBER: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3})|([numkMGTPE]i?|Ki)?)", re.ASCII)
# Go caps a quantity at 2^63-1; 64 digits and 10^36 are far beyond it and keep the arithmetic bounded.
_MAX_LENGTH: Final = 64
_MAX_EXPONENT: Final = 36


def parse_quantity(value: object) -> int | Fraction | None:
    """Return the number that a quantity means, or None where it is no quantity.

    null is 0, as the API server reads it. True and False are no quantities.
    """
    if type(value) is str and value.isascii() and value.isdigit() and len(value) <= _MAX_LENGTH:
        return int(value)
    if value is None:
        return 0
    if type(value) is int:
        return value if abs(value) < 10**_MAX_EXPONENT else None
    if type(value) is float:
        value = repr(value)
    return _parse_text(value) if type(value) is str else None


def _parse_text(text: str) -> int | Fraction | None:
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return None
    sign, whole, decimals, exponent, suffix = match.groups()
    digits = whole + (decimals or "")
    if not digits or (exponent and abs(int(exponent)) > _MAX_EXPONENT):
        return None
    scale = Fraction(10) ** int(exponent) if exponent else _SUFFIXES.get(suffix or "")
    if scale is None:
        return None
    number = Fraction(int(digits), 10 ** len(decimals or "")) * scale
    return -number if sign == "-" else number


def is_whole(number: float | Fraction) -> bool:
    """Whether the number is a count: zero or more, and nothing behind the point."""
    return number >= 0 and number == int(number)
