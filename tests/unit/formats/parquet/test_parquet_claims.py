"""What footers claim of columns: read with certainty or unknown, never wrong."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData, LimitExceeded
from odfabric.formats.parquet.parquet_claims import ColumnClaim, FileClaims, read_claims


def claims_of(table: pa.Table, **options: Any) -> FileClaims:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return read_claims(sink, table.column_names, footer_bytes_max=1 << 20)


def bounds_of(claim: ColumnClaim) -> tuple[Any, Any]:
    assert claim.bounds is not None
    found = pc.min_max(claim.bounds)
    return found["min"].as_py(), found["max"].as_py()


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([-3, None, 4], pa.int8()),
        ([-(2**62), 2**62], pa.int64()),
        ([1.5, -0.5, None], pa.float64()),
        (["b", None, "ä", ""], pa.string()),
        ([Decimal("-1.25"), Decimal("99.50")], pa.decimal128(6, 2)),
        ([Decimal(-(10**30)), Decimal(5)], pa.decimal128(38, 0)),
        ([date(1969, 12, 31), date(2026, 1, 1)], pa.date32()),
        ([datetime(2026, 1, 1, 0, 0, 0, 1, UTC), datetime(1960, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
        ([datetime(2026, 1, 1, tzinfo=UTC), None], pa.timestamp("ms", tz="UTC")),
        ([time(1, 2, 3), time(23, 0)], pa.time64("us")),
    ],
)
def test_bounds_and_nulls_are_those_of_the_values(values: list[Any], data_type: pa.DataType) -> None:
    column = pa.array(values, data_type)
    (claim,) = claims_of(pa.table({"x": column}), row_group_size=2).columns.values()
    expected = pc.min_max(column)
    assert claim.nulls == column.null_count
    assert bounds_of(claim) == (expected["min"].as_py(), expected["max"].as_py())


def test_a_row_group_of_nulls_bounds_nothing() -> None:
    found = claims_of(pa.table({"x": pa.array([None, None, 5, 7]), "y": pa.nulls(4, pa.string())}), row_group_size=2)
    assert bounds_of(found.columns["x"]) == (5, 7)
    empty = found.columns["y"]
    assert (empty.nulls, empty.bounds is not None and len(empty.bounds)) == (4, 0)
    assert claims_of(pa.table({"x": pa.array([], pa.int64())})).rows == 0


def test_what_is_not_certain_is_unknown() -> None:
    table = pa.table(
        {
            "a.b": pa.array([1]),
            "a": pa.array([{"b": 2}]),
            "list": pa.array([[1, 2]]),
            "binary": pa.array([b"\xff"]),
            "unsigned": pa.array([2**63], pa.uint64()),
        }
    )
    found = claims_of(table).columns
    assert {name: each.bounds for name, each in found.items()} == dict.fromkeys(table.column_names)
    assert found["a.b"].nulls is None
    without = claims_of(pa.table({"x": pa.array([1])}), write_statistics=False).columns["x"]
    assert (without.nulls, without.bounds) == (None, None)


def test_columns_that_are_not_in_the_file_are_left_out() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), sink)
    found = read_claims(sink, ["y"], footer_bytes_max=1 << 20)
    assert (found.names, found.columns) == ({"x"}, {})


def test_what_is_no_parquet_file_is_refused() -> None:
    for data in (b"", b"PAR1", b"no parquet file", b"PAR1\xff\xff\xff\x7fPAR1"):
        with pytest.raises(InvalidData):
            read_claims(io.BytesIO(data), ["x"], footer_bytes_max=1 << 20)
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), sink)
    with pytest.raises(LimitExceeded):
        read_claims(sink, ["x"], footer_bytes_max=10)
