"""Footers: total over any bytes, and equal to pyarrow's for its own files."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.formats.parquet.parquet_footer import MAGIC, TAIL, Codec, Footer, Physical, read_footer
from odfabric.formats.parquet.parquet_pages import Encoding
from odfabric.formats.parquet.parquet_reading import batches_of, open_parquet

TABLE = pa.table(
    {
        "number": pa.array([3, None, 1] * 100),
        "text": ["b", "a", None] * 100,
        "float": [0.5, -1.5, None] * 100,
        "list": [[1, 2], None, []] * 100,
        "struct": [{"x.y": 1}, None, {"x.y": None}] * 100,
        "decimal": pa.array([Decimal(1), Decimal(-2), None] * 100, pa.decimal128(20, 2)),
        "old": pa.array([1, 2, None] * 100, pa.timestamp("ns")),
        "flag": [True, None, False] * 100,
    }
)


def written(**options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=120, **options)
    return sink.getvalue()


def footer_bytes(content: bytes) -> bytes:
    size, magic = TAIL.unpack(content[-TAIL.size :])
    assert magic == MAGIC
    return content[-TAIL.size - size : -TAIL.size]


CODECS = {
    Codec.UNCOMPRESSED: "none",
    Codec.SNAPPY: "snappy",
    Codec.GZIP: "gzip",
    Codec.ZSTD: "zstd",
    Codec.LZ4_RAW: "lz4",
}


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_it_says_what_pyarrow_says(codec: Codec) -> None:
    content = written(compression=CODECS[codec], use_deprecated_int96_timestamps=codec is Codec.SNAPPY)
    theirs, ours = pq.ParquetFile(io.BytesIO(content)).metadata, read_footer(footer_bytes(content))
    assert (ours.rows, ours.created_by, len(ours.groups)) == (300, theirs.created_by, theirs.num_row_groups)
    for index, group in enumerate(ours.groups):
        other = theirs.row_group(index)
        assert (group.rows, len(group.chunks)) == (other.num_rows, other.num_columns)
        for at, chunk in enumerate(group.chunks):
            told = other.column(at)
            assert (chunk.path, chunk.physical.name, chunk.codec) == (told.path_in_schema, told.physical_type, codec)
            assert (chunk.values, chunk.packed, chunk.unpacked) == (
                told.num_values,
                told.total_compressed_size,
                told.total_uncompressed_size,
            )
            assert chunk.start == (told.dictionary_page_offset or told.data_page_offset)
            assert {Encoding(each).name for each in chunk.encodings} == set(told.encodings)
            assert chunk.elsewhere is False
            if told.statistics is None:
                continue
            assert chunk.nulls == told.statistics.null_count
            if chunk.bounds is not None:
                assert chunk.bounds == (told.statistics.min_raw, told.statistics.max_raw)
    assert {chunk.physical for chunk in ours.groups[0].chunks if chunk.bounds} >= {
        Physical.INT64,
        Physical.BYTE_ARRAY,
        Physical.DOUBLE,
    }


def test_any_bytes_are_a_footer_or_refused() -> None:
    whole = footer_bytes(written())
    for length in range(len(whole)):
        with pytest.raises(InvalidData):
            read_footer(whole[:length])
    assert isinstance(read_footer(whole), Footer)
    chance = random.Random(3)
    outcomes = set()
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 5])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            read_footer(bytes(data))
            outcomes.add("read")
        except InvalidData as error:
            outcomes.add(error.message.partition(",")[0])
    assert outcomes >= {
        "read",
        "the footer is cut off",
        "the footer has a field twice",
        "the footer lacks a field",
        "the footer names an unknown codec",
        "the footer has statistics of a wrong size",
    }


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidData):
        read_footer(data)


def test_a_column_in_another_file_and_an_encrypted_one_are_told() -> None:
    content = written()
    metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    metadata.set_file_path("../elsewhere")
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)
    assert all(chunk.elsewhere for group in read_footer(footer_bytes(sink.getvalue())).groups for chunk in group.chunks)


def hostile() -> Iterator[bytes]:
    """Files whose footers make accessors of pyarrow end the process."""
    content = written(write_page_index=False)
    size = len(footer_bytes(content)) + TAIL.size
    begin = len(content) - size
    chance = random.Random(5)
    for _ in range(300):
        position = chance.randrange(begin, len(content) - TAIL.size)
        yield content[:position] + bytes([content[position] ^ (1 << chance.randrange(8))]) + content[position + 1 :]


def test_batches_of_a_size_are_refused_or_read_whatever_the_footer_says() -> None:
    refused = 0
    for content in hostile():
        try:
            with open_parquet(io.BytesIO(content)) as file:
                list(batches_of(file, bytes_max=1000))
        except (InvalidData, pa.ArrowException, ValueError, KeyError):
            refused += 1
    assert refused
