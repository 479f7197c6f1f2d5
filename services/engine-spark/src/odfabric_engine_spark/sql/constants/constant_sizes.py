"""How large a constant becomes, reported before anybody computes it.

Owns the functions by which a few characters of SQL become gigabytes. Spark computes constants while it plans, where no limit of a call can stop
it and all calls share the memory. Invariant: what all such functions of a query make together is within the limit, or the query is
refused; and no constant is computed by the gates before that is known. Sizes are distinguished from the inside out, so nothing is computed that is
made of something too large. Not here: the size of values of rows, which tasks compute and a limit ends.
"""

from __future__ import annotations

import re
from typing import Any

from py4j.java_gateway import get_field
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric_engine_spark.spark.catalyst.plan_nodes import Expression, children, simple_name, walk_expression

SIZE_MAX = 16 << 20
"""Characters of texts, members of lists, and rows that functions of a query make of constants, together."""

_NUMBERED = {
    "ArrayRepeat": 1,
    "BRound": 1,
    "BinaryPad": 1,
    "FormatNumber": 1,
    "Round": 1,
    "Stack": 0,
    "StringLPad": 1,
    "StringRPad": 1,
    "StringRepeat": 1,
    "StringSpace": 0,
}
"""Which part says how large a value becomes."""
_TIMES = frozenset({"StringRepeat", "ArrayRepeat"})
"""Of these it says how often the first part stands in it."""
_PRODUCTS = {"StringReplace": (0, 2), "Levenshtein": (0, 1)}
"""Parts of which one is taken, or looked at, for each character of the other."""
SIZE_MAKERS = frozenset({*_NUMBERED, *_PRODUCTS, "Sequence", "FormatString"})

_WIDTH = re.compile(r"%[-#+ 0,(<]*+(?:\d{1,9}\$)?+[-#+ 0,(<]*+(\d{1,12})", re.ASCII)
_PRECISION = re.compile(r"%[-#+ 0,(<$\d]{0,40}\.(\d{1,12})", re.ASCII)
_DAY_US = 86_400_000_000
_MONTH_US = 28 * _DAY_US
_UNITS_US = {"date": _DAY_US, "timestamp": 1, "timestamp_ntz": 1}


class NotComputed(Exception):
    """A constant that is too large to be looked at.

    The gate that adds sizes up refuses what makes it.
    """


def value_of(constant: Expression) -> Any:
    """The value of a constant.

    Raises NotComputed, and what Spark raises where it has none.
    """
    if simple_name(constant) != "Literal":
        _made_by(constant)
    return constant.eval(None)


def size_of(maker: Expression) -> int:
    """What an expression of `SIZE_MAKERS` makes, those within it included.

    More than `SIZE_MAX` if that is not to be computed.
    """
    try:
        return _made_by(maker)
    except NotComputed:
        return SIZE_MAX + 1


def _made_by(expression: Expression) -> int:
    """What all makers within an expression make.

    Raises NotComputed as soon as it is too much.
    """
    found = [node for node in walk_expression(expression) if simple_name(node) in SIZE_MAKERS]
    made = 0
    for maker in reversed(found):  # what stands within another one comes first
        made += _size(maker)
        if made > SIZE_MAX:
            raise NotComputed
    return made


def _size(maker: Expression) -> int:
    """What a maker makes, if what stands within it makes little enough to be computed."""
    name, parts = simple_name(maker), children(maker)
    if name in _PRODUCTS:
        first, second = _PRODUCTS[name]
        return _length(parts[first]) * _length(parts[second])
    if name == "Sequence":
        return _members(parts)
    if name == "FormatString":
        text = str(_evaluated(parts[0])) if parts[0].foldable() else ""
        return max(map(int, [*_WIDTH.findall(text), *_PRECISION.findall(text)]), default=1)
    at = _NUMBERED[name]
    number = _evaluated(parts[at]) if at < len(parts) and parts[at].foldable() else None
    if not isinstance(number, int):
        return 1
    return abs(number) * (_length(parts[0]) if name in _TIMES else 1)


def _length(part: Expression) -> int:
    """Characters or members of a constant part, 1 for one of rows."""
    if not part.foldable():
        return 1
    value = _evaluated(part)
    if value is None or isinstance(value, int | float | bool):
        return 1
    if isinstance(value, bytes | bytearray):
        return max(1, len(value))
    for count in ("numChars", "numElements"):
        try:
            return max(1, int(getattr(value, count)()))
        except (Py4JError, TypeError):
            continue
    return 1


def _members(parts: list[Expression]) -> int:
    if not all(part.foldable() for part in parts):
        return 1
    first, last, *steps = map(_evaluated, parts)
    if not isinstance(first, int) or not isinstance(last, int):
        return 1
    unit = _UNITS_US.get(str(parts[0].dataType().typeName()))
    step = 1 if unit is None else _DAY_US
    if steps:
        step = _step(steps[0], str(parts[2].dataType().typeName()))
    return abs(last - first) * (unit or 1) // step + 1 if step else 1


def _step(value: Any, type_name: str) -> int:
    """A step in microseconds where it is an interval."""
    if isinstance(value, int):
        counts_months = "year" in type_name or "month" in type_name
        return abs(value) * _MONTH_US if counts_months else abs(value)
    try:
        months, days, rest = (int(get_field(value, name)) for name in ("months", "days", "microseconds"))
    except (Py4JError, TypeError, AttributeError):
        return 0
    return abs(months * _MONTH_US + days * _DAY_US + rest)


def _evaluated(part: Expression) -> Any:
    try:
        return part.eval(None)
    except (Py4JError, PySparkException):
        return None
