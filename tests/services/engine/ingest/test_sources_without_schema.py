"""Sources without declared columns: after the first file the dataset decides."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData
from odfabric.model.source import (
    MergeStrategySnapshot,
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import Dataset

pytestmark = pytest.mark.spark

CSV = ReadStepCsv(header=True, infer_schema=True)


def lines(*rows: Mapping[str, object]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(**columns: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, write_page_checksum=True)
    return sink.getvalue()


def values(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize(
    ("read", "first", "second", "found"),
    [
        (CSV, b"id,v\n1,10\n", b"v,id\n,2\n", (2, None)),
        (CSV, b"id,v\n1,1.5\n", b"id,v\n2,3\n", (2, 3.0)),
        (CSV, b"id,v\n1,x\n", b"id,v\n2,007\n", (2, "007")),
        (ReadStepNdJson(), lines({"id": 1, "v": 1.5}), lines({"id": 2, "v": 2}), (2, 2.0)),
        (ReadStepNdJson(), lines({"id": 1, "v": [1]}), lines({"v": [], "id": 2}), (2, [])),
        (ReadStepNdJson(), lines({"id": 1, "v": ["a"]}), lines({"id": 2}), (2, None)),
        (ReadStepJson(), b'[{"id": 1, "v": "a"}]', b'[{"v": null, "id": 2}]', (2, None)),
        (
            ReadStepParquet(),
            parquet(id=pa.array([1]), v=pa.array(["a"])),
            parquet(v=pa.nulls(1), id=pa.array([2], pa.int32())),
            (2, None),
        ),
    ],
)
def test_another_order_nulls_and_narrower_values_fit(
    engine_call: EngineCall, read: ReadStep, first: bytes, second: bytes, found: tuple[object, ...]
) -> None:
    dataset = Dataset(engine_call)
    dataset.ingest(read, first)
    assert values(dataset.ingest(read, second), "id", "v") == [found]


@pytest.mark.parametrize(
    ("read", "first", "second", "field", "line"),
    [
        (CSV, b"id,v\n1,10\n", b"id,v\n2,3\n4,1.5\n", "v", 3),
        (CSV, b"id,v\n1,10\n", b"id,v,w\n2,3,4\n", "w", 1),
        (CSV, b"id,v\n1,10\n", b"id\n2\n", "v", 1),
        (ReadStepNdJson(), lines({"id": 1, "v": 1}), lines({"id": 2}, {"id": 3, "w": 5}), "w", 2),
        (ReadStepNdJson(), lines({"id": 1, "v": 1}), lines({"id": 2, "v": "x"}), "v", 1),
        (ReadStepParquet(), parquet(id=pa.array([1])), parquet(id=pa.array([1]), w=pa.array([2])), "w", None),
    ],
)
def test_what_does_not_fit_is_named_with_the_way_out(
    engine_call: EngineCall, read: ReadStep, first: bytes, second: bytes, field: str, line: int | None
) -> None:
    dataset = Dataset(engine_call)
    dataset.ingest(read, first)
    with pytest.raises(InvalidData) as refused:
        dataset.ingest(read, second)
    assert (refused.value.place.field, refused.value.place.line) == (field, line)
    assert "set-source" in (refused.value.hint or "")


def test_event_times_and_names_of_system_columns_mean_the_same_each_time(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    for second in (1, 2):
        (row,) = dataset.ingest(ReadStepNdJson(), lines({"op": second, "event_time": 1577926923, "a": "x"}))
        assert (row["_op"], row["event_time"].isoformat()) == (second, "2020-01-02T01:02:03+00:00")
    (row,) = dataset.ingest(ReadStepNdJson(), lines({"a": "y", "event_time": "2021-01-01T00:00:00Z"}))
    assert (row["_op"], row["event_time"].year) == (None, 2021)


def test_a_table_without_rows_takes_all_away(engine_call: EngineCall) -> None:
    for read, first, empty in (
        (CSV, b"id,v\n1,10\n", b"id,v\n"),
        (ReadStepJson(), b'[{"id": 1, "v": 10}]', b"[]"),
        (ReadStepNdJson(), b'{"id": 1, "v": 10}\n', b"\n"),
    ):
        dataset = Dataset(engine_call, merge=MergeStrategySnapshot(primary_key=("id",)), rounds=id(read) % 10**6)
        dataset.ingest(read, first)
        assert values(dataset.ingest(read, empty), "op", "id") == [(1, 1)]


def test_a_field_of_later_rows_is_not_lost_before_there_are_columns(engine_call: EngineCall) -> None:
    rows = [{"id": number} for number in range(engine_call.settings.infer_rows)]
    with pytest.raises(InvalidData) as refused:
        Dataset(engine_call).ingest(ReadStepNdJson(), lines(*rows, {"id": 7, "late": 1}))
    assert (refused.value.place.field, refused.value.place.line) == ("late", len(rows) + 1)
