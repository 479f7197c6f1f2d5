"""Session windows that are open at a watermark, from the rows in state."""

from __future__ import annotations

import numpy as np

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.stable_order import order_by
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import CLOSES, HASH

_FOREVER = int(np.iinfo(np.int64).max)


def open_sessions_from(state: RowState, gap_us: int, watermark_us: int) -> int | None:
    """The least start of a session that is open at a watermark; None if there is none."""
    rows = state.of_keys(state.closing(watermark_us, _FOREVER))
    closes = one_array(rows.column(CLOSES))
    known = closes.is_valid().to_numpy(zero_copy_only=False)
    ends = closes.fill_null(0).to_numpy()[known]
    hashes = one_array(rows.column(HASH)).to_numpy()[known]
    if not len(ends):
        return None
    order = order_by(hashes, ends)
    ends, hashes = ends[order], hashes[order]
    # A row at the very end of a session still belongs to it, as in Spark.
    apart = (hashes[1:] != hashes[:-1]) | (ends[:-1] < ends[1:] - gap_us)
    firsts = np.nonzero(np.append(True, apart))[0]
    lasts = np.append(firsts[1:], len(ends)) - 1
    is_open = ends[lasts] > watermark_us
    return int(ends[firsts[is_open]].min()) - gap_us if is_open.any() else None
