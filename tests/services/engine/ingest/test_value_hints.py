"""Queries that messages suggest for values pass the gate and read the value."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric_engine_spark.ingest.values.text_values import TextFormats
from odfabric_engine_spark.ingest.values.value_hints import value_hint
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.sql.gate import run_gated_steps
from odfabric_engine_spark.sql.parsed_plan_rules import Mode

pytestmark = pytest.mark.spark

FORMATS = TextFormats(date_format(None), timestamp_format(None))
WHOLE, FLOAT, MONEY, TRUTH = pa.int64(), pa.float64(), pa.decimal128(10, 2), pa.bool_()
DAY, TIME = pa.date32(), pa.timestamp("ms", "UTC")
READ = [
    ("3,9432", FLOAT, 3.9432),
    ("1,5", WHOLE, Decimal("1.5")),
    ("2,102,650", WHOLE, 2_102_650),
    ("1.234,56", MONEY, Decimal("1234.56")),
    ("1 234 567", WHOLE, 1_234_567),
    ("1\u202f234", WHOLE, 1234),
    ("1'234.5", FLOAT, 1234.5),
    ("$1,234.50", MONEY, Decimal("1234.50")),
    ("12 km", FLOAT, 12.0),
    (" 1", WHOLE, 1),
    ("\u00a01\t", WHOLE, 1),
    ("1.6", WHOLE, 2),
    ("1.239", MONEY, Decimal("1.24")),
    ("1e5", MONEY, Decimal("100000.00")),
    ("\u22125", WHOLE, -5),
    ("0x1F", WHOLE, 31),
    ("n/a", FLOAT, None),
    ("t", TRUTH, True),
    ("no", TRUTH, False),
    ("1704103200", TIME, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("1704103200000", TIME, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("1704103200000", DAY, date(2024, 1, 1)),
    ("45292.4375", TIME, datetime(2024, 1, 1, 10, 30, tzinfo=UTC)),
    ("45292", DAY, date(2024, 1, 1)),
    ("1,23E+15", WHOLE, 1.23e15),
    ("#DIV/0!", FLOAT, None),
    ("#WERT!", MONEY, None),
    ("€ 1.234,56", MONEY, Decimal("1234.56")),
    ("1.234.567 km", WHOLE, 1_234_567),
    ("3,5 %", WHOLE, Decimal("3.5")),
    ("12.5%", WHOLE, Decimal("12.5")),
    ("EUR 7,50", FLOAT, 7.5),
    ("(1,234.50)", MONEY, Decimal("-1234.50")),
    ("(3,5)", FLOAT, -3.5),
    ("5.25-", FLOAT, -5.25),
    ("12-", WHOLE, -12),
    ("infinity", TIME, None),
    ("0000-00-00", DAY, None),
    ("2024", DAY, date(2024, 1, 1)),
    ("2024-05", DAY, date(2024, 5, 1)),
    ("2024-05", TIME, datetime(2024, 5, 1, tzinfo=UTC)),
    ("2024-Q2", DAY, date(2024, 4, 1)),
    ("2024-W05", DAY, date(2024, 1, 29)),
    ("2021W01", DAY, date(2021, 1, 4)),
    ("2020-W53", DAY, date(2020, 12, 28)),
    ("1704103200000000001", TIME, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("1704103200.25", TIME, datetime(2024, 1, 1, 10, 0, 0, 250_000, tzinfo=UTC)),
    ("2024-01-01 10:00:00 UTC", TIME, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("2024-01-01 11:00:00 CET", TIME, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("2024-01-01T11:00:00 Europe/Paris", TIME, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("2024-01-01T11:00:00+01:00[Europe/Paris]", TIME, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("2024-01-01T11:00:00[Europe/Paris]", TIME, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("2016-12-31T23:59:60Z", TIME, datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)),
]


def test_what_is_suggested_reads_the_value(engine_call: EngineCall) -> None:
    texts, expressions = {}, []
    for number, (text, arrow, _) in enumerate(READ):
        name = f"x {number}"
        texts[name] = [text]
        found = re.search(
            rf"write ((?:(?!write).)*) AS `{name}` in the preprocess",
            value_hint(text, arrow, FORMATS, name=name, null=""),
        )
        assert found is not None, text
        expressions.append(f"{found[1]} AS `{name}`")
    query = TransformSql(engine="spark", queries=(SqlQueryStep(query=f"SELECT {', '.join(expressions)} FROM input"),))
    frame = engine_call.session.createDataFrame(pa.table(texts))
    result = run_gated_steps(
        engine_call.session, query, {"input": frame}, mode=Mode.PREPROCESS, settings=engine_call.settings
    )
    (row,) = result.toArrow().to_pylist()
    assert list(row.values()) == [value for _, _, value in READ]


def test_rows_that_are_no_data_are_left_out(engine_call: EngineCall) -> None:
    hint = value_hint("kod ISO", DAY, FORMATS, name="day", null="")
    found = re.search(r"SELECT (.*), \.\. FROM input (WHERE .*)", hint)
    assert found is not None
    query = TransformSql(engine="spark", queries=(SqlQueryStep(query=f"SELECT {found[1]}, usd FROM input {found[2]}"),))
    frame = engine_call.session.createDataFrame(
        pa.table({"day": ["2024-01-02", "kod ISO", None], "usd": ["1", "USD", ""]})
    )
    result = run_gated_steps(
        engine_call.session, query, {"input": frame}, mode=Mode.PREPROCESS, settings=engine_call.settings
    )
    assert result.toArrow().to_pylist() == [{"day": date(2024, 1, 2), "usd": "1"}]
