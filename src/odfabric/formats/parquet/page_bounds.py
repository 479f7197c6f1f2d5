"""Bounds of the pages of a column chunk, by its page index.

Invariant: total for any bytes: bounds of pages that follow each other and end with their row group, or InvalidData. They are claims, like those of
a footer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from odfabric.errors import InvalidData
from odfabric.formats.parquet.parquet_footer import ChunkClaim
from odfabric.formats.parquet.thrift_compact import CompactReader, NeedsMore, Struct, Value

INDEX_BYTES_MAX: Final = 16 << 20
"""Size of an index that is decoded, of one column chunk."""


@dataclass(frozen=True, slots=True)
class PageBounds:
    """Of rows `[begin, end)` of a row group; None is not stated."""

    begin: int
    end: int
    nulls: int | None
    least: bytes | None
    greatest: bytes | None


def page_bounds(file: BinaryIO, chunk: ChunkClaim, rows: int) -> Sequence[PageBounds]:
    """Of all pages of a chunk in a group of `rows` rows; none without an index.

    Raises InvalidData for an index that is none of this chunk.
    """
    if chunk.page_bounds is None or rows == 0:
        return ()
    index = _read(file, chunk.page_bounds)
    empty, least, greatest = (_list(index.get(number)) for number in (1, 2, 3))
    nulls = _list(index.get(5)) if 5 in index else [None] * len(empty)
    if not len(empty) == len(least) == len(greatest) == len(nulls) or not empty:
        raise _wrong()
    begins = [0] if len(empty) == 1 else _begins(file, chunk, len(empty))
    if begins[0] != 0 or any(one >= other for one, other in zip(begins, [*begins[1:], rows], strict=True)):
        raise _wrong()
    return [
        PageBounds(
            begin,
            end,
            # A page of nulls alone has as many as rows.
            end - begin if all_null else count if isinstance(count, int) else None,
            None if all_null or not isinstance(low, bytes) else low,
            None if all_null or not isinstance(high, bytes) else high,
        )
        for begin, end, all_null, low, high, count in zip(
            begins, [*begins[1:], rows], empty, least, greatest, nulls, strict=True
        )
    ]


def _begins(file: BinaryIO, chunk: ChunkClaim, pages: int) -> list[int]:
    if chunk.page_places is None:
        raise _wrong()
    begins = []
    for place in _list(_read(file, chunk.page_places).get(1)):
        first = place.get(3) if isinstance(place, dict) else None
        if not isinstance(first, int):
            raise _wrong()
        begins.append(first)
    if len(begins) != pages:
        raise _wrong()
    return begins


def _read(file: BinaryIO, place: tuple[int, int]) -> Struct:
    start, size = place
    if size > INDEX_BYTES_MAX:
        raise InvalidData("the file has a page index that is too large")
    file.seek(start)
    data = file.read(size)
    try:
        return CompactReader(data, "the page index", values_max=len(data)).struct()
    except NeedsMore:
        raise InvalidData("the page index is cut off") from None


def _list(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise _wrong()
    return value


def _wrong() -> InvalidData:
    return InvalidData("the file has a page index that does not fit its pages")
