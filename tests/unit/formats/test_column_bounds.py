"""Bounds of a column by the statistics of a file."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData
from odfabric.formats.parquet.column_bounds import TimeBounds, column_bounds, missing_bytes, time_bounds


@pytest.mark.parametrize(
    ("values", "bounds"),
    [([3, 1, 2], (1, 3)), ([7, 7], (7, 7)), ([1, None], None), ([], None)],
)
def test_bounds_are_of_all_records_or_none(tmp_path: Path, values: list[int | None], bounds: object) -> None:
    table = pa.table({"t": pa.array(values, pa.int64())})
    pq.write_table(table, tmp_path / "file", row_group_size=1)
    assert column_bounds(tmp_path / "file", "t") == bounds
    assert column_bounds(tmp_path / "file", "u") is None
    pq.write_table(table, tmp_path / "file", write_statistics=False)
    assert column_bounds(tmp_path / "file", "t") is None


BEFORE_CHRIST = -65_000_000_000_000


@pytest.mark.parametrize(
    ("kind", "values", "bounds"),
    [
        (pa.timestamp("ms", "UTC"), [5, BEFORE_CHRIST, 7], TimeBounds(BEFORE_CHRIST, 7)),
        (pa.timestamp("us", "UTC"), [-1, 1001], TimeBounds(-1, 2)),
        (pa.date32(), [-1, 2], TimeBounds(-86_400_000, 172_800_000)),
        (pa.timestamp("ms", "UTC"), [5, None], None),
        (pa.int64(), [1, 2], None),
        (pa.string(), ["2026-01-01"], None),
        (pa.timestamp("ms", "UTC"), [], None),
    ],
    ids=["before-christ", "finer", "dates", "null", "number", "text", "no-rows"],
)
def test_times_are_bounded_in_milliseconds(
    tmp_path: Path, kind: pa.DataType, values: list[object], bounds: TimeBounds | None
) -> None:
    table = pa.table({"t": pa.array(values, kind)})
    pq.write_table(table, tmp_path / "file", row_group_size=1)
    assert time_bounds(tmp_path / "file", "t") == bounds
    assert time_bounds(tmp_path / "file", "u") is None
    pq.write_table(table, tmp_path / "file", write_statistics=False)
    assert time_bounds(tmp_path / "file", "t") is None


def test_the_end_of_a_file_says_as_much(tmp_path: Path) -> None:
    times = pa.array(range(5000), pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"t": times, "v": list(range(5000))}), tmp_path / "file", row_group_size=500)
    whole = (tmp_path / "file").read_bytes()
    end = whole[-200:]
    missing = missing_bytes(end)
    assert missing > 0
    end = whole[-200 - missing :]
    assert len(end) < len(whole) / 2
    assert missing_bytes(end) == 0
    assert time_bounds(io.BytesIO(end), "t") == TimeBounds(0, 4999)
    for wrong in (b"", b"PAR1", whole[:-1]):
        with pytest.raises(InvalidData):
            missing_bytes(wrong)
