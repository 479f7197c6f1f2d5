"""Footers of Parquet files: what a file says of its row groups and column chunks.

Owns their decoder. pyarrow has one too, but some of its accessors end the process over footers of strangers: an unknown codec, statistics
or histograms of a wrong size. Invariant: total for any bytes: a Footer or InvalidData. All it holds are claims; pages tell what is true
(`parquet_pages`). Not here: the schema, which pyarrow reads.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO, TypeVar

from odfabric.errors import InvalidData, LimitExceeded
from odfabric.formats.parquet.thrift_compact import CompactReader, NeedsMore, Struct, Value

ValueT = TypeVar("ValueT", int, bytes, "list[Value]", "Struct")

MAGIC = b"PAR1"
NOT_PARQUET = "Not a readable Parquet file: it does not begin and end as one"
TAIL = struct.Struct("<I4s")
"""The end of a file: the size of its footer, and `MAGIC`."""

Bound = int | float | bytes


class Physical(IntEnum):
    """How values are stored, by its number in footers."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


class Codec(IntEnum):
    """How pages are compressed, by its number in footers."""

    UNCOMPRESSED = 0
    SNAPPY = 1
    GZIP = 2
    LZO = 3
    BROTLI = 4
    LZ4 = 5
    ZSTD = 6
    LZ4_RAW = 7


_FORMS = {Physical.INT32: "<i", Physical.INT64: "<q", Physical.FLOAT: "<f", Physical.DOUBLE: "<d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkClaim:
    """What a footer says of a column chunk.

    Its pages begin at `start`; `bounds` are the least and greatest value as they are stored.
    """

    path: str
    physical: Physical
    codec: Codec
    encodings: frozenset[int]
    values: int
    packed: int
    unpacked: int
    start: int
    elsewhere: bool
    nulls: int | None
    bounds: tuple[Bound, Bound] | None
    stated: tuple[tuple[bytes | None, bytes | None], ...] = ()
    """All pairs of a least and a greatest value, also the old ones and those without an order, as they are written."""
    is_stated_in_order: bool = False
    """Whether the first of these pairs is a new one."""
    page_bounds: tuple[int, int] | None = None
    """Where the bounds of its pages are: place and bytes."""
    page_places: tuple[int, int] | None = None
    """Where the first rows of its pages are."""


@dataclass(frozen=True, slots=True)
class GroupClaim:
    """A footer's claims of a row group: its rows, and column chunks in schema order."""

    rows: int
    chunks: tuple[ChunkClaim, ...]


@dataclass(frozen=True, slots=True)
class Footer:
    """What a footer says of its file."""

    rows: int
    groups: tuple[GroupClaim, ...]
    created_by: str


def footer_bytes(file: BinaryIO, *, bytes_max: int) -> bytes:
    """The footer of a file that can be sought and ends as one of Parquet.

    Raises InvalidData, LimitExceeded.
    """
    length = file.seek(0, io.SEEK_END)
    file.seek(max(0, length - TAIL.size))
    end = file.read(TAIL.size)
    size, magic = TAIL.unpack(end) if len(end) == TAIL.size else (0, b"")
    if magic != MAGIC or size + TAIL.size + len(MAGIC) > length:
        raise InvalidData(NOT_PARQUET)
    if size > bytes_max:
        raise LimitExceeded("The footer is too large", limit="parquet_footer_bytes_max", maximum=bytes_max)
    file.seek(length - TAIL.size - size)
    return file.read(size)


def read_footer(data: bytes) -> Footer:
    """The footer in these bytes. Raises InvalidData."""
    try:
        found = CompactReader(data, "the footer", values_max=len(data)).struct()
    except NeedsMore:
        raise InvalidData("the footer is cut off") from None
    # Without them nobody knows in which order the least and the greatest were found.
    ordered = isinstance(found.get(7), list)
    groups = tuple(_group(_of(each, dict), ordered) for each in _field(found, 4, list))
    created_by = found.get(6)
    return Footer(
        rows=_count(found, 3),
        groups=groups,
        created_by=created_by.decode("utf-8", "replace") if isinstance(created_by, bytes) else "",
    )


def _group(found: Struct, ordered: bool) -> GroupClaim:
    return GroupClaim(_count(found, 3), tuple(_chunk(_of(each, dict), ordered) for each in _field(found, 1, list)))


def _chunk(found: Struct, ordered: bool) -> ChunkClaim:
    own = _field(found, 3, dict)
    first, dictionary = _count(own, 9), own.get(11)
    physical = _known(Physical, _count(own, 1), "type")
    statistics = own.get(12)
    told = statistics if isinstance(statistics, dict) else {}
    nulls = told.get(3)
    return ChunkClaim(
        path=".".join(_of(part, bytes).decode("utf-8", "replace") for part in _field(own, 3, list)),
        physical=physical,
        codec=_known(Codec, _count(own, 4), "codec"),
        encodings=frozenset(_of(each, int) for each in _field(own, 2, list)),
        values=_count(own, 5),
        packed=_count(own, 7),
        unpacked=_count(own, 6),
        start=dictionary if isinstance(dictionary, int) and 0 < dictionary < first else first,
        elsewhere=bool(found.get(1)) or 8 in found,
        nulls=nulls if isinstance(nulls, int) else None,
        bounds=_bounds(told, physical) if ordered else None,
        stated=tuple(_stated(told)),
        is_stated_in_order=5 in told or 6 in told,
        page_bounds=_place(found, 6),
        page_places=_place(found, 4),
    )


def _place(found: Struct, number: int) -> tuple[int, int] | None:
    """The place of an index, and after it its size; None without one."""
    if number not in found:
        return None
    return _count(found, number), _count(found, number + 1)


def _stated(told: Struct) -> Iterator[tuple[bytes | None, bytes | None]]:
    for least, greatest in ((told.get(6), told.get(5)), (told.get(2), told.get(1))):
        if isinstance(least, bytes) or isinstance(greatest, bytes):
            yield least if isinstance(least, bytes) else None, greatest if isinstance(greatest, bytes) else None


def _bounds(told: Struct, physical: Physical) -> tuple[Bound, Bound] | None:
    least, greatest = told.get(6), told.get(5)
    if not isinstance(least, bytes) or not isinstance(greatest, bytes):
        return None
    form = _FORMS.get(physical)
    if form is None:
        return (least, greatest) if physical in (Physical.BYTE_ARRAY, Physical.FIXED_LEN_BYTE_ARRAY) else None
    try:
        return struct.unpack(form, least)[0], struct.unpack(form, greatest)[0]
    except struct.error:
        raise InvalidData("the footer has statistics of a wrong size") from None


EnumT = TypeVar("EnumT", Physical, Codec)


def _known(kind: type[EnumT], number: int, what: str) -> EnumT:
    try:
        return kind(number)
    except ValueError:
        raise InvalidData(f"the footer names an unknown {what}, {number}") from None


def _count(found: Struct, number: int) -> int:
    value = _field(found, number, int)
    if value < 0:
        raise InvalidData("the footer has a negative count")
    return value


def _field(found: Struct, number: int, kind: type[ValueT]) -> ValueT:
    return _of(found.get(number), kind)


def _of(value: Value, kind: type[ValueT]) -> ValueT:
    if not isinstance(value, kind):
        raise InvalidData("the footer lacks a field, or has one of another type")
    return value
