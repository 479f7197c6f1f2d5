"""How large a constant is at least, told before anybody computes it.

Owns the functions by which a few characters of SQL become gigabytes. Spark computes constants while it plans, where no limit of a call can stop
it and all calls share the memory. Invariant: no constant is computed here or by the gates whose least size is beyond the limit.
Not here: the size of values of rows, which tasks compute and a limit ends.
"""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.catalyst import Expression, children, simple_name
from odfabric_engine_spark.validate.refusal import refusal, text_of

SIZE_MAX = 16 << 20
"""Characters of a text, members of a list."""

_NUMBERED = {
    "StringRepeat": 1,
    "ArrayRepeat": 1,
    "StringLPad": 1,
    "StringRPad": 1,
    "BinaryPad": 2,
    "StringSpace": 0,
    "Stack": 0,
}
"""Which part says how large a value becomes."""
_TIMES = frozenset({"StringRepeat", "ArrayRepeat"})
"""Of these it says how often the first part stands in it."""
SIZE_MAKERS = frozenset({*_NUMBERED, "Sequence", "FormatString"})
_WIDTH = re.compile(r"%[-#+ 0,(<]*(?:\d{1,9}\$)?[-#+ 0,(<]*(\d{1,12})", re.ASCII)


def too_large(maker: Expression) -> InvalidQuery | None:
    """A refusal of an expression that makes something of constant size, if that is too large."""
    if least_size(maker) <= SIZE_MAX:
        return None
    return refusal(
        "constant-size",
        f"{text_of(maker)} is larger than {SIZE_MAX} characters or members",
        at=maker,
        hint="write a smaller number there, or explode rows of an input instead",
    )


def value_of(constant: Expression) -> Any:
    """The value of a constant, None also for one that is too large. Raises what Spark raises where it has none."""
    if simple_name(constant) != "Literal" and least_size(constant) > SIZE_MAX:
        return None
    return constant.eval(None)


def least_size(expression: Expression) -> int:
    """Characters or members that a value has at least; 1 for what is not known."""
    parts = children(expression)
    sizes = [least_size(part) for part in parts]
    known = max(1, sum(sizes))
    name = simple_name(expression)
    if name == "Literal":
        return max(1, len(str(expression.toString()))) if not parts else known
    if name in _NUMBERED:
        at = _NUMBERED[name]
        number = _whole(parts[at], sizes[at]) if at < len(parts) else None
        if number is not None:
            known = max(known, number * (sizes[0] if name in _TIMES else 1))
    elif name == "Sequence":
        known = max(known, _members(parts, sizes))
    elif name == "FormatString" and parts and sizes[0] <= SIZE_MAX and parts[0].foldable():
        widths = _WIDTH.findall(str(_evaluated(parts[0])))
        known = max([known, *map(int, widths)])
    return known


def _members(parts: list[Expression], sizes: list[int]) -> int:
    numbers = [_whole(part, size) for part, size in zip(parts, sizes, strict=True)]
    if len(numbers) < 2 or any(number is None for number in numbers):
        return 1
    first, last, *steps = (number or 0 for number in numbers)
    step = abs(steps[0]) if steps else 1
    return abs(last - first) // step + 1 if step else 1


def _whole(part: Expression, size: int) -> int | None:
    if size > SIZE_MAX or not part.foldable():
        return None
    value = _evaluated(part)
    return value if isinstance(value, int) else None


def _evaluated(part: Expression) -> Any:
    try:
        return part.eval(None)
    except (Py4JError, PySparkException):
        return None
