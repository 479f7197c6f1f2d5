"""Window functions with ties broken by all columns.

Owns completing the order of a window: after the query's own ORDER BY come all columns that it reads, in the order in which the
relation declares them, least first, nulls before; floats also by their text, which distinguishes -0.0 from 0.0. Invariant: rows that
still tie are equal, so every function of what comes out is one of the multiset of rows. rank and its like, and RANGE frames,
are functions of peers and keep their order; what is added, taken or listed from the first row to those that tie is that of the
last of these. Not here: which functions exist (`sql`). Source: docs/engine.md#the-judge-of-the-laws.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.plan.order_independence.float_functions import is_float_sum
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    output_of,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.spark.catalyst.sql_templates import from_template
from odfabric_engine_spark.sql.refusal import refusal, shown, text_of
from odfabric_engine_spark.sql.row_order_dependence import LISTS, holds_floats

_BY_PEERS = frozenset({"Rank", "DenseRank", "PercentRank", "CumeDist"})
_BY_POSITION = frozenset({"RowNumber", "NTile", "Lag", "Lead", "CounterDiff", "CounterDiffWithStartTime"})
_PICKS = frozenset({"First", "Last", "NthValue", "AnyValue"})
_OF_WINDOWS = re.compile(r"_w\d+")
"""How Spark names what it computes for windows alone."""
_PACKAGE = "org.apache.spark.sql.catalyst.expressions"


@dataclass(frozen=True, slots=True)
class _Call:
    """A window function: how the query states it."""

    expression: Expression

    @property
    def function(self) -> Expression:
        called = self.expression.windowFunction()
        return called.aggregateFunction() if simple_name(called) == "AggregateExpression" else called

    @property
    def is_float_sum(self) -> bool:
        called = self.expression.windowFunction()
        return simple_name(called) == "AggregateExpression" and is_float_sum(called)

    @property
    def frame(self) -> Expression:
        return self.expression.windowSpec().frameSpecification()

    @property
    def is_range(self) -> bool:
        return simple_name(self.frame.frameType()) == "RangeFrame"

    @property
    def from_start(self) -> bool:
        return simple_name(self.frame.lower()) == "UnboundedPreceding"

    @property
    def to_end(self) -> bool:
        return simple_name(self.frame.upper()) == "UnboundedFollowing"

    @property
    def has_null_bound(self) -> bool:
        """Whether its frame or offset has a null bound, on which Spark fails.

        Spark fails with no word of the query.
        """
        return any(end.foldable() and end.eval(None) is None for end in (self.frame.lower(), self.frame.upper()))

    @property
    def is_of_last_peer(self) -> bool:
        """Whether the result is the last peer's: its frame ends with tied rows."""
        to_current = simple_name(self.frame.upper()) == "CurrentRow"
        in_order = self.is_float_sum or simple_name(self.function) == "CollectList" or not self.is_decided
        return in_order and self.is_range and self.from_start and to_current

    @property
    def folds_frame(self) -> bool:
        """Whether floats are added or rows listed over `frames_of_values`, unordered."""
        open_frame = self.is_range and not (self.from_start and self.to_end) and not self.is_of_last_peer
        return open_frame and (self.is_float_sum or simple_name(self.function) in LISTS)

    @property
    def is_decided(self) -> bool:
        """Whether a one-row function takes the same among rows as among peers.

        True for all others.
        """
        name = simple_name(self.function)
        if name not in _PICKS:
            return True
        if self.function.ignoreNulls():
            return False
        lower, upper = simple_name(self.frame.lower()), simple_name(self.frame.upper())
        if name == "First":
            return self.from_start and upper in ("CurrentRow", "UnboundedFollowing")
        return name == "Last" and self.to_end and lower in ("CurrentRow", "UnboundedPreceding")

    @property
    def needs_order(self) -> bool:
        """Whether rows that tie must get an order."""
        name = simple_name(self.function)
        if name in _BY_PEERS or self.folds_frame:
            return False
        if name in _BY_POSITION or name in _PICKS or name in LISTS or self.is_float_sum:
            return True
        return not self.is_range and not (self.from_start and self.to_end)


