"""The second gate: what a resolved plan may do, judged on Spark's analysed plan.

Owns the allow-list of plan nodes and expression classes, and everything that arguments decide: sums of floats, constants that
name today, options of readers, order within aggregates. Invariant: nothing that can give two results for one input passes
in a transform. Not here: which operators can run incrementally (`incremental`). Source: security properties S1.1 - S1.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from py4j.protocol import Py4JError

from odfabric.errors import InvalidQuery, LimitExceeded
from odfabric_engine_spark.catalyst import (
    Catalyst,
    Expression,
    Plan,
    children,
    children_of,
    class_name,
    expressions_of,
    inner_plan,
    is_expression_class,
    items,
)
from odfabric_engine_spark.settings import EngineSettings
from odfabric_engine_spark.validate.functions import REASONS, Verdict, expression_classes
from odfabric_engine_spark.validate.parsed import Mode
from odfabric_engine_spark.validate.refusal import Refused, in_order, refusal, shown, source_text

_REPLACEABLE = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"
_NODES = frozenset(
    [
        "Project",
        "Filter",
        "Aggregate",
        "Join",
        "LateralJoin",
        "Union",
        "Distinct",
        "Except",
        "Intersect",
        "SubqueryAlias",
        "View",
        "WithCTE",
        "CTERelationDef",
        "CTERelationRef",
        "LocalRelation",
        "OneRowRelation",
        "Range",
        "Generate",
        "Expand",
        "Window",
        "Pivot",
        "Unpivot",
        "PipeOperator",
    ]
)
_ORDERING_NODES = frozenset({"Sort", "GlobalLimit", "LocalLimit", "Offset"})
_LOOKUP_NODES = _ORDERING_NODES | {"Project", "Filter", "SubqueryAlias"}
_DATA_NODES = frozenset({"LogicalRDD", "LogicalRelation"})
_FLOAT_SUMS = frozenset({"Sum", "Average", "TrySum", "TryAverage"})
_VARIANCES = frozenset({"StddevPop", "StddevSamp", "VariancePop", "VarianceSamp"})
_BY_ORDER = frozenset({"First", "Last", "AnyValue", "NthValue"})
_NUMBERING = frozenset({"RowNumber", "NTile", "Lag", "Lead", "NthValue"})
_SPARKS_OWN = frozenset({"code", "unknown"})
"""Reasons that do not count within what Spark itself puts in the place of an allowed function."""
_FLOATS = frozenset({"float", "double"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_SPECIAL_TIME = re.compile(r"\s*(?:now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_OPTION_READERS = frozenset(
    {"JsonToStructs", "StructsToJson", "CsvToStructs", "StructsToCsv", "SchemaOfJson", "SchemaOfCsv"}
)
_OPTIONS = frozenset(
    [
        "mode",
        "dateformat",
        "timestampformat",
        "timestampntzformat",
        "primitivesasstring",
        "prefersdecimal",
        "allowcomments",
        "allowunquotedfieldnames",
        "allowsinglequotes",
        "allownumericleadingzeros",
        "allownonnumericnumbers",
        "allowbackslashescapinganycharacter",
        "dropfieldifallnull",
        "ignorenullfields",
        "sep",
        "delimiter",
        "quote",
        "escape",
        "nullvalue",
        "nanvalue",
        "positiveinf",
        "negativeinf",
        "ignoreleadingwhitespace",
        "ignoretrailingwhitespace",
        "emptyvalue",
        "pretty",
    ]
)


@dataclass(frozen=True, slots=True)
class _Place:
    """What surrounds an expression. `certain`: it is deterministic with all that is below it. `made`: Spark made it."""

    certain: bool
    made: bool = False
    parent: str = ""
    window_has_order: bool | None = None
    """Whether the window has an order; None outside of windows."""


class AnalysedGate:
    """Judges analysed plans of one mode; `with_lookups` admits the order of rows within LATERAL, judged by its text."""

    def __init__(self, catalyst: Catalyst, *, mode: Mode, settings: EngineSettings, with_lookups: bool = False) -> None:
        self._catalyst = catalyst
        self._mode = mode
        self._settings = settings
        self._with_lookups = with_lookups
        self._replaceable: dict[str, bool] = {}

    def check(self, plan: Plan, *, with_data: bool = False) -> None:
        """Raises Refused with all that is refused, LimitExceeded; `with_data` admits leaves that hold rows."""
        problems = self._problems(plan, with_data=with_data)
        if problems:
            raise Refused(problems)

    def _problems(self, plan: Plan, *, with_data: bool) -> list[InvalidQuery]:
        found: list[InvalidQuery] = []
        stack: list[tuple[Plan | Expression, _Place | None, bool]] = [(plan, None, False)]
        count = 0
        while stack:
            node, place, lookup = stack.pop()
            count += 1
            if count > self._settings.plan_nodes_max:
                raise LimitExceeded(
                    "the query is too large", limit="plan_nodes_max", maximum=self._settings.plan_nodes_max
                )
            full_name = class_name(node)
            name = full_name.rsplit(".", 1)[-1]
            if place is None:
                if not (lookup and name in _ORDERING_NODES):
                    found.extend(self._judge_plan(node, name, with_data=with_data))
                # An expression is deterministic only if all below it are, so one question is enough for most.
                stack.extend((each, _Place(certain=each.deterministic()), False) for each in expressions_of(node))
                stack.extend((child, None, lookup and name in _LOOKUP_NODES) for child in children(node))
            else:
                found.extend(self._judge_expression(node, full_name, name, place))
                inside = inner_plan(node, name)
                if inside is not None:
                    stack.append((inside, None, self._with_lookups and name == "LateralSubquery"))
                below = _below(node, name, place)
                stack.extend((child, below, False) for child in children_of(node, name))
                if self._is_replaceable(node, full_name):
                    stack.append((node.replacement(), replace(below, made=True), False))
        return in_order(found)

    def _is_replaceable(self, node: Expression, full_name: str) -> bool:
        """Whether the optimizer puts another expression in its place, which is then judged too."""
        if full_name not in self._replaceable:
            self._replaceable[full_name] = self._catalyst.is_a(node, _REPLACEABLE)
        return self._replaceable[full_name]

    def _judge_plan(self, node: Plan, name: str, *, with_data: bool) -> Iterator[InvalidQuery]:
        if name in _NODES or (with_data and name in _DATA_NODES):
            return
        if name in _ORDERING_NODES:
            if self._mode is not Mode.QUERY:
                rule = "order-by" if name == "Sort" else "limit"
                yield refusal(rule, "the result is a relation without order", at=node, hint="leave it out")
            return
        yield refusal("operator", f"this operator is not allowed: {name}", at=node)

    def _judge_expression(self, node: Expression, full_name: str, name: str, place: _Place) -> Iterator[InvalidQuery]:
        verdict, reason = expression_classes().verdict(name)
        if place.made and reason in _SPARKS_OWN:
            return
        if not is_expression_class(full_name) or verdict is Verdict.REFUSED:
            why, hint = REASONS[reason or "unknown"]
            if reason != "order" or self._mode is not Mode.QUERY:
                yield refusal(f"function-{reason}", f"{_text(node)} is not allowed: {why}", at=node, hint=hint)
        elif not place.certain and name != "RaiseError" and _is_random(node, name):
            yield refusal("non-deterministic", f"{_text(node)} is not allowed: {REASONS['random'][0]}", at=node)
        elif name == "Cast":
            yield from _judge_cast(node)
        elif name in _OPTION_READERS:
            yield from _judge_options(node)
        elif self._mode is not Mode.QUERY:
            yield from self._judge_order(node, name, place, decided=verdict is Verdict.DECIDED_ON_THE_PLAN)

    def _judge_order(self, node: Expression, name: str, place: _Place, *, decided: bool) -> Iterator[InvalidQuery]:
        if name in _NUMBERING and not place.window_has_order:
            yield refusal("function-order", f"{_text(node)} needs an ORDER BY in its window", at=node)
        elif not decided:
            return
        elif name in _FLOAT_SUMS:
            floats = any(child.dataType().typeName() in _FLOATS for child in children(node))
            # In a transform, sums have an exact form (`aggregates`) or get their rows in order (`normalise`).
            if floats and self._mode is not Mode.TRANSFORM:
                yield _float_sum(node)
        elif name in _BY_ORDER:
            if not place.window_has_order:
                yield _by_order(node, hint="use min, max, or first_value(..) over (partition by .. order by ..)")
        elif name in ("CollectList", "CollectSet"):
            if place.parent not in ("SortArray", "ArraySort"):
                yield _by_order(node, hint="sort it: sort_array(collect_list(..))")
        elif name == "ListAgg":
            ordered = [order.child() for order in items(node.orderExpressions())]
            if not any(order.semanticEquals(node.child()) for order in ordered):
                yield _by_order(node, hint="order it by its own value: WITHIN GROUP (ORDER BY ..)")
        elif name == "Mode":
            if not node.reverseOpt().isDefined():
                yield _by_order(node, hint="say which one: mode() WITHIN GROUP (ORDER BY ..)")
        elif name in ("MaxBy", "MinBy", "MaxMinByK"):
            yield _by_order(node, hint="of equal maxima it takes any; use max(struct(..))")
        elif name not in _VARIANCES or self._mode is not Mode.TRANSFORM:
            yield _float_sum(node)


def _below(node: Expression, name: str, place: _Place) -> _Place:
    if name == "AggregateExpression":
        return place
    if name == "WindowExpression":
        ordered = not node.windowSpec().orderSpec().isEmpty()
        return replace(place, parent=name, window_has_order=ordered)
    return replace(place, parent=name)


def _is_random(node: Expression, name: str) -> bool:
    """Whether a node is not deterministic by itself."""
    return not node.deterministic() and all(child.deterministic() for child in children_of(node, name))


def _text(node: Expression) -> str:
    return shown(source_text(node) or str(node.sql()))


def _by_order(node: Expression, *, hint: str) -> InvalidQuery:
    why, _ = REASONS["order"]
    return refusal("function-order", f"{_text(node)} is not allowed: {why}", at=node, hint=hint)


def _float_sum(node: Expression) -> InvalidQuery:
    return refusal(
        "float-order",
        f"{_text(node)} adds floating point numbers, whose sum depends on the order of rows",
        at=node,
        hint="cast to decimal",
    )


def _judge_cast(node: Expression) -> Iterator[InvalidQuery]:
    """Constants such as 'now' become the time of the run when they are cast, however they are spelt."""
    target = str(node.dataType().json())
    if "collat" in target:
        yield refusal("function-type", f"{_text(node)} is not allowed: collations are not allowed", at=node)
    child = node.child()
    if str(node.dataType().typeName()) not in _TIMES or not child.foldable():
        return
    if not str(child.dataType().typeName()).startswith("string"):
        return
    try:
        value = child.eval(None)
    except Py4JError:
        return  # the constant cannot be evaluated, so neither can the query
    if value is not None and _SPECIAL_TIME.fullmatch(value.toString()):
        yield refusal(
            "special-time",
            f"{_text(node)} depends on the time at which the query runs",
            at=node,
            hint="write the time out",
        )


def _judge_options(node: Expression) -> Iterator[InvalidQuery]:
    for option in items(node.options().keys().toSeq()):
        if str(option).lower() not in _OPTIONS:
            yield refusal(
                "function-option",
                f"the option {shown(str(option))} is not allowed in {_text(node)}",
                at=node,
                hint=f"allowed: {', '.join(sorted(_OPTIONS))}",
            )
