"""Whether the statistics of a slice hold for its rows.

Readers skip row groups and pages by them, so statistics that lie hide rows. Invariant: what bounds the values is never refused, be it
exact, cut short, or absent: a bound may be too wide, not too narrow. NaN is outside of any order, and zeros of both signs are equal. Judged
are columns that are not nested.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Context
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.errors import InvalidData
from odfabric.formats.parquet.page_bounds import page_bounds
from odfabric.formats.parquet.parquet_footer import ChunkClaim, Physical, footer_bytes, read_footer
from odfabric.formats.parquet.parquet_reading import Source

FOOTER_BYTES_MAX: Final = 64 << 20
"""A slice with a longer footer is refused."""
_MILLIS_OF_DAY: Final = 86_400_000
_WIDE: Final = Context(prec=100)
_FORMS: Final = {
    Physical.BOOLEAN: "<?",
    Physical.INT32: "<i",
    Physical.INT64: "<q",
    Physical.FLOAT: "<f",
    Physical.DOUBLE: "<d",
}

_Value = Any
"""A number or bytes: what values of a type are compared by."""


@dataclass(slots=True)
class _Claims:
    """Nulls and bounds that are stated, None where they are not."""

    nulls: int | None
    least: _Value | None
    greatest: _Value | None

    def problem(self, found: _Found) -> str | None:
        if self.nulls is not None and self.nulls != found.nulls:
            return f"count {self.nulls} nulls, its rows have {found.nulls}"
        if self.least is not None and found.least is not None and found.least < self.least:
            return "say that no value is less than one that is not its least"
        if self.greatest is not None and found.greatest is not None and found.greatest > self.greatest:
            return "say that no value is greater than one that is not its greatest"
        return None


@dataclass(slots=True)
class _Found:
    """Nulls, the least and the greatest value of rows."""

    nulls: int = 0
    least: _Value | None = None
    greatest: _Value | None = None

    def take(self, column: pa.Array, kind: pa.DataType) -> None:
        self.nulls += column.null_count
        if column.null_count < len(column):
            self._widen(*_least_and_greatest(column, kind))

    def add(self, other: _Found) -> None:
        self.nulls += other.nulls
        if other.least is not None:
            self._widen(other.least, other.greatest)

    def _widen(self, least: _Value, greatest: _Value) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)


@dataclass(slots=True)
class _Chunk:
    """A column in a row group: claims of it and of its pages, which end at `ends`."""

    name: str
    kind: pa.DataType
    claims: _Claims
    ends: list[int]
    pages: list[_Claims]
    found: list[_Found] = field(default_factory=list)

    def take(self, column: pa.Array, position: int) -> None:
        """Rows of the group from `position` on."""
        begin, count = 0, len(column)
        while begin < count:
            if not self.found or position + begin == self.ends[len(self.found) - 1]:
                self.found.append(_Found())
            end = min(count, self.ends[len(self.found) - 1] - position)
            self.found[-1].take(column if end - begin == count else column.slice(begin, end - begin), self.kind)
            begin = end

    def problem(self) -> str | None:
        whole = _Found()
        for page, found in zip(self.pages, self.found, strict=False):
            if text := page.problem(found):
                return text
            whole.add(found)
        return self.claims.problem(whole)


@dataclass(slots=True)
class _Group:
    """A row group, which ends at row `end` of the file."""

    begin: int
    end: int
    chunks: list[_Chunk]


class StatisticsCheck:
    """Compares the statistics of a file with its rows; batches are taken in order."""

    def __init__(self, groups: list[_Group]) -> None:
        self._groups = groups
        self._at = 0
        self._position = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Look at the next rows. Raises InvalidData for more than the row groups have."""
        start = 0
        while start < batch.num_rows:
            if self._at == len(self._groups):
                raise InvalidData("the file has more rows than its row groups say")
            group = self._groups[self._at]
            rows = min(group.end - self._position, batch.num_rows - start)
            for chunk in group.chunks:
                column = batch.column(chunk.name)
                chunk.take(
                    column if rows == batch.num_rows else column.slice(start, rows), self._position - group.begin
                )
            start += rows
            self._position += rows
            if self._position == group.end:
                self._at += 1

    def problems(self) -> list[str]:
        """The first thing that is wrong in each column."""
        found: dict[str, str] = {}
        for number, group in enumerate(self._groups, 1):
            for chunk in group.chunks:
                if chunk.name not in found and (text := chunk.problem()):
                    found[chunk.name] = f"the statistics of column `{chunk.name}` in row group {number} {text}"
        return list(found.values())


