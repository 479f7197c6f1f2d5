"""Rows that somebody else has found, without the record that made each.

Owns whether a query needs these records. Offset, op and system time of such rows are columns of the scan that its file does not have: they
are null where they are read. Invariant: a query whose optimised plan reads one of them is never run over such rows. Source:
docs/reference/time.md; ADR 0091.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from odfabric.model.engine import QueryInput
from odfabric_engine_spark.rows.slice_reader import columns_in_file, type_as_read
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    OWN_PREFIX,
    Plan,
    expressions_of,
    inner_plan,
    references,
    walk_expression,
    walk_plan,
)
from odfabric_engine_spark.spark.frames.exact_filters import with_exact_filters
from odfabric_engine_spark.spark.frames.read_rows import column
from odfabric_engine_spark.spark.frames.spark_path import spark_path
from odfabric_engine_spark.spark.frames.spark_types import spark_schema

_UNKNOWN = f"{OWN_PREFIX}unknown_"
"""Begins the names of columns that no file has; the number of the input and the name follow."""


def rows_without_records(call: EngineCall, number: int, one: QueryInput, path: str, schema: pa.Schema) -> DataFrame:
    """The rows in the file of an input, with the columns of `schema`.

    Raises Corrupt naming a file that has no such rows.
    """
    file = call.exchange.input(path)
    names = one.vocabulary
    unknown = {name: f"{_UNKNOWN}{number}_{name}" for name in (names.offset, names.operation_type, names.system_time)}
    rows = pa.schema([field for field in schema if field.name not in unknown])
    found = dict(columns_in_file(file, rows))
    read = [T.StructField(name, type_as_read(name, kind), True) for name, kind in found.items()]
    kinds = {item.name: item.dataType for item in spark_schema(schema).fields}
    read += [T.StructField(stored, kinds[name], True) for name, stored in unknown.items()]
    frame = with_exact_filters(call.session.read.schema(T.StructType(read)).parquet(spark_path(file)))
    return frame.select(*(column(unknown.get(name, name)).cast(kinds[name]).alias(name) for name in schema.names))


def inputs_with_records(frame: DataFrame, rows_alone: Sequence[int]) -> tuple[int, ...]:
    """Which of the inputs without records a query reads them of.

    All of them if the query cannot be optimised: what is wrong with it is found when it runs over records.
    """
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()
    except (PySparkException, Py4JError):
        return tuple(rows_alone)
    found = {
        int(name.removeprefix(_UNKNOWN).partition("_")[0])
        for node in _all_plans(plan)
        for name in (str(attribute.name()) for attribute in references(node))
        if name.startswith(_UNKNOWN)
    }
    return tuple(sorted(found))


def _all_plans(plan: Plan) -> Iterator[Plan]:
    """Every node, those of subqueries too."""
    for node in walk_plan(plan):
        yield node
        for part in (part for each in expressions_of(node) for part in walk_expression(each)):
            inner = inner_plan(part)
            if inner is not None:
                yield from _all_plans(inner)
