"""Rows that a plan only chooses columns of are the rows that Spark gives."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.canonical_rows import row_bytes
from odfabric.model.metadata import SqlQueryStep
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.compile.compile_query import judge_transform
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.rows.row_mapping import RowMapping
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import items
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import collected
from tests.services.engine.transforming import MILLIS, input_schema

pytestmark = pytest.mark.spark

PLACE = pa.struct(
    [
        pa.field("n", pa.int32(), nullable=False),
        pa.field("inner", pa.struct([pa.field("t", MILLIS), pa.field("p", pa.decimal128(9, 2))])),
    ]
)
SCHEMA = input_schema(
    pa.field("id", pa.int64()),
    pa.field("small", pa.int16()),
    pa.field("price", pa.decimal128(12, 3)),
    pa.field("text", pa.string()),
    pa.field("body", pa.binary()),
    pa.field("share", pa.float64()),
    pa.field("part", pa.float32()),
    pa.field("day", pa.date32()),
    pa.field("sure", pa.bool_()),
    pa.field("list", pa.list_(pa.int32())),
    pa.field("place", PLACE),
)
T = dt.datetime(1969, 12, 31, 23, 59, 59, 999000, dt.UTC)
TIMES = [dt.datetime(year, 1, 1, 0, 0, 5, tzinfo=dt.UTC) for year in (1, 1969, 1970, 9999)]
VALUES: Sequence[Sequence[object]] = [
    (
        1,
        -7,
        Decimal("-1.250"),
        "ä",
        b"\x00",
        -0.0,
        0.5,
        dt.date(1969, 1, 1),
        True,
        [1, None],
        (1, (T, Decimal("0.01"))),
    ),
    (2**60, None, None, "", b"", float("nan"), None, None, None, [], (2, None)),
    (None, 0, Decimal("0.000"), None, None, None, float("-inf"), dt.date(9999, 12, 31), False, None, None),
    (1, -7, Decimal("-1.250"), "ä", b"\x00", 0.0, 0.5, dt.date(1, 1, 1), True, [1, None], (1, (None, None))),
]
CHOICES = [
    "SELECT event_time, id, small, price, text, body, share, part, day, sure, list FROM input",
    "SELECT text AS x, event_time, text AS y FROM (SELECT text, id, event_time FROM input)",
    "SELECT event_time, place.inner.p AS p, place.inner.t AS t, place.n FROM input",
    "SELECT event_time, q.p AS p FROM (SELECT event_time, place.inner AS q FROM input)",
    "SELECT event_time, id FROM input WHERE text IS NOT NULL AND share IS NOT NULL",
    "SELECT event_time, window(event_time, '1 hour') AS w, window(event_time, '1 hour').end AS e FROM input",
    "SELECT window(event_time, '7 days', '7 days', '-3 minutes').start AS event_time, id FROM input",
    "SELECT event_time, window(t, '90 seconds', '90 seconds', '11 seconds') AS w, id FROM (SELECT *, place.inner.t AS t FROM input)",
]
WORK = [
    "SELECT event_time, id + 1 AS id FROM input",
    "SELECT event_time, id FROM input WHERE sure",
    "SELECT event_time, id FROM input UNION ALL SELECT event_time, id FROM input",
    "SELECT event_time, 1 AS one FROM input",
    "SELECT event_time, list[0] AS first FROM input",
    "SELECT event_time, x FROM input LATERAL VIEW explode(list) AS x",
    "SELECT event_time, window(day, '1 day').start AS s FROM input",
    "SELECT event_time, named_struct('start', event_time, 'end', event_time).start AS s FROM input",
]


def mapping_of(call: EngineCall, sql: str) -> tuple[RowMapping, pa.Table]:
    """What a query makes of rows, and rows."""
    table = InputTable.of("input", DatasetVocabulary(), arrow_to_data_schema(SCHEMA))
    judged = judge_transform(
        call.session,
        [SqlQueryStep(alias=None, query=sql)],
        {"input": table},
        DatasetVocabulary(),
        settings=call.settings,
    )
    query = judged.query
    assert isinstance(query, LinearQuery)
    return RowMapping.of(query.catalyst, query.plan, items(query.plan.output())), rows_of(table)


def rows_of(table: InputTable) -> pa.Table:
    """The rows as they are handed to Spark, with a hidden column."""
    plain = [(number, 0, T, TIMES[number], *values[:-1], _place(values[-1])) for number, values in enumerate(VALUES)]
    columns = [
        pa.array(list(column), field.type) for column, field in zip(zip(*plain, strict=True), SCHEMA, strict=True)
    ]
    schema = pa.schema([field.with_nullable(True) for field in table.spark_arrow])
    rows = pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    return rows.append_column("__hidden", pa.array(np.arange(len(VALUES))[::-1]))


def _place(value: object) -> object:
    if not isinstance(value, tuple):
        return value
    number, inner = value
    return {"n": number, "inner": None if inner is None else {"t": inner[0], "p": inner[1]}}


@pytest.mark.parametrize("sql", CHOICES)
def test_chosen_columns_are_those_of_spark(engine_call: EngineCall, sql: str) -> None:
    mapping, rows = mapping_of(engine_call, sql)
    assert mapping.needs_no_job(rows)
    chosen, spark = mapping.table([rows]), collected(mapping.frame([local_rows(engine_call.session, rows)]))
    assert chosen.schema.equals(spark.schema.with_metadata(None))
    assert bytes_of(chosen) == bytes_of(spark)


@pytest.mark.parametrize("sql", WORK)
def test_what_does_more_than_choose_is_work_for_spark(engine_call: EngineCall, sql: str) -> None:
    mapping, rows = mapping_of(engine_call, sql)
    assert not mapping.needs_no_job(rows)


def test_of_times_near_the_last_one_spark_is_asked(engine_call: EngineCall) -> None:
    mapping, rows = mapping_of(engine_call, "SELECT event_time, window(event_time, '1 hour').start AS s FROM input")
    last = pa.array([(1 << 63) - 1] * len(VALUES)).view(pa.timestamp("us", "UTC"))
    far = rows.set_column(rows.column_names.index("event_time"), "event_time", last)
    assert (mapping.needs_no_job(rows), mapping.needs_no_job(far)) == (True, False)


def bytes_of(rows: pa.Table) -> list[bytes]:
    found: list[bytes] = row_bytes([column.combine_chunks() for column in rows.columns]).to_pylist()
    return found
