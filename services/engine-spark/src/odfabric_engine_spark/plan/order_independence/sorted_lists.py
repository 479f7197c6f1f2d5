"""Sort the lists that aggregate functions make.

Owns the sorting of lists of groups that leave their Aggregate node as they were made. Nobody looks at the order of their members (`sql.row_order_dependence`), but
rows that hold them are compared: what is withdrawn has to be equal to what was given. Invariant: a list that leaves an Aggregate node is
a function of the multiset of its members. Not here: lists of windows, whose order is that of all columns (`window_functions`).
"""

from __future__ import annotations

from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, Plan, children, simple_name
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions, with_children
from odfabric_engine_spark.spark.catalyst.sql_templates import from_template
from odfabric_engine_spark.sql.row_order_dependence import looks_at_order


def with_sorted_lists(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan with ascending lists of groups, unless the query orders them."""
    node = with_children(catalyst, plan, [with_sorted_lists(catalyst, child) for child in children(plan)])
    if simple_name(node) != "Aggregate":
        return node
    return map_expressions(catalyst, node, lambda part: _sorted(catalyst, part))


def _sorted(catalyst: Catalyst, named: Expression) -> Expression | None:
    """What a column of a group becomes, None where it stays and for parts of others."""
    if simple_name(named) != "Alias" or str(named.dataType().typeName()) != "array":
        return None
    if not looks_at_order(catalyst, named):
        return None
    return named.withNewChildren(catalyst.seq([from_template(catalyst, "sort_array(value)", {"value": named.child()})]))
