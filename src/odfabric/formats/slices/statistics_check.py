"""Whether the statistics of a slice hold for its rows.

Readers skip row groups by them, so statistics that lie hide rows. Invariant: what bounds the values is never refused, be it
exact, cut short, or absent: a bound may be too wide, not too narrow. NaN is outside of any order, and zeros of both signs are equal. Judged
are columns that are not nested; not here: page indexes (`formats.parquet.parquet_page_rows`).
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Context
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.errors import InvalidData
from odfabric.formats.parquet.parquet_footer import ChunkClaim, Footer, Physical, footer_bytes, read_footer
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


def footer_of(source: Source) -> Footer:
    """The footer of a slice. Raises InvalidData, LimitExceeded."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            return read_footer(footer_bytes(file, bytes_max=FOOTER_BYTES_MAX))
    place = source.tell()
    try:
        return read_footer(footer_bytes(source, bytes_max=FOOTER_BYTES_MAX))
    finally:
        source.seek(place)


@dataclass(slots=True)
class _Chunk:
    """Claims of a column in a row group, and what its rows have so far."""

    name: str
    group: int
    kind: pa.DataType
    nulls: int | None
    least: _Value | None
    greatest: _Value | None
    found_nulls: int = 0
    found_least: _Value | None = None
    found_greatest: _Value | None = None

    def take(self, column: pa.Array) -> None:
        self.found_nulls += column.null_count
        if (self.least is None and self.greatest is None) or column.null_count == len(column):
            return
        least, greatest = _least_and_greatest(column, self.kind)
        self.found_least = least if self.found_least is None else min(self.found_least, least)
        self.found_greatest = greatest if self.found_greatest is None else max(self.found_greatest, greatest)

    def problems(self) -> Iterator[str]:
        where = f"the statistics of column `{self.name}` in row group {self.group + 1}"
        if self.nulls is not None and self.nulls != self.found_nulls:
            yield f"{where} count {self.nulls} nulls, its rows have {self.found_nulls}"
        if self.least is not None and self.found_least is not None and self.found_least < self.least:
            yield f"{where} say that no value is less than one that is not its least"
        if self.greatest is not None and self.found_greatest is not None and self.found_greatest > self.greatest:
            yield f"{where} say that no value is greater than one that is not its greatest"


@dataclass(slots=True)
class StatisticsCheck:
    """Compares the statistics of a file with its rows; batches are taken in order.

    `schema` is that of the file as Arrow reads it, without hints.
    """

    footer: Footer
    schema: pa.Schema
    _ends: list[int] = field(default_factory=list)
    _chunks: list[dict[str, _Chunk]] = field(default_factory=list)
    _position: int = 0

    def __post_init__(self) -> None:
        names = Counter(self.schema.names)
        kinds = {each.name: _plain(each.type) for each in self.schema if names[each.name] == 1}
        judged = {name: kind for name, kind in kinds.items() if _is_flat(kind)}
        end = 0
        for number, group in enumerate(self.footer.groups):
            end += group.rows
            self._ends.append(end)
            self._chunks.append(
                {
                    chunk.path: _claimed(chunk, number, judged[chunk.path])
                    for chunk in group.chunks
                    if chunk.path in judged
                }
            )

    def take(self, batch: pa.RecordBatch) -> None:
        """Look at the next rows. Raises InvalidData for more than the row groups have."""
        start = 0
        for chunks, end in zip(self._chunks, self._ends, strict=True):
            if end <= self._position or start == batch.num_rows:
                continue
            rows = min(end - self._position, batch.num_rows - start)
            for name, chunk in chunks.items():
                column = batch.column(name)
                chunk.take(column if rows == batch.num_rows else column.slice(start, rows))
            start += rows
            self._position += rows
        if start < batch.num_rows:
            raise InvalidData("the file has more rows than its row groups say")

    def problems(self) -> list[str]:
        """The first thing that is wrong in each column."""
        found: dict[str, str] = {}
        for chunks in self._chunks:
            for chunk in chunks.values():
                for text in chunk.problems():
                    found.setdefault(chunk.name, text)
        return list(found.values())


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


def _claimed(chunk: ChunkClaim, group: int, kind: pa.DataType) -> _Chunk:
    """The narrowest bounds of all that are stated and that readers may take."""
    least: list[_Value] = []
    greatest: list[_Value] = []
    # The old statistics have another order of bytes and of unsigned numbers; no reader takes them there.
    signed = not (types.is_unsigned_integer(kind) or types.is_decimal(kind) or _is_text(kind))
    for low, high in chunk.stated if signed else chunk.stated[:1]:
        for raw, into in ((low, least), (high, greatest)):
            value = None if raw is None else _value(raw, chunk.physical, kind)
            if value is not None and value == value:  # NaN is no bound
                into.append(value)
    return _Chunk(
        name=chunk.path,
        group=group,
        kind=kind,
        nulls=chunk.nulls,
        least=max(least, default=None),
        greatest=min(greatest, default=None),
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
    """Of a column with a value, in the order of statistics; `stored` is the type that the file has for it."""
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
