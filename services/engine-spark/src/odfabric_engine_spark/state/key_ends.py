"""First and last rows of keys over several runs.

Owns reading runs from one end of spans of rows. Invariant: rows of a key lie in the order of their canonical bytes in each run, so
what is not further in than the innermost row read of any run is known from all of them. Not here: rows of whole keys (`net_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.state.net_rows import bytes_of
from odfabric_engine_spark.state.run import CLOSES, WEIGHT, Run, spans

_NOWHERE = -1

Span: TypeAlias = tuple[Longs, Longs]
"""Where rows begin and end in a run."""


@dataclass(frozen=True, slots=True)
class KeyEnds:
    """Rows read of some keys, different ones once: key position and net weight.

    `known` are rows of which no run has more. `complete`: keys of which all rows were read.
    """

    rows: pa.Table
    keys: Longs
    weights: Longs
    known: npt.NDArray[np.bool_]
    complete: npt.NDArray[np.bool_]

    def positive(self, dropped_to_us: int | None) -> Longs:
        """For each key how many known rows are there.

        Unmatched retractions are not counted, nor those that close at an instant or before.
        """
        there = self.known & (self.weights > 0)
        if dropped_to_us is not None and CLOSES in self.rows.column_names:
            expired = pc.less_equal(one_array(self.rows.column(CLOSES)), dropped_to_us)
            there &= ~pc.fill_null(expired, False).to_numpy(zero_copy_only=False)
        return np.bincount(self.keys[there], minlength=len(self.complete))

    def rows_of(self, some: npt.NDArray[np.bool_]) -> tuple[Longs, pa.Table]:
        """Known rows of some keys, also unmatched ones; positions of the keys come first."""
        chosen = np.nonzero(self.known & (self.weights != 0) & some[self.keys])[0]
        rows = self.rows.take(pa.array(chosen))
        return self.keys[chosen], rows.set_column(0, rows.schema.field(0), pa.array(self.weights[chosen]))


def read_ends(runs: Sequence[Run], spans_of: Sequence[Span], reach: Longs, *, greatest: bool) -> KeyEnds | None:
    """The `reach` first rows of each key in each run; None if no run has any.

    `spans_of` says where a run has those of each key.
    """
    taken: list[pa.Table] = []
    keys, inner = [], []
    complete = np.ones(len(reach), dtype=bool)
    for run, (begins, ends) in zip(runs, spans_of, strict=True):
        counts = np.minimum(ends - begins, reach)
        if not counts.any():
            continue
        cut = counts < ends - begins
        complete &= ~cut
        begins, ends = (ends - counts, ends) if greatest else (begins, begins + counts)
        taken.append(run.take(spans(begins, ends)))
        keys.append(np.repeat(np.arange(len(reach)), counts))
        inner.append(_innermost(counts, cut, greatest=greatest))
    if not taken:
        return None
    rows = pa.concat_tables(taken).combine_chunks()
    return _netted(rows, np.concatenate(keys), np.concatenate(inner), complete, greatest=greatest)


def _innermost(counts: Longs, cut: npt.NDArray[np.bool_], *, greatest: bool) -> npt.NDArray[np.bool_]:
    """Which rows read of a run are the last before unread ones of their key."""
    found = np.zeros(int(counts.sum()), dtype=bool)
    last = np.cumsum(counts) - 1
    found[(last - counts + 1 if greatest else last)[cut]] = True
    return found


def _netted(
    rows: pa.Table,
    keys: Longs,
    inner: npt.NDArray[np.bool_],
    complete: npt.NDArray[np.bool_],
    *,
    greatest: bool,
) -> KeyEnds:
    known_bytes = bytes_of(rows)
    table = pa.table({"key": keys, "bytes": known_bytes})
    order = pc.sort_indices(table, sort_keys=[("key", "ascending"), ("bytes", "ascending")]).to_numpy()
    keys, inner, ordered = keys[order], inner[order], known_bytes.take(pa.array(order))
    other = pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)).to_numpy(zero_copy_only=False)
    starts = np.nonzero(np.append(True, (keys[1:] != keys[:-1]) | other))[0]
    numbers = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(keys))))
    weights = np.add.reduceat(one_array(rows.column(WEIGHT)).to_numpy()[order], starts)
    # Further in than this a run has rows that were not read.
    horizon = np.full(len(complete), _NOWHERE if greatest else len(starts))
    (np.maximum if greatest else np.minimum).at(horizon, keys[inner], numbers[inner])
    of = keys[starts]
    places = np.arange(len(starts))
    known = places >= horizon[of] if greatest else places <= horizon[of]
    return KeyEnds(rows.take(pa.array(order[starts])), of, weights, known, complete)
