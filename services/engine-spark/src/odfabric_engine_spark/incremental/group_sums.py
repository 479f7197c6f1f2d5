"""Rows of groups summed up: what a run adds to each group, at which step it shows.

Owns the sums of rows by group and step, made in memory; `spark_sums` makes the same for rows that are too many. Invariant:
rows of a step that comes before their group is final show when it becomes final, so they need no sum of their own. Not here:
what the sums do to groups (`aggregate_run`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.incremental.accumulators import Accumulators, GroupValues
from odfabric_engine_spark.incremental.canonical import one_array, row_bytes
from odfabric_engine_spark.incremental.exact import Longs
from odfabric_engine_spark.incremental.group_keys import GroupColumn, normal_key_columns
from odfabric_engine_spark.incremental.number_runs import by_group, first_places, run_starts
from odfabric_engine_spark.incremental.slots import WeightedRows

WEIGHT = "__odf_weight"
STEP = "__odf_step"
NEVER = int(np.iinfo(np.int64).max)
ALWAYS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, slots=True)
class Marks:
    """Watermarks of a run in microseconds: before it, and after each of its steps; never decreasing."""

    before_us: int | None
    after_us: tuple[int | None, ...]

    @property
    def after(self) -> Longs:
        """After each step; before there is one, nothing is final."""
        return np.array([ALWAYS if mark is None else mark for mark in self.after_us], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PartialSums:
    """What rows add to groups: for each the position of its key, its step, and its slots. Sorted by key and step."""

    keys: pa.Array
    key_columns: dict[str, pa.Array]
    groups: Longs
    steps: Longs
    values: GroupValues


def partial_sums(
    rows: pa.Table, marks: Marks, columns: Sequence[GroupColumn], accumulators: Accumulators, *, end_column: str | None
) -> PartialSums:
    """Sums of rows (keys, inputs, weight, step) by group and step; `end_column` says when a group closes, if it does."""
    key_columns = normal_key_columns(rows, columns)
    encoded = row_bytes(list(key_columns.values())).dictionary_encode()
    groups = encoded.indices.to_numpy().astype(np.int64)
    first_rows = pa.array(first_places(groups, len(encoded.dictionary)))
    steps = one_array(rows.column(STEP)).to_numpy().astype(np.int64)
    ends = None if end_column is None else times(key_columns[end_column])
    steps = effective_steps(steps, ends, marks)
    order = np.lexsort((steps, groups)) if steps.any() else by_group(groups)
    groups, steps = groups[order], steps[order]
    starts = run_starts(groups, steps)
    at = pa.array(order)
    inputs = [one_array(rows.column(name)).take(at) for name in input_names(accumulators)]
    weights = one_array(rows.column(WEIGHT)).to_numpy().astype(np.int64)[order]
    return PartialSums(
        encoded.dictionary,
        {name: column.take(first_rows) for name, column in key_columns.items()},
        groups[starts],
        steps[starts],
        accumulators.of_rows(WeightedRows(inputs, weights, starts)),
    )


def added_up(parts: Sequence[PartialSums], accumulators: Accumulators) -> PartialSums:
    """Sums of several pieces of a run as one, each group having one step."""
    if len(parts) == 1:
        return parts[0]
    encoded = pa.concat_arrays([part.keys for part in parts]).dictionary_encode()
    places = encoded.indices.to_numpy().astype(np.int64)
    begins = np.cumsum([0, *(len(part.keys) for part in parts[:-1])])
    groups = [places[begin + part.groups] for begin, part in zip(begins, parts, strict=True)]
    count = len(encoded.dictionary)
    values, steps = accumulators.zeros(count), np.zeros(count, dtype=np.int64)
    values.add_all([(own, part.values) for own, part in zip(groups, parts, strict=True)])
    for own, part in zip(groups, parts, strict=True):
        steps[own] = part.steps
    at = pa.array(first_places(places, count))
    columns = {
        name: pa.concat_arrays([part.key_columns[name] for part in parts]).take(at) for name in parts[0].key_columns
    }
    return PartialSums(encoded.dictionary, columns, np.arange(count, dtype=np.int64), steps, values)


def effective_steps(steps: Longs, ends: Longs | None, marks: Marks) -> Longs:
    """The step at which a row shows: its own, or that at which its group closes if that is later."""
    return np.zeros_like(steps) if ends is None else np.maximum(steps, closing_steps(ends, marks))


def input_names(accumulators: Accumulators) -> list[str]:
    """Columns of rows that hold the inputs of aggregate functions."""
    return [f"input{index}" for index in range(len(accumulators.input_types))]


def closing_steps(ends: Longs, marks: Marks) -> Longs:
    """The step after which a group is final: -1 if it was before, the number of steps if it still is not."""
    steps = np.searchsorted(marks.after, ends, side="left").astype(np.int64)
    if marks.before_us is None:
        return steps
    return np.where(ends <= marks.before_us, -1, steps)


def times(array: pa.Array) -> Longs:
    """Microseconds; a group without a time never closes."""
    found: Longs = np.where(
        array.is_valid().to_numpy(zero_copy_only=False), array.view(pa.int64()).fill_null(0).to_numpy(), NEVER
    )
    return found
