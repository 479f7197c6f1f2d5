"""Rows that are appended without Spark make the slice that Spark makes of them."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData
from odfabric.formats.manifests.ddl_schema import ddl_to_schema
from odfabric.model.engine import IngestResult
from odfabric.model.source import ReadStep, ReadStepCsv, ReadStepNdJson, ReadStepParquet
from odfabric_engine_spark.ingest import ingest_files as ingesting
from odfabric_engine_spark.ingest.ingest_files import ingest
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import Dataset

ROWS = 20_000
ONE_MEMBER = pa.struct([pa.field("a", pa.int64(), nullable=False)])


def ndjson(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def made(
    call: EngineCall, monkeypatch: pytest.MonkeyPatch, read: ReadStep, content: bytes, *, plain: bool
) -> tuple[bytes, IngestResult]:
    """The bytes of the slice, and what the ingest says of it.

    The other way of making it fails the test.
    """
    dataset = Dataset(call)
    request = dataset.request(read, content)
    scratch = call.scratch / f"round-{len(list(call.scratch.iterdir()))}"
    scratch.mkdir()
    with monkeypatch.context() as patch:
        if plain:
            patch.setattr(ingesting, "merge_rows", None)
        else:
            patch.setattr(ingesting, "append_plain", lambda *_, **__: None)
        result = ingest(request, replace(call, scratch=scratch))
    return (call.exchange.root / request.new_data_path).read_bytes(), result


def mixed(rows: int) -> pa.Table:
    """Every type of slices, with nulls; event times fall, rise and repeat."""
    times = [None if n % 7 == 3 else (n * 37 % 11) * 86_400_000 - 5 * 86_400_000 + n % 3 for n in range(rows)]
    some = [None if n % 5 == 4 else n for n in range(rows)]

    def of(make: object, arrow: pa.DataType) -> pa.Array:
        return pa.array([None if n is None else make(n) for n in some], arrow)  # type: ignore[operator]

    return pa.table(
        {
            "event_time": pa.array(times, pa.timestamp("ms", "UTC")),
            "us": pa.array([None if time is None else time * 1000 - 1 for time in times], pa.timestamp("us")),
            "text": of(lambda n: f"t\u00e9xt {n % 13}", pa.string()),
            "int": of(lambda n: n - 7, pa.int32()),
            "byte": of(lambda n: n % 200, pa.uint8()),
            "float": of(lambda n: [0.0, -0.0, float("nan"), 1.5][n % 4], pa.float64()),
            "small": of(lambda n: n / 3, pa.float32()),
            "decimal": of(lambda n: n, pa.decimal128(12, 2)),
            "bool": of(lambda n: n % 2 == 0, pa.bool_()),
            "day": of(lambda n: n - 100_000, pa.date32()),
            "bytes": of(lambda n: bytes([n % 256]), pa.binary()),
            "list": of(lambda n: list(range(n % 3)), pa.list_(pa.int64())),
            "struct": pa.array([None if n is None else {"a": n} for n in some], ONE_MEMBER),
        }
    )


DECLARED = ReadStepNdJson(schema=ddl_to_schema(["event_time TIMESTAMP", "a STRING", "b BIGINT"]))
CASES: dict[str, tuple[ReadStep, bytes]] = {
    "parquet": (ReadStepParquet(), parquet(mixed(200))),
    "many rows": (ReadStepParquet(), parquet(mixed(ROWS).select(["event_time", "text", "int"]))),
    "without event time": (ReadStepParquet(), parquet(mixed(50).drop_columns(["event_time"]))),
    "dates": (ReadStepParquet(), parquet(pa.table({"event_time": mixed(50)["day"], "n": pa.array(range(50))}))),
    "no rows": (DECLARED, b""),
    "declared": (DECLARED, ndjson({"a": "x", "b": 1}, {"event_time": "2020-01-01T00:00:00Z"}, {"b": None})),
    "texts": (ReadStepNdJson(), ndjson({"event_time": "2020-01-02", "a": 1}, {"event_time": "2020-01-01T10:00:00+02:00"})),
    "seconds": (ReadStepNdJson(), ndjson({"event_time": 1_600_000_000, "op": 1}, {"event_time": -1, "offset": 1})),
    "csv": (ReadStepCsv(header=True, infer_schema=True), b"event_time,a,system_time\n2020-01-02T00:00:00Z,1,x\n2020-01-01T00:00:00Z,,\n"),
    "header": (ReadStepCsv(header=True), b"event_time,a\n2020-01-02,1\n2020-01-01,\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_both_ways_write_the_same_bytes(engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    read, content = CASES[case]
    plain = made(engine_call, monkeypatch, read, content, plain=True)
    assert plain == made(engine_call, monkeypatch, read, content, plain=False)


def test_large_inputs_are_written_plainly_in_their_order_only(
    engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(engine_call, settings=replace(engine_call.settings, collected_bytes_max=1, batch_bytes=1000))
    table = mixed(300).select(["event_time", "text"]).sort_by([("event_time", "ascending")])
    ordered = parquet(table.slice(0, table.num_rows - table["event_time"].null_count))
    plain = made(small, monkeypatch, ReadStepParquet(), ordered, plain=True)
    assert plain == made(engine_call, monkeypatch, ReadStepParquet(), ordered, plain=False)
    shuffled = parquet(mixed(300).select(["event_time", "text"]))
    with pytest.raises(TypeError, match="not callable"):
        made(small, monkeypatch, ReadStepParquet(), shuffled, plain=True)


@pytest.mark.parametrize("time", ["yesterday", 10**15])
def test_event_times_that_are_none_are_refused_as_by_spark(engine_call: EngineCall, time: object) -> None:
    rows = ndjson({"event_time": "2020-01-01" if isinstance(time, str) else 1}, {"event_time": time})
    with pytest.raises(InvalidData) as refused:
        Dataset(engine_call).ingest(ReadStepNdJson(), rows)
    assert (refused.value.place.line, refused.value.place.field) == (2, "event_time")


def test_a_refusal_after_the_rows_were_written_leaves_no_slice(engine_call: EngineCall) -> None:
    read = ReadStepParquet(schema=ddl_to_schema(["text STRING NOT NULL"]))
    dataset = Dataset(engine_call)
    request = dataset.request(read, parquet(pa.table({"text": ["a", None, None]})))
    with pytest.raises(InvalidData) as refused:
        ingest(request, engine_call)
    assert "contains 2 null values" in refused.value.message
    assert refused.value.place.row == 2
    assert not (engine_call.exchange.root / request.new_data_path).exists()
