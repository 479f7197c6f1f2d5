"""Refusals of SQL: rule, message, position and hint.

Owns the form of every refusal: rule id, statement, line, column, message, hint. Invariant: each has a place; lines and columns count from
1 in the text of its statement, and no message shows a stack trace or a path. Not here: what is refused (`parsed_plan_rules`, `analysed_plan_rules`,
`output_column_rules`), what Spark refuses (`spark_errors`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from odfabric.errors import InvalidData, InvalidQuery, Place
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Expression,
    Plan,
    TreeNode,
    children,
    is_attribute,
    simple_name,
)
from odfabric_engine_spark.spark.failures import as_odf_error, spark_text
from odfabric_engine_spark.sql.source_positions import line_and_column, place_of, select_before, without_last_semicolon

SQL_CHARACTERS_SHOWN_MAX = 80

_AT_LINE = re.compile(r"\(?line (\d+),? (pos|position) (\d+)")


PLAIN_FORMS = "write it with SELECT, WHERE, GROUP BY, joins, unions and window functions"
CASE = "Upper and lower case are told apart"
CASE_BEHIND = f"{CASE[0].lower()}{CASE[1:]}"
"""The same behind a colon."""
OWN_COLUMN = (
    "read columns of your own, such as the event time: the system's say when and how a row came, not what it tells"
)
COLLATIONS = "compare lower(..) or upper(..) of the texts"


class Refused(Exception):
    """All errors of one statement; `step` counts from 0, None if unknown.

    Becomes an InvalidQuery before it leaves the engine.
    """

    def __init__(self, problems: Sequence[InvalidQuery], *, step: int | None = None) -> None:
        super().__init__(str(problems[0]))
        self.problems = tuple(problems)
        self.step = step

    def in_steps(self, queries: Sequence[str]) -> list[tuple[int, InvalidQuery]]:
        """Each problem with the number of its statement, and with a place within that one."""
        texts = [without_last_semicolon(query) for query in queries]
        return [_in_step(problem, self.step or 0, texts) for problem in self.problems]

    def error(self, queries: Sequence[str]) -> InvalidQuery:
        """The first problem, with its place and, if there are several, with its statement."""
        step, first = self.in_steps(queries)[0]
        if len(queries) == 1:
            return first
        return InvalidQuery(first.message, place=replace(first.place, field=f"queries[{step}]"), hint=first.hint)


def _in_step(problem: InvalidQuery, step: int, texts: Sequence[str]) -> tuple[int, InvalidQuery]:
    if problem.statement in texts and problem.statement != texts[step]:
        # The plan of an earlier step is part of those of later ones.
        return texts.index(problem.statement), problem
    if problem.place.line is not None and problem.place.column is not None:
        return step, problem
    return step, _moved(problem, *place_of(texts[step], problem.message))


def _moved(problem: InvalidQuery, line: int, column: int) -> InvalidQuery:
    """The same problem at another place."""
    moved = InvalidQuery(problem.message, place=replace(problem.place, line=line, column=column), hint=problem.hint)
    moved.statement, moved.instead = problem.statement, problem.instead
    return moved


def refusal(rule: str, message: str, *, hint: str | None, at: TreeNode | None = None) -> InvalidQuery:
    """A refusal that points at a node of a plan. `hint` is what to write instead."""
    line, column = (None, None) if at is None else _position(at)
    problem = InvalidQuery(message, place=Place(line=line, column=column, rule=rule), hint=hint)
    text = None if at is None else at.origin().sqlText()
    problem.statement = str(text.get()) if text is not None and text.isDefined() else None
    return problem


def same_name(name: str) -> InvalidQuery:
    """The refusal of a table whose name is taken."""
    return refusal("steps", f"two tables are named {shown(name)}", hint="give each an alias of its own")


def in_order(problems: Sequence[InvalidQuery]) -> list[InvalidQuery]:
    """Errors in the order of the text, each once though several nodes have it."""
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


def name_of(expression: Expression) -> str:
    """As `text_of`, but a plain column's name: its place may be that of a `*`.

    Or of another mention.
    """
    return shown(str(expression.name())) if is_attribute(expression) else text_of(expression)


def place_told(text: str) -> tuple[int | None, int | None]:
    """Line and column from 1 of a place in Spark's message.

    Its "position" counts from 1, its "pos" from 0.
    """
    found = _AT_LINE.search(text)
    return (None, None) if found is None else (int(found[1]), int(found[3]) + (found[2] == "pos"))


def data_problem(error: BaseException) -> BaseException:
    """What a row did to an expression, with the expression's place.

    The same error if it is of another kind.
    """
    known = as_odf_error(error)
    if not isinstance(known, InvalidData) or known is error:
        return error
    line, column = place_told(spark_text(error))
    return InvalidData(known.message, place=Place(line=line, column=column), hint=known.hint)


def is_placed(node: TreeNode) -> bool:
    """Whether a node of a plan knows its place in the text."""
    return _position(node)[0] is not None


def placed_part(plan: Plan) -> Plan:
    """A plan's first part with a place; nodes that Spark adds on top have none."""
    while not is_placed(plan) and (below := children(plan)):
        plan = plan.plan() if simple_name(plan) == "WithCTE" else below[0]
    return plan


def at_select(problem: InvalidQuery, node: TreeNode) -> InvalidQuery:
    """The same error at the node's SELECT, not at the GROUP BY behind it."""
    start, text = node.origin().startIndex(), problem.statement
    if text is None or not start.isDefined():
        return problem
    units = text.encode("utf-16-le")
    at = select_before(text, len(units[: 2 * int(start.get())].decode("utf-16-le", "replace")))
    if at is None:
        return problem
    return _moved(problem, *line_and_column(text, at))


def _position(node: Any) -> tuple[int | None, int | None]:
    origin = node.origin()
    line, start = origin.line(), origin.startPosition()
    return (
        int(line.get()) if line.isDefined() else None,
        int(start.get()) + 1 if start.isDefined() else None,
    )
