"""Texts as values on Spark, held to Python: formats of times, numbers."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from odfabric.formats.time_formats import TimeFormat, date_format, timestamp_format
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.read.spark_times import spark_date, spark_timestamp
from odfabric_engine_spark.read.text_values import TextFormats, typed

pytestmark = pytest.mark.spark

FORMATS = [
    None,
    "%d.%m.%Y %H:%M:%S%.f",
    "%m/%d/%y %I:%M %p",
    "%b %e %Y %T %z",
    "%Y%j %R",
    "%A, %d %B %Y %H:%M:%S.%3f",
    "%s",
    "%Y-%m",
    "%d-%b-%y %H.%M %p",
    "%G-W%V-%uT%H:%M%z",
]
SHAPES = [
    "{0:%Y-%m-%d %H:%M:%S}",
    "{0:%Y-%m-%dT%H:%M:%S}.{1}Z",
    "{0:%Y-%m-%dT%H:%M:%S}+05:30",
    "{0:%Y-%m-%d}",
    "{0:%d.%m.%Y %H:%M:%S}.{1}",
    "{0.day}.{0.month}.{0.year} {0.hour}:{0.minute}:{0.second}",
    "{0:%m/%d/%y %I:%M %p}",
    "{0:%b} {0.day:2d} {0:%Y %H:%M:%S} -0130",
    "{0:%Y%j %H:%M}",
    "{0:%A, %d %B %Y %H:%M:%S}.123",
    "{1}",
    "{0:%Y-%m}",
    "{0:%Y-%m-%d %H:%M:%S}+02",
    "{0:%Y-%m-%dT%H:%M:%S} -1800",
    "{0:%Y-%m-%dT%H:%M:%S}.{1}+0530",
    "{0:%d-%b-%y %H.%M %p}",
    "{0:%G-W%V-%uT%H:%M}+0545",
    "{0:%G-W53-%uT%H:%M}-03",
]


def time_texts() -> list[str]:
    chance = random.Random(11)
    texts = []
    for _ in range(60):
        moment = datetime(1, 1, 1, tzinfo=UTC) + timedelta(seconds=chance.randrange(9999 * 31_556_952 // 1 - 10**9))
        if chance.random() < 0.5:
            moment = moment.replace(year=chance.randrange(1900, 2100), day=min(moment.day, 28))
        texts += [shape.format(moment, chance.randrange(1, 10**9)) for shape in SHAPES]
    damaged = []
    for text in texts:
        position = chance.randrange(len(text))
        damaged.append(text[:position] + chance.choice("0123456789 :-/.TZx") + text[position + 1 :])
    capitals = [text.upper() for text in texts]
    return [*texts, *damaged, *capitals, "", " ", "\n", "2020-01-01\n"]


@pytest.mark.parametrize("pattern", FORMATS)
def test_spark_reads_times_as_python_does(engine_call: EngineCall, pattern: str | None) -> None:
    texts = time_texts()
    frame = engine_call.session.createDataFrame(pa.table({"t": texts}))
    stamps: TimeFormat = timestamp_format(pattern)
    found = frame.select(F.unix_millis(spark_timestamp(stamps, F.col("t")))).toArrow().column(0).to_pylist()
    assert dict(zip(texts, found, strict=True)) == {text: stamps.millis(text) for text in texts}
    if pattern != "%s":
        days: TimeFormat = date_format(pattern)
        found = frame.select(F.unix_date(spark_date(days, F.col("t")))).toArrow().column(0).to_pylist()
        assert dict(zip(texts, found, strict=True)) == {text: days.days(text) for text in texts}
    assert sum(stamps.millis(text) is not None for text in texts) > 20


def number_texts() -> list[str]:
    chance = random.Random(5)
    plain = [
        "0",
        "-0",
        "+1",
        "007",
        "1.",
        ".5",
        "-.5",
        ".",
        "",
        "-",
        "1e5",
        "1E-3",
        "e5",
        "1e",
        "NaN",
        "-inf",
        "Infinity",
        "1f",
        "1d",
        "0x1p3",
    ]
    plain += [f"{chance.randrange(-(2**bits), 2**bits)}" for bits in (6, 7, 8, 31, 32, 63, 64) for _ in range(12)]
    plain += [f"{chance.randrange(-2000, 2000)}.{chance.randrange(1000)}" for _ in range(30)]
    plain += (
        [f" {text}" for text in plain[:8]] + [f"{text}\x7f" for text in plain[:8]] + ["1 2", "1,5", "\u0661", "1_0"]
    )
    return plain


INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")


def integer(text: str, low: int, high: int) -> int | None:
    return int(text) if INTEGER.fullmatch(text) and low <= int(text) <= high else None


def decimal(text: str) -> Decimal | None:
    try:
        exact = Decimal(text) if NUMBER.fullmatch(text) else None
    except InvalidOperation:
        return None
    if exact is None or abs(exact) >= 1000 or exact != exact.quantize(Decimal("0.01")):
        return None
    return exact.quantize(Decimal("0.01"))


def test_spark_reads_numbers_as_python_does(engine_call: EngineCall) -> None:
    texts = number_texts()
    frame = engine_call.session.createDataFrame(pa.table({"t": texts}))
    formats = TextFormats(date_format(None), timestamp_format(None))
    expected = {
        pa.int8(): [integer(text, -128, 127) for text in texts],
        pa.int32(): [integer(text, -(2**31), 2**31 - 1) for text in texts],
        pa.int64(): [integer(text, -(2**63), 2**63 - 1) for text in texts],
        pa.uint8(): [integer(text, 0, 255) for text in texts],
        pa.uint32(): [integer(text, 0, 2**32 - 1) for text in texts],
        pa.uint64(): [integer(text, 0, 2**63 - 1) for text in texts],
        pa.decimal128(5, 2): [decimal(text) for text in texts],
    }
    for kind, values in expected.items():
        found = frame.select(typed(F.col("t"), kind, formats, path="t")).toArrow().column(0).to_pylist()
        assert dict(zip(texts, found, strict=True)) == dict(zip(texts, values, strict=True)), kind
