"""Copies of many rows, column by column on all processors.

Owns taking rows at positions, and joining tables to one in one piece. Invariant: what comes out does not depend on how many cores
there are. Most of such a copy is waiting for memory, so two cores take half of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Longs

_ALONE_MAX = 1 << 17
"""Rows up to which threads cost more than they save."""


def taken(rows: pa.Table, positions: Longs) -> pa.Table:
    """The rows at some positions, in that order."""
    at = pa.array(positions)
    return _each_column(rows, len(positions), lambda column: column.take(at))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of tables with the same columns, one after the other, in one piece."""
    together = pa.concat_tables(tables)
    return _each_column(together, together.num_rows, _in_one_piece)


def _in_one_piece(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if column.num_chunks == 1 else pa.chunked_array([column.combine_chunks()], column.type)


def _each_column(rows: pa.Table, count: int, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.Table:
    columns = rows.columns
    if count <= _ALONE_MAX or len(columns) < 2:
        changed = list(map(change, columns))
    else:
        with ThreadPoolExecutor(min(len(columns), pa.cpu_count())) as threads:
            changed = list(threads.map(change, columns))
    return pa.Table.from_arrays(changed, schema=rows.schema) if columns else rows.slice(0, count)
