"""Collect all errors of a transform and suggest a corrected query.

Spark gives one name after the other, and nothing about columns before the form of a query is right. So what is known to be meant is written,
and the transform judged again. Invariant: a statement is offered only if it passes the judgement that decides what runs, and every change to
it is one that a refusal names; what is refused as it is written stays refused. Not here: translations of other engines' queries
(`validate_query`), how a text is changed (`sql.corrections.suggested_corrections`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidQuery, OdfError
from odfabric.model.engine import QueryProblem
from odfabric_engine_spark.sql.corrections.suggested_corrections import UNKNOWN_COLUMN, CorrectedText
from odfabric_engine_spark.sql.refusal import Refused

CORRECTIONS_MAX = 40
"""How often a transform is corrected and judged again: each name that is reported takes one."""

READ_MAX = 4_000_000
"""Characters of statements that are looked through for names, all of them once for each name: some seconds."""

Judge = Callable[[Sequence[str]], object]
"""Judges statements in the place of those that were written. Raises Refused, or what else is wrong."""


def all_problems(queries: Sequence[str], refused: Refused, judge: Judge) -> tuple[QueryProblem, ...]:
    """What is wrong with statements, in their order.

    Those that are accepted with what is meant are suggested.
    """
    texts = [CorrectedText(query) for query in queries]
    told: dict[QueryProblem, None] = {}
    corrected: set[tuple[int, int | None, int | None]] = set()
    unknown: set[str] = set()
    left = READ_MAX
    for _ in range(CORRECTIONS_MAX):
        found = refused.in_steps([one.text for one in texts])
        for step, problem in found:
            each = _placed(step, problem, texts[step])
            place = (step, each.line, each.column)
            is_known = place in corrected or (each.rule == UNKNOWN_COLUMN and each.message in unknown)
            if not is_known and (each.rule == UNKNOWN_COLUMN or not any(one.has_gaps for one in texts)):
                told[each] = None  # else it is still the name that is reported already, or what comes of it
            if problem.instead is not None:
                corrected.add(place)
            elif each.rule == UNKNOWN_COLUMN:
                unknown.add(each.message)
        left -= len(found) * sum(len(one.text) for one in texts)
        if left < 0 or not _correct(
            texts, [(step, was) for (step, _), was in zip(found, refused.problems, strict=True)]
        ):
            break
        try:
            judge([one.text for one in texts])
        except Refused as again:
            refused = again
        except (OdfError, PySparkException, Py4JError):
            break  # what was written is refused for what is reported already
        else:
            return _with_suggestions(_in_order(told), texts)
    return _in_order(told)


def _correct(texts: Sequence[CorrectedText], problems: Sequence[tuple[int, InvalidQuery]]) -> bool:
    """Correct names, else the order, else leave out gaps; whether anything changed.

    The order is that of whole results; what is left out is what nobody knows.
    """
    # From behind, so that places before stay what they are.
    ordered = sorted(problems, key=lambda one: (one[1].place.line or 0, one[1].place.column or 0), reverse=True)
    names = [texts[step].correct_name(problem) for step, problem in ordered]
    if any(names):
        return True
    orders = [texts[step].correct_order(problem) for step, problem in ordered]
    if any(orders):
        return True
    gaps = [texts[step].leave_out(problem) for step, problem in ordered]
    return any(gaps)


def _placed(step: int, problem: InvalidQuery, text: CorrectedText) -> QueryProblem:
    line, column = text.place_written(problem.place.line, problem.place.column)
    rule = problem.place.rule or problem.code
    return QueryProblem(rule=rule, message=problem.message, hint=problem.hint, step=step, line=line, column=column)


def _in_order(problems: Iterable[QueryProblem]) -> tuple[QueryProblem, ...]:
    return tuple(sorted(problems, key=lambda each: (each.step, each.line or 0, each.column or 0)))


def _with_suggestions(problems: Sequence[QueryProblem], texts: Sequence[CorrectedText]) -> tuple[QueryProblem, ...]:
    """The first problem of each statement with the statement as it is accepted."""
    if not all(one.is_same for one in texts):
        return tuple(problems)
    firsts = {each.step: number for number, each in reversed(list(enumerate(problems)))}
    return tuple(
        replace(each, suggestion=texts[each.step].text)
        if firsts[each.step] == number and texts[each.step].is_changed
        else each
        for number, each in enumerate(problems)
    )
