"""ExecuteRawQuery of `engine.Engine`: a query over files of rows, `input`.

Owns the reading of those files and the one file of the result. Invariant: rows keep their order where the query keeps it, and
times come out as those of slices. Not here: what SQL is allowed (`sql`). Source: specification, "Engine Contract".
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyarrow import types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from odfabric.errors import IncompatibleSchema, InvalidData, InvalidQuery, InvalidRequest, Place
from odfabric.formats.parquet.parquet_reading import arrow_schema_of, open_parquet
from odfabric.formats.parquet.parquet_reading import batches_of as rows_of
from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.model import engine_contract as contract
from odfabric_engine_spark.ingest.parquet.parquet_survey import footer_of, survey
from odfabric_engine_spark.ingest.preprocess import INPUT_TABLE
from odfabric_engine_spark.ingest.values.slice_types import exactly_castable
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, analysed
from odfabric_engine_spark.spark.failures import UNREADABLE, spark_text
from odfabric_engine_spark.spark.frames.exact_filters import with_exact_filters
from odfabric_engine_spark.spark.frames.result_rows import batches_of
from odfabric_engine_spark.spark.frames.spark_path import spark_path
from odfabric_engine_spark.spark.frames.spark_types import arrow_schema, spark_schema, spark_type
from odfabric_engine_spark.sql.constants.failing_constants import at_failing_constant
from odfabric_engine_spark.sql.gate import run_gated_steps
from odfabric_engine_spark.sql.parsed_plan_rules import Mode


def execute_contract_query(request: contract.RawQueryRequest, call: EngineCall) -> contract.RawQueryResponseSuccess:
    """Runs a query and writes its rows.

    Raises InvalidQuery, InvalidData, InvalidRequest.
    """
    call.progress("validate")
    tables = {INPUT_TABLE: _input(request.input_data_paths, call)}
    frame = run_gated_steps(call.session, request.transform, tables, mode=Mode.PREPROCESS, settings=call.settings)
    schema = _result_schema(frame)
    call.progress("query")
    with SliceWriter(call.exchange.output(request.output_data_path), schema) as writer:
        try:
            for batch in batches_of(call, lambda: frame, lambda: frame):
                call.check()
                columns = [
                    cast_array(column, item.type, safe=False)
                    for column, item in zip(batch.columns, schema, strict=True)
                ]
                writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        except (PySparkException, Py4JError) as error:
            raise _told(error, call, frame) from error
    return contract.RawQueryResponseSuccess(num_records=writer.rows)


def _input(paths: tuple[str, ...], call: EngineCall) -> DataFrame:
    """The rows of all files, which have the columns of the first.

    Each file is a table, in the order given.
    """
    if not paths:
        raise InvalidRequest("a raw query has at least one data path")
    files = [call.exchange.input(path) for path in paths]
    schemas = [_schema(file, path, call) for file, path in zip(files, paths, strict=True)]
    different = next(
        (path for path, schema in zip(paths, schemas, strict=True) if not _same_columns(schema, schemas[0])), None
    )
    if different is not None:
        raise InvalidRequest(f"{different} has other columns than {paths[0]}")
    frames = []
    for number, (file, path, schema) in enumerate(zip(files, paths, schemas, strict=True)):
        plain = pa.schema([field.with_type(_plain(field.type)) for field in schema])
        read = file if plain == schema else _converted(file, path, plain, call.scratch / f"raw-{number}.parquet", call)
        frames.append(with_exact_filters(call.session.read.schema(spark_schema(plain)).parquet(spark_path(read))))
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionAll(frame)
    return result


def _schema(file: Path, path: str, call: EngineCall) -> pa.Schema:
    """The columns of a file.

    Raises InvalidData for one that Spark cannot read: the query cannot help it; LimitExceeded.
    """
    with open_parquet(file) as opened:
        schema = arrow_schema_of(opened)
        footer = footer_of(file, path, bytes_max=call.settings.parquet_footer_bytes_max)
        survey(file, path, opened, footer, opened.schema_arrow.names, call)
    try:
        spark_schema(schema)
    except IncompatibleSchema as error:
        place = replace(error.place, file=path, rule="file-column-type")
        raise InvalidData(error.message, place=place, hint="write it in another type") from error
    if not schema.names:
        raise InvalidData("the file has no columns", place=Place(file=path, rule="file-column-type"))
    return schema


def _plain(arrow: pa.DataType) -> pa.DataType:
    """The type in which Spark reads a column of a file.

    It is another one where Spark would fail, or wrap values around.
    """
    if types.is_uint64(arrow):
        return pa.int64()
    return pa.timestamp("us", arrow.tz) if types.is_timestamp(arrow) and arrow.unit == "ns" else arrow


def _converted(file: Path, path: str, plain: pa.Schema, made: Path, call: EngineCall) -> Path:
    """A file with the same rows in types that Spark reads.

    Raises InvalidData for a value that is too large for them.
    """
    with open_parquet(file) as opened, pq.ParquetWriter(made, plain) as writer:
        for batch in rows_of(opened, bytes_max=call.settings.batch_bytes):
            call.check()
            columns = []
            for column, field in zip(batch.columns, plain, strict=True):
                try:
                    columns.append(column.cast(field.type, safe=not types.is_timestamp(field.type)))
                except pa.ArrowInvalid as error:
                    place = Place(file=path, field=field.name, rule="file-value")
                    raise InvalidData(f"a value of the column has no form in Spark: {error}", place=place) from error
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=plain))
    return made


def _same_columns(one: pa.Schema, other: pa.Schema) -> bool:
    """Whether names are equal in order, with types of which one holds both's values."""
    return one.names == other.names and all(
        spark_type(mine.type, mine.name) == spark_type(its.type, its.name)
        or exactly_castable(mine.type, its.type)
        or exactly_castable(its.type, mine.type)
        for mine, its in zip(one, other, strict=True)
    )


def _told(error: BaseException, call: EngineCall, frame: DataFrame) -> BaseException:
    """The failure: an unreadable file, or the query with the constant to blame.

    A file that Spark could not read to its end.
    """
    if UNREADABLE in spark_text(error):
        message = "a file is damaged, or has a column of a type that Spark does not read, such as a list of UInt64"
        return InvalidData(message, place=Place(rule="file-unreadable"))
    return at_failing_constant(error, Catalyst(call.session), analysed(frame))


def _result_schema(frame: DataFrame) -> pa.Schema:
    try:
        return arrow_schema(frame.schema)
    except IncompatibleSchema as error:
        raise InvalidQuery(error.message, place=replace(error.place, rule="column-type"), hint=error.hint) from None
