"""The statistics of a row group against its values.

Owns which statistics can be held against values: counts of nulls, and bounds of plain columns, which writers may cut but not make
narrower. Invariant: values within their bounds are never called wrong. Statistics whose order is not certain (Int96, unsigned integers,
fixed bytes) say nothing. Not here: damage that leaves every value within its bounds, which nothing distinguishes from other data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from odfabric.formats.parquet.parquet_footer import ChunkClaim, Footer
from odfabric.formats.slices.array_sizes import leaf_slots, leaf_values
from odfabric_engine_spark.ingest.parquet.parquet_survey import Leaf

_COUNT_EVERY_GAP = ("parquet-cpp-arrow", "parquet-mr", "parquet-rs", "DuckDB")
"""Writers that count as nulls of a leaf what stands for nulls and empty lists above it; of others nobody knows."""

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class _Form:
    """How values of a column and raw statistics become comparable.

    `of_array` gives None for arrays of another kind.
    """

    of_array: Callable[[pa.Array], pa.Array | None]
    of_value: Callable[[Any], Any] = _same
    of_raw: Callable[[Any], Any] = _same


@dataclass(slots=True)
class _Nested:
    """A leaf within lists or structs: claims of pages and footer, and what was seen."""

    slots: int
    nulls: int | None
    seen_slots: int = 0
    seen_present: int = 0


@dataclass(slots=True)
class _Column:
    """What the footer says of a column, and what its values have shown so far."""

    nulls: int | None
    form: _Form | None = None
    bounds: tuple[Any, Any] | None = None
    seen_nulls: int = 0
    seen: tuple[Any, Any] | None = None

    def add(self, array: pa.Array) -> None:
        """Looks at every value."""
        self.seen_nulls += array.null_count
        plain = self.form.of_array(array) if self.form is not None and self.bounds is not None else None
        if plain is None or self.form is None:
            return
        found = pc.min_max(plain)
        least, greatest = found["min"].as_py(), found["max"].as_py()
        if least is None or least != least:  # no value, or NaN throughout
            return
        least, greatest = self.form.of_value(least), self.form.of_value(greatest)
        before = self.seen or (least, greatest)
        self.seen = (min(least, before[0]), max(greatest, before[1]))


class GroupStatistics:
    """Takes the values of one row group in, a batch at a time.

    `leaves` are those of the columns that are read.
    """

    def __init__(self, schema: pq.ParquetSchema, footer: Footer, group: int, leaves: Sequence[Leaf]) -> None:
        chunks = footer.groups[group].chunks
        self._columns: dict[str, _Column] = {}
        self._nested: dict[str, list[_Nested]] = {}
        known = footer.created_by.startswith(_COUNT_EVERY_GAP)
        for leaf in leaves:
            chunk, column = chunks[leaf.index], schema.column(leaf.index)
            if leaf.path == column.name == leaf.column:
                self._columns[leaf.column] = _column(chunk, column)
            else:
                nested = _Nested(chunk.values, chunk.nulls if known else None)
                self._nested.setdefault(leaf.column, []).append(nested)

    def add(self, batch: pa.RecordBatch) -> None:
        """Looks at every value of every column."""
        for name, column in self._columns.items():
            column.add(batch.column(name))
        for name, leaves in self._nested.items():
            for leaf, slots, present in zip(leaves, *_counted(batch.column(name)), strict=True):
                leaf.seen_slots += slots
                leaf.seen_present += present

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Columns whose values are not as the footer says, with what differs."""
        for name, column in self._columns.items():
            if column.nulls is not None and column.nulls != column.seen_nulls:
                yield name, f"it has {column.seen_nulls} nulls, the footer says {column.nulls}"
            if column.seen is not None and column.bounds is not None:
                (least, greatest), (seen_least, seen_greatest) = column.bounds, column.seen
                if seen_least < least or seen_greatest > greatest:
                    yield name, "a value lies outside of the least and greatest value that the footer states"
        for name, leaves in self._nested.items():
            for leaf in leaves:
                if leaf.slots != leaf.seen_slots:
                    yield name, f"its lists have {leaf.seen_slots} items, its pages {leaf.slots}"
                elif leaf.nulls is not None and leaf.nulls != leaf.slots - leaf.seen_present:
                    yield name, f"it has {leaf.slots - leaf.seen_present} nulls, the footer says {leaf.nulls}"


def _counted(array: pa.Array) -> tuple[list[int], list[int]]:
    """For each leaf its page values for the rows, and those that are not null.

    With those that stand for nulls and empty lists.
    """
    slots = [int(each.sum()) for each in leaf_slots(array)]
    return slots, leaf_values(array)


def _column(chunk: ChunkClaim, column: pq.ColumnSchema) -> _Column:
    form = None if chunk.bounds is None else _form(column)
    if form is None or chunk.bounds is None:
        return _Column(chunk.nulls)
    least, greatest = (form.of_raw(each) for each in chunk.bounds)
    return _Column(chunk.nulls, form, (least, greatest) if least <= greatest else None)  # not NaN either


def _form(column: pq.ColumnSchema) -> _Form | None:
    """None where the order of statistics is not certain."""
    logical = column.logical_type
    match column.physical_type, str(logical.type):
        case (("INT32" | "INT64"), ("NONE" | "DATE")):
            return _Form(_whole)
        case (("INT32" | "INT64"), "INT"):
            return _Form(_whole) if json.loads(logical.to_json())["isSigned"] else None
        case "INT64", "TIMESTAMP":
            unit = _UNITS.get(json.loads(logical.to_json())["timeUnit"])
            return _Form(lambda array: _ticks(array, unit))
        case (("FLOAT" | "DOUBLE"), "NONE"):
            return _Form(lambda array: array if types.is_floating(array.type) else None)
        case "BYTE_ARRAY", ("NONE" | "STRING"):
            return _Form(_bytes)
        case (("INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY"), "DECIMAL"):
            return _decimals(column.scale)
        case _:
            return None


def _decimals(scale: int) -> _Form:
    return _Form(
        lambda array: array if types.is_decimal(array.type) and array.type.scale == scale else None,
        of_value=lambda value: _unscaled(value, scale),
        of_raw=lambda raw: int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw,
    )


def _whole(array: pa.Array) -> pa.Array | None:
    if types.is_date32(array.type):
        return array.cast(pa.int32())
    return array if types.is_signed_integer(array.type) else None


def _ticks(array: pa.Array, unit: str | None) -> pa.Array | None:
    same = types.is_timestamp(array.type) and array.type.unit == unit
    return array.cast(pa.int64()) if same else None


def _bytes(array: pa.Array) -> pa.Array | None:
    if types.is_string(array.type) or types.is_binary(array.type):
        return array.cast(pa.binary())
    large = types.is_large_string(array.type) or types.is_large_binary(array.type)
    return array.cast(pa.large_binary()) if large else None


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number
