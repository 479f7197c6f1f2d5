"""Reading users' Parquet: exact for any writer; damage and lossy types refused."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import IncompatibleSchema, InvalidData, LimitExceeded
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.source import ReadStepParquet
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.reading import ddl, read_rows, refusal, values

pytestmark = pytest.mark.spark

STAMP = datetime(2020, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def column(array: Any, kind: pa.DataType | None = None, name: str = "v") -> pa.Table:
    return pa.table({name: pa.array(array, kind)})


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        ([1, -1, None], pa.int8(), [1, -1, None]),
        ([2**63 - 1, -(2**63)], pa.int64(), [2**63 - 1, -(2**63)]),
        ([255, 0], pa.uint8(), [255, 0]),
        ([2**32 - 1], pa.uint32(), [2**32 - 1]),
        ([2**63 - 1, None], pa.uint64(), [2**63 - 1, None]),
        ([True, None], pa.bool_(), [True, None]),
        ([0.1, -0.0, float("inf")], pa.float64(), [0.1, -0.0, float("inf")]),
        ([0.5], pa.float32(), [0.5]),
        ([Decimal("1.20"), None], pa.decimal128(38, 2), [Decimal("1.20"), None]),
        (["a", "żółw", None, ""], pa.string(), ["a", "żółw", None, ""]),
        (["a", None], pa.large_string(), ["a", None]),
        (["a", "b", "a"], pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
        ([b"\xff", None], pa.binary(), [b"\xff", None]),
        ([b"abc"], pa.binary(3), [b"abc"]),
        ([date(1582, 10, 10), date(1, 1, 1)], pa.date32(), [date(1582, 10, 10), date(1, 1, 1)]),
        ([date(2020, 1, 1)], pa.date64(), [date(2020, 1, 1)]),
        ([STAMP], pa.timestamp("ms", "UTC"), [STAMP]),
        ([STAMP.replace(microsecond=678999)], pa.timestamp("us", "UTC"), [STAMP]),
        ([STAMP.replace(microsecond=678999)], pa.timestamp("ns", "Europe/Kyiv"), [STAMP]),
        ([STAMP.replace(tzinfo=None)], pa.timestamp("us"), [STAMP]),
        ([STAMP.replace(microsecond=0)], pa.timestamp("s", "UTC"), [STAMP.replace(microsecond=0)]),
        ([datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)], pa.timestamp("us", "UTC"),
         [datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)]),
        ([[1, None], None, []], pa.list_(pa.int32()), [[1, None], None, []]),
        ([["a"]], pa.list_(pa.string(), 1), [["a"]]),
    ],
    ids=str,
)  # fmt: skip
def test_values_are_exact(engine_call: EngineCall, array: list[object], kind: pa.DataType, expected: object) -> None:
    found = [row["v"] for row in values(engine_call, ReadStepParquet(), parquet(column(array, kind)))]
    assert repr(found).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == repr(expected)


def test_old_timestamps_of_96_bits_do_not_wrap_around(engine_call: EngineCall) -> None:
    moment = datetime(1500, 1, 1, tzinfo=UTC)
    table = column([moment], pa.timestamp("us", "UTC"))
    content = parquet(table, use_deprecated_int96_timestamps=True)
    assert values(engine_call, ReadStepParquet(), content) == [{"v": moment}]


IDS = [UUID(int=0), None, UUID("00112233-4455-6677-8899-aabbccddeeff")]
BYTES_OF_IDS = [None if each is None else each.bytes for each in IDS]


@pytest.mark.parametrize("store_schema", [True, False])
def test_uuids_are_texts_or_bytes(engine_call: EngineCall, store_schema: bool) -> None:
    content = parquet(column(BYTES_OF_IDS, pa.uuid()), store_schema=store_schema)
    texts = [{"v": None if each is None else str(each)} for each in IDS]
    for step in (ReadStepParquet(), ReadStepParquet(schema=ddl("v STRING"))):
        assert values(engine_call, step, content) == texts
    as_bytes = ReadStepParquet(schema=arrow_to_data_schema(pa.schema([("v", pa.binary())])))
    assert values(engine_call, as_bytes, content) == [{"v": each} for each in BYTES_OF_IDS]
    other = refusal(engine_call, ReadStepParquet(schema=ddl("v BIGINT")), content)
    assert (other.place.file, other.place.field) == ("f0", "v")


ENTRIES = [[("a", 1), ("b", None)], None, []]
TREES = [[{"a": 1, "b": [{"c": "x"}, None]}, None], None, []]
TREE = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.string())])))]))


@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (ENTRIES, pa.map_(pa.string(), pa.int64())),
        ([[("k", TREES[0])]], pa.map_(pa.string(), TREE)),
        (TREES, TREE),
        ([{"n": {"m": None}}, {"n": None}, None], pa.struct([("n", pa.struct([("m", pa.string())]))])),
    ],
    ids=str,
)
def test_a_query_reads_nested_values(
    engine_call: EngineCall, array: list[Any], kind: pa.DataType, checksums: bool
) -> None:
    content = parquet(column(array, kind), write_page_checksum=checksums)
    assert [row["v"] for row in values(engine_call, ReadStepParquet(), content)] == array
    declared = arrow_to_data_schema(pa.schema([("v", kind)]))
    rows = read_rows(engine_call, ReadStepParquet(schema=declared), content, preprocessed=True)
    assert rows is not None
    assert rows.frame.toArrow().column("v").to_pylist() == array
    stored = refusal(engine_call, ReadStepParquet(schema=declared), content)
    assert isinstance(stored, IncompatibleSchema)


def test_nulls_within_a_column_are_refused_with_their_row(engine_call: EngineCall) -> None:
    declared = pa.list_(pa.struct([pa.field("a", pa.int64(), nullable=False)]))
    step = ReadStepParquet(schema=arrow_to_data_schema(pa.schema([("v", declared)])))
    given = column([[{"a": 1}], None, [{"a": 2}, {"a": None}]], pa.list_(pa.struct([("a", pa.int64())])))
    with pytest.raises(InvalidData, match=r"Column `v\[\].a` contains 1 null values") as caught:
        read_rows(engine_call, step, parquet(given), preprocessed=True)
    assert (caught.value.place.field, caught.value.place.row) == ("v", 3)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        ([1], pa.time64("us")),
        ([1], pa.duration("us")),
        ([None], pa.null()),
        ([Decimal(1)], pa.decimal256(50, 0)),
        ([1.0], pa.float16()),
    ],
)
def test_types_that_cannot_be_kept_are_refused_by_name(
    engine_call: EngineCall, array: list[object], kind: pa.DataType
) -> None:
    error = refusal(engine_call, ReadStepParquet(), parquet(column(array, kind)))
    assert isinstance(error, IncompatibleSchema)
    assert error.place.field == "v"


def test_unsigned_integers_beyond_are_refused_with_their_row(engine_call: EngineCall) -> None:
    error = refusal(engine_call, ReadStepParquet(), parquet(column([1] * 1000 + [2**63], pa.uint64())))
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.field, error.place.row) == ("f0", "v", 1001)


def test_a_declared_schema_takes_columns_by_name(engine_call: EngineCall) -> None:
    table = pa.table({"x": pa.array([1.5]), "b": pa.array([1], pa.int64()), "a": pa.array([7], pa.int16())})
    step = ReadStepParquet(schema=ddl("a BIGINT NOT NULL", "b TINYINT", "c STRING"))
    assert values(engine_call, step, parquet(table)) == [{"a": 7, "b": 1, "c": None}]
    assert values(engine_call, step, parquet(table), parquet(table)) == [{"a": 7, "b": 1, "c": None}] * 2
    missing = refusal(engine_call, step, parquet(table.drop_columns(["a"])))
    assert missing.message == "Column `a` is missing"
    too_large = refusal(engine_call, step, parquet(table.set_column(1, "b", pa.array([300]))))
    assert (too_large.place.field, too_large.place.row) == ("b", 1)
    other = refusal(engine_call, ReadStepParquet(schema=ddl("x STRING")), parquet(table))
    assert "double instead of string" in other.message


def test_nulls_in_required_columns_are_counted(engine_call: EngineCall) -> None:
    step = ReadStepParquet(schema=ddl("v INT NOT NULL"))
    error = refusal(engine_call, step, parquet(column([1], pa.int32())), parquet(column([1, None, None], pa.int32())))
    assert error.message == "Column `v` contains 2 null values while none were expected"
    assert (error.place.file, error.place.row, error.place.field) == ("f1", 2, "v")
    rows = read_rows(
        engine_call,
        ReadStepParquet(),
        parquet(pa.table([[1]], schema=pa.schema([pa.field("v", pa.int32(), nullable=False)]))),
    )
    assert rows is not None
    assert not rows.schema.field("v").nullable


def test_order_of_rows_over_row_groups_and_files(engine_call: EngineCall) -> None:
    first, second = column(range(5000)), column(range(5000, 9000))
    found = values(
        engine_call, ReadStepParquet(), parquet(first, row_group_size=100), b"", parquet(second, row_group_size=7)
    )
    assert [row["v"] for row in found] == list(range(9000))


def test_empty_inputs(engine_call: EngineCall) -> None:
    assert read_rows(engine_call, ReadStepParquet(), b"") is None
    assert values(engine_call, ReadStepParquet(schema=ddl("v INT")), b"") == []
    assert values(engine_call, ReadStepParquet(), parquet(column([], pa.int32()))) == []


def test_texts_that_are_not_utf8_are_refused_with_their_row(engine_call: EngineCall) -> None:
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xff\xfe"))
    error = refusal(engine_call, ReadStepParquet(), parquet(pa.table({"v": broken})))
    assert isinstance(error, InvalidData)
    assert error.place.file == "f0"


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        (pa.timestamp("ms", "UTC"), ()),
        (pa.timestamp("ms", "UTC"), ("v TIMESTAMP NOT NULL",)),
        (pa.list_(pa.timestamp("ms")), ()),
    ],
    ids=["optional", "required", "listed"],
)
def test_timestamps_beyond_those_of_spark_are_refused_with_their_row(
    engine_call: EngineCall, kind: pa.DataType, declared: tuple[str, ...]
) -> None:
    values: list[object] = [0, 1, 2**62, -(2**63)]
    if pa.types.is_list(kind):
        values = [[value, None] for value in values]
    step = ReadStepParquet(schema=ddl(*declared) if declared else None)
    error = refusal(engine_call, step, parquet(column(values, kind)))
    assert isinstance(error, InvalidData)
    assert (error.place.field, error.place.row) == ("v", 3)


def damaged(content: bytes) -> Iterator[bytes]:
    yield b"PAR1"
    yield b"not parquet at all"
    yield content[: len(content) // 2]
    yield content[:-8]
    chance = random.Random(7)
    for _ in range(12):
        position = chance.randrange(4, len(content) - 8)
        yield content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]


def outcome(call: EngineCall, content: bytes) -> list[dict[str, Any]] | InvalidData:
    """The rows, or the refusal of the file."""
    try:
        return values(call, ReadStepParquet(), content)
    except InvalidData as refused:
        return refused


def test_damaged_files_are_refused_or_read_as_they_were(engine_call: EngineCall) -> None:
    content = parquet(column([f"text {number}" for number in range(500)]), write_page_checksum=True)
    whole = values(engine_call, ReadStepParquet(), content)
    for bad in damaged(content):
        found = outcome(engine_call, bad)
        assert found == whole or (isinstance(found, InvalidData) and found.place.file == "f0")


def test_columns(engine_call: EngineCall) -> None:
    twice = pa.table([[1], [2]], names=["a", "a"])
    assert "twice" in refusal(engine_call, ReadStepParquet(), parquet(twice)).message
    differs = refusal(engine_call, ReadStepParquet(), parquet(column([1])), parquet(column([1], name="w")))
    assert differs.place.file == "f1"
    small = replace(engine_call, settings=replace(engine_call.settings, columns_max=1, input_rows_max=3))
    assert "more than 1" in refusal(small, ReadStepParquet(), parquet(pa.table({"a": [1], "b": [2]}))).message
    assert isinstance(refusal(small, ReadStepParquet(), parquet(column([1, 2, 3, 4]))), LimitExceeded)
