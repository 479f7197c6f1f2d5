"""Single rows of keys, found by binary search.

Owns looking up one row of a key that may have millions. Invariant: rows of a key lie in the order of their canonical bytes in each run, so
of keys with one value in their first column the rows lie in the order of the second. Not here: rows of whole keys (`net_rows`), ends of keys (`key_ends`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.canonical_rows import has_integers_in_order, integers_in_order, one_array
from odfabric_engine_spark.state.run import CLOSES, WEIGHT, Hashes, Longs, Run

_Mask = npt.NDArray[np.bool_]


def shared_hashes(run: Run, hashes: Hashes, name: str, owners: pa.Array) -> Hashes:
    """Those of some distinct hashes under which a run has rows of another owner, by the column `name`, than the one beside it."""
    begins, ends = run.bounds(hashes)
    there = np.nonzero(begins < ends)[0]
    other = np.zeros(len(there), dtype=bool)
    for at in (begins[there], ends[there] - 1):
        found = one_array(run.take(at, [name]).column(name))
        other |= pc.not_equal(found, owners.take(pa.array(there))).to_numpy(zero_copy_only=False)
    shared: Hashes = hashes[there[other]]
    return shared


def weights_in(run: Run, hashes: Hashes, name: str, values: pa.Array, dropped_to_us: int | None) -> Longs:
    """The weights of rows by their hashes, which ascend, and their values in the column `name`; 0 for a row that is not there.

    All rows of a hash have the same in the columns before. Rows that close at `dropped_to_us` or before are forgotten.
    """
    lower, ends = run.bounds(hashes)
    upper, wanted = ends.copy(), _comparable(values)
    active = np.nonzero(lower < upper)[0]
    while len(active):
        middle = (lower[active] + upper[active]) // 2
        less = _is_less(_values_at(run, middle, name), _chosen(wanted, active))
        lower[active[less]] = middle[less] + 1
        upper[active[~less]] = middle[~less]
        active = active[lower[active] < upper[active]]
    weights = np.zeros(len(hashes), dtype=np.int64)
    inside = np.nonzero(lower < ends)[0]
    same = inside[_is_same(_values_at(run, lower[inside], name), _chosen(wanted, inside))]
    names = [WEIGHT, CLOSES] if CLOSES in run.schema.names else [WEIGHT]
    found = run.take(lower[same], names)
    weights[same] = one_array(found.column(WEIGHT)).to_numpy()
    if dropped_to_us is not None and len(names) > 1:
        forgotten = pc.fill_null(pc.less_equal(one_array(found.column(CLOSES)), dropped_to_us), False)
        weights[same[forgotten.to_numpy(zero_copy_only=False)]] = 0
    return weights


def _comparable(values: pa.Array) -> Longs | pa.Array:
    return integers_in_order(values) if has_integers_in_order(values.type) else values


def _values_at(run: Run, positions: Longs, name: str) -> Longs | pa.Array:
    return _comparable(one_array(run.take(positions, [name]).column(name)))


def _chosen(values: Longs | pa.Array, positions: Longs) -> Longs | pa.Array:
    return values.take(pa.array(positions)) if isinstance(values, pa.Array) else values[positions]


def _is_less(some: Longs | pa.Array, others: Longs | pa.Array) -> _Mask:
    return _mask(pc.less(some, others)) if isinstance(some, pa.Array) else np.less(some, others)


def _is_same(some: Longs | pa.Array, others: Longs | pa.Array) -> _Mask:
    return _mask(pc.equal(some, others)) if isinstance(some, pa.Array) else np.equal(some, others)


def _mask(found: pa.Array) -> _Mask:
    mask: _Mask = found.to_numpy(zero_copy_only=False)
    return mask
