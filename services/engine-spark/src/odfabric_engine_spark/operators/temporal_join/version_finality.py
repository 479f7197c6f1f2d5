"""Temporal (as-of) joins: when a row and a version are final."""

from __future__ import annotations

from odfabric_engine_spark.operators.expiry.finality import time_of_temporal_join
from odfabric_engine_spark.plan.column_lineage import substitute
from odfabric_engine_spark.plan.partitioning.partition_keys import (
    Node,
    Value,
    VersionRows,
    note_finals,
)
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    expr_id,
    items,
    simple_name,
    without_alias,
)


def version_rows(catalyst: Catalyst, plan: Plan, union: Node, value: Value) -> VersionRows | None:
    """The time-bounded part of a temporal join over the union of rows and versions.

    None if several relations have versions, or some row has no time.
    """
    rows, versions = (tuple(side.scans()) for side in union.children)
    conditions = conditions_below(catalyst, union.children[1])
    time = value.columns.get(expr_id(time_of_temporal_join(plan)), {})
    keys = [value.columns.get(expr_id(key), {}) for key in items(plan.partitionSpec())]
    if len(versions) != 1 or conditions is None or not note_finals(time, (*rows, *versions)):
        return None
    (scan,) = versions
    if any(scan not in key for key in keys):
        return None
    return VersionRows(rows, scan, tuple(key[scan] for key in keys), conditions)


def conditions_below(catalyst: Catalyst, node: Node) -> tuple[Expression, ...] | None:
    """What the rows of a scan must pass on their way to a relation, over the scan.

    None if they are more than passed on.
    """
    found: list[Expression] = []
    while node.scan is None:
        name = simple_name(node.plan)
        if name == "Filter":
            found.append(node.plan.condition())
        elif name == "Project":
            named = {expr_id(each): without_alias(each) for each in items(node.plan.projectList())}
            found = [substitute(catalyst, each, named) for each in found]
        else:
            return None
        (node,) = node.children
    return tuple(found)
