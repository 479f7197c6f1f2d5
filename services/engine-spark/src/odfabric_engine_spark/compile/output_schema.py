"""Output schema: columns, types, and whether they fit the dataset.

Owns the way from the schema that Spark found for a query to the schema of slices. Invariant: a column that is passed through
unchanged keeps the type that it has in the input, and one schema holds for all slices of a dataset. Source:
specification, "Engine Contract"; specification, "Data Slice".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyarrow import types
from pyspark.sql.types import StructType, _parse_datatype_json_string

from odfabric.errors import OdfError
from odfabric.formats.slices.slice_schema import check_storable
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.compile.staged_query import StagedQuery
from odfabric_engine_spark.plan.input_tables import InputTable, scan_alias
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.plan.time.event_times import sources_of
from odfabric_engine_spark.rows.output_shape import OutputShape
from odfabric_engine_spark.spark.catalyst.plan_nodes import Expression, Plan, children, expr_id, is_attribute, output_of
from odfabric_engine_spark.spark.frames.spark_types import arrow_schema
from odfabric_engine_spark.sql.output_column_rules import (
    ColumnProblem,
    column_problems,
    refusals,
    transform_column_problems,
)
from odfabric_engine_spark.sql.refusal import Refused

_AS_PLAIN_VALUES = (
    "make it lists of plain values - map_keys(..), map_values(..), transform(.., x -> x.member) - or to_json(..)"
)


def output_shape(
    query: LinearQuery | StagedQuery,
    tables: Mapping[str, InputTable],
    vocabulary: DatasetVocabulary,
    *,
    written: Plan,
) -> OutputShape:
    """The columns of a query's output.

    Raises Refused with everything that a dataset cannot have.

    `written` is the plan that knows where the query's text has them.
    """
    plan = query.plan
    schema = StructType.fromJson(_parse_datatype_json_string(plan.schema().json()).jsonValue())
    op_selected = isinstance(query, LinearQuery) and query.op_selected
    problems = [
        *column_problems(schema),
        *transform_column_problems(schema, vocabulary, op_allowed=isinstance(query, LinearQuery)),
    ]
    if problems:
        raise Refused(refusals(problems, written))
    fields = list(arrow_schema(schema))
    if any(_changed_by_spark(table) for table in tables.values()):
        fields = [_passed_through(plan, index, field, tables) for index, field in enumerate(fields)]
    by_name = {field.name: field for field in fields}
    event_time = by_name.pop(vocabulary.event_time)
    by_name.pop(vocabulary.operation_type, None)
    shape = OutputShape(vocabulary, pa.schema([event_time, *by_name.values()]), op_selected)
    try:
        check_storable(shape.data_schema)
    except OdfError as error:
        field = str(error.place.field)
        column = next((name for name in shape.rows.names if field == name or field.startswith(_within(name))), "")
        problem = ColumnProblem(column, "column-type", error.message, hint=_AS_PLAIN_VALUES)
        raise Refused(refusals([problem], written)) from None
    return shape


def _within(column: str) -> tuple[str, ...]:
    """How paths of what is within a column begin."""
    return f"{column}.", f"{column}[", f"{column}{{"


def _changed_by_spark(table: InputTable) -> bool:
    """Whether Spark returns a column of the input as another type, lacking its own."""
    return any(
        back.type != field.type and not types.is_temporal(field.type)
        for back, field in zip(arrow_schema(table.spark), table.arrow, strict=True)
    )


def _passed_through(plan: Plan, index: int, field: pa.Field, tables: Mapping[str, InputTable]) -> pa.Field:
    """A field with the input's type, if every branch passes that column through."""
    found = set(_declared_types(output_of(plan)[index], plan, tables))
    declared = found.pop() if len(found) == 1 else None
    return field if declared is None or types.is_temporal(declared) else field.with_type(declared)


def _declared_types(column: Expression, plan: Plan, tables: Mapping[str, InputTable]) -> Iterator[pa.DataType | None]:
    """The types of the inputs' columns that a column of a plan is.

    None where it is made on the way.
    """
    alias = scan_alias(plan)
    if alias is not None:
        names = [str(each.name()) for each in output_of(plan) if expr_id(each) == expr_id(column)]
        yield tables[alias].arrow.field(names[0]).type
        return
    sources, below = sources_of(column, plan), children(plan)
    if not sources:
        yield None
    for value, at in sources:
        if is_attribute(value):
            yield from _declared_types(value, below[at], tables)
        else:
            yield None
