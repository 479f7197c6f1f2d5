"""Prune branches of UNION that give no row, whatever the inputs have.

Owns leaving them out. A view of several sources names each (`'shop' AS source`), and who reads one of them (`WHERE source = 'shop'`)
meets a condition over constants in each other branch: without this every one of them would have its stages and its state. Invariant:
the rows are the same, columns keep their ids, and a constant that cannot be computed says nothing. Not here: moving conditions into
branches (`predicate_pushdown`).
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric_engine_spark.plan.join_keys import LEFT_KEPT, RIGHT_KEPT, join_kind
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    output_of,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import with_children
from odfabric_engine_spark.sql.constants.constant_sizes import NotComputed, value_of

_GIVES_NONE_FOR_NONE = frozenset({"Project", "Window", "Expand"})
_NEEDS_RIGHT = RIGHT_KEPT | {"LeftSemi"}


def without_dead_branches(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan without those branches.

    Where there are any, also without conditions that always hold.
    """
    union = catalyst.companion("org.apache.spark.sql.catalyst.trees.TreePattern").UNION()
    return _living(catalyst, plan)[0] if plan.containsPattern(union) else plan


def _living(catalyst: Catalyst, node: Plan) -> tuple[Plan, bool]:
    """The plan so, and whether it gives no row."""
    found = [_living(catalyst, child) for child in children(node)]
    below, dead = [plan for plan, _ in found], [is_dead for _, is_dead in found]
    node = with_children(catalyst, node, below)
    name = simple_name(node)
    if name == "Filter":
        never = any(_is_constant(part, holds=False) for part in conjuncts(node.condition()))
        return _without_settled(catalyst, node), dead[0] or never
    if name != "Union":
        return node, _gives_nothing(node, name, dead)
    living = [plan for plan, is_dead in found if not is_dead]
    if not living or len(living) == len(below):
        return node, not living
    first = _with_columns_of(catalyst, node, living[0])
    return (first if len(living) == 1 else node.withNewChildren(catalyst.seq([first, *living[1:]]))), False


def _gives_nothing(node: Plan, name: str, dead: Sequence[bool]) -> bool:
    """Whether a node gives no row where some below it give none."""
    if name in _GIVES_NONE_FOR_NONE or (name == "Aggregate" and not node.groupingExpressions().isEmpty()):
        return dead[0]
    if name == "Generate":
        return dead[0] and not node.outer()
    if name != "Join" or not any(dead):
        return False
    kind, (left, right) = join_kind(node), dead
    return (kind in LEFT_KEPT and left) or (kind in _NEEDS_RIGHT and right)


def _with_columns_of(catalyst: Catalyst, union: Plan, branch: Plan) -> Plan:
    """A branch with the union's columns, whose ids are those of its first branch."""
    columns = zip(output_of(branch), output_of(union), strict=True)
    named = [catalyst.named(own, str(known.name()), like=known) for own, known in columns]
    return catalyst.logical.Project(catalyst.seq(named), branch)


def _without_settled(catalyst: Catalyst, node: Plan) -> Plan:
    """A filter without the parts that hold for every row."""
    parts = conjuncts(node.condition())
    asked = [part for part in parts if not _is_constant(part, holds=True)]
    if len(asked) == len(parts):
        return node
    (below,) = children(node)
    return catalyst.logical.Filter(catalyst.all_of(asked), below) if asked else below


def _is_constant(condition: Expression, *, holds: bool) -> bool:
    """Whether a condition over nothing but constants holds for every row, or for none."""
    if not condition.foldable():
        return False
    try:
        return (value_of(condition) is True) is holds
    except (NotComputed, PySparkException, Py4JError):
        return False
