"""The records that turn the net rows of one changelog into those of another.

Owns the comparison of two multisets of rows that may be larger than memory wants to hold: hashes of rows with their weights stay in
memory, the rows are read a second time. Invariant: what comes out withdraws exactly the rows that one has too many and appends
those that it has too few, withdrawals first, each in the order in which its row was written; equal rows are said nothing of. Rows
that are unmatched, withdrawn more often than appended, are so afterwards if the other changelog owes them: they cancel what comes later.
Rows are equal as in the logical hash. Source: docs/engine.md#the-law-of-transforms; docs/engine.md#when-rows-are-equal;
docs/engine.md#unmatched-retractions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric.errors import LimitExceeded
from odfabric.formats.slices.canonical_rows import table_bytes
from odfabric.model.operation import OperationType
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.stable_order import stable_order

_DIGEST_BYTES = 16
_ADD_UP_ROWS = 1 << 20
"""Hashes that are collected before they are added up."""

Digests = npt.NDArray[np.bytes_]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of a changelog: +1 for an appended row, -1 for a withdrawn one."""

    weights: Counts
    rows: pa.Table


Changelog = Callable[[], Iterable[Changes]]
"""Reads a changelog from its beginning; it is read twice."""


def weights_of(operations: npt.NDArray[np.int32]) -> Counts:
    """Weights of operation types."""
    gone = (operations == OperationType.RETRACT) | (operations == OperationType.CORRECT_FROM)
    return np.where(gone, -1, 1).astype(np.int64)


def difference(
    old: Changelog, new: Changelog, *, rows_max: int, limit: str
) -> Iterator[tuple[OperationType, pa.Table]]:
    """Pieces of what turns the net rows of `old` into those of `new`.

    Raises LimitExceeded for more than `rows_max` net rows.
    """
    digests, counts = _added_up([*_weighed(old, -1, rows_max, limit), *_weighed(new, 1, rows_max, limit)])
    for operation, chosen, sources in (
        (OperationType.RETRACT, counts < 0, ((old, 1), (new, -1))),
        (OperationType.APPEND, counts > 0, ((new, 1), (old, -1))),
    ):
        names, left = digests[chosen], np.abs(counts[chosen])
        for changelog, sign in sources:  # an unmatched retraction stands in one record only
            for rows in _picked(changelog, sign, names, left):
                yield operation, rows


def _weighed(changelog: Changelog, sign: int, rows_max: int, limit: str) -> list[tuple[Digests, Counts]]:
    """The net rows of a changelog as hashes and counts.

    Counts are negative for unmatched retractions.
    """
    pieces: list[tuple[Digests, Counts]] = []
    waiting = 0
    for changes in changelog():
        pieces.append((_digests(changes.rows), changes.weights))
        waiting += changes.rows.num_rows
        if waiting >= _ADD_UP_ROWS:
            pieces = [_added_up(pieces)]
            waiting = 0
            _check(len(pieces[0][0]), rows_max, limit)
    digests, counts = _added_up(pieces)
    _check(len(digests), rows_max, limit)
    return [(digests, sign * counts)]


def _added_up(pieces: list[tuple[Digests, Counts]]) -> tuple[Digests, Counts]:
    """Each hash once, in order, with the sum of its weights.

    Those that add up to nothing are left out.
    """
    if not pieces:
        return np.zeros(0, dtype=f"S{_DIGEST_BYTES}"), np.zeros(0, dtype=np.int64)
    digests, places = np.unique(np.concatenate([piece[0] for piece in pieces]), return_inverse=True)
    counts = np.zeros(len(digests), dtype=np.int64)
    np.add.at(counts, places, np.concatenate([piece[1] for piece in pieces]))
    left = counts != 0
    return digests[left], counts[left]


def _picked(changelog: Changelog, sign: int, digests: Digests, left: Counts) -> Iterator[pa.Table]:
    """First rows of a changelog by hash and sign, as often as `left`, which shrinks."""
    if not left.any():
        return
    for changes in changelog():
        alike = np.nonzero(changes.weights * sign > 0)[0]
        found = _digests(changes.rows.take(pa.array(alike)))
        places = np.searchsorted(digests, found)
        places[places == len(digests)] = 0
        known = np.nonzero(digests[places] == found)[0]
        chosen = known[_rank(places[known]) < left[places[known]]]
        np.subtract.at(left, places[chosen], 1)
        if len(chosen):
            yield changes.rows.take(pa.array(alike[chosen]))
        if not left.any():
            return


def _rank(values: npt.NDArray[np.int64]) -> Counts:
    """How many equal values stand before each."""
    order = stable_order(values)
    ordered = values[order]
    starts = run_starts(ordered)
    lengths = np.diff(np.append(starts, len(ordered)))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(len(values)) - np.repeat(starts, lengths)
    return ranks


def _digests(rows: pa.Table) -> Digests:
    """Hashes that nobody finds two rows for."""
    values = [hashlib.blake2b(row, digest_size=_DIGEST_BYTES).digest() for row in table_bytes(rows).to_pylist()]
    return np.frombuffer(b"".join(values), dtype=f"S{_DIGEST_BYTES}")


def _check(rows: int, rows_max: int, limit: str) -> None:
    if rows > rows_max:
        raise LimitExceeded(f"a result of more than {rows_max} rows is not compared", limit=limit, maximum=rows_max)
