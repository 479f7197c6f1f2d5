"""NULL of no type, as in `SELECT NULL AS q`, which has no form in what is kept.

Owns giving it one: what has no type is always null, so a cast of it is NULL of the type that is asked for, and wherever nobody asks (a
placeholder of one branch of a UNION below its cast, ORDER BY (SELECT NULL)) it may be of any type. Invariant: every column keeps its identity and
its values, and columns of the result keep their types. Not here: results without a type and lists of such values, which are refused
(`validate.output_columns`, `stages.kept_types`).
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    output_of,
    simple_name,
)
from odfabric_engine_spark.normalise.rebuild import map_expressions, with_children

_FIELDS_MAX = (1 << 31) - 1
_VOID = "void"


def with_typed_nulls(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan without columns that have no type."""
    # Most queries have no such column, and asking each column for its type costs as much as all the rest.
    if "null" not in str(plan.treeString(False, False, _FIELDS_MAX, False, False)):
        return plan
    if any(_VOID in str(column.dataType().simpleString()) for column in output_of(plan)):
        return plan
    try:
        return _TypedNulls(catalyst).typed(plan)
    except _WithinOthers:
        return plan


class _WithinOthers(Exception):
    """A list or struct has members without a type."""


class _TypedNulls:
    """Gives types from the leaves of one plan upwards."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._any_type = catalyst.companion("org.apache.spark.sql.types.BooleanType")
        self._typed: dict[int, Attribute] = {}

    def typed(self, plan: Plan) -> Plan:
        """A plan whose names for nothing have a type."""
        node = with_children(self._catalyst, plan, [self.typed(child) for child in children(plan)])
        return map_expressions(self._catalyst, node, self._replaced)

    def _replaced(self, part: Expression) -> Expression | None:
        if is_attribute(part):
            return self._typed.get(expr_id(part), part)
        if simple_name(part) not in ("Cast", "Alias"):
            return None
        held = str(part.child().dataType().simpleString())
        if held != _VOID and _VOID in held:
            raise _WithinOthers
        if held != _VOID:
            return None
        if simple_name(part) == "Cast":
            return self._catalyst.null_literal(part.dataType())
        named = part.withNewChildren(self._catalyst.seq([self._catalyst.null_literal(self._any_type)]))
        self._typed[expr_id(named)] = named.toAttribute()
        return named
