"""Net rows: rows of several runs with the weights of equal ones added.

Owns what sorted rows of a state look like, and reading several runs in step. Invariant: the outcome is a function of the
multiset of rows: sorted by hash, then by canonical bytes, equal rows once, no weight zero; a negative weight is an
unmatched retraction. Pieces of runs hold whole keys, so no piece needs another. Source:
docs/engine.md#when-rows-are-equal; docs/engine.md#unmatched-retractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import has_integers_in_order, integers_in_order, one_array, row_bytes
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.parallel_columns import joined, taken
from odfabric_engine_spark.arrays.stable_order import order_by, stable_order
from odfabric_engine_spark.state.run import CLOSES, WEIGHT, Run


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows with the hashes of their keys.

    `sources` says which run a row is of, runs being numbered by age.
    """

    hashes: Hashes
    rows: pa.Table
    sources: Longs


def gathered(parts: Sequence[tuple[Hashes, pa.Table]]) -> KeyedRows:
    """Rows of several runs, oldest first."""
    return KeyedRows(
        np.concatenate([hashes for hashes, _ in parts]),
        joined([rows for _, rows in parts]),
        np.repeat(np.arange(len(parts)), [len(hashes) for hashes, _ in parts]),
    )


_NUMBERS_MAX = 3
"""First columns by whose numbers rows are sorted before their bytes are looked at."""
PIECE_BYTES_MAX = 256 << 20
"""Rows of states that are merged at once have about so many bytes at most, however few they are."""


def pieces(runs: Sequence[Run], rows_max: int, *, bytes_max: int = PIECE_BYTES_MAX) -> Iterator[KeyedRows]:
    """Rows of runs by ascending hash, about `rows_max` at a time.

    Fewer if they are large; more only if one key has more.
    """
    row_bytes_max = max((run.stored_bytes / len(run) for run in runs if len(run)), default=0.0)
    fitting = min(rows_max, bytes_max / row_bytes_max) if row_bytes_max else rows_max
    share = max(int(fitting / max(len(runs), 1)), 1)
    begins = [0] * len(runs)
    while any(begin < len(run) for begin, run in zip(begins, runs, strict=True)):
        bounds = [run.hashes[at + share - 1] for at, run in zip(begins, runs, strict=True) if at + share <= len(run)]
        ends = [int(np.searchsorted(run.hashes, min(bounds), side="right")) if bounds else len(run) for run in runs]
        ends = [max(end, begin) for begin, end in zip(begins, ends, strict=True)]
        yield gathered(
            [(run.hashes[begin:end], run.slice(begin, end)) for run, begin, end in zip(runs, begins, ends, strict=True)]
        )
        begins = ends


def netted(keyed: KeyedRows, *, each_netted: bool) -> tuple[Hashes, pa.Table]:
    """Net rows.

    `each_netted`: the rows of each source are net already, so keys of one source need no second look.
    """
    order = stable_order(keyed.hashes)
    hashes = keyed.hashes[order]
    rows = None if each_netted else _taken(keyed.rows, order)
    mixed = mixed_keys(hashes, keyed.sources[order]) if rows is None else _unordered_keys(hashes, rows)
    if not mixed.any():
        return hashes, _taken(keyed.rows, order) if rows is None else rows
    kept, weights = _summed(keyed, order[mixed])
    alone = order[~mixed]
    positions = np.concatenate([alone, kept])
    weights = np.concatenate([_weights(keyed.rows)[alone], weights])
    order = stable_order(keyed.hashes[positions])
    positions = positions[order]
    rows = _taken(keyed.rows, positions)
    return keyed.hashes[positions], rows.set_column(0, rows.schema.field(0), pa.array(weights[order]))


def mixed_keys(hashes: Hashes, sources: Longs | None) -> npt.NDArray[np.bool_]:
    """Rows of keys with several rows, or with several sources. Hashes are sorted."""
    if not len(hashes):
        return np.zeros(0, dtype=bool)
    starts = run_starts(hashes)
    lengths = np.diff(np.append(starts, len(hashes)))
    if sources is None:
        return np.repeat(lengths > 1, lengths)
    return np.repeat(np.minimum.reduceat(sources, starts) != np.maximum.reduceat(sources, starts), lengths)


