"""Column types that cannot pass between stages or be stored.

Owns which types these are, and what to write instead. Invariant: every column that passes between stages, or whose rows a stage
keeps by key, has a form in Arrow and canonical bytes. Not here: the types of results (`sql.output_column_rules`), of keys
(`plan.group_keys`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import types as spark_types
from pyspark.sql.types import _parse_datatype_json_string

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.plan.partitioning.stages import GroupStage, RowsStage, Stage
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Expression,
    Plan,
    TreeNode,
    children,
    expr_id,
    expressions_of,
    simple_name,
    walk_expression,
    without_alias,
)
from odfabric_engine_spark.sql.output_column_rules import MEMBERS_APART, doubled_member
from odfabric_engine_spark.sql.refusal import (
    Refused,
    in_order,
    is_placed,
    refusal,
    shown,
    source_text,
)

_WITHOUT_FORM: dict[type[spark_types.DataType], str] = {
    spark_types.VariantType: "keep the text, and take it apart by parse_json(..) where its members are used",
    spark_types.YearMonthIntervalType: "keep the number of months, and make the interval where it is used",
    spark_types.CalendarIntervalType: "keep its numbers, and make the interval where it is used",
}
_WITHOUT_BYTES: dict[type[spark_types.DataType], str] = {
    spark_types.MapType: "take out the members that are used, or keep map_entries(..) of it",
    spark_types.NullType: "say of which type it is: cast(null as ..)",
}
_OF_INPUT = (
    "make a dataset with its keys and values in two lists, map_keys(..) and map_values(..), and derive from that"
)


def check_kept_types(stages: Sequence[Stage]) -> None:
    """Raises Refused with all columns that the stages of a query cannot hand on."""
    found = [problem for stage in stages for scan in stage.scans for problem in _problems(stage, scan)]
    if found:
        raise Refused(in_order(found))


def can_be_kept(columns: Sequence[Attribute]) -> bool:
    """Whether rows with these columns can pass between stages, and be kept by key."""
    kept = [_parse_datatype_json_string(column.dataType().json()) for column in columns]
    refused = (*_WITHOUT_FORM, *_WITHOUT_BYTES)
    return not any(
        doubled_member(each) is not None or any(type(part) in refused for part in _parts(each)) for each in kept
    )


def _problems(stage: Stage, scan: StageScan) -> Iterator[InvalidQuery]:
    compared = isinstance(stage, RowsStage) or scan.kind == "stage"
    refused = {**_WITHOUT_FORM, **_WITHOUT_BYTES} if compared else _WITHOUT_FORM
    for column in scan.columns:
        kept = _parse_datatype_json_string(column.dataType().json())
        doubled = doubled_member(kept) is not None
        wrong = kept if doubled else next((part for part in _parts(kept) if type(part) in refused), None)
        if wrong is not None:
            way = MEMBERS_APART if doubled else _OF_INPUT if scan.kind == "input" else refused[type(wrong)]
            stated = _stated(scan.plan, column)
            text = f"the column {_name(column, stated)} is needed by a later part of the query"
            yield refusal(
                "kept-type",
                f"{text}, and columns of type {shown(wrong.simpleString())} cannot be kept",
                at=stated
                if is_placed(stated)
                else _near(stage.aggregate if isinstance(stage, GroupStage) else stage.plan),
                hint=way,
            )


def _parts(data_type: spark_types.DataType) -> Iterator[spark_types.DataType]:
    """A type and all within it."""
    yield data_type
    match data_type:
        case spark_types.ArrayType():
            yield from _parts(data_type.elementType)
        case spark_types.MapType():
            yield from _parts(data_type.keyType)
            yield from _parts(data_type.valueType)
        case spark_types.StructType():
            for member in data_type.fields:
                yield from _parts(member.dataType)
        case _:
            return


def _name(column: Attribute, stated: Expression) -> str:
    """Its name, or what it is if the query gives it none."""
    name = str(column.name())
    return shown(name if name in source_text(stated) else source_text(without_alias(stated)) or name)


def _near(plan: Plan) -> TreeNode:
    """The query's part that keeps columns, or an expression of it, for its place."""
    stack = [plan]
    while stack:
        node = stack.pop()
        parts = [node, *(part for expression in expressions_of(node) for part in walk_expression(expression))]
        if placed := next((part for part in parts if is_placed(part)), None):
            return placed
        stack.extend(children(node))
    return plan


def _stated(plan: Plan, column: Attribute) -> Expression:
    """Where the query makes a column, the column itself if it does not."""
    stack = [plan]
    while stack:
        node = stack.pop()
        for named in expressions_of(node):
            if simple_name(named) == "Alias" and expr_id(named) == expr_id(column):
                return named
        stack.extend(children(node))
    return column
