"""Page headers of Parquet files: what a file holds, without unpacking it.

Owns the decoder of page headers, and the walk from page to page of a column chunk.
Invariant: total and bounded for any bytes: a header, InvalidData or NeedsMore. Every page has exactly the bytes that its header
says, inside its chunk. Not here: footers (`parquet_footer`), what sizes are allowed (the engine's reader).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

from odfabric.errors import InvalidData
from odfabric.formats.parquet.thrift_compact import CompactReader, NeedsMore, Struct

Fetch: TypeAlias = Callable[[int, int], bytes]
"""The bytes of a file from a position, at most so many; fewer at its end."""

HEADER_BYTES_MAX = 16 << 20
"""Longest header, as in Arrow: it repeats the least and greatest value of its page."""

_HEADER_BYTES = 256
"""Read at first; few headers have more."""
_VALUES_MAX = 10_000
"""Most values of one header; it has some twenty."""
_CRC_BITS = 0xFFFF_FFFF


class PageKind(IntEnum):
    """What a page holds, by its number in headers."""

    DATA = 0
    INDEX = 1
    DICTIONARY = 2
    DATA_V2 = 3


class Encoding(IntEnum):
    """How values are encoded, by the number in headers; names as in footers."""

    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page.

    Its `packed` bytes begin at `start`; `values` counts nulls too, `rows` only pages of version 2 tell.
    """

    kind: PageKind
    start: int
    packed: int
    unpacked: int
    values: int = 0
    rows: int | None = None
    encoding: Encoding | None = None
    level_encodings: tuple[Encoding, ...] = ()
    compressed: bool = True
    """Whether its values may be compressed at all; a page of version 2 says so itself."""
    crc: int | None = None

    @property
    def end(self) -> int:
        """Where the next header begins."""
        return self.start + self.packed

    @property
    def has_values(self) -> bool:
        """Whether it is a data page of either version."""
        return self.kind in (PageKind.DATA, PageKind.DATA_V2)


def pages_of_chunk(fetch: Fetch, start: int, end: int) -> Iterator[Page]:
    """The pages between two positions of a file.

    Raises InvalidData for what is no page, or reaches beyond `end`.
    """
    position = start
    while position < end:
        page = _page_at(fetch, position, end)
        if page.end > end:
            raise InvalidData(f"a page of {page.packed} bytes reaches beyond its column chunk")
        yield page
        position = page.end


def check_crc(page: Page, packed: bytes) -> bool:
    """Whether the bytes of a page are those that its checksum was made of.

    Also if it has none.
    """
    return page.crc is None or zlib.crc32(packed) == page.crc


def read_header(data: bytes, start: int = 0) -> Page:
    """The page whose header `data` begins with.

    `start` is where that stands in the file.

    Raises NeedsMore if `data` ends within the header, InvalidData if it is none.
    """
    decoder = CompactReader(data, "a page header", values_max=_VALUES_MAX)
    found = decoder.struct()
    try:
        kind = PageKind(_number(found, 1))
    except ValueError:
        raise InvalidData(f"a page of an unknown kind, {_number(found, 1)}") from None
    crc = found.get(4)
    page = Page(
        kind=kind,
        start=start + decoder.position,
        unpacked=_count(found, 2, "unpacked size"),
        packed=_count(found, 3, "packed size"),
        crc=crc & _CRC_BITS if isinstance(crc, int) else None,
    )
    return _with_details(page, found)


def _page_at(fetch: Fetch, position: int, end: int) -> Page:
    size = _HEADER_BYTES
    while True:
        data = fetch(position, min(size, end - position))
        try:
            return read_header(data, position)
        except NeedsMore:
            if len(data) < size:
                raise InvalidData("a page header is cut off") from None
            if size >= HEADER_BYTES_MAX:
                raise InvalidData(f"a page header of more than {HEADER_BYTES_MAX} bytes") from None
            size *= 4


def _with_details(page: Page, found: Struct) -> Page:
    match page.kind:
        case PageKind.INDEX:
            return page
        case PageKind.DATA:
            own = _nested(found, 5)
            levels = (_encoding(own, 3), _encoding(own, 4))
            return replace(page, values=_count(own, 1, "count"), encoding=_encoding(own, 2), level_encodings=levels)
        case PageKind.DICTIONARY:
            own = _nested(found, 7)
            return replace(page, values=_count(own, 1, "count"), encoding=_encoding(own, 2))
        case PageKind.DATA_V2:
            own = _nested(found, 8)
            values, nulls = _count(own, 1, "count"), _count(own, 2, "count of nulls")
            levels_bytes = _count(own, 5, "size of levels") + _count(own, 6, "size of levels")
            if nulls > values or levels_bytes > min(page.packed, page.unpacked):
                raise InvalidData("a page header contradicts itself")
            return replace(
                page,
                values=values,
                rows=_count(own, 3, "count of rows"),
                encoding=_encoding(own, 4),
                compressed=own.get(7) != 0,
            )


def _number(found: Struct, number: int) -> int:
    value = found.get(number)
    if not isinstance(value, int):
        raise InvalidData("a page header lacks a field")
    return value


def _count(found: Struct, number: int, what: str) -> int:
    value = _number(found, number)
    if not 0 <= value < 1 << 31:
        raise InvalidData(f"a page header with a {what} of {value}")
    return value


def _encoding(found: Struct, number: int) -> Encoding:
    value = _number(found, number)
    try:
        return Encoding(value)
    except ValueError:
        raise InvalidData(f"a page of an unknown encoding, {value}") from None


def _nested(found: Struct, number: int) -> Struct:
    value = found.get(number)
    if not isinstance(value, dict):
        raise InvalidData("a page header lacks a field")
    return value
