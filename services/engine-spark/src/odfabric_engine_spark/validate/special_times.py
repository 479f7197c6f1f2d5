"""Constants that name the time of the run: 'now', 'today' and their like, cast to a time.

Owns finding them. Spark puts the clock in their place wherever the text is a constant once its optimizer begins, which also is so of
a constant that comes from a subquery when conditions have been moved down (`normalise.pushed_filters`). So plans are looked at as
written and as they are handed to Spark. Invariant: no plan of a transform reads the clock. Source: security properties S1.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from py4j.protocol import Py4JError

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.catalyst import Expression, Plan, children, expressions_of, simple_name, walk_expression
from odfabric_engine_spark.validate.refusal import Refused, refusal, text_of

_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_SPECIAL_TIME = re.compile(r"\s*(?:now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)


def special_time(cast: Expression) -> InvalidQuery | None:
    """What is wrong with a cast of a constant, however it is spelt; None if nothing is."""
    child = cast.child()
    if str(cast.dataType().typeName()) not in _TIMES or not child.foldable():
        return None
    if not str(child.dataType().typeName()).startswith("string"):
        return None
    try:
        value = child.eval(None)
    except Py4JError:
        return None  # the constant cannot be evaluated, so neither can the query
    if value is None or not _SPECIAL_TIME.fullmatch(value.toString()):
        return None
    message = f"{text_of(cast)} depends on the time at which the query runs"
    return refusal("special-time", message, at=cast, hint="write the time out")


def check_special_times(plan: Plan) -> None:
    """Raises Refused if a plan without subqueries reads the clock."""
    problems = [problem for cast in _casts(plan) if (problem := special_time(cast)) is not None]
    if problems:
        raise Refused(problems)


def _casts(plan: Plan) -> Iterator[Expression]:
    stack = [plan]
    while stack:
        node = stack.pop()
        stack += children(node)
        for expression in expressions_of(node):
            yield from (part for part in walk_expression(expression) if simple_name(part) == "Cast")
