"""The operation Query: a user's read-only SQL over pinned inputs.

Owns the tables that a query sees (all columns of its inputs), the limits of its result, and the Arrow IPC stream that holds
it. Invariant: a query touches the slices it was given and nothing else; at a limit its jobs stop. Not here: what SQL is
allowed (`sql`), deadlines (`running_calls`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from odfabric.errors import IncompatibleSchema, InvalidQuery, InvalidRequest, LimitExceeded
from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema, data_schema_to_arrow
from odfabric.formats.slices.slice_schema import new_slice_schema
from odfabric.model.engine import QueryInput, QueryRequest, QueryResult
from odfabric.model.metadata import TransformSql
from odfabric_engine_spark.rows.rows_without_records import inputs_with_records, rows_without_records
from odfabric_engine_spark.rows.slice_reader import read_slices
from odfabric_engine_spark.rows.time_projection import projected
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, analysed
from odfabric_engine_spark.spark.frames.result_rows import batches_of
from odfabric_engine_spark.spark.frames.spark_types import arrow_schema
from odfabric_engine_spark.sql.constants.failing_constants import at_failing_constant
from odfabric_engine_spark.sql.gate import ENGINE_NAME, run_gated_steps
from odfabric_engine_spark.sql.parsed_plan_rules import Mode
from odfabric_engine_spark.sql.refusal import refusal, shown
from odfabric_engine_spark.sql.table_functions import named_calls

ROWS_MAX = 2**31 - 1
"""Spark counts the rows that it leaves out or gives in 32 bits."""


def run_query(request: QueryRequest, call: EngineCall) -> QueryResult:
    """Runs a query and writes its rows.

    Raises InvalidRequest, InvalidQuery, InvalidData for a row that an expression fails on, LimitExceeded for a result too large.
    """
    if max(request.limit, request.skip) > ROWS_MAX:
        raise InvalidRequest(f"an answer has at most {ROWS_MAX} rows, and as many may be skipped")
    call.progress("validate")
    named = named_calls(call.session, request.sql, request.inputs, settings=call.settings)
    tables = _tables(named.inputs, call)
    query = TransformSql(engine=ENGINE_NAME, query=named.sql)
    try:
        frame = run_gated_steps(call.session, query, tables, mode=Mode.QUERY, settings=call.settings)
    except InvalidQuery as error:
        raise named.in_words_of_user(error) from None
    schema = _result_schema(frame)
    rows_alone = [number for number, one in enumerate(named.inputs) if _rows_path(one) is not None]
    wanted = inputs_with_records(frame, rows_alone) if rows_alone else ()
    if wanted:
        given = [request.inputs.index(named.given[number]) for number in wanted]
        return QueryResult(rows=0, data_schema=arrow_to_data_schema(schema), wants_records=tuple(given))
    page = (frame.offset(request.skip) if request.skip else frame).limit(request.limit)
    call.progress("query")
    rows = 0
    path = call.exchange.output(request.output_path)
    with path.open("wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in _within(batches_of(call, lambda: page, lambda: page), frame, request.bytes_max):
            call.check()
            writer.write_batch(_as_result(batch, schema))
            rows += batch.num_rows
    return QueryResult(rows=rows, data_schema=arrow_to_data_schema(schema))


def _tables(inputs: tuple[QueryInput, ...], call: EngineCall) -> dict[str, DataFrame]:
    tables: dict[str, DataFrame] = {}
    taken: set[str] = set()
    for number, one in enumerate(inputs):
        if one.alias.lower() in taken:
            # Names of tables are the same in either case: one would hide the other.
            raise refusal(
                "inputs", f"two inputs have the alias {shown(one.alias)}", hint="give each an alias of its own"
            )
        taken.add(one.alias.lower())
        empty = new_slice_schema((), vocabulary=one.vocabulary)
        schema = empty if one.data_schema is None else data_schema_to_arrow(one.data_schema, encodings=False)
        if (path := _rows_path(one)) is not None:
            tables[one.alias] = rows_without_records(call, number, one, path, schema)
            continue
        records = read_slices(call, one.slices, schema)
        if one.projection is not None:
            records = projected(call, records, one.projection, vocabulary=one.vocabulary, slices=one.slices)
        tables[one.alias] = records
    return tables


def _rows_path(one: QueryInput) -> str | None:
    """The file of an input that has rows alone."""
    return None if one.projection is None else one.projection.rows_path


def _result_schema(frame: DataFrame) -> pa.Schema:
    try:
        return arrow_schema(frame.schema)
    except IncompatibleSchema as error:
        raise InvalidQuery(error.message, place=replace(error.place, rule="column-type"), hint=error.hint) from None


def _within(batches: Iterator[pa.RecordBatch], frame: DataFrame, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Batches of a query until they are too many bytes."""
    size = 0
    try:
        for batch in batches:
            size += batch.nbytes
            if size > bytes_max:
                raise LimitExceeded("the result is too large", limit="query_bytes_max", maximum=bytes_max)
            yield batch
    except (PySparkException, Py4JError) as error:
        raise at_failing_constant(error, Catalyst(frame.sparkSession), analysed(frame)) from error


def _as_result(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Columns in the types of the format; digits below milliseconds are cut."""
    columns = [cast_array(column, field.type, safe=False) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
