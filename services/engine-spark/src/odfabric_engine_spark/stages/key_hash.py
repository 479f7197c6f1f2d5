"""Hashes of keys: 64 bits by which rows of one key are found together.

Owns the hash. Invariant: keys that Spark takes for equal have equal hashes, on every machine and in every version that reads the
same state. Two keys may share one; then their rows are bound together, which changes nothing, for a plan that distributes over a
key distributes over any function of it. Not here: which columns are the key (`inference`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from odfabric_engine_spark.incremental.canonical import row_bytes
from odfabric_engine_spark.incremental.group_keys import normal_floats

Hashes = npt.NDArray[np.uint64]

_MULTIPLIER = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_PIECE_ROWS = 1 << 18


def key_hashes(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """One hash per row; without columns all rows have the same key."""
    if not columns:
        return np.zeros(rows, dtype=np.uint64)
    normal = [normal_floats(column) if types.is_floating(column.type) else column for column in columns]
    pieces = [
        _hash_bytes(row_bytes([column.slice(begin, _PIECE_ROWS) for column in normal]))
        for begin in range(0, rows, _PIECE_ROWS)
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.uint64)


def _hash_bytes(encoded: pa.Array) -> Hashes:
    """A polynomial of the bytes and the length, modulo 2^64, then mixed."""
    offsets = np.frombuffer(encoded.buffers()[1], dtype=np.int32)[encoded.offset : encoded.offset + len(encoded) + 1]
    data = encoded.buffers()[2]
    content = np.frombuffer(b"" if data is None else data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    starts = (offsets[:-1] - offsets[0]).astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    positions = np.arange(len(content), dtype=np.int64) - np.repeat(starts, lengths)
    longest = int(lengths.max(initial=0))
    terms = (content.astype(np.uint64) + np.uint64(1)) * _powers(longest)[positions]
    # Every key has a byte: even a null is written.
    sums = np.add.reduceat(terms, starts) if len(terms) else np.zeros(len(starts), dtype=np.uint64)
    return _mixed(sums + lengths.astype(np.uint64) * np.uint64(_MIX[0]))


def _powers(count: int) -> Hashes:
    factors = np.full(max(count, 1), _MULTIPLIER, dtype=np.uint64)
    return np.multiply.accumulate(factors)


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_MIX[0])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_MIX[1])
    return values ^ (values >> np.uint64(31))
