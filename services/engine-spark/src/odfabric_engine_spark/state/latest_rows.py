"""Latest rows: the newest row of each key over several runs.

Owns what a key's row is when each run says again what it is. Invariant: a run has a key at most once; a row of weight zero says
that the key is gone. Not here: rows that are added up (`net_rows`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.parallel_columns import taken
from odfabric_engine_spark.arrays.stable_order import stable_order
from odfabric_engine_spark.state.net_rows import KeyedRows, mixed_keys
from odfabric_engine_spark.state.run import WEIGHT

KEY = "key"
"""The bytes of a key."""


def latest(keyed: KeyedRows, *, with_gone: bool) -> tuple[Hashes, pa.Table]:
    """The newest row of each key, by hash, then by key.

    Without those that are gone unless asked for.
    """
    positions = latest_positions(keyed)
    if not with_gone:
        weights = one_array(keyed.rows.column(WEIGHT)).to_numpy()
        positions = positions[weights[positions] != 0]
    return keyed.hashes[positions], taken(keyed.rows, positions)


def latest_positions(keyed: KeyedRows) -> Longs:
    """Where the newest row of each key is, by hash, then by key."""
    order = stable_order(keyed.hashes)
    mixed = mixed_keys(keyed.hashes[order], None)
    if not mixed.any():
        return order
    several = order[mixed]
    keys = one_array(keyed.rows.column(KEY)).take(pa.array(several))
    table = pa.table({"hash": keyed.hashes[several], "key": keys, "source": keyed.sources[several]})
    sort_keys = [(name, "ascending") for name in table.column_names]
    inner = pc.sort_indices(table, sort_keys=sort_keys).to_numpy()
    hashes, keys = keyed.hashes[several][inner], keys.take(pa.array(inner))
    other = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    last = np.append((hashes[1:] != hashes[:-1]) | other, True)
    positions = np.concatenate([order[~mixed], several[inner[last]]])
    sorted_again: Longs = positions[stable_order(keyed.hashes[positions])]
    return sorted_again
