"""From results of aggregates to rows of the output.

Owns the part of a query above its aggregate (projections, HAVING), run over a table of groups. The analysed plan stays as it
is; the aggregate becomes a projection of a table with a column for each key and each function. Not here: what groups hold
(`aggregate_functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.types import _parse_datatype_json_string

from odfabric_engine_spark.arrays.parallel_columns import joined
from odfabric_engine_spark.plan.aggregates.aggregate_calls import calls_of
from odfabric_engine_spark.plan.group_keys import GroupColumn
from odfabric_engine_spark.plan.input_tables import marked_relation, marked_schema
from odfabric_engine_spark.rows.failing_rows import Described
from odfabric_engine_spark.rows.row_batches import in_pieces
from odfabric_engine_spark.rows.row_mapping import RowMapping
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    OWN_PREFIX,
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    is_attribute,
    items,
    output_of,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.sql.refusal import name_of

GROUP_ID = "__odf_group"


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The part above the aggregate, ready for groups."""

    mapping: RowMapping
    key_names: tuple[str, ...]
    result_names: tuple[str, ...]

    @classmethod
    def of(cls, catalyst: Catalyst, aggregate: Plan, above: Plan, columns: Sequence[GroupColumn]) -> GroupRows:
        """From an aggregate, its grouping columns and the plan `above` that ends with it."""
        calls = list(calls_of(aggregate))
        key_names = tuple(column.name for column in columns)
        result_names = tuple(f"result{index}" for index in range(len(calls)))
        expressions = [*(column.expression for column in columns), *calls]
        fields = [
            _field(name, expression) for name, expression in zip((*key_names, *result_names), expressions, strict=True)
        ]
        scan = marked_relation(catalyst, marked_schema(spark_types.StructType(fields), "groups"))
        replaced = list(zip(expressions, output_of(scan), strict=True))
        named = [_replace_named(catalyst, item, replaced) for item in items(aggregate.aggregateExpressions())]
        groups = catalyst.logical.Project(catalyst.seq(named), scan)
        plan = _put(catalyst, above, groups)
        labels = (*(column.label or OWN_PREFIX for column in columns), *map(name_of, calls))
        mapping = RowMapping.of(catalyst, plan, output_of(plan), described=[Described("the groups", labels)])
        return cls(mapping, key_names, result_names)

    def output(self, groups: pa.Table, call: EngineCall, check: Callable[[int], None]) -> pa.Table:
        """Rows for groups, as Spark gives them, with `GROUP_ID` last.

        A group that HAVING drops has none.

        `groups` has the keys, the results, and `GROUP_ID`. `check` raises where so many bytes are too many.
        """
        found, size = [], 0
        for rows in in_pieces([groups], self.mapping.table, call, rows_max=groups.num_rows):
            found.append(rows)
            size += rows.nbytes
            check(size)
        return joined(found)


def _field(name: str, expression: Expression) -> spark_types.StructField:
    data_type = _parse_datatype_json_string(expression.dataType().json())
    return spark_types.StructField(name, data_type, bool(expression.nullable()))


def _put(catalyst: Catalyst, node: Plan, groups: Plan) -> Plan:
    if simple_name(node) == "Aggregate":
        return groups
    (child,) = children(node)
    return node.withNewChildren(catalyst.seq([_put(catalyst, child, groups)]))


def _replace_named(catalyst: Catalyst, named: Expression, replaced: list[tuple[Expression, Attribute]]) -> Expression:
    """A named result with keys and calls replaced; its column id stays."""
    value = without_alias(named)
    return catalyst.named(_replace(catalyst, value, replaced), str(named.name()), like=named)


def _replace(catalyst: Catalyst, expression: Expression, replaced: list[tuple[Expression, Attribute]]) -> Expression:
    for old, new in replaced:
        if expression.semanticEquals(old):
            return new
    below = children(expression)
    if not below or is_attribute(expression):
        return expression
    return expression.withNewChildren(catalyst.seq([_replace(catalyst, child, replaced) for child in below]))
