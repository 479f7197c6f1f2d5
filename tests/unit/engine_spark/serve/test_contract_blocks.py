"""An input's blocks, recovered from slices and watermarks of `engine.Engine`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData
from odfabric.model.engine import SliceFile
from odfabric.model.engine_contract import Watermark
from odfabric.model.instant import Instant
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.serve.contract.blocks import DataBlock, read_block, steps_of_blocks
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from tests.services.engine.transforming import Input, input_schema


def data(begin: int, end: int, system_ms: int) -> DataBlock:
    return DataBlock(SliceFile(path="x", offsets=OffsetRange(begin, end)), system_ms)


def mark(system_ms: int, event_ms: int, nanos: int = 0) -> Watermark:
    return Watermark(system_time=Instant(system_ms * 1_000_000 + nanos), event_time=Instant.from_millis(event_ms))


def steps(
    blocks: list[DataBlock], marks: list[Watermark], begin: int, end: int
) -> list[tuple[int, int | None, int | None]]:
    """System time, last offset and watermark of each step."""
    return [
        (step.system_time.millis, step.last_offset, None if step.watermark is None else step.watermark.millis)
        for step in steps_of_blocks(blocks, marks, OffsetRange(begin, end))
    ]


def test_a_watermark_belongs_to_the_block_of_its_system_time() -> None:
    found = steps([data(0, 3, 10), data(3, 5, 20)], [mark(10, 1, nanos=999_999), mark(20, 2)], 0, 5)
    assert found == [(10, 2, 1), (20, 4, 2)]


def test_blocks_with_one_of_the_two_are_steps_of_their_own() -> None:
    found = steps([data(4, 6, 10), data(6, 7, 30)], [mark(20, 1), mark(40, 2)], 4, 7)
    assert found == [(10, 5, None), (20, 5, 1), (30, 6, None), (40, 6, 2)]


def test_a_watermark_before_all_rows_has_the_offset_before_them() -> None:
    assert steps([data(4, 6, 10)], [mark(5, 1)], 4, 6) == [(5, 3, 1), (10, 5, None)]
    assert steps([], [mark(5, 1)], 0, 0) == [(5, None, 1)]


def test_at_equal_times_rows_come_before_watermarks_unless_each_has_one() -> None:
    assert steps([data(0, 1, 10), data(1, 2, 10)], [mark(10, 1), mark(10, 2)], 0, 2) == [(10, 0, 1), (10, 1, 2)]
    assert steps([data(0, 1, 10), data(1, 2, 10)], [mark(10, 1)], 0, 2) == [(10, 0, None), (10, 1, None), (10, 1, 1)]


def test_rows_beyond_the_interval_are_no_part_of_a_step() -> None:
    assert steps([data(0, 10, 10)], [mark(10, 1)], 3, 7) == [(10, 6, 1)]


class Counted(list[Any]):
    """A list that knows how often it was gone through."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_many_blocks_are_not_gone_through_for_each_of_them() -> None:
    blocks, marks = Counted(data(at, at + 1, at) for at in range(100)), Counted(mark(at, at) for at in range(100))
    assert steps(blocks, marks, 0, 100) == [(at, at, at) for at in range(100)]
    assert blocks.times == marks.times == 1


def test_what_our_own_coordinator_would_have_said(tmp_path: Path) -> None:
    """Steps with different system times survive the other contract."""
    one = Input(tmp_path, "a", input_schema())
    one.add([(0, 1), (0, 2)], watermark=5, at=10).add([], watermark=7, at=20).add([(0, 3)], at=30)
    exchange = ExchangeFolder.at(tmp_path)
    blocks = [read_block(each.path, DatasetVocabulary(), exchange) for each in one.slices]
    assert [block.slice for block in blocks] == one.slices
    marks = [Watermark(system_time=s.system_time, event_time=s.watermark) for s in one.steps if s.watermark is not None]
    assert list(steps_of_blocks(blocks, marks, OffsetRange(0, 3))) == one.steps


TIME = pa.timestamp("ms", "UTC")
EVENT_TIME = ("event_time", TIME)
SCHEMA = pa.schema([("offset", pa.int64()), ("system_time", TIME), EVENT_TIME])
NOW = dt.datetime(2050, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        (SCHEMA, []),
        (SCHEMA, [(None, NOW, NOW)]),
        (SCHEMA, [(0, None, NOW)]),
        (pa.schema([("offset", pa.string()), ("system_time", TIME), EVENT_TIME]), [("0", NOW, NOW)]),
        (pa.schema([("offset", pa.int64()), ("system_time", pa.int64()), EVENT_TIME]), [(0, 0, NOW)]),
        (pa.schema([("offset", pa.int64()), EVENT_TIME]), [(0, NOW)]),
        (pa.schema([("system_time", TIME), EVENT_TIME]), [(NOW, NOW)]),
        (pa.schema([("offset", pa.int64()), ("system_time", TIME)]), [(0, NOW)]),
    ],
)
def test_files_that_are_no_slices(tmp_path: Path, schema: pa.Schema, rows: list[tuple[Any, ...]]) -> None:
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
    pq.write_table(table, tmp_path / "slice")
    with pytest.raises(InvalidData) as refused:
        read_block("slice", DatasetVocabulary(), ExchangeFolder.at(tmp_path))
    assert refused.value.place.rule == "file-no-slice"


def test_a_file_that_is_no_parquet_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "slice").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(InvalidData, match="slice"):
        read_block("slice", DatasetVocabulary(), ExchangeFolder.at(tmp_path))


def test_system_times_of_any_unit_and_in_several_row_groups(tmp_path: Path) -> None:
    schema = pa.schema([("offset", pa.uint64()), ("system_time", pa.timestamp("ns", "UTC")), EVENT_TIME])
    rows = {"offset": [7, 8, 9, 10], "system_time": [1, 2, 3, 30_000_999], "event_time": [0] * 4}
    pq.write_table(pa.table(rows, schema=schema), tmp_path / "slice", row_group_size=2)
    found = read_block("slice", DatasetVocabulary(), ExchangeFolder.at(tmp_path))
    assert found == DataBlock(SliceFile(path="slice", offsets=OffsetRange(7, 11)), 30)
