"""Resource quantities (k8s.io/apimachinery resource.Quantity) as exact numbers."""

from __future__ import annotations

import re
from decimal import Decimal

SHAPE = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_FORM = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def parse(text: object) -> Decimal | None:
    """Return the amount (`"500m"` is 0.5, `"1Ki"` is 1024), None where the text is no quantity."""
    found = _FORM.fullmatch(str(text))
    if found is None:
        return None
    number, suffix = Decimal(found["number"]), found["suffix"] or ""
    if suffix in _BINARY:
        return number * Decimal(1024) ** _BINARY[suffix]
    exponent = _DECIMAL.get(suffix)
    return number.scaleb(int(suffix[1:] or 0) if exponent is None else exponent)