def _unordered_keys(hashes: Hashes, rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Rows of keys whose rows do not ascend by their first columns already.

    Mostly they do, as rows come in the order of their times: those that do are different, and are in the order of their
    bytes. Hashes are sorted.
    """
    if not len(hashes):
        return np.zeros(0, dtype=bool)
    undecided = np.nonzero(hashes[1:] == hashes[:-1])[0]
    wrong = np.zeros(len(hashes), dtype=bool)
    for name in told_apart_by(rows):
        column = one_array(rows.column(name))
        if column.null_count or not has_integers_in_order(column.type):
            break
        values = integers_in_order(column)
        before, after = values[undecided], values[undecided + 1]
        wrong[undecided[after < before]] = True
        undecided = undecided[after == before]
    wrong[undecided] = True
    starts = run_starts(hashes)
    return np.repeat(np.logical_or.reduceat(wrong, starts), np.diff(np.append(starts, len(hashes))))


def _summed(keyed: KeyedRows, positions: Longs) -> tuple[Longs, Longs]:
    """A position of each row with its net weight, by hash and canonical bytes."""
    numbers = _first_numbers(keyed.rows, positions)
    if not numbers:
        return _summed_by_bytes(keyed, positions)
    hashes = keyed.hashes[positions]
    order = order_by(hashes, *numbers)
    ordered = positions[order]
    starts = run_starts(hashes[order], *(each[order] for each in numbers))
    lengths = np.diff(np.append(starts, len(ordered)))
    alone = ordered[starts[lengths == 1]]
    weights = _weights(keyed.rows)[alone]
    if len(alone) < len(ordered):
        # Of rows that their first numbers do not tell apart all bytes are looked at.
        groups = np.empty(len(keyed.hashes), dtype=np.int64)
        groups[ordered] = np.repeat(np.arange(len(starts)), lengths)
        tied, sums = _summed_by_bytes(keyed, ordered[np.repeat(lengths > 1, lengths)])
        alone, weights = np.concatenate([alone, tied]), np.concatenate([weights, sums])
        order = stable_order(groups[alone])
        alone, weights = alone[order], weights[order]
    kept = weights != 0
    return (alone, weights) if kept.all() else (alone[kept], weights[kept])


def _first_numbers(rows: pa.Table, positions: Longs) -> list[Longs]:
    """First columns of rows at some positions, if they are numbers without nulls."""
    found: list[Longs] = []
    for name in told_apart_by(rows)[:_NUMBERS_MAX]:
        column = one_array(rows.column(name))
        if column.null_count or not has_integers_in_order(column.type):
            break
        found.append(
            integers_in_order(column if _is_whole(positions, len(column)) else column.take(pa.array(positions)))
        )
    return found


def _summed_by_bytes(keyed: KeyedRows, positions: Longs) -> tuple[Longs, Longs]:
    """As `_summed`."""
    rows = _taken(keyed.rows, positions).combine_chunks()
    known = bytes_of(rows)
    hashes = keyed.hashes[positions]
    table = pa.table({"hash": hashes, "bytes": known})
    order = pc.sort_indices(table, sort_keys=[("hash", "ascending"), ("bytes", "ascending")]).to_numpy()
    if not _is_whole(order, len(known)):
        hashes, known = hashes[order], known.take(pa.array(order))
    other = pc.not_equal(known.slice(1), known.slice(0, len(known) - 1)).to_numpy(zero_copy_only=False)
    starts = np.nonzero(np.append(True, (hashes[1:] != hashes[:-1]) | other))[0]
    weights = np.add.reduceat(_weights(rows)[order], starts)
    kept = weights != 0
    return positions[order[starts[kept]]], weights[kept]


def _taken(rows: pa.Table, positions: Longs) -> pa.Table:
    """Rows at different positions.

    If these are all of them in their order nothing is copied.
    """
    return rows if _is_whole(positions, rows.num_rows) else taken(rows, positions)


def _is_whole(positions: Longs, count: int) -> bool:
    """Whether different positions are all there are, in their order."""
    return len(positions) == count and bool((positions[1:] > positions[:-1]).all())


def _weights(rows: pa.Table) -> Longs:
    found: Longs = rows.column(WEIGHT).to_numpy()
    return found


def bytes_of(rows: pa.Table) -> pa.Array:
    """What distinguishes rows."""
    columns = [one_array(rows.column(name)) for name in told_apart_by(rows)]
    return row_bytes(columns) if columns else pa.array([b""] * rows.num_rows, pa.binary())


def told_apart_by(rows: pa.Table) -> list[str]:
    """Columns of `bytes_of` in order, closing time first.

    Rows of a key are stored in the order in which they close, so those of some time are found by it.
    """
    names = [name for name in rows.column_names if name not in (WEIGHT, CLOSES)]
    return [CLOSES, *names] if CLOSES in rows.column_names else names
