"""Expressions that shift a time by a fixed interval.

Owns which forms they have and how much it is. Invariant: it is as much for every time, so it is read from the form of an expression, never from
some values: CASE, LEAST, or a time zone with a summer may shift all times alike but those that nobody looked at, and a year is not always
as long. Not here: which times matter (`outer_interval_join`, `operators.expiry.delays`).
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric_engine_spark.plan.column_lineage import substitute
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    children,
    constant_us,
    expr_id,
    is_attribute,
    simple_name,
)

_BY_DAYS = frozenset({"DateAdd", "DateSub"})
_BY_INTERVAL = "TimestampAddInterval"
_BY_UNIT = "TimestampAdd"
_UNITS = frozenset({"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"})
_TIMES = frozenset({"timestamp", "timestamp_ntz"})
_OF_SETTLED_LENGTH = "DayTimeIntervalType"
"""The type of intervals that are as long after any time; others hold months."""


def shift_us(catalyst: Catalyst, expression: Expression, time: Attribute) -> int | None:
    """Microseconds by which an expression over a time is always later.

    None if its form does not say.
    """
    if not _is_shifted(expression):
        return None
    try:
        return constant_us(substitute(catalyst, expression, {expr_id(time): catalyst.instant(0, like=time)}))
    except (Py4JError, PySparkException):
        return None  # a constant that cannot be computed


def keeps_instant(cast: Expression) -> bool:
    """Whether a cast gives the same instant as another type; a day is its beginning."""
    before, after = (str(each.dataType().typeName()) for each in (cast.child(), cast))
    return before == after or (after in _TIMES and before in {*_TIMES, "date"})


def _is_shifted(expression: Expression) -> bool:
    """Whether it is a column to which constants are added, and nothing else."""
    if is_attribute(expression):
        return True
    parts = children(expression)
    read = [part for part in parts if not part.foldable()]
    return len(read) == 1 and _adds_constant(expression, simple_name(expression)) and _is_shifted(read[0])


def _adds_constant(expression: Expression, name: str) -> bool:
    if name == "Cast":
        return keeps_instant(expression)
    if name == _BY_UNIT:
        return str(expression.unit()).upper() in _UNITS
    if name == _BY_INTERVAL:
        _, added = children(expression)
        return str(added.dataType().getClass().getSimpleName()) == _OF_SETTLED_LENGTH
    return name in _BY_DAYS
