"""64-bit hashes of keys.

Owns which bytes stand for a key. Invariant: keys that Spark takes for equal have equal hashes, on every machine and in every version that reads the
same state. Two keys may share one; then their rows are bound together, which changes nothing, for a plan that distributes over a
key distributes over any function of it. Not here: the hash (`arrays.byte_hash`), which
columns are the key (`key_inference`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from pyarrow import types

from odfabric.formats.slices.canonical_rows import row_bytes
from odfabric_engine_spark.arrays.array_types import Hashes
from odfabric_engine_spark.arrays.byte_hash import byte_hashes
from odfabric_engine_spark.plan.group_keys import normal_floats

_PIECE_ROWS = 1 << 17
"""Rows whose bytes are in memory at once, for each thread."""


def key_bytes(columns: Sequence[pa.Array]) -> pa.Array:
    """Bytes of keys of at least one column; Spark's equal keys have equal bytes."""
    return row_bytes([normal_floats(column) if types.is_floating(column.type) else column for column in columns])


def key_hashes(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """One hash per row; without columns all rows have the same key."""
    if not columns:
        return np.zeros(rows, dtype=np.uint64)

    def piece(begin: int) -> Hashes:
        return byte_hashes(key_bytes([column.slice(begin, _PIECE_ROWS) for column in columns]))

    if rows <= _PIECE_ROWS:
        return piece(0)
    with ThreadPoolExecutor(pa.cpu_count()) as threads:
        return np.concatenate(list(threads.map(piece, range(0, rows, _PIECE_ROWS))))
