"""Rows read by their pages are those of the row group; no other page is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.formats.parquet.parquet_footer import footer_bytes, read_footer
from odfabric.formats.parquet.parquet_page_rows import page_rows
from odfabric.formats.parquet.parquet_pages import pages_of_chunk
from odfabric.formats.parquet.thrift_compact import CompactReader, binary, i32, i64, list_of, struct_of
from odfabric.formats.slices.canonical_rows import one_array
from odfabric.formats.slices.slice_parquet import SliceWriter, open_slice
from odfabric.formats.slices.slice_schema import new_slice_schema
from odfabric.model.vocabulary import DatasetVocabulary
from tests.support.chains.arrow_strategies import parquet_can_hold, tables

VOCABULARY = DatasetVocabulary()
ROWS = 100_000


def as_slice(table: pa.Table) -> pa.Table:
    """A table with the columns that every slice has before its own."""
    rows = table.num_rows
    named = [f"c{at}" for at in range(table.num_columns)]
    return pa.table(
        [pa.array(range(rows), pa.int64()), pa.array([0] * rows, pa.int32()), *table.columns], ["offset", "op", *named]
    )


def shown(table: pa.Table, positions: np.ndarray) -> list[list[str]]:
    """Rows as Arrow prints them: NaN is like NaN, and no date is too far off."""
    return [[one_array(column.slice(at, 1)).to_string() for column in table.columns] for at in positions.tolist()]


def numbers(folder: Path, *, rows: int = ROWS) -> Path:
    """A slice of our writer with several pages in each column."""
    schema = new_slice_schema([pa.field("n", pa.int64()), pa.field("text", pa.string())], vocabulary=VOCABULARY)
    times = pa.array(np.zeros(rows, np.int64)).cast(schema.field("system_time").type)
    values = np.random.default_rng(1).integers(0, 1 << 40, rows)
    texts = [None if value % 5 == 0 else f"text {value % 1000}" for value in values.tolist()]
    columns = [np.arange(rows), np.zeros(rows, np.int32), times, times, values, texts]
    table = pa.table(dict(zip(schema.names, columns, strict=True))).cast(schema)
    with SliceWriter(folder / "slice", schema) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    return folder / "slice"


@given(
    table=tables(rows_max=40).map(parquet_can_hold),
    page_rows_max=st.integers(1, 9),
    group_rows=st.integers(5, 50),
    version=st.sampled_from(["1.0", "2.0"]),
    compression=st.sampled_from(["snappy", "none", "zstd", "gzip"]),
    dictionary=st.booleans(),
    data=st.data(),
)
def test_rows_at_positions_are_those_of_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory,
    table: pa.Table,
    page_rows_max: int,
    group_rows: int,
    version: Any,
    compression: Any,
    dictionary: bool,
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("rows") / "slice"
    pq.write_table(
        as_slice(table),
        path,
        row_group_size=group_rows,
        max_rows_per_page=page_rows_max,
        write_batch_size=1,
        data_page_version=version,
        compression=compression,
        use_dictionary=dictionary,
    )
    chosen = data.draw(st.sets(st.integers(0, table.num_rows - 1)) if table.num_rows else st.just(set()))
    positions = np.array(sorted(chosen), np.int64)
    with open_slice(path, VOCABULARY) as reader:
        whole = pa.Table.from_batches(list(reader.batches()), schema=reader.schema)
        found = reader.rows_of(positions, paged_rows_min=0)
        some = reader.rows_of(positions, ["op", "c0"], paged_rows_min=0)
    assert found.schema == whole.schema
    assert shown(found, np.arange(len(positions))) == shown(whole, positions)
    assert shown(some, np.arange(len(positions))) == shown(whole.select(some.column_names), positions)


def test_pages_without_the_rows_are_not_read(tmp_path: Path) -> None:
    path = numbers(tmp_path)
    with path.open("r+b") as file:
        claims = read_footer(footer_bytes(file, bytes_max=1 << 20)).groups[0].chunks

        def fetch(position: int, size: int) -> bytes:
            file.seek(position)
            return file.read(size)

        for claim in claims:
            pages = [page for page in pages_of_chunk(fetch, claim.start, claim.start + claim.packed) if page.has_values]
            assert len(pages) > 3
            for page in pages[1:]:
                file.seek(page.start)
                file.write(bytes(page.packed))
    with open_slice(path, VOCABULARY) as reader:
        assert reader.rows_of(np.array([0, 7])).column("offset").to_pylist() == [0, 7]
    with pytest.raises(InvalidData), open_slice(path, VOCABULARY) as reader:
        reader.rows_of(np.array([0, ROWS - 1]))


def test_flat_columns_come_from_pages_and_others_are_left_out(tmp_path: Path) -> None:
    members = pa.array([{"a": at, "b": [at]} for at in range(1000)])
    table = as_slice(pa.table({"s": members, "n": np.arange(1000), "list": [[at] for at in range(1000)]}))
    pq.write_table(table, tmp_path / "slice", max_rows_per_page=10, write_batch_size=10)
    found = page_rows(tmp_path / "slice", 0, np.array([3, 999]), ["offset", "c0", "c1", "c2", "missing"])
    assert {name: values.to_pylist() for name, values in found.items()} == {"offset": [3, 999], "c1": [3, 999]}


def test_a_file_that_took_the_place_of_another_is_read_itself(tmp_path: Path) -> None:
    path = numbers(tmp_path)
    with open_slice(path, VOCABULARY) as reader:
        reader.rows_of(np.array([5]), paged_rows_min=0)
    path.unlink()
    pq.write_table(as_slice(pa.table({"n": np.arange(50)})), path, max_rows_per_page=5, write_batch_size=5)
    with open_slice(path, VOCABULARY) as reader:
        assert reader.rows_of(np.array([5, 49]), paged_rows_min=0).column("c0").to_pylist() == [5, 49]


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300), st.integers(1, 40))
def test_what_is_encoded_is_decoded(small: int, large: int, text: bytes, count: int) -> None:
    inner = struct_of([(2, i64(large))])
    data = struct_of([(1, i32(small)), (4, binary(text)), (9, list_of([inner] * count)), (11, i64(large))]).data
    reader = CompactReader(data, "it", values_max=1000)
    assert reader.struct() == {1: small, 4: text, 9: [{2: large}] * count, 11: large}
    assert reader.position == len(data)
