"""Bounds of a column by the statistics of a Parquet file.

Invariant: where some record is null, or some part of the file has no statistics, nothing is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odfabric.formats.parquet.parquet_reading import open_parquet


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
