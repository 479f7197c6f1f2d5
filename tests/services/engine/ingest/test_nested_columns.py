"""Ingested structs and lists: values below nulls, required members, cut times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric.model.source import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import Dataset

pytestmark = pytest.mark.spark


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


PLACE = pa.struct(
    [
        required("city", pa.string()),
        required("at", TIMESTAMP_TYPE),
        required("geo", pa.struct([required("lat", pa.float64()), required("digits", pa.list_(pa.int32()))])),
        required("price", pa.decimal128(9, 2)),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("event_time", TIMESTAMP_TYPE),
        required("id", pa.int64()),
        pa.field("place", PLACE),
        pa.field("texts", pa.list_(pa.string())),
        required("numbers", pa.list_(required("item", pa.float64()))),
        required("plain", pa.struct([pa.field("maybe", pa.string()), pa.field("times", pa.list_(TIMESTAMP_TYPE))])),
    ]
)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
LATE = datetime(2024, 1, 1, 12, 0, 0, 123000, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {
        "event_time": NOON,
        "id": 1,
        "place": {"city": "B", "at": LATE, "geo": {"lat": -0.0, "digits": [1, None]}, "price": Decimal("1.50")},
        "texts": ["a", None, ""],
        "numbers": [1.5, -0.0],
        "plain": {"maybe": None, "times": [LATE, None]},
    },
    {
        "event_time": NOON,
        "id": 2,
        "place": None,
        "texts": None,
        "numbers": [],
        "plain": {"maybe": "x", "times": None},
    },
    {
        "event_time": NOON,
        "id": 3,
        "place": {"city": "", "at": NOON, "geo": {"lat": 2.5, "digits": []}, "price": Decimal("-0.01")},
        "texts": [],
        "numbers": [0.1],
        "plain": {"maybe": "", "times": []},
    },
]
SHOWN = {**ROWS[1], "plain": {"maybe": "changed", "times": None}}


def text(rows: list[dict[str, Any]], *, lines: bool) -> bytes:
    def as_json(value: object) -> object:
        return float(value) if isinstance(value, Decimal) else str(value).replace("123000", "123456")

    given = [json.dumps(row, default=as_json) for row in rows]
    return ("\n".join(given) if lines else f"[{','.join(given)}]").encode()


def parquet(rows: list[dict[str, Any]], **kinds: pa.DataType) -> bytes:
    """As most writers have it: everything may be null."""
    kinds = {"numbers": pa.list_(pa.float64()), **kinds}
    members = [pa.field(member.name, member.type) for member in PLACE]
    members[2] = pa.field("geo", pa.struct([pa.field("lat", pa.float64()), pa.field("digits", pa.list_(pa.int32()))]))
    kinds["place"] = pa.struct(members)
    schema = pa.schema([pa.field(field.name, kinds.get(field.name, field.type)) for field in SCHEMA])
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue()


def own(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in SCHEMA.names} for row in rows]


READING: list[tuple[ReadStep, Any]] = [
    (ReadStepNdJson(schema=arrow_to_data_schema(SCHEMA)), lambda rows: text(rows, lines=True)),
    (ReadStepJson(schema=arrow_to_data_schema(SCHEMA)), lambda rows: text(rows, lines=False)),
    (ReadStepParquet(schema=arrow_to_data_schema(SCHEMA)), parquet),
    (ReadStepParquet(schema=arrow_to_data_schema(SCHEMA)), lambda rows: parquet(rows, id=pa.int32())),
]
"""The last one is not read by Spark itself, for a column is of another type."""
STRATEGIES = (
    MergeStrategyAppend(),
    MergeStrategyLedger(primary_key=("id",)),
    MergeStrategySnapshot(primary_key=("id",)),
    MergeStrategyUpsertStream(primary_key=("id",)),
)


@pytest.mark.parametrize("merge", STRATEGIES, ids=lambda merge: type(merge).__name__)
@pytest.mark.parametrize(("step", "written"), READING, ids=lambda step: type(step).__name__)
def test_rows_come_in_as_they_are(engine_call: EngineCall, merge: MergeStrategy, step: ReadStep, written: Any) -> None:
    dataset = Dataset(engine_call, merge=merge)
    assert own(dataset.ingest(step, written(ROWS))) == ROWS
    again = dataset.ingest(step, written([ROWS[0], SHOWN, ROWS[2]]))
    if isinstance(merge, MergeStrategyAppend):
        assert own(again) == [ROWS[0], SHOWN, ROWS[2]]
    elif isinstance(merge, MergeStrategyLedger):
        assert again == []
    else:
        assert [row["op"] for row in again] == [2, 3]
        assert own(again) == [ROWS[1], SHOWN]


@pytest.mark.parametrize(("step", "written"), READING, ids=lambda step: type(step).__name__)
@pytest.mark.parametrize(
    ("column", "value", "path"),
    [
        ("place", {**ROWS[0]["place"], "city": None}, "place.city"),
        ("place", {**ROWS[0]["place"], "geo": {"lat": None, "digits": []}}, "place.geo.lat"),
        ("place", {**ROWS[0]["place"], "geo": None}, "place.geo"),
        ("numbers", [1.0, None], "numbers[]"),
        ("plain", None, "plain"),
    ],
)
def test_nulls_where_none_may_be_are_told(
    engine_call: EngineCall, step: ReadStep, written: Any, column: str, value: object, path: str
) -> None:
    with pytest.raises(InvalidData) as caught:
        Dataset(engine_call).ingest(step, written([*ROWS, {**ROWS[0], column: value}]))
    # Readers of text know the line; of Parquet it is the writer who finds it.
    field = caught.value.place.field
    assert (
        (field or "").startswith(path.removesuffix("]"))
        if caught.value.place.line
        else f"`{path}` contains 1 null values" in caught.value.message
    )


def test_a_changelog_of_nested_rows(engine_call: EngineCall) -> None:
    step = ReadStepNdJson(schema=arrow_to_data_schema(pa.schema([*SCHEMA, required("op", pa.int32())])))
    dataset = Dataset(engine_call, merge=MergeStrategyChangelogStream(primary_key=("id",)))
    given = [{**ROWS[0], "op": 0}, {**ROWS[1], "op": 0}, {**ROWS[1], "op": 2}, {**SHOWN, "op": 3}]
    assert own(dataset.ingest(step, text(given, lines=True))) == [ROWS[0], ROWS[1], ROWS[1], SHOWN]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_digits_of_times_are_cut_alike_wherever_they_stand(engine_call: EngineCall, unit: str) -> None:
    """Before 1970 too: a time never comes after what it was."""
    fine = pa.timestamp(unit, "UTC")
    given = datetime(1969, 12, 31, 23, 59, 59, 999400, tzinfo=UTC)
    columns = {
        "event_time": pa.array([given], fine),
        "plain": pa.array([given], fine),
        "items": pa.array([[given, None]], pa.list_(fine)),
        "member": pa.array([{"t": given}], pa.struct([required("t", fine)])),
    }
    sink = BytesIO()
    pq.write_table(pa.table(columns), sink)
    (row,) = Dataset(engine_call).ingest(ReadStepParquet(), sink.getvalue())
    cut = given.replace(microsecond=999000)
    assert (row["event_time"], row["plain"], row["items"], row["member"]) == (cut, cut, [cut, None], {"t": cut})
