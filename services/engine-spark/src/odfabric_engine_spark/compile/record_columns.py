"""Row-wise queries that read offset, operation or system time of a record.

Owns the refusal of queries whose rows depend on `offset`, `op` or `system_time`. Invariant: an accepted query says the same of a
row and of the record that takes it back, so that it withdraws rows that it gave (law L3). One that gives `op` itself says what
each record is, and is not asked. Not here: queries that are not row-wise (`plan.unsupported_plans`, `row_wise_query`).
Source: docs/engine.md#the-law-of-transforms; docs/engine.md#operator-classes; ADR 0045.
"""

from __future__ import annotations

from collections.abc import Mapping

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.compile.plan_to_stages import without_unread
from odfabric_engine_spark.plan.column_lineage import columns_used
from odfabric_engine_spark.plan.input_tables import InputTable, scan_alias
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Expression,
    expr_id,
    expressions_of,
    is_attribute,
    walk_expression,
    walk_plan,
)
from odfabric_engine_spark.sql.corrections.unknown_names import quoted
from odfabric_engine_spark.sql.refusal import Refused, in_order, refusal


def check_records_unread(query: LinearQuery, tables: Mapping[str, InputTable], *, operation: str) -> None:
    """Raises Refused with the place of each system column on which rows depend.

    `operation` is the output's column of operations.
    """
    if query.op_selected:
        return
    hidden = {
        column: name
        for scan in query.scans
        for column, name in scan.columns.items()
        if name in tables[scan.alias].hidden
    }
    if hidden.keys().isdisjoint(columns_used(query.plan)):
        return
    read = columns_used(without_unread(query.catalyst, query.plan)) & hidden.keys()
    if read:
        places = _first_uses(query, {column: hidden[column] for column in read})
        raise Refused(in_order([_refusal(name, place, operation) for name, place in places.items()]))


def _first_uses(query: LinearQuery, names: Mapping[int, str]) -> dict[str, Expression]:
    """Where each of these columns (by id) is first read, from the plan's root down."""
    nodes = [node for node in walk_plan(query.plan) if scan_alias(node) is None]
    parts = [part for node in nodes for each in expressions_of(node) for part in walk_expression(each)]
    return {names[expr_id(part)]: part for part in parts if is_attribute(part) and expr_id(part) in names}


def _refusal(name: str, place: Expression, operation: str) -> InvalidQuery:
    column = quoted((name,))
    message = (
        f"{column} is that of each record: a retraction has its own, and would take back a row that was never there"
    )
    instead = f"select {quoted((operation,))} too, and records are passed on as they are"
    hint = instead if name == operation else f"{instead}; or do without {column}"
    return refusal("system-column", message, at=place, hint=hint)
