"""Bounds of a column by the statistics of a Parquet file.

Invariant: where some record is null, or some part of the file has no statistics, nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from odfabric.errors import InvalidData
from odfabric.formats.parquet.parquet_footer import MAGIC, NOT_PARQUET, TAIL
from odfabric.formats.parquet.parquet_reading import Source, open_parquet

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
    with open_parquet(path) as file:
        groups = _statistics(file, column)
        return (min(each.min for each in groups), max(each.max for each in groups)) if groups else None


def missing_bytes(end: bytes) -> int:
    """How many bytes before the end of a file its footer begins earlier.

    0 if it is whole in `end`. Raises InvalidData for what is no Parquet file.
    """
    size, magic = TAIL.unpack(end[-TAIL.size :]) if len(end) >= TAIL.size else (0, b"")
    if magic != MAGIC:
        raise InvalidData(NOT_PARQUET)
    return max(0, int(size) + TAIL.size - len(end))


def time_bounds(source: Source, column: str) -> TimeBounds | None:
    """Both bounds of a column of times or dates.

    `source` may be the end of a file alone, with its whole footer. None if they are not known of all records. Raises InvalidData for what
    is no Parquet file.
    """
    with open_parquet(source) as file:
        groups = _statistics(file, column)
        if not groups or file.schema_arrow.get_field_index(column) < 0:
            return None
        kind = file.schema_arrow.field(column).type
        # Raw: years that Python has no dates for are times, too.
        first = [_millis(each.min_raw, kind) for each in groups]
        last = [_millis(each.max_raw, kind, up=True) for each in groups]
    known_first, known_last = ([each for each in times if each is not None] for times in (first, last))
    if len(known_first) < len(groups) or len(known_last) < len(groups):
        return None
    return TimeBounds(min(known_first), max(known_last))


def _statistics(file: pq.ParquetFile, column: str) -> list[pq.Statistics]:
    """Those of a column's row groups; none if some do not bound all records."""
    metadata = file.metadata
    names = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    if column not in names or metadata.num_rows == 0:
        return []
    at = names.index(column)
    found = [metadata.row_group(group).column(at).statistics for group in range(metadata.num_row_groups)]
    if any(each is None or not each.has_min_max or not each.has_null_count or each.null_count for each in found):
        return []
    return found


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