def window_problems(catalyst: Catalyst, node: Plan) -> Iterator[InvalidQuery]:
    """What no order of rows can make certain in a Window node of an analysed plan."""
    ordered = not node.orderSpec().isEmpty()
    for call in _calls(node):
        text, whole = text_of(call.expression), call.from_start and call.to_end
        if call.has_null_bound:
            yield refusal(
                "window-frame", f"{text} looks null rows far", at=call.expression, hint="write a number, or unbounded"
            )
        if call.folds_frame and not catalyst.is_orderable(call.expression.dataType()):
            yield refusal(
                "function-order",
                f"{text} lists rows that tie, and its members have no order",
                at=call.expression,
                hint="list members of the maps, or map_entries(..) of them",
            )
        if not call.needs_order:
            continue
        # Nobody looks at the order of a list without one, but equal lists have to be equal: so it is that of all columns.
        if not ordered and not (whole and (call.is_float_sum or simple_name(call.function) in LISTS)):
            yield refusal(
                "function-order",
                f"{text} depends on the order of rows",
                at=call.expression,
                hint="state it: over (partition by .. order by ..)",
            )
        elif call.is_range and not whole and not call.is_of_last_peer and not call.is_decided:
            yield refusal(
                "function-order",
                f"{text} depends on the order of rows that tie",
                at=call.expression,
                hint="use min_by(.., ..) or max_by(.., ..) over the same rows, or write a frame of rows: rows between .. and ..",
            )


def folds_frame(call: Expression) -> bool:
    """Whether a WindowExpression adds floats, or lists rows, over a frame of values."""
    return _Call(call).folds_frame


def needs_order(node: Plan) -> bool:
    """Whether the order of a Window node is to be completed."""
    return any(call.needs_order for call in _calls(node))


def _calls(node: Plan) -> Iterator[_Call]:
    for named in items(node.windowExpressions()):
        yield from (_Call(part) for part in walk_expression(named) if simple_name(part) == "WindowExpression")


def with_total_order(catalyst: Catalyst, node: Plan, *, below: Plan, place: Attribute | None) -> Plan:
    """A Window node with a total order for the functions to which it matters.

    `place` is a column of the plan that orders what ties, if there is one, and no column of the result.
    """
    by_peers: list[Expression] = []
    by_position: list[Expression] = []
    for named in items(node.windowExpressions()):
        (by_position if _Call(named.child()).needs_order else by_peers).append(named)
    if not by_position:
        return node
    partition = items(node.partitionSpec())
    stated = items(node.orderSpec())
    order = completed(catalyst, partition, stated, below) if place is None else [*stated, ascending(catalyst, place)]
    if by_peers:
        below = window(catalyst, by_peers, partition, stated, below)
    renamed: list[Expression] = []
    of_peers: list[Expression] = []
    peers = [*partition, *(each.child() for each in stated)]
    for each in by_position:
        call = _Call(each.child())
        value = _with_order(catalyst, call, partition, order)
        if not call.is_of_last_peer:
            renamed.append(catalyst.named(value, str(each.name()), like=each))
            continue
        running = catalyst.named(value, "running")
        renamed.append(running)
        last = catalyst.expressions.aggregate.Last(running.toAttribute(), False).toAggregateExpression()
        of_peers.append(
            catalyst.named(over_rows(catalyst, last, peers, order, to_end=True), str(each.name()), like=each)
        )
    plan = window(catalyst, renamed, partition, order, below)
    if of_peers:
        plan = window(catalyst, of_peers, peers, order, plan)
    return plan if place is None and not of_peers else catalyst.logical.Project(node.output(), plan)


def window(
    catalyst: Catalyst, named: list[Expression], partition: list[Expression], order: list[Expression], below: Plan
) -> Plan:
    """A Window node."""
    none = catalyst.companion("scala.None")
    return catalyst.logical.Window(catalyst.seq(named), catalyst.seq(partition), catalyst.seq(order), below, none)


