"""Texts as values in Arrow, held to Python: formats of times, numbers."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import IncompatibleSchema
from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric_engine_spark.ingest.values.text_values import TextFormats, check_text_type, typed

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
def test_times_are_read_as_python_does(pattern: str | None) -> None:
    texts = time_texts()
    formats = TextFormats(date_format(None if pattern == "%s" else pattern), timestamp_format(pattern))
    for some in (texts, [text for text in texts if formats.timestamp.millis(text) is not None]):
        found = typed(pa.array(some, pa.string()), TIMESTAMP_TYPE, formats).cast(pa.int64()).to_pylist()
        assert dict(zip(some, found, strict=True)) == {text: formats.timestamp.millis(text) for text in some}
        days = typed(pa.array(some, pa.string()), pa.date32(), formats).cast(pa.int32()).to_pylist()
        assert dict(zip(some, days, strict=True)) == {text: formats.date.days(text) for text in some}
    assert sum(formats.timestamp.millis(text) is not None for text in texts) > 20


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


INTEGER = re.compile(r"([+-]?[0-9]+)(?:\.0+)?")
FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")


def integer(text: str, low: int, high: int) -> int | None:
    found = INTEGER.fullmatch(text)
    return int(found[1]) if found and low <= int(found[1]) <= high else None


def decimal(text: str) -> Decimal | None:
    try:
        exact = Decimal(text) if NUMBER.fullmatch(text) else None
    except InvalidOperation:
        return None
    if exact is None or abs(exact) >= 1000 or exact != exact.quantize(Decimal("0.01")):
        return None
    return exact.quantize(Decimal("0.01"))


def floating(text: str) -> float | None:
    if text.lower() in ("nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"):
        return float(text)
    value = float(text) if FLOAT.fullmatch(text) else None
    return None if value is None or math.isinf(value) else value


KINDS: dict[pa.DataType, Callable[[str], Any]] = {
    pa.int8(): lambda text: integer(text, -128, 127),
    pa.int32(): lambda text: integer(text, -(2**31), 2**31 - 1),
    pa.int64(): lambda text: integer(text, -(2**63), 2**63 - 1),
    pa.uint8(): lambda text: integer(text, 0, 255),
    pa.uint32(): lambda text: integer(text, 0, 2**32 - 1),
    pa.uint64(): lambda text: integer(text, 0, 2**63 - 1),
    pa.decimal128(5, 2): decimal,
    pa.float64(): floating,
    pa.bool_(): lambda text: {"true": True, "false": False}.get(text.lower()) if text.isascii() else None,
}
FORMATS_OF_NONE = TextFormats(date_format(None), timestamp_format(None))


def same(one: Any, other: Any) -> bool:
    return one == other or (isinstance(one, float) and isinstance(other, float) and one != one and other != other)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_numbers_are_read_as_python_does(kind: pa.DataType) -> None:
    texts = [*number_texts(), "5.0", "-5.00", "5.5", "+0.0", "-0.0", "1e999", "1e-999", "TRUE", "False", "0x1F"]
    found = typed(pa.array(texts), kind, FORMATS_OF_NONE).to_pylist()
    wanted = [KINDS[kind](text) for text in texts]
    assert [
        (text, value) for text, value, good in zip(texts, found, wanted, strict=True) if not same(value, good)
    ] == []


NUMBER_LIKE = st.text("0123456789+-.eE ", max_size=8) | st.integers(-(2**66), 2**66).map(str) | st.floats().map(str)


@given(texts=st.lists(st.none() | NUMBER_LIKE | st.text(max_size=3), max_size=6), kind=st.sampled_from(list(KINDS)))
def test_every_text_is_its_value_or_null(texts: list[str | None], kind: pa.DataType) -> None:
    array = pa.array(texts, pa.string())
    values = typed(array, kind, FORMATS_OF_NONE)
    wanted = [None if text is None else KINDS[kind](text) for text in texts]
    assert values.type == kind
    assert all(map(same, values.to_pylist(), wanted))


def test_floats_are_rounded_once() -> None:
    # The double next to this text is the middle between two Float32, and would be rounded to the even one.
    assert typed(pa.array(["16777217.000000001"]), pa.float32(), FORMATS_OF_NONE).to_pylist() == [16_777_218.0]
    assert typed(pa.array(["3.5e38", "-inf"]), pa.float32(), FORMATS_OF_NONE).to_pylist() == [None, -math.inf]


@pytest.mark.parametrize("arrow", [pa.binary(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.date64()])
def test_types_without_a_form_as_text_are_refused_by_name(arrow: pa.DataType) -> None:
    with pytest.raises(IncompatibleSchema, match="no form as text") as caught:
        check_text_type(arrow, path="a.b")
    assert caught.value.place.field == "a.b"
