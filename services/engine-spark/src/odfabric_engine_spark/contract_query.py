"""The operation ExecuteRawQuery of the contract `engine.Engine`: a query over files of rows, which it knows as `input`.

Owns the reading of those files and the one file of the result. Invariant: rows keep their order where the query keeps it, and
times come out as those of slices. Not here: what SQL is allowed (`validate`). Source: specification facts, "Transforms" 7.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from odfabric.errors import IncompatibleSchema, InvalidQuery, InvalidRequest
from odfabric.formats.arrow_cast import cast_array
from odfabric.formats.parquet_reading import arrow_schema_of, open_parquet
from odfabric.formats.slice_parquet import SliceWriter
from odfabric.model import engine_contract as contract
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.catalyst import Catalyst, analysed
from odfabric_engine_spark.preprocess import INPUT_TABLE
from odfabric_engine_spark.read.exact_filters import with_exact_filters
from odfabric_engine_spark.read.spark_path import spark_path
from odfabric_engine_spark.result_rows import batches_of
from odfabric_engine_spark.spark_types import arrow_schema, spark_schema
from odfabric_engine_spark.validate.failing_constants import at_failing_constant
from odfabric_engine_spark.validate.gate import run_gated_steps
from odfabric_engine_spark.validate.parsed import Mode


def execute_contract_query(request: contract.RawQueryRequest, call: EngineCall) -> contract.RawQueryResponseSuccess:
    """Runs a query and writes its rows. Raises InvalidQuery, InvalidData, InvalidRequest."""
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
            raise at_failing_constant(error, Catalyst(call.session), analysed(frame)) from error
    return contract.RawQueryResponseSuccess(num_records=writer.rows)


def _input(paths: tuple[str, ...], call: EngineCall) -> DataFrame:
    """The rows of all files, which have one schema, that of the first; each file is a table, in the order given."""
    if not paths:
        raise InvalidRequest("a raw query has at least one data path")
    files = [call.exchange.input(path) for path in paths]
    schemas = []
    for file in files:
        with open_parquet(file) as opened:
            schemas.append(arrow_schema_of(opened))
    different = next(
        (path for path, schema in zip(paths, schemas, strict=True) if schema.names != schemas[0].names), None
    )
    if different is not None:
        raise InvalidRequest(f"{different} has other columns than {paths[0]}")
    frames = [
        with_exact_filters(call.session.read.schema(spark_schema(schema)).parquet(spark_path(file)))
        for file, schema in zip(files, schemas, strict=True)
    ]
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionAll(frame)
    return result


def _result_schema(frame: DataFrame) -> pa.Schema:
    try:
        return arrow_schema(frame.schema)
    except IncompatibleSchema as error:
        raise InvalidQuery(error.message, place=replace(error.place, rule="column-type"), hint=error.hint) from None
