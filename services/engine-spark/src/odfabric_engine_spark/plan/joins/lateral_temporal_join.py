"""Rewrite LATERAL temporal (as-of) joins to plain nodes.

Owns the plan of a temporal join: the union of rows and versions, by key in the order of their times, in which each row takes the
last version before it. That is the temporal join: versions of one key and time come in the reverse of the query's order completed by
all columns, so the last one at or before the row's time is the one that the query puts first. Invariant: rows wait for
the watermark and keep their duplicates; no row meets more than one version. Not here: what a temporal join says (`temporal_join`).
Source: docs/engine.md#temporal-joins.
"""

from __future__ import annotations

from odfabric_engine_spark.plan.joins.temporal_join import FORM, TemporalJoin, TemporalJoinReader
from odfabric_engine_spark.plan.order_independence.window_functions import ascending, completed, over_rows, window
from odfabric_engine_spark.plan.subqueries.lateral_of_row import over_the_row
from odfabric_engine_spark.plan.time.wait_for_watermark import wait_for
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    output_of,
    simple_name,
)
from odfabric_engine_spark.sql.refusal import Refused, refusal

LOOKED_UP = "__odf_looked_up"
"""The column in which each row has its version. It is made over the union of rows and versions, in that order, by key, time and side."""

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


def without_lateral(catalyst: Catalyst, node: Plan, reader: TemporalJoinReader) -> Plan | None:
    """Plain nodes for a LateralJoin whose left side is plain.

    None for a subquery of all rows that go with a row. Raises Refused.
    """
    by_row = over_the_row(catalyst, node)
    if by_row is not None:
        return by_row
    temporal_join = reader.read(node)
    if temporal_join is None:
        return None
    is_outer = str(node.joinType().toString()) == "LeftOuter"
    condition = node.condition().get() if node.condition().isDefined() else catalyst.literal_true()
    always = condition.semanticEquals(catalyst.literal_true())
    if is_outer and not always:
        raise Refused([refusal("temporal-join", "LEFT JOIN LATERAL is ON TRUE", at=node, hint=f"left {FORM} on true")])
    (left,) = children(node)
    found = _Joiner(catalyst, temporal_join, left).joined(output_of(node.right().plan()), is_outer=is_outer)
    return found if always else catalyst.logical.Filter(condition, found)


class _Joiner:
    """Builds the plan of one look-up."""

    def __init__(self, catalyst: Catalyst, temporal_join: TemporalJoin, left: Plan) -> None:
        self._catalyst = catalyst
        self._temporal_join = temporal_join
        self._left = left
        # At equal times versions come before rows, and after them where the query asks for earlier ones.
        self._row_side, self._version_side = (
            _integer(catalyst, int(each is temporal_join.strict)) for each in (False, True)
        )
        versions = [version for _, version in temporal_join.keys] + [temporal_join.times[0][1]]
        self._order = completed(catalyst, versions, temporal_join.order[1:], temporal_join.versions)

    def joined(self, output: list[Attribute], *, is_outer: bool) -> Plan:
        """Rows with the results of their version under the given columns."""
        make = self._catalyst.logical
        union = make.Union(self._catalyst.seq([self._rows(), self._versions()]), False, False)
        columns = output_of(union)
        count, end = len(self._temporal_join.keys), len(columns) - len(self._order)
        keys, (time, side, version), own = columns[:count], columns[count : count + 3], columns[count + 3 : end]
        order = [ascending(self._catalyst, time), ascending(self._catalyst, side)]
        order += [self._reversed(one, column) for one, column in zip(self._order, columns[end:], strict=True)]
        found = self._catalyst.named(over_rows(self._catalyst, self._last(version), keys, order), LOOKED_UP)
        column = found.toAttribute()
        conditions = [self._catalyst.expressions.EqualTo(side, self._row_side)]
        if not is_outer:
            conditions.append(self._catalyst.expressions.IsNotNull(column))
        taken = make.Filter(self._catalyst.all_of(conditions), window(self._catalyst, [found], keys, order, union))
        results = [
            self._catalyst.named(self._catalyst.member(column, index), str(each.name()), like=each)
            for index, each in enumerate(output)
        ]
        return make.Project(self._catalyst.seq([*own, *results]), taken)

    def _rows(self) -> Plan:
        row_time, _ = self._temporal_join.times[0]
        rows = wait_for(self._catalyst, _as_timestamp(self._catalyst, row_time), self._left)
        nothing = self._catalyst.null_literal(self._result().dataType())
        places = [self._catalyst.null_literal(one.child().dataType()) for one in self._order]
        keys = [row for row, _ in self._temporal_join.keys]
        return self._branch([*keys, row_time, self._row_side, nothing], output_of(rows), places, rows)

    def _versions(self) -> Plan:
        keys = [version for _, version in self._temporal_join.keys]
        _, time = self._temporal_join.times[0]
        known = [self._catalyst.expressions.IsNotNull(each) for each in [*keys, time]]
        plan = self._catalyst.logical.Filter(
            self._catalyst.all_of([*self._temporal_join.own, *known]), self._temporal_join.versions
        )
        absent = [
            self._catalyst.named(self._catalyst.null_literal(column.dataType()), str(column.name()))
            for column in output_of(self._left)
        ]
        places = [one.child() for one in self._order]
        return self._branch([*keys, time, self._version_side, self._result()], absent, places, plan)

    def _branch(self, found_by: list[Expression], own: list[Expression], places: list[Expression], plan: Plan) -> Plan:
        """A branch of the union: keys, time, side, version, own columns, version order."""
        named = [
            *(self._catalyst.named(each, f"by{index}") for index, each in enumerate(found_by)),
            *own,
            *(self._catalyst.named(each, f"place{index}") for index, each in enumerate(places)),
        ]
        return self._catalyst.logical.Project(self._catalyst.seq(named), plan)

    def _reversed(self, order: Expression, column: Expression) -> Expression:
        """The opposite of an order, of a column that has what it puts in order."""
        opposite = {"Ascending": "Descending", "NullsFirst": "NullsLast"}
        opposite |= {after: before for before, after in opposite.items()}
        direction, nulls = (
            self._catalyst.companion(f"{_EXPRESSIONS}.{opposite[simple_name(each)]}")
            for each in (order.direction(), order.nullOrdering())
        )
        return self._catalyst.expressions.SortOrder(column, direction, nulls, self._catalyst.seq([]))

    def _result(self) -> Expression:
        """What the query selects of a version, in one struct that is never null."""
        return self._catalyst.struct(self._temporal_join.results)

    def _last(self, version: Expression) -> Expression:
        aggregate = self._catalyst.expressions.aggregate
        complete = self._catalyst.companion(f"{_EXPRESSIONS}.aggregate.Complete")
        none = self._catalyst.companion("scala.None")
        new_id = self._catalyst.companion(f"{_EXPRESSIONS}.NamedExpression").newExprId()
        return aggregate.AggregateExpression(aggregate.Last(version, True), complete, False, none, new_id)


def _integer(catalyst: Catalyst, value: int) -> Expression:
    return catalyst.companion(f"{_EXPRESSIONS}.Literal").apply(value)


def _as_timestamp(catalyst: Catalyst, time: Expression) -> Expression:
    if str(time.dataType().typeName()) == "timestamp":
        return time
    from_midnight = catalyst.companion("org.apache.spark.sql.types.TimestampType")
    return catalyst.companion(f"{_EXPRESSIONS}.Cast").apply(time, from_midnight, True).withTimeZone("UTC")
