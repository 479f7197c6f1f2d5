"""Rows in order, and which of them are equal, by sorting as few columns as needed.

Owns the sort and the adding up of equal rows. Works on columns in comparable form (`canonical`); knows nothing of keys and times. Null
is last, and equal to null. Invariant: the order is total on rows that differ in a column, so that equal rows are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

GROUP = "persist_group"
"""A name that no column of the tables may have."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """`rows` are row numbers in order.

    `repeats` says of each but the first whether it equals the one before it.

    `in_place`: the rows were in order before, and no two are equal.
    """

    rows: pa.ChunkedArray
    repeats: pa.ChunkedArray
    in_place: bool = False


def numbers(count: int) -> pa.Array:
    """0, 1, 2, ..."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(1, count)), 1)


def in_order(first: pa.Table, then: Callable[[], pa.Table]) -> Ordered:
    """Sort rows by columns `first`, then by columns `then`; at least one row.

    Most rows differ in the first columns already: the others are asked for only if some do not. Rows of one run come in order.
    """
    if _ascends(first):
        count = first.num_rows
        never = pa.chunked_array([pa.repeat(False, count - 1)])
        return Ordered(pa.chunked_array([numbers(count)]), never, in_place=True)
    rows = _sorted(first)
    repeats = _repeats(first, rows)
    if pc.any(repeats, min_count=0).as_py():
        others = then()
        if others.num_columns:
            rows = _ties_sorted(others, rows, repeats)
            repeats = pc.and_(repeats, _repeats(others, rows))
    return Ordered(rows, repeats)


def added_up(ordered: Ordered, diffs: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """A row number per kind of row and its sum of diffs, if not zero; in order."""
    rows, sums = ordered.rows, diffs.take(ordered.rows)
    if pc.any(ordered.repeats, min_count=0).as_py():
        begins = pc.indices_nonzero(_joined(pa.array([True]), pc.invert(ordered.repeats)))
        ends = pc.subtract(_joined(begins.slice(1).cast(pa.int64()), pa.array([len(rows)])), 1)
        running = pc.cumulative_sum(sums).take(ends)
        sums = pc.subtract(running, _joined(pa.array([0]), running.slice(0, len(running) - 1)))
        rows = rows.take(begins)
    kept = pc.not_equal(sums, 0)
    return rows.filter(kept), sums.filter(kept)


def _ascends(table: pa.Table) -> bool:
    """Whether each row is less than the next one.

    Columns with nulls are not looked at closely: then it is False.
    """
    count = table.num_rows - 1
    is_less: pa.ChunkedArray | None = None
    for name in reversed(table.schema.names):
        column = table.column(name)
        if column.null_count or pa.types.is_null(column.type):
            return False
        one, other = column.slice(0, count), column.slice(1)
        less = pc.less(one, other)
        is_less = less if is_less is None else pc.or_(less, pc.and_(pc.equal(one, other), is_less))
    return is_less is not None and bool(pc.all(is_less, min_count=0).as_py())


def _sorted(table: pa.Table) -> pa.ChunkedArray:
    wanted = [name for name in table.schema.names if not _is_constant(table.column(name))]
    if not wanted:
        return pa.chunked_array([numbers(table.num_rows)])
    order = [(name, "ascending") for name in wanted]
    return pa.chunked_array([pc.sort_indices(table.select(wanted), sort_keys=order).cast(pa.int64())])


def _is_constant(column: pa.ChunkedArray) -> bool:
    """Whether all values are one, found out only where that is cheap.

    The times of a snapshot are.
    """
    if not pa.types.is_int64(column.type) or column.null_count:
        return False
    bounds = pc.min_max(column).as_py()
    return bool(bounds["min"] == bounds["max"])


def _repeats(columns: pa.Table, rows: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether a row has the values of the row before it, in order."""
    count = len(rows) - 1
    found = pa.chunked_array([pa.repeat(True, count)])
    for name in columns.schema.names:
        ordered = columns.column(name).take(rows)
        one, other = ordered.slice(0, count), ordered.slice(1)
        if pa.types.is_null(ordered.type):
            continue
        same = pc.fill_null(pc.equal(one, other), False)
        if ordered.null_count:
            same = pc.or_(same, pc.and_(one.is_null(), other.is_null()))
        found = pc.and_(found, same)
    return found


def _ties_sorted(others: pa.Table, rows: pa.ChunkedArray, repeats: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same order, then these columns for rows that nothing distinguished."""
    never = pa.array([False])
    begins = _joined(pa.array([1]), pc.invert(repeats).cast(pa.int64()))
    is_tied = pc.or_(_joined(never, repeats), _joined(repeats, never))
    tied = rows.filter(is_tied)
    group = pc.cumulative_sum(begins).filter(is_tied)
    ties = others.take(tied).append_column(GROUP, group)
    order = [(name, "ascending") for name in (GROUP, *others.schema.names)]
    settled = tied.take(pc.sort_indices(ties, sort_keys=order))
    return pa.chunked_array(
        [pc.replace_with_mask(rows.combine_chunks(), is_tied.combine_chunks(), settled.combine_chunks())]
    )


def _joined(*arrays: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [chunk for array in arrays for chunk in (array.chunks if isinstance(array, pa.ChunkedArray) else [array])]
    return pa.chunked_array(chunks)
