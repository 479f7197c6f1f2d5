"""Counts in the form that Spark's subquery rules know.

Owns writing the functions that count rows of a kind as the count that they are: where a subquery finds no row its value is what its functions
give for none, and the rules ask each function for that. One that Spark puts another in the place of, later, has no answer, and would be null
where it is zero. Invariant: a group's value stays. Not here: functions that are null of no rows.
"""

from __future__ import annotations

from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, Plan, children, simple_name
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions, with_children

_COUNTS = frozenset({"CountIf", "RegrCount"})


def with_plain_counts(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan of a subquery, whose aggregates count by `count` alone."""
    node = with_children(catalyst, plan, [with_plain_counts(catalyst, child) for child in children(plan)])
    if simple_name(node) != "Aggregate":
        return node
    return map_expressions(catalyst, node, lambda part: _plain(catalyst, part))


def _plain(catalyst: Catalyst, part: Expression) -> Expression | None:
    if simple_name(part) != "AggregateExpression" or simple_name(part.aggregateFunction()) not in _COUNTS:
        return None
    return part.withNewChildren(catalyst.seq([part.aggregateFunction().replacement(), *children(part)[1:]]))
