"""From an analysed plan to a normal one: the order of all rewrites.

Owns which nodes a normal plan has and the order of the rewrites. A normal plan holds scans (uses of inputs, constants),
Project, Filter, Generate, Expand, Aggregate, Window, Join and Union; no subqueries in expressions, no names, no order. What
waits for the watermark is a Filter of its own (`wait_for_watermark`). Invariant: over any rows the normal plan is the query, with ties in
windows broken by all columns and floats added in ascending order; nothing is evaluated for a row that a condition of the query
keeps away from it in plain Spark. EXCEPT, INTERSECT and DISTINCT compare rows as keys: -0.0 is 0.0, NaN is NaN, NULL is NULL; that is
Spark's own meaning. Not here: keys, stages, state (`operators`). Source: docs/engine.md#operator-classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError

from odfabric_engine_spark.plan.aggregates.count_forms import with_plain_counts
from odfabric_engine_spark.plan.between_comparisons import with_plain_comparisons
from odfabric_engine_spark.plan.duplicated_inputs import NO_DUPLICATES, DuplicatedInputs
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.joins.lateral_temporal_join import without_lateral
from odfabric_engine_spark.plan.joins.outer_interval_join import has_bounded_join, with_waiting_joins
from odfabric_engine_spark.plan.joins.temporal_join import TemporalJoinReader
from odfabric_engine_spark.plan.limit_offset import with_numbers, without_limit
from odfabric_engine_spark.plan.order_independence.nested_window_order import places_below
from odfabric_engine_spark.plan.order_independence.order_independent_aggregates import with_exact_aggregates
from odfabric_engine_spark.plan.order_independence.sorted_lists import with_sorted_lists
from odfabric_engine_spark.plan.order_independence.window_functions import with_total_order
from odfabric_engine_spark.plan.predicate_pushdown import with_filters_pushed
from odfabric_engine_spark.plan.resolution import ResolvedQuery
from odfabric_engine_spark.plan.subqueries.decorrelation import Subqueries
from odfabric_engine_spark.plan.time.event_times import EventTimes
from odfabric_engine_spark.plan.time.wait_for_watermark import has_timed_filter, with_timed_windows
from odfabric_engine_spark.plan.unsupported_plans import check_analysed, check_normal
from odfabric_engine_spark.plan.untyped_nulls import with_typed_nulls
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, Plan, children, simple_name
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_inner_plans, with_children
from odfabric_engine_spark.sql.lateness_hint import no_lateness
from odfabric_engine_spark.sql.spark_errors import spark_refused

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_NAMES = frozenset({"SubqueryAlias", "View", "PipeOperator"})
_SET_OPERATIONS = (
    "RewriteExceptAll",
    "RewriteIntersectAll",
    "ReplaceIntersectWithSemiJoin",
    "ReplaceExceptWithAntiJoin",
    "ReplaceDistinctWithAggregate",
)


@dataclass(frozen=True, slots=True)
class NormalQuery:
    """A query as a normal plan.

    `timed`: part of it waits for the watermark. `times` are the event times of its plans.

    `duplicates` are the uses of inputs that are read in several places, where rows may come only so late.
    """

    catalyst: Catalyst
    plan: Plan
    lateness_us: int | None
    timed: bool
    times: EventTimes
    duplicates: DuplicatedInputs


def normal_plan(
    query: ResolvedQuery, tables: Mapping[str, InputTable], temporal_tables: Mapping[str, tuple[str, ...]]
) -> NormalQuery:
    """The normal plan of a resolved query.

    `temporal_tables` gives primary keys by name. Raises Refused.
    """
    catalyst = query.catalyst
    try:
        inlined = catalyst.with_inlined_ctes(query.plan)
        check_analysed(catalyst, inlined, tables)
        times = EventTimes(tables)
        plan = _Plain(catalyst, times, temporal_tables).plain(inlined)
        duplicates = NO_DUPLICATES if query.lateness is None else DuplicatedInputs.of(inlined, plan)
    except Py4JError as error:
        raise spark_refused(error) from error
    plan = with_plain_comparisons(catalyst, with_sorted_lists(catalyst, with_typed_nulls(catalyst, plan)))
    plan = with_filters_pushed(catalyst, plan)
    plan = with_timed_windows(catalyst, with_exact_aggregates(catalyst, plan), times)
    plan = with_waiting_joins(catalyst, plan, times)
    check_normal(catalyst, plan)
    timed = has_timed_filter(plan)
    if query.lateness is not None and not (timed or has_bounded_join(catalyst, plan, times)):
        raise no_lateness(query.lateness)
    return NormalQuery(catalyst, plan, None if query.lateness is None else query.lateness.us, timed, times, duplicates)


class _Plain:
    """Rewrites names, set operations, LATERAL, subqueries, window ties, inside out."""

    def __init__(self, catalyst: Catalyst, times: EventTimes, primary_keys: Mapping[str, tuple[str, ...]]) -> None:
        self._catalyst = catalyst
        self._subqueries = Subqueries(catalyst)
        self._temporal_joins = TemporalJoinReader(catalyst, times, primary_keys, self.plain)

    def plain(self, plan: Plan) -> Plan:
        """A plan of plain nodes. Raises Refused.

        Set operations go last: Spark takes correlated subqueries out of them, not out of the joins that they become.
        """
        plan = self._node(with_numbers(self._catalyst, plan))
        for rule in _SET_OPERATIONS:
            plan = self._catalyst.companion(f"{_OPTIMIZER}.{rule}").apply(plan)
        return plan

    def _node(self, node: Plan) -> Plan:
        below = [self._node(child) for child in children(node)]
        if simple_name(node) in _NAMES:
            return below[0]
        node = with_children(self._catalyst, node, below)
        if simple_name(node) == "LateralJoin":
            plain = without_lateral(self._catalyst, node, self._temporal_joins)
            if plain is not None:
                return plain
            return self._subqueries.beside(map_inner_plans(self._catalyst, node, self._inner))
        if simple_name(node) == "Window":
            places = places_below(self._catalyst, node)
            if places is None:
                return with_total_order(self._catalyst, node, below=children(node)[0], place=None)
            return with_total_order(self._catalyst, node, below=places.plan, place=places.column)
        return self._subqueries.joined(map_inner_plans(self._catalyst, node, self._inner))

    def _inner(self, expression: Expression, plan: Plan) -> Plan:
        """What an expression holds, as a plan of plain nodes and set operations."""
        if simple_name(expression) == "Exists":
            plan = without_limit(plan)
        return with_plain_counts(self._catalyst, self._node(with_numbers(self._catalyst, plan)))