def statistics_check(source: Source, schema: pa.Schema) -> StatisticsCheck:
    """The check of a file.

    `schema` is that of the file as Arrow reads it, without hints. Raises InvalidData, LimitExceeded.
    """
    if isinstance(source, Path):
        with source.open("rb") as file:
            return StatisticsCheck(list(_groups(file, schema)))
    place = source.tell()
    try:
        return StatisticsCheck(list(_groups(source, schema)))
    finally:
        source.seek(place)


def _groups(file: BinaryIO, schema: pa.Schema) -> Iterator[_Group]:
    footer = read_footer(footer_bytes(file, bytes_max=FOOTER_BYTES_MAX))
    names = Counter(schema.names)
    kinds = {each.name: _plain(each.type) for each in schema if names[each.name] == 1}
    judged = {name: kind for name, kind in kinds.items() if _is_flat(kind)}
    begin = 0
    for group in footer.groups:
        chunks = [_chunk(file, chunk, group.rows, judged[chunk.path]) for chunk in group.chunks if chunk.path in judged]
        yield _Group(begin, begin + group.rows, chunks)
        begin += group.rows


def _chunk(file: BinaryIO, chunk: ChunkClaim, rows: int, kind: pa.DataType) -> _Chunk:
    # The old statistics have another order of bytes and of unsigned numbers; no reader takes them there.
    signed = not (types.is_unsigned_integer(kind) or types.is_decimal(kind) or _is_text(kind))
    stated = chunk.stated if signed else chunk.stated[:1] if chunk.is_stated_in_order else ()
    pages = page_bounds(file, chunk, rows)
    return _Chunk(
        name=chunk.path,
        kind=kind,
        claims=_claims(chunk, chunk.nulls, stated, kind),
        ends=[each.end for each in pages] or [rows],
        pages=[_claims(chunk, each.nulls, [(each.least, each.greatest)], kind) for each in pages]
        or [_Claims(None, None, None)],
    )


def _claims(
    chunk: ChunkClaim, nulls: int | None, stated: Iterable[tuple[bytes | None, bytes | None]], kind: pa.DataType
) -> _Claims:
    """The narrowest bounds of all that are stated."""
    least: list[_Value] = []
    greatest: list[_Value] = []
    for low, high in stated:
        for raw, into in ((low, least), (high, greatest)):
            value = None if raw is None else _value(raw, chunk.physical, kind)
            if value is not None and value == value:  # NaN is no bound
                into.append(value)
    return _Claims(nulls, max(least, default=None), min(greatest, default=None))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if types.is_dictionary(kind) else kind


def _is_flat(kind: pa.DataType) -> bool:
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_decimal128(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
        or _is_text(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    )


def _value(raw: bytes, physical: Physical, kind: pa.DataType) -> _Value | None:
    """A stored bound as `_least_and_greatest` gives values.

    None for a form that has no order here. Raises InvalidData for a wrong size.
    """
    if physical in (Physical.BYTE_ARRAY, Physical.FIXED_LEN_BYTE_ARRAY):
        if types.is_decimal(kind):
            return int.from_bytes(raw, signed=True)
        return raw if physical is Physical.BYTE_ARRAY and _is_text(kind) else None
    form = _FORMS.get(physical)
    if form is None:
        return None
    if len(raw) != struct.calcsize(form):
        raise InvalidData("the footer has statistics of a wrong size")
    value = struct.unpack(form, raw)[0]
    if types.is_unsigned_integer(kind):
        return value % (1 << (8 * len(raw)))
    return value


def _least_and_greatest(column: pa.Array, stored: pa.DataType) -> tuple[_Value, _Value]:
    """Of a column with a value, in the order of statistics.

    `stored` is the type that the file has for it.
    """
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_date64(kind) and types.is_date32(stored):
        least, greatest = _bounds(column.view(pa.int64()))
        return least // _MILLIS_OF_DAY, -(-greatest // _MILLIS_OF_DAY)
    if types.is_temporal(kind):
        return _bounds(column.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
    if types.is_decimal(kind):
        least, greatest = _bounds(column)
        return int(least.scaleb(kind.scale, _WIDE)), int(greatest.scaleb(kind.scale, _WIDE))
    if types.is_string(kind) or types.is_large_string(kind):
        column = column.cast(pa.large_binary() if types.is_large_string(kind) else pa.binary())
    least, greatest = _bounds(column)
    if isinstance(least, float) and math.isnan(least):
        return math.inf, -math.inf  # nothing but NaN: no bound is too narrow
    return least, greatest


def _bounds(column: pa.Array) -> tuple[_Value, _Value]:
    found = pc.min_max(column)
    return found["min"].as_py(), found["max"].as_py()
