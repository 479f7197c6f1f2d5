"""Refusals of SQL: what is told to the one who wrote it.

Owns the form of every refusal: rule id, line, column, message, hint. Invariant: lines and columns count from 1 in the text of
the statement, and no message shows a stack trace or a path. Not here: what is refused (`parsed`, `analysed`, `output_columns`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidData, InvalidQuery, Place
from odfabric_engine_spark.catalyst import Expression, Plan, TreeNode, children, simple_name
from odfabric_engine_spark.failures import as_odf_error, spark_condition, spark_text

SQL_CHARACTERS_SHOWN_MAX = 80

_AT_LINE = re.compile(r"\(?line (\d+),? pos(?:ition)? (\d+)")
_SUGGESTIONS = re.compile(r"Did you mean one of the following\? \[([^\]]*)\]")
_UNKNOWN_COLUMN = re.compile(r"with name (`.*`) cannot be resolved")
_HINTS = {
    "PARSE_SYNTAX_ERROR": "one query in Spark SQL: SELECT .. or WITH .. SELECT ..",
    "TRAILING_COMMA_IN_SELECT": "leave out the comma before this word",
    "UNRESOLVED_ROUTINE": "see the list of allowed functions in the documentation",
    "MISSING_AGGREGATION": "add the column to GROUP BY or aggregate it",
    "MISSING_GROUP_BY": "add a GROUP BY",
    "NUM_COLUMNS_MISMATCH": "all branches of a UNION have the same columns",
    "TABLE_OR_VIEW_NOT_FOUND": "a query reads its declared inputs and earlier steps by their alias",
}


PLAIN_FORMS = "write it with SELECT, WHERE, GROUP BY, joins, unions and window functions"
OWN_COLUMN = (
    "read columns of your own, such as the event time: the system's say when and how a row came, not what it tells"
)
COLLATIONS = "compare lower(..) or upper(..) of the texts"


class Refused(Exception):
    """All that is wrong with one statement: `step` counts from 0, None if whoever raises it does not know.

    Becomes an InvalidQuery before it leaves the engine.
    """

    def __init__(self, problems: Sequence[InvalidQuery], *, step: int | None = None) -> None:
        super().__init__(str(problems[0]))
        self.problems = tuple(problems)
        self.step = step

    def error(self, *, steps: int) -> InvalidQuery:
        """The first problem, with the statement named if there are several."""
        first = self.problems[0]
        if steps == 1:
            return first
        place = replace(first.place, field=f"queries[{self.step or 0}]")
        return InvalidQuery(first.message, place=place, hint=first.hint)


def refusal(rule: str, message: str, *, hint: str | None, at: TreeNode | None = None) -> InvalidQuery:
    """A refusal that points at a node of a plan. `hint` is what to write instead."""
    line, column = _position(at) if at is not None else (None, None)
    return InvalidQuery(message, place=Place(line=line, column=column, rule=rule), hint=hint)


def same_name(name: str) -> InvalidQuery:
    """The refusal of a table whose name is taken."""
    return refusal("steps", f"two tables are named {shown(name)}", hint="give each an alias of its own")


def in_order(problems: Sequence[InvalidQuery]) -> list[InvalidQuery]:
    """Problems in the order of the text, each told once: one clause may be several nodes of a plan."""
    told = {(each.place.line or 0, each.place.column or 0, each.place.rule, each.message): each for each in problems}
    return [told[key] for key in sorted(told, key=lambda key: key[:2])]


def source_text(node: TreeNode) -> str:
    """The SQL text that a node was parsed from, empty if unknown."""
    origin = node.origin()
    text, start, stop = origin.sqlText(), origin.startIndex(), origin.stopIndex()
    if not (text.isDefined() and start.isDefined() and stop.isDefined()):
        return ""
    # Spark counts UTF-16 units, Python counts characters.
    units = str(text.get()).encode("utf-16-le")
    return units[2 * int(start.get()) : 2 * int(stop.get()) + 2].decode("utf-16-le", "replace")


def shown(text: str) -> str:
    """A piece of SQL short enough for a message."""
    flat = " ".join(text.split())
    return flat if len(flat) <= SQL_CHARACTERS_SHOWN_MAX else f"{flat[: SQL_CHARACTERS_SHOWN_MAX - 3]}..."


def text_of(expression: Expression) -> str:
    """An expression for a message: as the query has it, or as Spark would write it."""
    return shown(source_text(expression) or str(expression.sql()))


def spark_refused(error: PySparkException | Py4JError) -> BaseException:
    """What Spark's parser or analyser refused; the same error if it is of another kind."""
    problem = _spark_problem(error)
    return error if problem is None else Refused([problem])


def data_problem(error: BaseException) -> BaseException:
    """What a row did to an expression, with the expression's place; the same error if it is of another kind."""
    known = as_odf_error(error)
    if not isinstance(known, InvalidData) or known is error:
        return error
    found = _AT_LINE.search(spark_text(error))
    line, column = (int(found[1]), int(found[2])) if found else (None, None)
    return InvalidData(known.message, place=Place(line=line, column=column), hint=known.hint)


def _spark_problem(error: PySparkException | Py4JError) -> InvalidQuery | None:
    text = spark_text(error)
    if "StackOverflowError" in text:
        return refusal("too-deep", "the query is nested too deeply", hint="write it with fewer levels")
    condition, message = spark_condition(error)
    if condition is None:
        return None
    found = _AT_LINE.search(text)
    line, column = (int(found[1]), int(found[2]) + 1) if found else (None, None)
    hint = _HINTS.get(condition)
    unknown = _UNKNOWN_COLUMN.search(message)
    suggestions = _SUGGESTIONS.search(message)
    if suggestions:
        message = message[: suggestions.start()].rstrip()
        hint = f"did you mean {suggestions[1]}?"
    if unknown:
        message = f"unknown column {unknown[1]}"
    return InvalidQuery(
        _without_position(message),
        place=Place(line=line, column=column, rule=condition.lower().replace("_", "-")),
        hint=hint,
    )


def _without_position(message: str) -> str:
    return re.sub(r"[;,]?\s*\(?line \d+,? pos(?:ition)? \d+\)?.*", "", message, flags=re.DOTALL).strip()


def is_placed(node: TreeNode) -> bool:
    """Whether a node of a plan knows its place in the text."""
    return _position(node)[0] is not None


def placed_part(plan: Plan) -> Plan:
    """The first part of a plan that knows its place: what Spark puts on top of a query's own nodes does not."""
    while not is_placed(plan) and (below := children(plan)):
        plan = plan.plan() if simple_name(plan) == "WithCTE" else below[0]
    return plan


def _position(node: Any) -> tuple[int | None, int | None]:
    origin = node.origin()
    line, start = origin.line(), origin.startPosition()
    return (
        int(line.get()) if line.isDefined() else None,
        int(start.get()) + 1 if start.isDefined() else None,
    )
