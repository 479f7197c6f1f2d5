"""Bounds of a column by the statistics of a Parquet file.

Invariant: where some record is null, or some part of the file has no statistics, nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types

from odfabric.formats.parquet.parquet_reading import open_parquet

_MILLIS_OF_DAY = 86_400_000
_UNITS_OF_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """No time is before `first` or after `last`.

    Both are whole milliseconds since 1970, in UTC.
    """

    first: int
    last: int


def column_bounds(path: Path, column: str) -> tuple[Any, Any] | None:
    """Both bounds, None if they are not known of all records.

    Raises InvalidData for what is no Parquet file.
    """
    least: Any = None
    greatest: Any = None
    with open_parquet(path) as file:
        metadata = file.metadata
        names = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
        if column not in names or metadata.num_rows == 0:
            return None
        for group in range(metadata.num_row_groups):
            found = metadata.row_group(group).column(names.index(column)).statistics
            if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
                return None
            least = found.min if least is None else min(least, found.min)
            greatest = found.max if greatest is None else max(greatest, found.max)
    return least, greatest


def time_bounds(path: Path, column: str) -> TimeBounds | None:
    """Both bounds of a column of times or dates.

    None if they are not known of all records.

    Raises InvalidData for what is no Parquet file.
    """
    first: list[int] = []
    last: list[int] = []
    with open_parquet(path) as file:
        metadata = file.metadata
        names = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
        if column not in names or file.schema_arrow.get_field_index(column) < 0 or metadata.num_rows == 0:
            return None
        kind = file.schema_arrow.field(column).type
        for group in range(metadata.num_row_groups):
            found = metadata.row_group(group).column(names.index(column)).statistics
            if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
                return None
            # Raw: years that Python has no dates for are times, too.
            bounds = _millis(found.min_raw, kind), _millis(found.max_raw, kind, up=True)
            if bounds[0] is None or bounds[1] is None:
                return None
            first.append(bounds[0])
            last.append(bounds[1])
    return TimeBounds(min(first), max(last))


def _millis(raw: object, kind: pa.DataType, *, up: bool = False) -> int | None:
    """Stored digits as milliseconds, cut down or up; None for a type without them."""
    if not isinstance(raw, int):
        return None
    if types.is_date32(kind):
        return raw * _MILLIS_OF_DAY
    if not types.is_timestamp(kind) or kind.unit not in _UNITS_OF_MILLI:
        return None
    units = _UNITS_OF_MILLI[kind.unit]
    return -(-raw // units) if up else raw // units
