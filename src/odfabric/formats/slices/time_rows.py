"""Records of slices at a moment of event time, and the last row of each key.

Owns AS OF on Arrow columns. Invariant: what is kept is what `domain.chain.projection` keeps, record by record; the halves of a correction
are neighbours in one slice. Source: docs/reference/time.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.errors import LimitExceeded
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric.formats.slices.state_rows import Changes, Records, key_values
from odfabric.model.instant import Instant
from odfabric.model.operation import OperationType

COMPACTED_ROWS_MIN = 100_000
"""Records are reduced to the last of each key when so many are waiting, or as many as there are keys."""


def happened(records: Records, event_time: str, moment: Instant) -> Changes:
    """The changes of a slice that had happened by a moment; see `as_of` of the domain."""
    times = records.rows.column(event_time).cast(TIMESTAMP_TYPE).cast(pa.int64())
    by_then = np.asarray(pc.fill_null(pc.less_equal(times, pa.scalar(moment.millis, pa.int64())), False))
    operations = np.asarray(records.operations)
    offsets = np.asarray(records.offsets)
    is_first_half = (
        (operations[:-1] == OperationType.CORRECT_FROM.value)
        & (operations[1:] == OperationType.CORRECT_TO.value)
        & (offsets[1:] == offsets[:-1] + 1)
    )
    kept = by_then.copy()
    kept[:-1] &= ~(is_first_half & ~by_then[1:])
    mask = pa.array(kept)
    changes = records.as_changes()
    return Changes(changes.rows.filter(mask), changes.diffs.filter(mask), changes.offsets.filter(mask))


def last_rows(changes: Iterable[Changes], columns: pa.Schema, keys: Sequence[str], *, rows_max: int) -> pa.Table:
    """The last row of each key, none where it was withdrawn.

    `changes` come in order of offset.     Memory holds the last row of each key, and about as many records again. Raises LimitExceeded for more than `rows_max` keys.
    """
    kept, diffs = columns.empty_table(), pa.chunked_array([[]], pa.int64())
    waiting: list[Changes] = []
    count = 0
    for one in changes:
        waiting.append(one)
        count += one.rows.num_rows
        if count >= max(kept.num_rows, COMPACTED_ROWS_MIN):
            kept, diffs = _last(kept, diffs, waiting, keys)
            waiting, count = [], 0
            if kept.num_rows > rows_max:
                raise LimitExceeded(f"there are more than {rows_max} keys", limit="state_rows_max", maximum=rows_max)
    kept, diffs = _last(kept, diffs, waiting, keys)
    return kept.filter(pc.greater(diffs, 0))


def _last(
    kept: pa.Table, diffs: pa.ChunkedArray, waiting: Sequence[Changes], keys: Sequence[str]
) -> tuple[pa.Table, pa.ChunkedArray]:
    rows = pa.concat_tables([kept, *(one.rows for one in waiting)])
    weights = pa.chunked_array([*diffs.chunks, *(chunk for one in waiting for chunk in one.diffs.chunks)], pa.int64())
    names = [f"k{index}" for index in range(len(keys))]
    positions = pa.array(np.arange(rows.num_rows))
    table = pa.table([*(key_values(rows.column(name)) for name in keys), positions], names=[*names, "at"])
    last = table.group_by(names, use_threads=False).aggregate([("at", "max")]).column("at_max")
    return rows.take(last), weights.take(last)
