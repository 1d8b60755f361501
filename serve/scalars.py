"""What a YAML scalar means to Kubernetes.

kubectl reads YAML through sigs.k8s.io/yaml, a YAML 1.1 reader with habits of its own
(goyaml.v2/resolve.go): `yes`, `on` and `y` are booleans, `010` is 8, `1e3` is 1000, while dates and `1:30`
stay strings. What the value of a variable or a quantity becomes hangs on this, so it is done alike here.
"""

from __future__ import annotations

import base64
import binascii
import math
import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NOT_JSON = frozenset(
    {".nan", ".NaN", ".NAN"} | {sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")}
)
_NUMERIC_START = frozenset("+-.0123456789")

_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}

_INT64 = range(-(2**63), 2**63)
_UINT64_MAX = 2**64 - 1
# Longer digits are no number anybody wrote, and Python refuses to convert more than 4300 of them.
_LONGEST_NUMBER = 400

_TAG = "tag:yaml.org,2002:"


class ScalarError(ValueError):
    """The text does not fit its tag, or has no place in JSON; the message says which."""


def plain(text: str) -> Scalar:
    """Return the value of a scalar that has neither quotes nor a tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMERIC_START:
        return _number(text)
    return text


def tagged(text: str, tag: str) -> Scalar:
    """Return the value of a scalar with an explicit tag; ScalarError where the two do not fit."""
    if tag in ("!", _TAG + "str", _TAG + "timestamp"):
        return text
    if tag == _TAG + "binary":
        return _binary(text)
    value = plain(text)
    kinds: dict[str, type | tuple[type, ...]] = {
        "bool": bool,
        "int": int,
        "float": (int, float),
        "null": type(None),
    }
    kind = kinds.get(tag.removeprefix(_TAG))
    if kind is None:
        raise ScalarError(f"the tag {shown_tag(tag)} has no meaning in a Kubernetes manifest")
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ScalarError(f"{text[:40]!r} is not what its tag {shown_tag(tag)} says")
    return value


def shown_tag(tag: str) -> str:
    """Return a tag in its short form: `!!python/name`, not `tag:yaml.org,2002:python/name`."""
    return "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag


def _number(text: str) -> Scalar:
    if text in _NOT_JSON:
        raise ScalarError(f"{text} has no place in JSON, and kubectl refuses it")
    digits = text.replace("_", "") if text[0] != "." else text
    if len(digits) > _LONGEST_NUMBER:
        return text
    integer = _integer(digits)
    if integer is not None:
        return integer
    if _FLOAT.fullmatch(digits) is None:
        return text
    value = float(digits)
    if math.isinf(value):
        return text
    # Go writes 1000.0 into JSON as 1000, and Kubernetes then reads an integer.
    return int(value) if value.is_integer() and int(value) in _INT64 else value


def _integer(digits: str) -> int | float | None:
    match = _INTEGER.fullmatch(digits)
    if match is None or match.lastgroup is None:
        return None
    value = int(match[match.lastgroup], _BASES[match.lastgroup])
    if match["sign"] == "-":
        value = -value
    if value in _INT64:
        return value
    # Kubernetes keeps an integer beyond int64 as a float64; beyond uint64, only decimals are read as numbers.
    return float(value) if value <= _UINT64_MAX and not match["sign"] else None


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ScalarError("a !!binary value is not base64 of text") from error
