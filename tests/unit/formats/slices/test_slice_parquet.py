"""Slice files: what the writer makes, what readers take."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import IncompatibleSchema, InvalidData
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.logical_hash import LogicalHasher, logical_hash_of_parquet
from odfabric.formats.slices.slice_parquet import (
    ROW_GROUP_ROWS_MAX,
    SliceWriter,
    open_slice,
)
from odfabric.formats.slices.slice_schema import new_slice_schema
from odfabric.model.vocabulary import DatasetVocabulary
from tests.support.chains.arrow_strategies import parquet_can_hold, tables

VOCABULARY = DatasetVocabulary()
SYSTEM_TIME = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCHEMA = new_slice_schema(
    [pa.field("city", pa.string()), pa.field("population", pa.int64(), False)], vocabulary=VOCABULARY
)


def slice_table(first: int = 0, rows: int = 5, **changed: Any) -> pa.Table:
    """A valid slice; columns may be replaced by name."""
    columns: dict[str, Any] = {
        "offset": list(range(first, first + rows)),
        "op": [0] * rows,
        "system_time": [SYSTEM_TIME] * rows,
        "event_time": [datetime(2026, 1, 1 + index % 28, tzinfo=UTC) for index in range(rows)],
        "city": [None if index % 3 == 0 else f"city-{index}" for index in range(rows)],
        "population": [index * 1000 for index in range(rows)],
    }
    return pa.table({**columns, **changed}, schema=SCHEMA if not changed else None)


def write_slice(path: Path, table: pa.Table) -> int:
    """The table as a slice by our writer; returns the rows written."""
    with SliceWriter(path, table.schema) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    return writer.rows


def write_in_pieces(path: Path, table: pa.Table, sizes: list[int]) -> int:
    """The same, in batches of so many rows, from the first size again after the last.

    Returns the rows written.
    """
    with SliceWriter(path, table.schema) as writer:
        start, turn = 0, 0
        while start < table.num_rows:
            size = sizes[turn % len(sizes)]
            for batch in table.slice(start, size).to_batches():
                writer.write(batch)
            start, turn = start + size, turn + 1
    return writer.rows


def written(table: pa.Table, path: Path) -> Path:
    """Any table as a Parquet file, by a writer that is not ours."""
    pq.write_table(table, path)
    return path


class TestWriter:
    def test_the_file_has_the_specified_properties(self, tmp_path: Path) -> None:
        path = tmp_path / "slice"
        assert write_slice(path, slice_table(rows=100)) == 100
        file = pq.ParquetFile(path)
        metadata = file.metadata
        assert metadata.format_version == "2.6"
        assert set(metadata.metadata) == {b"ARROW:schema"}
        assert metadata.num_row_groups == 1
        for index in range(metadata.num_columns):
            column = metadata.row_group(0).column(index)
            assert column.compression == "SNAPPY"
            assert set(column.encodings) <= {"PLAIN", "RLE", "RLE_DICTIONARY"}
            assert column.is_stats_set
            assert column.has_column_index
            assert column.has_offset_index
            # The Thrift header of a page begins with its type; 0 is a data page of version 1.
            assert path.read_bytes()[column.data_page_offset :][:2] == b"\x15\x00"
        kinds = [(c.name, c.physical_type, c.max_definition_level) for c in file.schema]
        assert kinds == [
            ("offset", "INT64", 0),
            ("op", "INT32", 0),
            ("system_time", "INT64", 0),
            ("event_time", "INT64", 0),
            ("city", "BYTE_ARRAY", 1),
            ("population", "INT64", 0),
        ]
        for name, logical in (("system_time", "milliseconds"), ("event_time", "milliseconds")):
            kind = str(file.schema.column(file.schema.names.index(name)).logical_type)
            assert "isAdjustedToUTC=true" in kind
            assert logical in kind
        for index in (0, 1):
            assert str(file.schema.column(index).logical_type) == "None"

    def test_pages_have_checksums(self, tmp_path: Path) -> None:
        path = tmp_path / "slice"
        write_slice(path, slice_table(rows=5000))
        data = bytearray(path.read_bytes())
        data[2000] ^= 1
        path.write_bytes(data)
        with pytest.raises(OSError, match="CRC"):
            pq.read_table(path, page_checksum_verification=True)

    def test_rows_come_out_as_they_went_in(self, tmp_path: Path) -> None:
        table = slice_table(rows=100)
        path = tmp_path / "slice"
        write_slice(path, table)
        with open_slice(path, VOCABULARY) as reader:
            assert reader.rows == 100
            assert pa.Table.from_batches(list(reader.batches())).equals(table)

    @given(st.lists(st.integers(1, 9_000), min_size=1, max_size=6), st.integers(1, 30_000))
    def test_bytes_do_not_show_how_rows_arrived(self, sizes: list[int], rows: int) -> None:
        table = slice_table(rows=rows)
        path, other = Path(_folder()) / "one", Path(_folder()) / "other"
        write_slice(path, table)
        assert write_in_pieces(other, table, sizes) == rows
        assert physical_hash(path) == physical_hash(other)

    @given(
        st.lists(st.integers(1, 40), min_size=1, max_size=6), st.lists(st.integers(0, 3_000), min_size=1, max_size=100)
    )
    def test_long_texts_fill_row_groups_wherever_they_arrive(self, sizes: list[int], lengths: list[int]) -> None:
        rows = len(lengths)
        table = slice_table(rows=rows).set_column(4, "city", pa.array(["x" * length for length in lengths]))
        path, other = Path(_folder()) / "one", Path(_folder()) / "other"
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("odfabric.formats.slices.slice_parquet._BLOCK_BYTES", 4_000)
            patched.setattr("odfabric.formats.slices.slice_parquet.ROW_GROUP_BYTES_MAX", 4_000)
            write_slice(path, table)
            write_in_pieces(other, table, sizes)
        assert physical_hash(path) == physical_hash(other)
        assert pq.read_table(path).column("city").to_pylist() == table.column("city").to_pylist()

    @given(tables(rows_max=30))
    def test_any_hashable_columns_keep_rows_and_hash(self, table: pa.Table) -> None:
        table = _with_offsets(parquet_can_hold(table))
        hasher = LogicalHasher(table.schema)
        for batch in table.to_batches():
            hasher.update(batch)
        path = Path(_folder()) / "any"
        write_slice(path, table)
        digest = logical_hash_of_parquet(path)
        assert digest == hasher.finish()
        with open_slice(path, VOCABULARY) as reader:
            assert sum(batch.num_rows for batch in reader.batches()) == table.num_rows

    def test_nullable_structs_with_required_members(self, tmp_path: Path) -> None:
        """What readers put under a null struct differs; the rows and the hash do not."""
        members = {
            "a": pa.array([1, None, 3]),
            "b": pa.array(["x", None, "y"]),
            "c": pa.array([[1], None, []], pa.list_(pa.int8())),
            "d": pa.array([date(2026, 1, 1), None, date(2026, 1, 2)]),
            "e": pa.array([b"abc", None, b"def"], pa.binary(3)),
            "f": pa.array([Decimal(1), None, Decimal(2)]),
            "g": pa.array([True, None, False]),
            "h": pa.array([SYSTEM_TIME, None, SYSTEM_TIME], pa.timestamp("ms", "UTC")),
        }
        inner_fields = [pa.field(name, array.type, False) for name, array in members.items()]
        inner = pa.StructArray.from_arrays(list(members.values()), fields=inner_fields)
        outer_type = pa.struct([pa.field("inner", inner.type, False)])
        mask = pa.array([False, True, False])
        column = pa.StructArray.from_arrays([inner], fields=list(outer_type), mask=mask)
        schema = new_slice_schema([pa.field("s", outer_type)], vocabulary=VOCABULARY)
        table = slice_table(rows=3).select(SCHEMA.names[:4]).append_column("s", column)
        path = tmp_path / "s"
        with SliceWriter(path, schema) as writer:
            for batch in table.to_batches():
                writer.write(batch)
        with open_slice(path, VOCABULARY) as reader:
            assert [row["s"] for batch in reader.batches() for row in batch.to_pylist()] == column.to_pylist()
        digest = logical_hash_of_parquet(path)
        assert digest.not_reproducible == ()
        plain = pa.StructArray.from_arrays([_without_nulls(inner)], names=["inner"], mask=mask)
        hasher = LogicalHasher(schema)
        without_nulls = table.set_column(4, "s", plain.cast(outer_type))
        for batch in without_nulls.to_batches():
            hasher.update(batch)
        assert digest == hasher.finish()

    def test_row_groups_are_limited_in_rows_and_bytes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("odfabric.formats.slices.slice_parquet.ROW_GROUP_ROWS_MAX", 16_384)
        write_slice(tmp_path / "rows", slice_table(rows=40_000))
        groups = pq.ParquetFile(tmp_path / "rows").metadata
        assert [groups.row_group(index).num_rows for index in range(groups.num_row_groups)] == [16_384, 16_384, 7_232]
        monkeypatch.setattr("odfabric.formats.slices.slice_parquet.ROW_GROUP_ROWS_MAX", ROW_GROUP_ROWS_MAX)
        monkeypatch.setattr("odfabric.formats.slices.slice_parquet.ROW_GROUP_BYTES_MAX", 1)
        write_slice(tmp_path / "bytes", slice_table(rows=20_000))
        groups = pq.ParquetFile(tmp_path / "bytes").metadata
        assert [groups.row_group(index).num_rows for index in range(groups.num_row_groups)] == [8_192, 8_192, 3_616]

    def test_a_row_group_ends_within_a_block_of_rows_where_texts_are_long(self, tmp_path: Path) -> None:
        table = slice_table(rows=200).set_column(4, "city", pa.array(["x" * (1 << 20)] * 200))
        write_slice(tmp_path / "long", table)
        groups = pq.ParquetFile(tmp_path / "long").metadata
        found = [groups.row_group(index).num_rows for index in range(groups.num_row_groups)]
        assert sum(found) == 200
        assert max(found) < 170

    def test_a_schema_carrier_has_no_rows(self, tmp_path: Path) -> None:
        path = tmp_path / "empty"
        assert write_slice(path, slice_table(rows=0)) == 0
        with open_slice(path, VOCABULARY) as reader:
            assert (reader.rows, reader.schema) == (0, SCHEMA)

    def test_an_error_leaves_no_file(self, tmp_path: Path) -> None:
        path = tmp_path / "slice"
        broken = slice_table().set_column(5, "population", pa.array([1, 2, None, 4, 5]))
        with pytest.raises(InvalidData, match="`population` contains 1 null"):
            write_slice(path, pa.concat_tables([slice_table(), pa.Table.from_arrays(broken.columns, schema=SCHEMA)]))
        assert not path.exists()
        with pytest.raises(KeyboardInterrupt), SliceWriter(path, SCHEMA):
            raise KeyboardInterrupt
        assert not path.exists()
        with pytest.raises(IncompatibleSchema):
            SliceWriter(path, pa.schema([("x", pa.month_day_nano_interval())]))
        assert not path.exists()


class TestReader:
    @pytest.mark.parametrize("integer", [pa.int32(), pa.int64(), pa.uint32(), pa.uint64()])
    @pytest.mark.parametrize("op", [pa.int32(), pa.uint8(), pa.int64()])
    def test_any_integers_are_taken_for_offset_and_op(
        self, integer: pa.DataType, op: pa.DataType, tmp_path: Path
    ) -> None:
        table = slice_table()
        table = table.set_column(0, "offset", table["offset"].cast(integer)).set_column(1, "op", table["op"].cast(op))
        with open_slice(written(table, tmp_path / "s"), VOCABULARY) as reader:
            assert reader.schema.types[:2] == [pa.int64(), pa.int32()]
            (batch,) = reader.batches(["op", "offset"])
            assert batch.schema.names == ["offset", "op"]
            assert batch.column("offset").to_pylist() == [0, 1, 2, 3, 4]

    def test_offsets_beyond_the_signed_range_are_refused(self, tmp_path: Path) -> None:
        table = slice_table(offset=pa.array([2**63] * 5, pa.uint64()))
        with pytest.raises(InvalidData), open_slice(written(table, tmp_path / "s"), VOCABULARY) as reader:
            list(reader.batches())

    def test_dictionaries_and_views_are_decoded(self, tmp_path: Path) -> None:
        cities = pa.array(["a", "b", None, "a", "b"])
        for column in (cities.dictionary_encode(), cities.cast(pa.string_view()), cities.cast(pa.large_string())):
            with open_slice(written(slice_table(city=column), tmp_path / "s"), VOCABULARY) as reader:
                (batch,) = reader.batches()
                assert batch.column("city").to_pylist() == cities.to_pylist()
                assert not pa.types.is_dictionary(batch.column("city").type)

    def test_columns_are_found_by_name(self, tmp_path: Path) -> None:
        table = slice_table().select(["city", "event_time", "op", "population", "system_time", "offset"])
        with open_slice(written(table, tmp_path / "s"), VOCABULARY) as reader:
            (batch,) = reader.batches(["offset", "event_time"])
            assert batch.column("offset").to_pylist() == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (slice_table().drop_columns(["offset"]), "has no column `offset`"),
            (slice_table().drop_columns(["op"]), "has no column `op`"),
            (slice_table(offset=["a"] * 5), "`offset` is string, not an integer"),
            (slice_table(op=[0.0] * 5), "`op` is double, not an integer"),
            (slice_table().append_column("city", [[1, 2, 3, 4, 5]]), "several columns `city`"),
        ],
    )
    def test_what_is_no_slice_is_refused(self, table: pa.Table, message: str, tmp_path: Path) -> None:
        with (
            pytest.raises(InvalidData, match=message) as caught,
            open_slice(written(table, tmp_path / "s"), VOCABULARY),
        ):
            pass
        assert caught.value.place.file == "s"

    @pytest.mark.parametrize(
        ("skip", "limit"), [(0, 10), (7, 5), (19, 10), (25, 10), (0, 0), (3, 1000), (6, 1), (0, 20)]
    )
    def test_rows_by_position(self, skip: int, limit: int) -> None:
        table = slice_table(rows=20)
        file = io.BytesIO()
        pq.write_table(table, file, row_group_size=7)
        with open_slice(file, VOCABULARY) as reader:
            assert reader.rows_at(skip=skip, limit=limit).equals(table.slice(skip, limit))


@pytest.mark.parametrize("others", [("x", "y"), ("x.y", "y")])
def test_columns_that_are_not_asked_for_are_left_out(others: tuple[str, str]) -> None:
    rows = pa.array(range(20), pa.int64())
    table = pa.table(
        {"offset": rows, "op": pa.nulls(20, pa.int32()).fill_null(0), "x": rows, **dict.fromkeys(others, rows)}
    )
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=7)
    with open_slice(file, VOCABULARY) as reader:
        found = reader.rows_at(skip=5, limit=3, columns={"offset", "x", "none"})
    assert found.equals(table.select(["offset", "x"]).slice(5, 3))


def _without_nulls(array: pa.StructArray) -> pa.StructArray:
    """The second row's members become those of the first."""
    members = [array.field(index).take([0, 0, 2]) for index in range(array.type.num_fields)]
    return pa.StructArray.from_arrays(members, fields=list(array.type))


_FOLDERS: list[Any] = []


def _folder() -> str:
    """A folder for Hypothesis, whose examples share the fixtures of their test."""
    import tempfile

    if not _FOLDERS:
        _FOLDERS.append(tempfile.TemporaryDirectory())
    return str(_FOLDERS[0].name)


def _with_offsets(table: pa.Table) -> pa.Table:
    offsets = pa.array(range(table.num_rows), pa.int64())
    return table.append_column("offset", offsets).append_column("op", pa.array([0] * table.num_rows, pa.int32()))
