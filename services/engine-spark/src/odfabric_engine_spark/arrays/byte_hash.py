"""64-bit hashes of byte strings.

Owns the hash. Invariant: equal bytes have equal hashes, on every machine and in every version that reads the same state. It is no
proof of equality, and no defence: anyone who needs the one compares bytes, anyone who lets others choose the bytes bounds the work.
Not here: which bytes stand for a key (`formats.slices.canonical_rows`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.stable_order import stable_order

_MULTIPLIER = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_PIECE_ROWS = 1 << 18
_SHORT_BYTES = 256
"""Strings up to this size are gone through byte by byte, all at once."""


def byte_hashes(encoded: pa.Array) -> Hashes:
    """One hash per value of a binary array without nulls or empty values."""
    pieces = [_hashes(encoded.slice(begin, _PIECE_ROWS)) for begin in range(0, len(encoded), _PIECE_ROWS)]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.uint64)


def _hashes(encoded: pa.Array) -> Hashes:
    """A polynomial of the bytes and the length, modulo 2^64, then mixed."""
    offsets = np.frombuffer(encoded.buffers()[1], dtype=np.int32)[encoded.offset : encoded.offset + len(encoded) + 1]
    content = np.frombuffer(encoded.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    starts = (offsets[:-1] - offsets[0]).astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    if (lengths == lengths[0]).all():
        found = _polynomials(content.reshape(len(lengths), -1))
    elif int(lengths.max()) <= _SHORT_BYTES:
        found = _short_polynomials(content, starts, lengths)
    else:
        positions = np.arange(len(content), dtype=np.int64) - np.repeat(starts, lengths)
        terms = (content.astype(np.uint64) + np.uint64(1)) * _powers(int(lengths.max()))[positions]
        found = np.add.reduceat(terms, starts)
    return _mixed(found + lengths.astype(np.uint64) * np.uint64(_MIX[0]))


def _short_polynomials(content: npt.NDArray[np.uint8], starts: Longs, lengths: Longs) -> Hashes:
    """Hashes of strings of different lengths, byte by byte over all long enough."""
    order = stable_order(-lengths)
    starts, counts = starts[order], len(lengths) - np.cumsum(np.bincount(lengths)[:-1])
    ordered: Hashes = np.zeros(len(lengths), dtype=np.uint64)
    for at, (power, count) in enumerate(zip(_powers(len(counts)), counts, strict=True)):
        ordered[:count] += (content[starts[:count] + at].astype(np.uint64) + np.uint64(1)) * power
    found = np.empty_like(ordered)
    found[order] = ordered
    return found


def _polynomials(content: npt.NDArray[np.uint8]) -> Hashes:
    """Those of strings that are equally long, one in each row."""
    found: Hashes = np.zeros(len(content), dtype=np.uint64)
    for column, power in zip(content.T, _powers(content.shape[1]), strict=True):
        found += (column.astype(np.uint64) + np.uint64(1)) * power
    return found


def _powers(count: int) -> Hashes:
    return np.multiply.accumulate(np.full(count, _MULTIPLIER, dtype=np.uint64))


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_MIX[0])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_MIX[1])
    return values ^ (values >> np.uint64(31))
