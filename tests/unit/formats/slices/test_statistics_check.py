"""Statistics of slices: what readers may skip by must hold for all rows."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.formats.parquet.parquet_footer import footer_bytes, read_footer
from odfabric.formats.parquet.parquet_reading import arrow_schema_of, batches_of, open_parquet
from odfabric.formats.slices.statistics_check import statistics_check
from tests.support.lying_slices import write_lying


def problems(source: Path | io.BytesIO) -> list[str]:
    with open_parquet(source) as file:
        check = statistics_check(source, file.schema_arrow)
        for batch in batches_of(file, schema=arrow_schema_of(file)):
            check.take(batch)
    return check.problems()


MS = pa.timestamp("ms", "UTC")
LIES: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "event time, later": (MS, [5, 9], [5, 8]),
    "operation": (pa.int32(), [0, 1], [0, 0]),
    "number below": (pa.int64(), [-1, 7], [0, 7]),
    "unsigned": (pa.uint64(), [1, 2**64 - 1], [1, 2**63]),
    "double": (pa.float64(), [0.5, 2.0], [0.5, 1.5]),
    "float": (pa.float32(), [-2.0, 2.0], [0.0, 2.0]),
    "text": (pa.string(), ["a", "z"], ["a", "y"]),
    "bytes of the upper half": (pa.binary(), [b"a", b"\xff"], [b"a", b"b"]),
    "decimal": (pa.decimal128(38, 4), [Decimal("1.0000"), Decimal("-9.5000")], [Decimal(1), Decimal(2)]),
    "date": (pa.date32(), [1, 2], [1, 1]),
    "date in milliseconds": (pa.date64(), [86_400_000, -86_400_000], [0, 86_400_000]),
    "truth": (pa.bool_(), [True, False], [True, True]),
}


@pytest.mark.parametrize(("kind", "rows", "stated"), LIES.values(), ids=list(LIES))
def test_a_bound_too_narrow_is_found(tmp_path: Path, kind: pa.DataType, rows: list[Any], stated: list[Any]) -> None:
    path = tmp_path / "file"
    true, other = (pa.table({"c": pa.array(values, kind)}) for values in (rows, stated))
    narrow = problems_of(true, other, path)
    assert len(narrow) == 1
    assert "the statistics of column `c` in row group 1" in narrow[0]
    assert problems_of(true, true, path) == []


def problems_of(rows: pa.Table, stated: pa.Table, path: Path) -> list[str]:
    write_lying(rows, stated, path)
    return problems(path)


def test_a_bound_too_wide_is_none_of_our_business(tmp_path: Path) -> None:
    """Writers cut long texts, and may round."""
    rows = pa.table({"c": pa.array([5, 6], pa.int64()), "t": ["bb", "bc"]})
    wide = pa.table({"c": pa.array([1, 9], pa.int64()), "t": ["aa", "zz"]})
    assert problems_of(rows, wide, tmp_path / "file") == []


def test_nulls_are_counted(tmp_path: Path) -> None:
    rows = pa.table({"c": pa.array([None, 6, 7], pa.int64())})
    stated = pa.table({"c": pa.array([6, 6, 7], pa.int64())})
    pq.write_table(rows, tmp_path / "file")
    with open_parquet(tmp_path / "file") as file:
        pq.write_table(stated, tmp_path / "other")
        check = statistics_check(tmp_path / "other", file.schema_arrow)
        check.take(rows.to_batches()[0])
    assert check.problems() == ["the statistics of column `c` in row group 1 count 0 nulls, its rows have 1"]


def test_a_group_is_judged_by_its_own_rows(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array(range(100), pa.int64())})
    pq.write_table(table, tmp_path / "file", row_group_size=7)
    assert problems(tmp_path / "file") == []
    check = statistics_check(tmp_path / "file", table.schema)
    for batch in pa.table({"c": pa.array([*range(50), 0, *range(51, 100)], pa.int64())}).to_batches(11):
        check.take(batch)
    assert ["row group 8" in each for each in check.problems()] == [True]


def test_a_page_is_judged_by_its_own_rows(tmp_path: Path) -> None:
    """The bounds of the group hold, those of a page do not."""
    table = pa.table({"c": pa.array(range(100), pa.int64())})
    pq.write_table(table, tmp_path / "file", write_page_index=True, max_rows_per_page=10, write_batch_size=10)
    assert problems(tmp_path / "file") == []
    check = statistics_check(tmp_path / "file", table.schema)
    for batch in pa.table({"c": pa.array([*range(50), 0, *range(51, 100)], pa.int64())}).to_batches(7):
        check.take(batch)
    assert ["row group 1 say that no value is less" in each for each in check.problems()] == [True]


def test_a_page_index_of_other_pages_is_none(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array(range(100), pa.int64())})
    pq.write_table(table, tmp_path / "file", write_page_index=True, max_rows_per_page=10, write_batch_size=10)
    data = (tmp_path / "file").read_bytes()
    chunk = read_footer(footer_bytes(io.BytesIO(data), bytes_max=1 << 20)).groups[0].chunks[0]
    assert chunk.page_bounds is not None
    start, size = chunk.page_bounds
    for wrong in (b"\x00" * size, data[start : start + size - 1] + b"\x19", b"\xff" * size):
        with pytest.raises(InvalidData):
            problems(io.BytesIO(data[:start] + wrong + data[start + size :]))


def test_texts_that_a_dictionary_holds_are_judged(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array(["a", "b", "a"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "file")
    assert problems(tmp_path / "file") == []
    with open_parquet(tmp_path / "file") as file:
        check = statistics_check(tmp_path / "file", file.schema_arrow)
        check.take(pa.table({"c": pa.array(["a", "c", "a"]).dictionary_encode()}).to_batches()[0])
    assert len(check.problems()) == 1


NUMBERS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))
TABLES = st.lists(
    st.tuples(
        NUMBERS,
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.integers(0, 2**64 - 1)),
        st.one_of(st.none(), st.text(max_size=5)),
        st.one_of(st.none(), st.binary(max_size=100)),
        st.one_of(st.none(), st.decimals(-(10**20), 10**20, places=4)),
        st.one_of(st.none(), st.integers(-(10**6), 10**6)),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=40,
)
KINDS = (
    pa.float64(),
    pa.int64(),
    pa.uint64(),
    pa.string(),
    pa.binary(),
    pa.decimal128(38, 4),
    pa.date32(),
    pa.bool_(),
)


@given(TABLES, st.integers(1, 50), st.sampled_from(["1.0", "2.4", "2.6"]), st.integers(1, 20))
@settings(max_examples=80, deadline=None)
def test_what_an_honest_writer_says_is_never_refused(
    rows: list[tuple[Any, ...]], size: int, version: str, page: int
) -> None:
    columns = [[row[at] for row in rows] for at in range(len(KINDS))]
    table = pa.table(
        {f"c{at}": pa.array(values, kind) for at, (values, kind) in enumerate(zip(columns, KINDS, strict=True))}
    )
    days = pa.array(columns[6], pa.int64())
    times = pc.multiply(days, 1_000_000)
    for unit in ("ms", "us", "ns"):
        table = table.append_column(unit, times.cast(pa.timestamp(unit, "UTC")))
    table = table.append_column("d64", pa.array(columns[6], pa.int32()).cast(pa.date32()).cast(pa.date64()))
    file = io.BytesIO()
    pq.write_table(
        table,
        file,
        row_group_size=size,
        version=version,
        use_deprecated_int96_timestamps=size % 2 == 0,
        write_page_index=size % 3 > 0,
        max_rows_per_page=page,
        write_batch_size=1,
    )
    file.seek(0)
    assert problems(file) == []
