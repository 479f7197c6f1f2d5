"""Recognise row-wise queries, whose records are those of their inputs one by one.

Owns which queries need no state and no stages: project, filter, explode and UNION ALL over inputs. What is none of these is compiled
to stages. Invariant: each row of the result is made of one row of one input. Not here: how they run
(`record_transaction`). Source: docs/engine.md#operator-classes; docs/engine.md#row-identity-and-pairs.
"""

from __future__ import annotations

from odfabric_engine_spark.plan.column_lineage import scans_of
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.predicate_pushdown import with_filters_pushed
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.plan.resolution import ResolvedQuery
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Plan,
    children,
    has_inner_plan,
    output_of,
    simple_name,
    walk_plan,
)

_ROW_WISE_NODES = frozenset({"Project", "Filter", "Generate", "Union"})
_NAMES_AND_ORDER = frozenset({"SubqueryAlias", "View", "PipeOperator", "Sort"})


def row_wise_query(query: ResolvedQuery, *, operation_name: str) -> LinearQuery | None:
    """The query if it is row-wise; `operation_name` is the output's column of ops.

    None for a query with a lateness, which has a meaning only where something waits for the watermark.
    """
    catalyst = query.catalyst
    plan = _without_names(catalyst, catalyst.with_inlined_ctes(query.plan))
    if query.lateness is not None or not all(map(_is_row_wise, walk_plan(plan))):
        return None
    plan = with_filters_pushed(catalyst, plan)
    names = [str(attribute.name()) for attribute in output_of(plan)]
    return LinearQuery(catalyst, plan, scans_of(plan), operation_name in names)


def _is_row_wise(node: Plan) -> bool:
    is_node = simple_name(node) in _ROW_WISE_NODES or scan_alias(node) is not None
    return is_node and not has_inner_plan(node)


def _without_names(catalyst: Catalyst, node: Plan) -> Plan:
    below = [_without_names(catalyst, child) for child in children(node)]
    if simple_name(node) in _NAMES_AND_ORDER:
        return below[0]  # an order without LIMIT, which is refused, says nothing
    return node.withNewChildren(catalyst.seq(below)) if below else node
