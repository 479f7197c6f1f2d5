"""Which operators a query is made of, for those who want to know what it costs.

Owns the description of an analysed plan: every operator with its class, its keys and its place. It is not a judgement: what can
run incrementally is decided elsewhere (`compile`), and this list is made for queries that passed. Source: docs/engine.md#operator-classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odfabric.model.engine import QueryOperator
from odfabric.model.metadata import SqlQueryStep
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Expression,
    Plan,
    children,
    conjuncts,
    expressions_of,
    inner_plan,
    is_attribute,
    items,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.sql.refusal import shown, text_of
from odfabric_engine_spark.sql.source_positions import without_last_semicolon

LINEAR, KEYED, TIMED = "linear", "keyed", "timed"

_WINDOW_MARKS = ("spark.timeWindow", "spark.sessionWindow")
_NAMES = {
    "Project": "project",
    "Filter": "filter",
    "Generate": "explode",
    "Union": "union",
    "Expand": "expand",
    "Aggregate": "aggregate",
    "Distinct": "distinct",
    "Deduplicate": "distinct",
    "Join": "join",
    "LateralJoin": "lateral join",
    "Window": "window function",
    "Except": "except",
    "Intersect": "intersect",
    "Pivot": "pivot",
    "Unpivot": "unpivot",
    "Sort": "sort",
    "GlobalLimit": "limit",
}
_LINEAR_NODES = frozenset({"Project", "Filter", "Generate", "Union", "Expand", "Unpivot"})
_AS_THE_WHOLE = frozenset({"LateralJoin"})
"""A temporal join in a table of versions makes the whole query timed, another one keyed, one in the row itself leaves it linear."""
_WINDOW_PARTS = frozenset({"Project", "Filter", "Expand"})
_HOLDERS = frozenset({"Project", "Filter", "Aggregate", "Join"})
_SUBQUERY = "Subquery"


@dataclass(frozen=True, slots=True)
class _Found:
    """An operator of the plan, and what it is called in `_NAMES`.

    `at` is where it stands: a subquery stands in an expression.
    """

    node: Plan
    name: str
    at: Plan | Expression


def operators_of(plan: Plan, steps: Sequence[SqlQueryStep], *, operator_class: str | None) -> tuple[QueryOperator, ...]:
    """The operators of an analysed plan in the order of the text.

    `operator_class` is the class of the whole query.

    A group by a window is timed only if the query as a whole is: over another column than the event time it is a plain key.
    """
    found = [_described(each, steps, whole=operator_class or KEYED) for each in _operators(plan)]
    # One clause may be several nodes of a plan, and a step that is read twice is in it twice.
    told = {(one.step, one.line or 0, one.column or 0, one.name, one.keys, one.detail): one for one in found}
    return tuple(sorted(told.values(), key=lambda one: (one.step, one.line or 0, one.column or 0)))


def _operators(plan: Plan) -> Iterator[_Found]:
    # Below an aggregate Spark writes projections and filters of its own for windows: they carry the aggregate's place.
    stack: list[tuple[Plan, int | None]] = [(plan, None)]
    while stack:
        node, above = stack.pop()
        name = simple_name(node)
        start = _start_of(node) if name in _NAMES else None
        if name in _NAMES and not (name in _WINDOW_PARTS and start in (None, above)):
            yield _Found(node, name, node)
        if name in _HOLDERS:
            for part in (part for each in expressions_of(node) for part in walk_expression(each)):
                inner = inner_plan(part)
                if inner is not None:
                    yield _Found(node, _SUBQUERY, part)
                    stack.append((inner, None))
        if name == "WithCTE":
            stack += [(each.child(), None) for each in items(node.cteDefs())]
        if name == "Aggregate":
            above = start
        elif name not in _WINDOW_PARTS:
            above = None
        stack += [(child, above) for child in children(node)]


def _start_of(node: Plan) -> int | None:
    start = node.origin().startIndex()
    return int(start.get()) if start.isDefined() else None


def _described(found: _Found, steps: Sequence[SqlQueryStep], *, whole: str) -> QueryOperator:
    node, name = found.node, found.name
    origin = found.at.origin()
    line, start = origin.line(), origin.startPosition()
    keys = tuple(_keys(node, name))
    return QueryOperator(
        operator_class=_class_of(node, name, whole=whole),
        name=_NAMES.get(name, _SUBQUERY.lower()),
        keys=keys,
        detail=_detail(node, name),
        step=_step_of(origin, steps),
        line=int(line.get()) if line.isDefined() else None,
        column=int(start.get()) + 1 if start.isDefined() else None,
    )


def _class_of(node: Plan, name: str, *, whole: str) -> str:
    if name in _LINEAR_NODES:
        return LINEAR
    if name in _AS_THE_WHOLE:
        return whole
    windowed = name == "Aggregate" and any(_is_window(each) for each in items(node.groupingExpressions()))
    return TIMED if windowed and whole == TIMED else KEYED


def _keys(node: Plan, name: str) -> Iterator[str]:
    if name == "Aggregate":
        yield from ("window" if _is_window(each) else _text(each) for each in items(node.groupingExpressions()))
    elif name == "Window":
        yield from (_text(each) for each in items(node.partitionSpec()))
    elif name == "Join" and node.condition().isDefined():
        yield from (_text(each) for each in conjuncts(node.condition().get()) if simple_name(each) == "EqualTo")


def _detail(node: Plan, name: str) -> str:
    """What remains to be said of an operator: condition, functions, join kind."""
    if name == "Filter":
        return _text(node.condition())
    if name == "Join":
        return str(node.joinType().sql()).lower()
    if name == "Aggregate":
        outputs = items(node.aggregateExpressions())
        parts = [part for each in outputs for part in walk_expression(each)]
        return ", ".join(dict.fromkeys(_text(part) for part in parts if simple_name(part) == "AggregateExpression"))
    if name == "Window":
        return ", ".join(dict.fromkeys(_text(each) for each in items(node.windowExpressions())))
    return ""


def _text(expression: Expression) -> str:
    if is_attribute(expression):
        return shown(str(expression.name()))  # its place in the text may be another mention of the same column
    return text_of(expression)


def _is_window(expression: Expression) -> bool:
    return is_attribute(expression) and any(expression.metadata().contains(mark) for mark in _WINDOW_MARKS)


def _step_of(origin: object, steps: Sequence[SqlQueryStep]) -> int:
    """The statement whose text an operator comes from."""
    text = origin.sqlText()  # type: ignore[attr-defined]
    known = str(text.get()) if text.isDefined() else None
    return next(
        (number for number, step in enumerate(steps) if without_last_semicolon(step.query) == known), len(steps) - 1
    )
