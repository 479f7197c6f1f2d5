"""Classify a query of one step: row-wise, or one keyed aggregate.

Owns the decision what can run incrementally: linear queries, and one keyed aggregate with linear parts below and above it.
Everything else is refused with a reason and a way around. Invariant: what is accepted obeys the law of transforms, that the net
output is the query over the net input. Not here: how the parts run (`record_mapping`, `aggregate_run`). Source:
docs/engine.md#operator-classes; docs/engine.md#lateness-and-state-expiry; docs/engine.md#exact-aggregates;
docs/engine.md#types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.plan.aggregates.aggregate_calls import CallReader, calls_of, group_columns
from odfabric_engine_spark.plan.column_lineage import Scan, columns_used, scans_of
from odfabric_engine_spark.plan.group_keys import has_bytes
from odfabric_engine_spark.plan.input_tables import InputTable, scan_alias
from odfabric_engine_spark.plan.predicate_pushdown import with_filters_pushed
from odfabric_engine_spark.plan.query_classes import AggregateQuery, LinearQuery
from odfabric_engine_spark.plan.resolution import ResolvedQuery
from odfabric_engine_spark.plan.time.event_times import EventTimes
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import (
    find_window,
    is_session_window,
    is_window_column,
)
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Plan,
    children,
    has_inner_plan,
    items,
    output_of,
    simple_name,
    walk_expression,
    walk_plan,
)
from odfabric_engine_spark.sql.lateness_hint import Lateness, no_lateness
from odfabric_engine_spark.sql.refusal import (
    OWN_COLUMN,
    PLAIN_FORMS,
    Refused,
    refusal,
    text_of,
)

LINEAR_NODES = frozenset({"Project", "Filter", "Generate", "Union"})
_REASONS = {
    "Join": ("join", "joins cannot run incrementally yet", None),
    "LateralJoin": ("join", "lateral joins cannot run incrementally yet", "use LATERAL VIEW explode(..)"),
    "Window": ("window-function", "window functions (OVER) cannot run incrementally yet", None),
    "Expand": (
        "grouping-sets",
        "overlapping windows, ROLLUP, CUBE and GROUPING SETS cannot run incrementally yet",
        "use one tumbling window, or one query per grouping",
    ),
    "Except": ("set-operation", "EXCEPT cannot run incrementally yet", "use UNION ALL and a condition"),
    "Intersect": ("set-operation", "INTERSECT cannot run incrementally yet", None),
    "Pivot": ("pivot", "PIVOT cannot run incrementally yet", "use sum(..) FILTER (WHERE ..)"),
    "Unpivot": ("pivot", "UNPIVOT cannot run incrementally yet", "use LATERAL VIEW stack(..)"),
}
_CONSTANTS = frozenset({"LocalRelation", "OneRowRelation", "Range"})


def classify(
    query: ResolvedQuery, tables: Mapping[str, InputTable], *, operation_name: str
) -> LinearQuery | AggregateQuery:
    """The class of a query over its inputs.

    `operation_name` is the output's column of operation types.

    Raises Refused with every operator that cannot run incrementally.
    """
    catalyst = query.catalyst
    plan = _simplified(catalyst, query.plan)
    problems = list(_problems(plan))
    if problems:
        raise Refused(problems)
    plan = with_filters_pushed(catalyst, plan)
    aggregates = [node for node in walk_plan(plan) if simple_name(node) == "Aggregate"]
    if not aggregates:
        if query.lateness is not None:
            raise no_lateness(query.lateness)
        names = [str(attribute.name()) for attribute in output_of(plan)]
        return LinearQuery(catalyst, plan, scans_of(plan), operation_name in names)
    return _aggregate_query(catalyst, plan, aggregates[0], query.lateness, tables)


def _aggregate_query(
    catalyst: Catalyst, plan: Plan, aggregate: Plan, lateness: Lateness | None, tables: Mapping[str, InputTable]
) -> AggregateQuery:
    below = children(aggregate)[0]
    scans = scans_of(below)
    event_times = {alias: table.vocabulary.event_time for alias, table in tables.items()}
    window = find_window(catalyst, aggregate, event_times)
    if window is None and _has_timed_window(aggregate, EventTimes(tables)):
        raise Refused([refusal("window", "branches make their windows apart", at=aggregate, hint=PLAIN_FORMS)])
    if lateness is not None and window is None:
        raise no_lateness(lateness)
    _check_system_columns(aggregate, scans, tables)
    columns = tuple(group_columns(aggregate))
    reader = CallReader(catalyst)
    calls = tuple(reader.read(call) for call in calls_of(aggregate))
    inputs = tuple(reader.inputs)
    lateness_us = None if lateness is None else lateness.us
    return AggregateQuery(catalyst, below, aggregate, plan, scans, columns, calls, inputs, window, lateness_us)


def _has_timed_window(aggregate: Plan, times: EventTimes) -> bool:
    """Whether it groups by a window over event times, be it made in several places."""
    (below,) = children(aggregate)
    return any(times.is_timed_window(group, below) for group in items(aggregate.groupingExpressions()))


def _simplified(catalyst: Catalyst, plan: Plan) -> Plan:
    """Without names and order: WITH inlined, no aliases and views, plain DISTINCT.

    DISTINCT as the aggregate that it is.
    """
    optimizer = "org.apache.spark.sql.catalyst.optimizer"
    plan = _without_names(catalyst, catalyst.with_inlined_ctes(plan))
    return catalyst.companion(f"{optimizer}.ReplaceDistinctWithAggregate").apply(plan)


def _without_names(catalyst: Catalyst, node: Plan) -> Plan:
    below = [_without_names(catalyst, child) for child in children(node)]
    if simple_name(node) in ("SubqueryAlias", "View", "PipeOperator", "Sort"):
        return below[0]  # an order without LIMIT, which is refused, says nothing
    return node.withNewChildren(catalyst.seq(below)) if below else node


def _problems(plan: Plan) -> Iterator[InvalidQuery]:
    """Every node that has no incremental form.

    An aggregate may be reached through row-wise operators only.
    """
    stack = [(plan, False, False)]
    while stack:
        node, below_aggregate, below_union = stack.pop()
        name = simple_name(node)
        if has_inner_plan(node):
            yield refusal("subquery", "a subquery is no row-wise expression", at=node, hint="write it as a join")
        if name == "Aggregate":
            yield from _aggregate_problems(node, below_aggregate=below_aggregate, below_union=below_union)
            below_aggregate = True
        elif name in _REASONS:
            rule, message, hint = _REASONS[name]
            yield refusal(rule, message, at=node, hint=hint)
        elif name in _CONSTANTS:
            if scan_alias(node) is None:
                hint = "select them from an input"
                yield refusal("constant-rows", "every part of a transform must read an input", at=node, hint=hint)
        elif name == "Generate" and not below_aggregate and _has_aggregate(node):
            yield refusal(
                "explode-above-aggregate",
                "rows of an aggregate cannot be exploded incrementally yet",
                at=node,
                hint="make a dataset of the aggregate and explode that",
            )
        elif name not in LINEAR_NODES:
            yield refusal("operator", f"{name} cannot run incrementally yet", at=node, hint=PLAIN_FORMS)
        below_union = below_union or name == "Union"
        stack.extend((child, below_aggregate, below_union) for child in children(node))


def _has_aggregate(plan: Plan) -> bool:
    return any(simple_name(node) == "Aggregate" for node in walk_plan(plan))


def _aggregate_problems(node: Plan, *, below_aggregate: bool, below_union: bool) -> Iterator[InvalidQuery]:
    if below_aggregate:
        yield refusal(
            "second-aggregate",
            "one query has one aggregate",
            at=node,
            hint="make a dataset of the first aggregate and derive the second from it",
        )
    elif below_union:
        yield refusal(
            "union-of-aggregates",
            "a UNION of aggregates cannot run incrementally yet",
            at=node,
            hint="put UNION ALL below the aggregate, or make two datasets",
        )
    if node.groupingExpressions().isEmpty():
        yield refusal(
            "global-aggregate",
            "an aggregate without GROUP BY cannot run incrementally yet",
            at=node,
            hint="group by a column or by window(..)",
        )
    for expression in items(node.groupingExpressions()):
        if any(is_session_window(part) for part in walk_expression(expression)):
            hint = "group by session_window(event_time, '..')"
            yield refusal("session-window", "session windows cannot run incrementally yet", at=expression, hint=hint)
            continue
        name = str(expression.dataType().typeName())
        nested = name == "array" or (name == "struct" and not is_window_column(expression))
        if nested or not has_bytes(expression):
            text = text_of(expression)
            yield refusal(
                "group-type",
                f"{text} is a {name}, which cannot be grouped by",
                at=expression,
                hint="group by its members",
            )


def _check_system_columns(aggregate: Plan, scans: tuple[Scan, ...], tables: Mapping[str, InputTable]) -> None:
    """Refuse aggregates over offset, op and system time: these obey no law.

    They say nothing of the relation.
    """
    used = columns_used(aggregate)
    names = {
        name
        for scan in scans
        for column, name in scan.columns.items()
        if column in used and name in tables[scan.alias].hidden
    }
    if names:
        text = "the system column {} can be read by queries without aggregates only"
        raise Refused(
            [refusal("system-column", text.format(name), at=aggregate, hint=OWN_COLUMN) for name in sorted(names)]
        )
