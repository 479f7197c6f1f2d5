"""Constants that name the time of the run: 'now', 'today', a time without a day.

Owns finding them. Spark puts the clock in their place wherever the text is a constant once its optimizer begins, which also is so of
a constant that comes from a subquery when conditions have been moved down (`plan.predicate_pushdown`). So plans are looked at as
written and as they are handed to Spark. Invariant: no plan of a transform reads the clock. Not here: times of day that rows
bring (`sql.constants.times_without_day`). Source: docs/engine.md#what-sql-may-run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    expressions_of,
    is_time,
    items,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.sql.constants.constant_sizes import NotComputed, value_of
from odfabric_engine_spark.sql.refusal import Refused, refusal, text_of

_SPECIAL_TIME = re.compile(r"\s*(?:now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_TIMESTAMP = '"timestamp"'
_FORMAT = "timestampformat"
_PARSERS = frozenset({"JsonToStructs", "CsvToStructs"})
TIME_OF_DAY = "[^!-~]*(?:T|[0-9]{0,2}:)"
"""How a text begins that names a time but no day: a year has four digits at least. A regular expression of Python and of Spark.

Spark skips what is no printable character.
"""


def special_time(catalyst: Catalyst, cast: Expression) -> InvalidQuery | None:
    """What is wrong with a cast of a constant, however it is spelt.

    None if nothing is.
    """
    if not is_time(cast):
        return None
    child = _as_computed(catalyst, cast.child())
    if not child.foldable():
        return None
    if not str(child.dataType().typeName()).startswith("string"):
        return None
    try:
        value = value_of(child)
    except (Py4JError, PySparkException, NotComputed):
        # Spark may know how: it puts other functions in the place of some before it computes them.
        message = f"{text_of(cast)} is made of a text that is computed, which may name the time at which the query runs"
        return refusal("special-time", message, at=cast, hint="write the time out")
    if value is None:
        return None
    text = value.toString()
    if str(cast.dataType().typeName()) == "timestamp" and names_no_day(text):
        message = f"{text_of(cast)} is of the day on which the query runs"
        return refusal("special-time", message, at=cast, hint="write the day too: '2020-01-31 12:00:00'")
    if not _SPECIAL_TIME.fullmatch(text):
        return None
    message = f"{text_of(cast)} depends on the time at which the query runs"
    return refusal("special-time", message, at=cast, hint="write the time out")


def _as_computed(catalyst: Catalyst, value: Expression) -> Expression:
    """The value after Spark replaces functions such as `right`, to find constants."""
    if (
        value.foldable()
        or not value.references().isEmpty()
        or not any(map(catalyst.is_replaceable, walk_expression(value)))
    ):
        return value
    row = catalyst.logical.Project(catalyst.seq([catalyst.named(value, "value")]), catalyst.logical.OneRowRelation())
    (named,) = items(catalyst.settled(row, "ReplaceExpressions").projectList())
    computed: Expression = named.child()
    return computed


def names_no_day(text: str) -> bool:
    """Whether Spark takes a text for a time of the run's day, or for no time."""
    return re.match(TIME_OF_DAY, text) is not None


def unguarded_times(node: Expression, name: str) -> Iterator[InvalidQuery]:
    """Errors of an expression that makes timestamps of texts where no guard can be."""
    made = str(node.dataType().json())
    if _TIMESTAMP not in made:
        return
    if name == "Cast":
        if not _makes_times(json.loads(node.child().dataType().json()), json.loads(made), inside=False):
            return
        hint = "cast each text by itself: transform(list, x -> cast(x AS TIMESTAMP))"
    elif name == "VariantGet":
        hint = "take it out as 'string' and cast it"
    elif name not in _PARSERS or any(str(option).lower() == _FORMAT for option in items(node.options().keys().toSeq())):
        return
    else:
        hint = "read it as STRING and cast it, or say how it looks: map('timestampFormat', 'yyyy-MM-dd HH:mm:ss')"
    message = f"{text_of(node)} is not allowed: Spark takes a text without a day for a time of the day on which the query runs"
    yield refusal("special-time", message, at=node, hint=hint)


def _makes_times(source: Any, target: Any, *, inside: bool = True) -> bool:
    """Whether a cast between two types makes timestamps of texts.

    `inside`: of texts within values.
    """
    if source == "variant":
        return _TIMESTAMP in json.dumps(target)
    if not isinstance(target, dict) or not isinstance(source, dict):
        return inside and target == "timestamp" and str(source).startswith("string")
    pairs = [(source.get(name), target.get(name)) for name in ("elementType", "keyType", "valueType")]
    pairs += [
        (one["type"], other["type"])
        for one, other in zip(source.get("fields", ()), target.get("fields", ()), strict=False)
    ]
    return any(_makes_times(one, other) for one, other in pairs)


def check_special_times(catalyst: Catalyst, plan: Plan) -> None:
    """Raises Refused if a plan without subqueries reads the clock."""
    problems = [problem for cast in _casts(plan) if (problem := special_time(catalyst, cast)) is not None]
    if problems:
        raise Refused(problems)


def _casts(plan: Plan) -> Iterator[Expression]:
    stack = [plan]
    while stack:
        node = stack.pop()
        stack += children(node)
        for expression in expressions_of(node):
            yield from (part for part in walk_expression(expression) if simple_name(part) == "Cast")