def over_rows(
    catalyst: Catalyst,
    function: Expression,
    partition: list[Expression],
    order: list[Expression],
    *,
    to_end: bool = False,
) -> Expression:
    """A function over the rows from its partition's first to the current or last."""
    last = "UnboundedFollowing" if to_end else "CurrentRow"
    frame = catalyst.expressions.SpecifiedWindowFrame(
        catalyst.companion(f"{_PACKAGE}.RowFrame"),
        catalyst.companion(f"{_PACKAGE}.UnboundedPreceding"),
        catalyst.companion(f"{_PACKAGE}.{last}"),
    )
    spec = catalyst.expressions.WindowSpecDefinition(catalyst.seq(partition), catalyst.seq(order), frame)
    return catalyst.expressions.WindowExpression(function, spec)


def ascending(catalyst: Catalyst, value: Expression) -> Expression:
    """Least first, nulls before."""
    direction = catalyst.companion(f"{_PACKAGE}.Ascending")
    return catalyst.companion(f"{_PACKAGE}.SortOrder").apply(value, direction, catalyst.seq([]))


def completed(
    catalyst: Catalyst, partition: list[Expression], order: list[Expression], below: Plan
) -> list[Expression]:
    """An order in which only equal rows tie.

    The plan's columns must have an order (`unordered_columns`).
    """
    known = {expr_id(each.child()) for each in order if is_attribute(each.child())}
    known |= {expr_id(each) for each in partition if is_attribute(each)}
    total = list(order)
    for column in _declared(below):
        if expr_id(column) not in known:
            total.append(ascending(catalyst, column))
        if holds_floats(column):
            total.append(ascending(catalyst, from_template(catalyst, "cast(x as string)", {"x": column})))
    return total


def unordered_columns(catalyst: Catalyst, plan: Plan) -> list[Expression]:
    """Columns of a plan that have no order, such as maps."""
    return [column for column in output_of(plan) if not catalyst.is_orderable(column.dataType())]


def tie_problems(catalyst: Catalyst, plan: Plan, *, at: Plan) -> Iterator[InvalidQuery]:
    """Columns that keep a plan's rows from a total order, reported at a node."""
    for column in unordered_columns(catalyst, plan):
        yield refusal(
            "function-order",
            f"rows that tie cannot be put in order: {_told(plan, column)} has none",
            at=at,
            hint="leave it out of this SELECT, or use its members",
        )


def _told(plan: Plan, column: Expression) -> str:
    """A column, or the expression that Spark names for a window."""
    made = items(plan.projectList()) if simple_name(plan) == "Project" else []
    for named in made:
        is_made = simple_name(named) == "Alias" and expr_id(named) == expr_id(column)
        if is_made and _OF_WINDOWS.fullmatch(str(named.name())):
            return text_of(named.child())
    return f"the column {shown(str(column.name()))}"


def _declared(plan: Plan) -> list[Expression]:
    """The columns of a plan in declared order, then those that windows made.

    Those of the relation below a selection in that relation's order.
    """
    output, base = output_of(plan), plan
    while simple_name(base) == "Window":
        (base,) = children(base)
    if simple_name(base) != "Project":
        return output
    places = {expr_id(column): place for place, column in enumerate(items(children(base)[0].output()))}
    # A column under another name stands where it stood.
    chosen = {expr_id(named): places.get(expr_id(source_of(named)), len(places)) for named in items(base.projectList())}
    return sorted(output, key=lambda column: chosen.get(expr_id(column), len(places)))


def source_of(named: Expression) -> Expression:
    """The column that a name is given to, the name itself for anything else."""
    renamed = simple_name(named) == "Alias" and is_attribute(named.child())
    return named.child() if renamed else named


def _with_order(catalyst: Catalyst, call: _Call, partition: list[Expression], order: list[Expression]) -> Expression:
    function = call.expression.windowFunction()
    if call.is_range or (call.from_start and call.to_end):
        return over_rows(catalyst, function, partition, order, to_end=call.to_end)
    spec = catalyst.expressions.WindowSpecDefinition(catalyst.seq(partition), catalyst.seq(order), call.frame)
    return catalyst.expressions.WindowExpression(function, spec)
