"""Conditions where Spark itself would ask them: as far below as they can go.

Owns moving filters down before a plan is cut. A stage is computed for all its keys, also those that a filter above would drop, so
without this an expression could fail, or cost, for rows that the query keeps away from it. The moves are Spark's own rules, so a
condition is asked of the rows of which plain Spark asks it. Invariant: nothing passes a filter that waits for the watermark: what is
below it stays over all rows. Not here: which conditions there are.
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import Catalyst, Plan, children, expr_id, output_of
from odfabric_engine_spark.incremental.input_table import marked_leaf
from odfabric_engine_spark.normalise.rebuild import with_children
from odfabric_engine_spark.normalise.timed import is_timed_filter

_RULES = ("EliminateOuterJoin", "BooleanSimplification", "PushDownPredicates", "ReorderJoin")
"""An outer join whose rows without a partner are filtered out is an inner one, which lets conditions pass to both sides. What all
parts of an OR demand is a condition of its own. Of several inner joins each meets a relation with which it has a condition, if there
is one: in FROM a, b, c the first two may have none, and a join without a key touches everything."""


def with_filters_pushed(catalyst: Catalyst, plan: Plan) -> Plan:
    """The same rows, filtered as early as Spark would filter them."""
    waiting: dict[int, Plan] = {}
    pushed = catalyst.settled(_set_apart(catalyst, plan, waiting), *_RULES)
    return _put_back(catalyst, pushed, waiting) if waiting else pushed


def _set_apart(catalyst: Catalyst, node: Plan, waiting: dict[int, Plan]) -> Plan:
    """The plan with a leaf in the place of each filter that waits; these, done below, by the first column of the leaf."""
    if is_timed_filter(node):
        leaf = marked_leaf(catalyst, output_of(node))
        below = [with_filters_pushed(catalyst, child) for child in children(node)]
        waiting[expr_id(leaf.output().head())] = with_children(catalyst, node, below)
        return leaf
    return with_children(catalyst, node, [_set_apart(catalyst, child, waiting) for child in children(node)])


def _put_back(catalyst: Catalyst, node: Plan, waiting: dict[int, Plan]) -> Plan:
    below = children(node)
    if not below and not node.output().isEmpty():
        return waiting.get(expr_id(node.output().head()), node)
    return with_children(catalyst, node, [_put_back(catalyst, child, waiting) for child in below])
