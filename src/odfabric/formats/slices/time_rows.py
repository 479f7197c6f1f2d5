"""Records of slices at a moment of event time, and the last row of each key.

Owns AS OF on Arrow columns. Invariant: what is kept is what `domain.chain.projection` keeps, record by record; the halves of a correction
are neighbours in one slice. Source: docs/reference/time.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.errors import LimitExceeded
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric.formats.slices.state_rows import Changes, Records, key_values
from odfabric.model.instant import Instant
from odfabric.model.operation import OperationType

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
COMPACTED_ROWS_MIN = 100_000
"""Records are reduced to the last of each key when so many are waiting, or as many as there are keys."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What AS OF leaves out of a slice, as far as rows of keys depend on it.

    `entries` are the places where a key gets a row that happens later: the row that it had till then, weight +1, or a row of its own if
    it had none, weight -1. `withdrawn` are rows that happen later and were withdrawn again.
    """

    entries: Changes
    withdrawn: pa.Table


def happened(records: Records, event_time: str, moment: Instant) -> Changes:
    """The changes of a slice that had happened by a moment; see `as_of` of the domain."""
    by_then, is_first_half = _by_then(records.rows, event_time, moment), _first_halves(records)
    kept = by_then.copy()
    kept[:-1] &= ~(is_first_half & ~by_then[1:])
    return _only(records.as_changes(), kept)


def left_out(records: Records, event_time: str, moment: Instant, keys: Sequence[str]) -> LeftOut | None:
    """What `happened` leaves out; None where the halves of a correction differ in key."""
    by_then, is_first_half = _by_then(records.rows, event_time, moment), _first_halves(records)
    positions = np.flatnonzero(is_first_half)
    of_keys = records.rows.select(keys)
    if not of_keys.take(pa.array(positions)).equals(of_keys.take(pa.array(positions + 1))):
        return None
    first, second = np.zeros(len(by_then), np.bool_), np.zeros(len(by_then), np.bool_)
    first[:-1], second[1:] = is_first_half, is_first_half
    following = np.ones(len(by_then), np.bool_)
    following[:-1] = by_then[1:]
    changes = records.as_changes()
    adds = np.asarray(changes.diffs) > 0
    replaced = first & by_then & ~following
    entered = adds & ~by_then & ~second
    weights = pa.chunked_array([np.where(replaced, 1, -1)], pa.int64())
    entries = _only(Changes(changes.rows, weights, changes.offsets), replaced | entered)
    return LeftOut(entries, changes.rows.filter(pa.array(~adds & ~by_then & ~first)))


def split_by_moment(rows: pa.Table, event_time: str, moment: Instant) -> tuple[pa.Table, pa.Table]:
    """Rows that had happened by a moment, and the others."""
    by_then = pa.array(_by_then(rows, event_time, moment))
    return rows.filter(by_then), rows.filter(pc.invert(by_then))


def split_by_all_keys(rows: pa.Table, others: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """Rows with the key of one of `others`, and those without. Nulls are equal."""
    among = _among_keys(rows, others, keys)
    return rows.filter(pa.array(among)), rows.filter(pa.array(~among))


def changes_of_keys(changes: Changes, others: pa.Table, keys: Sequence[str]) -> Changes:
    """The changes of rows with the key of one of `others`."""
    return _only(changes, _among_keys(changes.rows, others, keys))


def _among_keys(rows: pa.Table, others: pa.Table, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
    count = rows.num_rows
    among = np.zeros(count + others.num_rows, np.bool_)
    if not count or not others.num_rows:
        return among[:count]
    names = [f"k{index}" for index in range(len(keys))]
    together = pa.concat_tables([rows.select(keys), others.select(keys)])
    positions = np.arange(together.num_rows)
    columns = [key_values(together.column(name)) for name in keys]
    table = pa.table([*columns, pa.array(positions), pa.array(positions >= count)], names=[*names, "at", "other"])
    grouped = table.group_by(names, use_threads=False).aggregate([("at", "list"), ("other", "max")])
    shared = grouped.filter(grouped.column("other_max")).column("at_list").combine_chunks()
    among[np.asarray(pc.list_flatten(shared))] = True
    return among[:count]


def _only(changes: Changes, kept: npt.NDArray[np.bool_]) -> Changes:
    mask = pa.array(kept)
    return Changes(changes.rows.filter(mask), changes.diffs.filter(mask), changes.offsets.filter(mask))


def _by_then(rows: pa.Table, event_time: str, moment: Instant) -> npt.NDArray[np.bool_]:
    times = rows.column(event_time)
    if types.is_date(times.type):
        times = times.cast(TIMESTAMP_TYPE)
    # In the unit of the column: what is finer than milliseconds must not be cut.
    latest = pa.scalar(moment.millis * _PER_SECOND[times.type.unit] // 1000, pa.int64())
    # A copy: a column of one chunk would be a view that cannot be written.
    return np.array(pc.fill_null(pc.less_equal(times.cast(pa.int64()), latest), False))


def _first_halves(records: Records) -> npt.NDArray[np.bool_]:
    """For each record but the last, whether it and the next are one correction."""
    operations, offsets = np.asarray(records.operations), np.asarray(records.offsets)
    found: npt.NDArray[np.bool_] = (
        (operations[:-1] == OperationType.CORRECT_FROM.value)
        & (operations[1:] == OperationType.CORRECT_TO.value)
        & (offsets[1:] == offsets[:-1] + 1)
    )
    return found


def last_rows(changes: Iterable[Changes], columns: pa.Schema, keys: Sequence[str], *, rows_max: int) -> pa.Table:
    """The last row of each key, none where it was withdrawn.

    `changes` come in order of offset. Memory holds the last row of each key, and about as many records again. Raises LimitExceeded for more
    than `rows_max` keys.
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
