"""Expressions written as SQL over given operands.

Owns the way from a text to a resolved expression without resolving the plan that it goes into, which may hold columns that
do not exist yet. Invariant: each use has column and aggregate ids of its own. Not here: SQL of users (`sql`).
"""

from __future__ import annotations

from collections.abc import Mapping

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    analysed,
    expr_id,
    expressions_of,
    is_attribute,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expression


def from_template(catalyst: Catalyst, sql: str | Expression, operands: Mapping[str, Expression]) -> Expression:
    """The expression that a text, or an unresolved expression, means.

    Names in it are operands.
    """
    columns = [catalyst.named(catalyst.null_literal(operand.dataType()), name) for name, operand in operands.items()]
    row = catalyst.logical.Project(catalyst.seq(columns), catalyst.logical.OneRowRelation())
    unresolved = catalyst.parse_expression(sql) if isinstance(sql, str) else sql
    wanted = catalyst.logical.Project(catalyst.seq([catalyst.named(unresolved, "result")]), row)
    resolved = expressions_of(analysed(catalyst.data_frame(wanted)))[-1].child()
    values = {expr_id(column): operand for column, operand in zip(columns, operands.values(), strict=True)}

    def replace(part: Expression) -> Expression | None:
        return values.get(expr_id(part)) if is_attribute(part) else None

    return map_expression(catalyst, resolved, replace)
