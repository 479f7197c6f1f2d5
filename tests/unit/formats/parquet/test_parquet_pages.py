"""Page headers: total over any bytes, and the same as what pyarrow writes."""

from __future__ import annotations

import io
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.formats.parquet.parquet_pages import (
    Encoding,
    NeedsMore,
    Page,
    PageKind,
    check_crc,
    pages_of_chunk,
    read_header,
)

TABLE = pa.table(
    {
        "text": [f"text {number % 9}" if number % 4 else None for number in range(5000)],
        "list": [[number] * (number % 3) for number in range(5000)],
        "number": list(range(5000)),
    }
)
OPTIONS: list[dict[str, Any]] = [
    {"data_page_version": version, "compression": codec, "use_dictionary": words, "write_page_checksum": crc}
    for version in ("1.0", "2.0")
    for codec in ("none", "zstd")
    for words in (True, False)
    for crc in (True, False)
]


def written(**options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=2000, max_rows_per_page=300, **options)
    return sink.getvalue()


def chunks(content: bytes) -> list[tuple[pq.ColumnChunkMetaData, list[Page]]]:
    metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    found = []
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            end = start + chunk.total_compressed_size
            found.append((chunk, list(pages_of_chunk(lambda at, count: content[at : at + count], start, end))))
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_pages_are_what_the_footer_says(options: dict[str, Any]) -> None:
    content = written(**options)
    for chunk, pages in chunks(content):
        data = [page for page in pages if page.has_values]
        assert sum(page.values for page in data) == chunk.num_values
        assert {page.encoding.name for page in data if page.encoding} <= set(chunk.encodings)
        assert (pages[0].kind is PageKind.DICTIONARY) == chunk.has_dictionary_page
        assert all(page.encoding is Encoding.PLAIN for page in pages if page.kind is PageKind.DICTIONARY)
        assert sum(page.unpacked for page in pages) < chunk.total_uncompressed_size
        for page in pages:
            packed = content[page.start : page.end]
            assert page.crc == (zlib.crc32(packed) if options["write_page_checksum"] else None)
            assert check_crc(page, packed)
            assert page.crc is None or not check_crc(page, packed[:-1] + bytes([packed[-1] ^ 1]))
            assert (page.rows is None) == (options["data_page_version"] == "1.0" or not page.has_values)


def test_a_header_is_read_from_any_prefix_that_holds_it() -> None:
    content = written(write_page_checksum=True)
    (page, *_) = chunks(content)[0][1]
    begin = 4
    for length in range(1, page.start - begin):
        with pytest.raises(NeedsMore):
            read_header(content[begin : begin + length])
    assert read_header(content[begin : page.start], begin) == page
    assert read_header(content[begin:], begin) == page


@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_refused(data: bytes) -> None:
    try:
        page = read_header(data)
    except (InvalidData, NeedsMore):
        return
    assert page.start <= len(data)
    assert 0 <= page.packed < 1 << 31
    assert 0 <= page.unpacked < 1 << 31


HEADER = written(compression="none")[4:60]


@given(st.integers(0, len(HEADER) - 1), st.integers(0, 255), st.binary(max_size=50))
def test_changed_headers_are_headers_or_refused(position: int, byte: int, more: bytes) -> None:
    changed = HEADER[:position] + bytes([byte]) + more + HEADER[position + 1 :]
    try:
        pages = list(pages_of_chunk(lambda at, count: changed[at : at + count], 0, len(changed)))
    except InvalidData:
        return
    assert sum(page.packed for page in pages) <= len(changed)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"\x15\x02", "cut off"),
        (b"\x15\x12\x00", "unknown kind"),
        (b"\x15\x00\x15\x01\x00", "unpacked size of -1"),
        (b"\x15\x00\x15\x02\x15\x02\x00", "lacks a field"),
        (b"\x15\x00\x15\x02\x15\x02\x2c\x15\x02\x15\x70\x15\x06\x15\x06\x00\x00", "unknown encoding"),
        (b"\x15\x00" + b"\x1c" * 100, "too much"),
        (b"\x19\xf5\xa0\x9c\x01" + bytes(40_000), "too much"),
        (b"\x19\xf5\xff\xff\xff\x7f" + bytes(400), "cut off"),
        (b"\x15" + b"\xff" * 20, "too long"),
        (b"\x1d", "unknown type"),
        (b"\x15\x00\x05\x02\x00\x00", "twice"),
        (b"\x18\xff\xff\xff\x7f", "cut off"),
    ],
)
def test_what_is_wrong_is_told(header: bytes, reason: str) -> None:
    with pytest.raises(InvalidData, match=reason):
        list(pages_of_chunk(lambda at, count: header[at : at + count], 0, len(header)))


def test_a_page_lies_within_its_chunk() -> None:
    content = written()
    _, pages = chunks(content)[0]
    with pytest.raises(InvalidData, match="beyond its column chunk"):
        list(pages_of_chunk(lambda at, count: content[at : at + count], 4, pages[0].end - 1))
