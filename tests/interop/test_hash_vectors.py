"""Physical and logical hashes: vectors, relations, and an element-wise oracle."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import types

from odfabric.errors import IncompatibleSchema, InvalidData
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.logical_hash import (
    LogicalDigest,
    LogicalHasher,
    logical_hash_of_ipc,
    logical_hash_of_parquet,
)
from tests.support.chains.arrow_strategies import tables
from tests.support.chains.naive_logical_hash import naive_logical_hash
from tests.support.vectors import vector_sections, vectors

VECTORS = vectors("arrowDigest")
BY_ID = {vector["id"]: vector for vector in VECTORS}


def hash_of(table: pa.Table) -> LogicalDigest:
    hasher = LogicalHasher(table.schema)
    for batch in table.to_batches():
        hasher.update(batch)
    return hasher.finish()


def text_of(table: pa.Table) -> str:
    return str(hash_of(table).multihash)


def stream_of(vector: dict[str, Any]) -> pa.Table:
    return pa.ipc.open_stream(base64.b64decode(vector["ipcBase64"])).read_all()


class TestVectors:
    @pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
    def test_the_digest_is_met(self, vector: dict[str, Any]) -> None:
        digest = logical_hash_of_ipc(io.BytesIO(base64.b64decode(vector["ipcBase64"])))
        if "logicalHash" in vector:
            assert str(digest.multihash) == vector["logicalHash"]
            assert digest.multihash == parse_multihash(vector["logicalHash"])
            assert digest.multihash.digest.hex() == vector["recordDigest"]
        else:
            # The vector has the digest of the column alone: the table's is made of it by hand.
            (field,) = stream_of(vector).schema
            name = field.name.encode()
            head = struct.pack("<Q", len(name)) + name + struct.pack("<Q", 0)
            expected = hashlib.sha3_256(head + bytes.fromhex(vector["arrayDigest"])).digest()
            assert digest.multihash.digest == expected

    @pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
    def test_the_oracle_agrees(self, vector: dict[str, Any]) -> None:
        table = stream_of(vector)
        assert text_of(table) == naive_logical_hash(table)

    def test_relations_hold(self) -> None:
        for relations in vector_sections("arrowRelations"):
            for one, other in relations["equal"]:
                assert self._digest(one) == self._digest(other), (one, other)
            for one, other in relations["notEqual"]:
                assert self._digest(one) != self._digest(other), (one, other)

    @staticmethod
    def _digest(id: str) -> str:
        table = stream_of(BY_ID[id])
        return text_of(table.rename_columns(["x"]) if table.num_columns == 1 else table)


class TestLaws:
    @given(tables())
    def test_equal_to_the_oracle(self, table: pa.Table) -> None:
        digest = hash_of(table)
        assert str(digest.multihash) == naive_logical_hash(table)
        assert digest.rows == table.num_rows
        assert digest.not_reproducible == ()

    @given(tables(), st.data())
    def test_batches_and_slices_do_not_count(self, table: pa.Table, data: st.DataObject) -> None:
        whole = text_of(table)
        cut = data.draw(st.integers(0, table.num_rows))
        padded = pa.concat_tables([table, table, table]).combine_chunks()
        middle = padded.slice(table.num_rows, table.num_rows)
        assert text_of(middle) == whole
        hasher = LogicalHasher(table.schema)
        for part in (middle.slice(0, cut), middle.slice(cut)):
            for batch in part.to_batches(data.draw(st.integers(1, 5))):
                hasher.update(batch)
        assert str(hasher.finish().multihash) == whole

    @given(tables())
    def test_string_flavour_dictionary_nullability_and_metadata_do_not_count(self, table: pa.Table) -> None:
        other = pa.table([_other_flavour(column) for column in table.columns], names=table.column_names)
        other = other.replace_schema_metadata({"any": "thing"})
        assert text_of(other) == text_of(table)

    @given(tables(), st.sampled_from(["snappy", "zstd", "none"]), st.integers(1, 7), st.booleans())
    def test_parquet_files_hash_as_what_is_in_them(
        self, table: pa.Table, compression: str, group: int, dictionary: bool
    ) -> None:
        file = io.BytesIO()
        table = _as_parquet_holds_it(table)
        pq.write_table(table, file, compression=compression, row_group_size=group, use_dictionary=dictionary)
        digest = logical_hash_of_parquet(file)
        assert str(digest.multihash) == text_of(table)

    @given(tables(), st.booleans())
    def test_ipc_files_and_streams(self, table: pa.Table, as_file: bool) -> None:
        sink = io.BytesIO()
        with (pa.ipc.new_file if as_file else pa.ipc.new_stream)(sink, table.schema) as writer:
            writer.write_table(table)
        assert str(logical_hash_of_ipc(io.BytesIO(sink.getvalue())).multihash) == text_of(table)

    @given(tables())
    def test_columns_may_be_hashed_side_by_side(self, table: pa.Table) -> None:
        with ThreadPoolExecutor(2) as pool:
            hasher = LogicalHasher(table.schema)
            for batch in table.to_batches(3):
                hasher.update(batch, column_map=pool.map)
        assert str(hasher.finish().multihash) == text_of(table)


class TestWhatCounts:
    BASE = pa.table({"a": [1, 2], "b": ["x", None]})

    @pytest.mark.parametrize(
        "other",
        [
            BASE.rename_columns(["a", "c"]),
            BASE.select(["b", "a"]),
            BASE.take([1, 0]),
            BASE.slice(0, 1),
            BASE.set_column(0, "a", pa.array([1, 2], pa.int32())),
            BASE.set_column(1, "b", pa.array(["x", ""])),
            BASE.set_column(1, "b", pa.array([b"x", None])),
            BASE.set_column(0, "a", pa.array([1, 2], pa.timestamp("ms"))),
        ],
    )
    def test_a_different_table_has_another_hash(self, other: pa.Table) -> None:
        assert text_of(other) != text_of(self.BASE)

    def test_signed_zeros_and_payloads_of_nan_count(self) -> None:
        zeros = [text_of(pa.table({"x": pa.array([value])})) for value in (0.0, -0.0)]
        assert zeros[0] != zeros[1]
        bits = pa.array([0x7FF8000000000000, 0x7FF8000000000001], pa.int64())
        nans = bits.view(pa.float64())
        assert text_of(pa.table({"x": nans.slice(0, 1)})) != text_of(pa.table({"x": nans.slice(1, 1)}))

    def test_bytes_under_a_null_do_not_count(self) -> None:
        validity = pa.py_buffer(b"\x05")
        numbers = pa.Array.from_buffers(
            pa.int32(), 3, [validity, pa.py_buffer(struct.pack("<3i", 1, 77, 3))], null_count=1
        )
        assert text_of(pa.table({"x": numbers})) == text_of(pa.table({"x": pa.array([1, None, 3], pa.int32())}))
        offsets = pa.py_buffer(struct.pack("<4i", 0, 1, 3, 4))
        texts = pa.Array.from_buffers(pa.string(), 3, [validity, offsets, pa.py_buffer(b"azzb")], null_count=1)
        assert text_of(pa.table({"x": texts})) == text_of(pa.table({"x": pa.array(["a", None, "b"])}))
        items = pa.array([1, 8, 9, 2], pa.int8())
        lists = pa.ListArray.from_buffers(pa.list_(pa.int8()), 3, [validity, offsets], children=[items], null_count=1)
        assert text_of(pa.table({"x": lists})) == text_of(
            pa.table({"x": pa.array([[1], None, [2]], pa.list_(pa.int8()))})
        )

    def test_large_values_are_hashed_in_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table = pa.table({"x": ["a" * 100, None, "b" * 1000, "c"], "y": [[1], None, [2, 3], []]})
        whole = text_of(table)
        monkeypatch.setattr("odfabric.formats.slices.logical_hash.PIECE_BYTES_MAX", 64)
        assert text_of(table) == whole


class TestStructs:
    @given(tables())
    def test_required_structs(self, table: pa.Table) -> None:
        nested = pa.StructArray.from_arrays(
            [column.combine_chunks() for column in table.columns], names=table.column_names
        )
        whole = pa.table({"before": nested, "outer": pa.StructArray.from_arrays([nested], names=["inner"])})
        assert text_of(whole) == naive_logical_hash(whole)
        assert text_of(pa.concat_tables([whole.slice(0, 1), whole.slice(1)])) == text_of(whole)
        assert hash_of(whole).not_reproducible == ()

    def test_a_null_struct_makes_its_members_null(self) -> None:
        rows = [{"a": 1, "b": "x"}, None, {"a": 3, "b": ""}]
        schema = pa.schema([("s", pa.struct([pa.field("a", pa.int32(), False), pa.field("b", pa.string(), False)]))])
        table = pa.table({"s": pa.array(rows, schema.field("s").type)})
        members = table.column("s").chunk(0)
        assert members.field(0).null_count + members.field(1).null_count > 0 or hash_of(table).not_reproducible == ()
        built = pa.StructArray.from_arrays(
            [pa.array([1, 0, 3], pa.int32()), pa.array(["x", "", ""])],
            names=["a", "b"],
            mask=pa.array([False, True, False]),
        )
        struct_null = pa.table({"s": built})
        assert text_of(struct_null) == naive_logical_hash(struct_null)
        assert hash_of(struct_null).not_reproducible == ()
        leaf_null = pa.table(
            {
                "s": pa.StructArray.from_arrays(
                    [pa.array([1, None, 3], pa.int32()), pa.array(["x", None, ""])], names=["a", "b"]
                )
            }
        )
        assert text_of(leaf_null) == text_of(struct_null)

    def test_nulls_on_both_levels_follow_the_union_and_are_reported(self) -> None:
        members = pa.array(["x", None, None, "y"])
        array = pa.StructArray.from_arrays([members], names=["b"], mask=pa.array([False, False, True, True]))
        table = pa.table({"s": array})
        digest = hash_of(table)
        assert str(digest.multihash) == naive_logical_hash(table)
        assert digest.not_reproducible == ("s.b",)
        # Null only where both are null: row 1 counts as an empty text, row 3 as its hidden value.
        as_hashed = pa.table({"s": pa.StructArray.from_arrays([pa.array(["x", "", None, "y"])], names=["b"])})
        assert text_of(as_hashed) == str(digest.multihash)

    def test_nulls_that_only_repeat_those_of_the_struct_do_no_harm(self) -> None:
        mask = pa.array([False, True])
        repeated = pa.StructArray.from_arrays([pa.array(["x", None])], names=["b"], mask=mask)
        hidden = pa.StructArray.from_arrays([pa.array(["x", "any"])], names=["b"], mask=mask)
        assert hash_of(pa.table({"s": repeated})) == hash_of(pa.table({"s": hidden}))
        assert hash_of(pa.table({"s": repeated})).not_reproducible == ()

    def test_the_rule_is_applied_to_batches_of_ten_thousand_rows(self) -> None:
        members = pa.array(["x"] * 10_000 + [None] + ["y"] * 9_999)
        mask = pa.array([row == 5 for row in range(20_000)])
        table = pa.table({"s": pa.StructArray.from_arrays([members], names=["b"], mask=mask)})
        assert hash_of(table).not_reproducible == ()
        assert text_of(table) == naive_logical_hash(table)
        hasher = LogicalHasher(table.schema)
        for batch in table.to_batches(777):
            hasher.update(batch)
        assert str(hasher.finish().multihash) == text_of(table)
        shifted = table.slice(1)
        assert hash_of(shifted).not_reproducible == ("s.b",)


class TestReadersTraps:
    @staticmethod
    def _written(table: pa.Table, hint: pa.Schema) -> io.BytesIO:
        """A file with plain columns but an ARROW:schema for types that Parquet lacks.

        DataFusion writes such files.
        """
        message = hint.serialize().to_pybytes()
        return TestReadersTraps._with_metadata(table, base64.b64encode(message))

    @staticmethod
    def _with_metadata(table: pa.Table, arrow_schema: bytes) -> io.BytesIO:
        file = io.BytesIO()
        with pq.ParquetWriter(file, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({"ARROW:schema": arrow_schema})
        return file

    @pytest.mark.parametrize(
        ("plain", "hinted"),
        [
            (pa.int64(), pa.date64()),
            (pa.int64(), pa.timestamp("s", "UTC")),
            (pa.int32(), pa.time32("s")),
            (pa.int64(), pa.time64("us")),
        ],
    )
    def test_hints_that_pyarrow_ignores(self, plain: pa.DataType, hinted: pa.DataType) -> None:
        numbers = pa.array([0, 86_400, None], plain)
        nested = pa.StructArray.from_arrays([numbers], names=["m"])
        lists = pa.array([[0, 86_400], [], None], pa.list_(plain))
        columns = {"x": numbers, "s": nested, "l": lists}
        expected = pa.table(
            {
                "x": numbers.view(hinted),
                "s": pa.StructArray.from_arrays([numbers.view(hinted)], names=["m"]),
                "l": lists.cast(pa.list_(hinted)),
            }
        )
        file = self._written(pa.table(columns), expected.schema)
        assert str(logical_hash_of_parquet(file).multihash) == text_of(expected)

    def test_date64_stored_as_date(self) -> None:
        table = pa.table({"x": pa.array([0, 86_400_000, None], pa.date64())})
        file = io.BytesIO()
        pq.write_table(table, file)
        assert str(logical_hash_of_parquet(file).multihash) == text_of(table)

    @pytest.mark.parametrize("value", [b"%%%", base64.b64encode(b"nonsense"), b""])
    def test_a_broken_hint_makes_the_file_unreadable(self, value: bytes) -> None:
        with pytest.raises(InvalidData, match="Not a readable Parquet file"):
            logical_hash_of_parquet(self._with_metadata(pa.table({"x": [1]}), value))

    def test_extension_types_hash_as_their_storage(self) -> None:
        storage = pa.array([b"0" * 16, None], pa.binary(16))
        uuids = pa.ExtensionArray.from_storage(pa.uuid(), storage)
        texts = pa.array(["{}", None])
        json = pa.ExtensionArray.from_storage(pa.json_(), texts)
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), uuids)
        plain = pa.table({"u": storage, "j": texts, "l": pa.ListArray.from_arrays(lists.offsets, storage)})
        extended = pa.table({"u": uuids, "j": json, "l": lists})
        assert text_of(extended) == text_of(plain)
        file = io.BytesIO()
        pq.write_table(extended, file)
        assert str(logical_hash_of_parquet(file).multihash) == text_of(plain)


class TestRefusals:
    @pytest.mark.parametrize(
        "data_type",
        [
            pa.null(),
            pa.duration("ms"),
            pa.month_day_nano_interval(),
            pa.map_(pa.string(), pa.int32()),
            pa.list_(pa.struct([("m", pa.int32())])),
            pa.list_(pa.duration("s")),
            pa.dense_union([pa.field("a", pa.int32())]),
            pa.run_end_encoded(pa.int32(), pa.int32()),
            pa.list_view(pa.int32()),
        ],
        ids=str,
    )
    def test_types_without_a_logical_hash_are_named(self, data_type: pa.DataType) -> None:
        nested = pa.schema([("ok", pa.int32()), ("s", pa.struct([("bad", data_type)]))])
        with pytest.raises(IncompatibleSchema, match=r"s\.bad.*has no logical hash") as caught:
            LogicalHasher(nested)
        assert caught.value.place.field == "s.bad"

    def test_files_of_another_form_and_damaged_files_are_named(self, tmp_path: Path) -> None:
        path = tmp_path / "data.parquet"
        pq.write_table(pa.table({"x": list(range(10_000))}), path)
        whole = path.read_bytes()
        for content in (b"", b"PAR1", b"no parquet at all", whole[:-9], whole[:40] + bytes(400) + whole[440:]):
            path.write_bytes(content)
            with pytest.raises(InvalidData, match="Not a readable Parquet file") as caught:
                logical_hash_of_parquet(path)
            assert caught.value.place.file == "data.parquet"
            with pytest.raises(InvalidData, match="Not a readable Arrow IPC file"):
                logical_hash_of_ipc(path)
        with pytest.raises(FileNotFoundError):
            logical_hash_of_parquet(tmp_path / "absent")
        with pytest.raises(FileNotFoundError):
            logical_hash_of_ipc(tmp_path / "absent")

    def test_a_batch_of_other_types_is_not_taken(self) -> None:
        hasher = LogicalHasher(pa.schema([("x", pa.int32())]))
        with pytest.raises(ValueError, match="other types"):
            hasher.update(pa.record_batch({"x": pa.array([1], pa.int64())}))


class TestPhysicalHash:
    def test_files_and_streams_agree(self, tmp_path: Path) -> None:
        data = bytes(range(256)) * 10_000
        path = tmp_path / "file"
        path.write_bytes(data)
        expected = hashlib.sha3_256(data).digest()
        value, size = physical_hash(path)
        assert (value.digest, size) == (expected, len(data))
        assert physical_hash(io.BytesIO(data)) == (value, size)
        assert str(value).startswith("f1620")


def _other_flavour(column: pa.ChunkedArray) -> pa.ChunkedArray:
    flavours = {
        pa.string(): pa.large_string(),
        pa.large_string(): pa.string_view(),
        pa.string_view(): pa.dictionary(pa.int32(), pa.string()),
        pa.binary(): pa.binary_view(),
        pa.large_binary(): pa.binary(),
        pa.binary_view(): pa.large_binary(),
    }
    if column.type in flavours and column.type == pa.string_view():
        return column.cast(pa.string()).dictionary_encode()
    if column.type in flavours:
        return column.cast(flavours[column.type])
    if types.is_list(column.type):
        return column.cast(pa.large_list(column.type.value_type))
    return column


def _as_parquet_holds_it(table: pa.Table) -> pa.Table:
    """Without columns that Parquet or pyarrow's writer changes or refuses."""
    kept = [
        index
        for index, field in enumerate(table.schema)
        if not any(bad in str(field.type) for bad in ("[s", "date64", "[0]", "decimal128(5, -2)"))
    ]
    return table.select(kept) if kept else pa.table({"c": pa.array([1] * table.num_rows, pa.int64())})
