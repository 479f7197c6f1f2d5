"""JSON texts that take part in hashes: the attribute maps inside blocks.

Owns the one spelling of a value: no spaces, keys sorted by code point at every level, only quotes, backslashes and control
characters escaped, the shortest digits of a float with the exponent form of the reference's writer. Invariant: equal values
have equal texts. Reading accepts any strict JSON object, because a received text is kept verbatim.
Source: specification, "Extra attributes"; RFC 8259.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

JSON_DEPTH_MAX = 64
"""Deepest nesting of attribute maps, in arrays and objects."""

JSON_INT_MIN, JSON_INT_MAX = -(2**63), 2**64 - 1
"""Integers outside of these lose digits in other readers, so they are refused."""

_FLOAT_PLAIN_DIGITS_MAX = 16
_FLOAT_PLAIN_ZEROS_MAX = 5


def canonical_json(value: JsonValue) -> str:
    """The one text of a value.

    Raises ValueError for what JSON or a block cannot carry.
    """
    return _text(value, JSON_DEPTH_MAX)


def parse_json_object(text: str) -> dict[str, JsonValue]:
    """The object that a text holds, in any spelling.

    Raises ValueError; repeated keys, NaN and deep nesting are refused.
    """
    try:
        value, end = decode_json(text, 0)
    except RecursionError:
        raise ValueError(f"nested deeper than {JSON_DEPTH_MAX}") from None
    if end != len(text) or not isinstance(value, dict):
        raise ValueError("expected an object and nothing else")
    check_json_value(value, depth_max=JSON_DEPTH_MAX)
    return value


def decode_json(text: str, start: int) -> tuple[JsonValue, int]:
    """The JSON value that begins at `start` and where it ends.

    Raises ValueError, RecursionError for very deep nesting.
    """
    found: tuple[JsonValue, int] = _DECODER.raw_decode(text, start)
    return found


def check_json_value(root: JsonValue, *, depth_max: int, nodes_max: int | None = None) -> None:
    """Refuse lossy numbers, deep nesting and too many values. Raises ValueError.

    Lossy numbers lose digits elsewhere.
    """
    level: list[JsonValue] = [root]
    nodes = 0
    for _ in range(depth_max + 1):
        nodes += len(level)
        if nodes_max is not None and nodes > nodes_max:
            raise ValueError(f"more than {nodes_max} values")
        for value in level:
            if isinstance(value, int):
                _check_int(value)
            elif isinstance(value, float) and not math.isfinite(value):
                raise ValueError("a number is too large")
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    raise ValueError(f"nested deeper than {depth_max}")


def _text(value: object, depth_left: int) -> str:
    if depth_left < 0:
        raise ValueError(f"nested deeper than {JSON_DEPTH_MAX}")
    match value:
        case None | bool():
            return json.dumps(value)
        case str():
            return _string(value)
        case int():
            _check_int(value)
            return str(value)
        case float():
            return float_text(value)
        case list():
            return "[" + ",".join([_text(item, depth_left - 1) for item in value]) + "]"
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise ValueError("keys of an object must be strings")
            pairs = [f"{_string(key)}:{_text(value[key], depth_left - 1)}" for key in sorted(value)]
            return "{" + ",".join(pairs) + "}"
        case _:
            raise ValueError(f"{type(value).__name__} has no JSON form")


def _string(text: str) -> str:
    text.encode()  # surrogates have no UTF-8; UnicodeEncodeError is a ValueError
    return json.dumps(text, ensure_ascii=False)


def float_text(value: float) -> str:
    """The shortest digits that give the value back.

    Plain from 1e-5 to below 1e16, otherwise with an exponent (`1e16`).

    Raises ValueError for NaN and infinities.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} has no JSON form")
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if 0 < point <= _FLOAT_PLAIN_DIGITS_MAX:
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -_FLOAT_PLAIN_ZEROS_MAX < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1}"


def _unique(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} has no JSON form")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)


def _children(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _check_int(value: int) -> None:
    if not JSON_INT_MIN <= value <= JSON_INT_MAX:
        raise ValueError(f"an integer is outside of {JSON_INT_MIN} to {JSON_INT_MAX}")
