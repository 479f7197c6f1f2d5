"""The output of a transform: its columns, their types, and whether they fit the dataset.

Owns the way from the schema that Spark found for a query to the schema of slices. Invariant: a column that is passed through
unchanged keeps the type that it has in the input, and one schema holds for all slices of a dataset. Source: specification
facts, "Transforms" 4 and "Data slices" 2, 6, 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types
from pyspark.sql.types import StructType, _parse_datatype_json_string

from odfabric.errors import InvalidData, OdfError, Place
from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema, data_schema_to_arrow
from odfabric.formats.slices.canonical_rows import one_array
from odfabric.formats.slices.slice_schema import (
    OFFSET_TYPE,
    OPERATION_TYPE,
    TIMESTAMP_TYPE,
    check_compatible,
    check_storable,
)
from odfabric.model.data_schema import DataSchema
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.catalyst import Expression, Plan, children, expr_id, is_attribute, output_of
from odfabric_engine_spark.incremental.classify import AggregateQuery, LinearQuery
from odfabric_engine_spark.incremental.input_table import InputTable, leaf_alias
from odfabric_engine_spark.normalise.event_times import sources_of
from odfabric_engine_spark.spark_types import arrow_schema
from odfabric_engine_spark.stages.query import StagedQuery
from odfabric_engine_spark.validate.output_columns import (
    ColumnProblem,
    column_problems,
    refusals,
    transform_column_problems,
)
from odfabric_engine_spark.validate.refusal import Refused

_AS_PLAIN_VALUES = (
    "make it lists of plain values - map_keys(..), map_values(..), transform(.., x -> x.member) - or to_json(..)"
)


@dataclass(frozen=True, slots=True)
class OutputShape:
    """Columns of the output. `rows` are those that the query gives, in the order of slices: event time first."""

    vocabulary: DatasetVocabulary
    rows: pa.Schema
    op_selected: bool

    @property
    def slice(self) -> pa.Schema:
        """Columns of a slice."""
        names = self.vocabulary
        system = [
            pa.field(names.offset, OFFSET_TYPE, nullable=False),
            pa.field(names.operation_type, OPERATION_TYPE, nullable=False),
            pa.field(names.system_time, TIMESTAMP_TYPE, nullable=False),
        ]
        return pa.schema([*system, *self.rows])

    @property
    def data_schema(self) -> DataSchema:
        """As SetDataSchema has it."""
        return arrow_to_data_schema(self.slice)

    def fitted(self, existing: DataSchema | None) -> OutputShape:
        """The same columns under the dataset's schema. Raises IncompatibleSchema if they do not fit it."""
        if existing is None:
            return self
        known = data_schema_to_arrow(existing, encodings=False)
        check_compatible(
            self.slice,
            known,
            hint="if an input has got a column, `odf set-transform` with the same manifest takes it up",
        )
        return OutputShape(self.vocabulary, pa.schema(list(known)[3:]), self.op_selected)


def output_shape(
    query: LinearQuery | AggregateQuery | StagedQuery,
    tables: Mapping[str, InputTable],
    vocabulary: DatasetVocabulary,
    *,
    written: Plan,
) -> OutputShape:
    """The columns of a query's output. Raises Refused with everything that a dataset cannot have.

    `written` is the plan that knows where the query's text has them.
    """
    plan = query.above if isinstance(query, AggregateQuery) else query.plan
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


def as_output(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns of the output in its types; digits below its resolution are cut, as everywhere in the format."""
    arrays = [_cast(one_array(rows.column(field.name)), field) for field in schema]
    return pa.Table.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))


def _changed_by_spark(table: InputTable) -> bool:
    """Whether an input has a column whose type Spark does not have, so that it comes back as another."""
    return any(
        back.type != field.type and not types.is_temporal(field.type)
        for back, field in zip(arrow_schema(table.spark), table.arrow, strict=True)
    )


def _passed_through(plan: Plan, index: int, field: pa.Field, tables: Mapping[str, InputTable]) -> pa.Field:
    """The field with the type of the inputs' column, if it is that column and nothing else in every branch."""
    found = set(_declared_types(output_of(plan)[index], plan, tables))
    declared = found.pop() if len(found) == 1 else None
    return field if declared is None or types.is_temporal(declared) else field.with_type(declared)


def _declared_types(column: Expression, plan: Plan, tables: Mapping[str, InputTable]) -> Iterator[pa.DataType | None]:
    """The types of the inputs' columns that a column of a plan is; None where it is made on the way."""
    alias = leaf_alias(plan)
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


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return cast_array(array, field.type, safe=_has_unsigned(field.type))
    except pa.ArrowException as error:
        raise InvalidData(f"a value does not fit its column: {error}", place=Place(field=field.name)) from error


def _has_unsigned(data_type: pa.DataType) -> bool:
    if types.is_unsigned_integer(data_type):
        return True
    members: Iterable[pa.Field] = data_type if types.is_struct(data_type) else ()
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        members = (data_type.value_field,)
    return any(_has_unsigned(member.type) for member in members)
