"""Footer statistics of top-level Parquet columns: nulls, least, greatest value.

Invariant: a claim that cannot be read with certainty is unknown, never wrong: bounds of nested columns, of texts that are not UTF-8, of
names that two columns share. Claims are the writer's: nothing here is held against the rows.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import BinaryIO

import pyarrow as pa
from pyarrow import types

from odfabric.formats.parquet.parquet_footer import MAGIC, TAIL, Bound, ChunkClaim, Physical, footer_bytes, read_footer
from odfabric.formats.parquet.parquet_reading import arrow_schema_of, open_parquet


@dataclass(frozen=True, slots=True)
class ColumnClaim:
    """Nulls, and the least and greatest values of all row groups, in no order.

    None is unknown.
    """

    nulls: int | None
    bounds: pa.Array | None


@dataclass(frozen=True, slots=True)
class FileClaims:
    """Claims of a file: its rows, its columns, and those that were asked for.

    `footer_bytes` is what there was to decode.
    """

    footer_bytes: int
    rows: int
    names: frozenset[str]
    columns: Mapping[str, ColumnClaim]


def read_claims(file: BinaryIO, columns: Iterable[str], *, footer_bytes_max: int) -> FileClaims:
    """Of a file that can be sought; its end alone is read.

    Raises InvalidData, LimitExceeded.
    """
    data = footer_bytes(file, bytes_max=footer_bytes_max)
    footer = read_footer(data)
    with open_parquet(io.BytesIO(MAGIC + data + TAIL.pack(len(data), MAGIC))) as opened:
        schema = arrow_schema_of(opened)
    types_of: dict[str, list[pa.DataType]] = {}
    for field in schema:
        types_of.setdefault(field.name, []).append(field.type)
    chunks: dict[str, list[ChunkClaim]] = {}
    shared = Counter(chunk.path for chunk in footer.groups[0].chunks) if footer.groups else Counter[str]()
    for group in footer.groups:
        for chunk in group.chunks:
            chunks.setdefault(chunk.path, []).append(chunk)
    found = {}
    for name in columns:
        held = types_of.get(name, [])
        if held:
            is_plain = len(held) == 1 and shared[name] <= 1 and not types.is_nested(held[0])
            found[name] = _claim(chunks.get(name, []), held[0]) if is_plain else ColumnClaim(None, None)
    return FileClaims(len(data), footer.rows, frozenset(types_of), found)


def _claim(chunks: list[ChunkClaim], data_type: pa.DataType) -> ColumnClaim:
    counts = [chunk.nulls for chunk in chunks]
    nulls = None if None in counts else sum(count for count in counts if count is not None)
    found: list[Bound] = []
    for chunk in chunks:
        if chunk.nulls is not None and chunk.nulls == chunk.values:
            continue  # there is no value to bound
        if chunk.bounds is None:
            return ColumnClaim(nulls, None)
        found += chunk.bounds
    try:
        return ColumnClaim(nulls, _values(found, chunks[0].physical, data_type) if found else pa.array([], data_type))
    except (pa.ArrowException, ArithmeticError, UnicodeDecodeError):
        return ColumnClaim(nulls, None)


def _values(raw: list[Bound], physical: Physical, data_type: pa.DataType) -> pa.Array | None:
    """Values of statistics, None for a type whose order or form is uncertain."""
    if types.is_decimal(data_type):
        whole = [each if isinstance(each, int) else int.from_bytes(_bytes(each), signed=True) for each in raw]
        return pa.array([Decimal(each).scaleb(-data_type.scale) for each in whole], data_type)
    if physical in (Physical.FLOAT, Physical.DOUBLE) and types.is_floating(data_type):
        return (
            None
            if any(math.isnan(float(each)) for each in raw if not isinstance(each, bytes))
            else pa.array(raw, data_type)
        )
    if physical is Physical.BYTE_ARRAY and (types.is_string(data_type) or types.is_large_string(data_type)):
        return pa.array([_bytes(each).decode() for each in raw], data_type)
    if physical in (Physical.INT32, Physical.INT64):
        storage = pa.int32() if physical is Physical.INT32 else pa.int64()
        if types.is_signed_integer(data_type) or types.is_temporal(data_type):
            return pa.array(raw, storage).cast(data_type)
    return None


def _bytes(bound: Bound) -> bytes:
    assert isinstance(bound, bytes)
    return bound
