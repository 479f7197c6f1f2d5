"""Bounds of a column by the statistics of a file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.formats.parquet.column_bounds import column_bounds


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
