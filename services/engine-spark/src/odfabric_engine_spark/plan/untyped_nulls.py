"""Untyped NULL, as in `SELECT NULL AS q`, gets a storable type.

Owns giving it one where nobody asks which: as a placeholder of one branch of a UNION, which casts it, and in ORDER BY (SELECT NULL). Invariant:
only a constant NULL is changed, every column keeps its identity and its values, and columns of the result keep their types. A plan in which such a
column is used in another way stays as it is. Not here: results without a type, which are refused (`sql.output_column_rules`).
"""

from __future__ import annotations

from collections.abc import Iterator

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    expressions_of,
    is_attribute,
    output_of,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions, with_children

_FIELDS_MAX = (1 << 31) - 1
_NODES = frozenset({"Project", "Filter", "Aggregate", "Window", "Union", "Join"})
_READERS = frozenset({"Alias", "Cast", "SortOrder", "WindowSpecDefinition", "IsNull", "IsNotNull"})
"""Expressions to which the type of a null that is their child does not matter."""


def with_typed_nulls(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan without untyped NULL columns that only such expressions read."""
    # Most queries have no such column, and asking each column for its type costs as much as all the rest.
    if "null AS " not in str(plan.treeString(False, False, _FIELDS_MAX, False, False)):
        return plan
    if any(_is_void(column) for column in output_of(plan)):
        return plan
    typed = _TypedNulls(catalyst)
    found = typed.typed(plan)
    return found if typed.columns and not typed.is_read_otherwise(plan) and found.resolved() else plan


class _TypedNulls:
    """Gives types from the scans of one plan upwards.

    `columns` are those that have been given one.
    """

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._any_type = catalyst.companion("org.apache.spark.sql.types.BooleanType")
        self.columns: dict[int, Attribute] = {}

    def typed(self, plan: Plan) -> Plan:
        """A plan whose names for nothing have a type."""
        node = with_children(self._catalyst, plan, [self.typed(child) for child in children(plan)])
        return map_expressions(self._catalyst, node, self._replaced)

    def is_read_otherwise(self, plan: Plan) -> bool:
        """Whether one of the columns is read where its type may matter."""
        if any(is_attribute(each) and self._is_typed(each) for each in expressions_of(plan)) and not _is_plain(plan):
            return True
        readers = (reader for each in expressions_of(plan) for reader in self._readers(each))
        if any(simple_name(reader) not in _READERS or not _is_plain(plan) for reader in readers):
            return True
        return any(self.is_read_otherwise(child) for child in children(plan))

    def _readers(self, expression: Expression) -> Iterator[Expression]:
        """Expressions that have such a column for a child."""
        for child in children(expression):
            if is_attribute(child) and self._is_typed(child):
                yield expression
            yield from self._readers(child)

    def _is_typed(self, column: Attribute) -> bool:
        return expr_id(column) in self.columns

    def _replaced(self, part: Expression) -> Expression | None:
        if is_attribute(part):
            return self.columns.get(expr_id(part), part)
        if simple_name(part) not in ("Cast", "Alias"):
            return None
        value = part.child()
        known = is_attribute(value) and self._is_typed(value)
        if simple_name(part) == "Cast":
            return self._catalyst.null_literal(part.dataType()) if known else None
        if not known and not (simple_name(value) == "Literal" and _is_void(value)):
            return None
        named = part.withNewChildren(self._catalyst.seq([self._catalyst.null_literal(self._any_type)]))
        self.columns[expr_id(named)] = named.toAttribute()
        return named


def _is_plain(plan: Plan) -> bool:
    return simple_name(plan) in _NODES


def _is_void(value: Expression) -> bool:
    return str(value.dataType().typeName()) == "void"
