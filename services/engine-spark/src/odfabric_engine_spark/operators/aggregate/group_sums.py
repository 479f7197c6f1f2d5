"""Partial aggregates: what a run adds to each group, by step.

Owns the sums of rows by group and step, as the engine's process and tasks make them. Invariant:
rows of a step that comes before their group is final show when it becomes final, so they need no sum of their own. Not here:
what the sums do to groups (`aggregate_run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.slices.canonical_rows import one_array, ordered_bits, row_bytes
from odfabric_engine_spark.arrays.array_types import ALWAYS, NEVER, Hashes, Longs
from odfabric_engine_spark.arrays.byte_hash import byte_hashes
from odfabric_engine_spark.arrays.equal_runs import first_places, places_in, run_starts
from odfabric_engine_spark.arrays.parallel_columns import taken
from odfabric_engine_spark.arrays.stable_order import order_by, stable_order
from odfabric_engine_spark.arrays.weighted_rows import WeightedRows
from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import Accumulators, GroupValues
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Values
from odfabric_engine_spark.operators.aggregate.accumulators.multisets import multiset_of
from odfabric_engine_spark.plan.group_keys import KeyColumn, normal_key_columns
from odfabric_engine_spark.state.key_range import KeyPart, parts_of

WEIGHT = "__odf_weight"
STEP = "__odf_step"


@dataclass(frozen=True, slots=True)
class Marks:
    """Watermarks of a run in microseconds: before it and after each step, monotonic."""

    before_us: int | None
    after_us: tuple[int | None, ...]

    @property
    def last(self) -> int | None:
        """After the last step, if there is one."""
        return self.after_us[-1] if self.after_us else None

    @property
    def after(self) -> Longs:
        """After each step; before there is one, nothing is final."""
        return np.array([ALWAYS if mark is None else mark for mark in self.after_us], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PartialSums:
    """What rows add to groups, sorted by key and step.

    For each: the position of its key, its step, and its statistics.

    Keys are in the order of their `hashes`, so that those of a part lie side by side.
    """

    keys: pa.Array
    hashes: Hashes
    key_columns: dict[str, pa.Array]
    groups: Longs
    steps: Longs
    values: GroupValues

    @property
    def size(self) -> int:
        """Groups, and values that they hold one by one."""
        return len(self.groups) + sum(len(each.values) for each in self._multisets())

    @property
    def value_bytes(self) -> int:
        """Size of the values that groups hold one by one."""
        return sum(each.values.nbytes + each.counts.nbytes + each.groups.nbytes for each in self._multisets())

    def _multisets(self) -> list[Values]:
        found = map(multiset_of, self.values.statistics)
        return [each for each in found if each is not None]

    def of_part(self, part: KeyPart) -> PartialSums:
        """The sums of the keys of a part. Nothing that is large is copied."""
        if part.count == 1:
            return self
        keys = part.span(self.hashes)
        begin, end = np.searchsorted(self.groups, [keys.start, keys.stop])
        return PartialSums(
            self.keys[keys],
            self.hashes[keys],
            {name: column[keys] for name, column in self.key_columns.items()},
            self.groups[begin:end] - keys.start,
            self.steps[begin:end],
            self.values.take(np.arange(begin, end)),
        )


class GroupedRows:
    """Rows (keys, inputs, weight, step) with the numbers of their groups.

    Numbered in the order of the hashes of their keys.
    """

    def __init__(self, rows: pa.Table, columns: Sequence[KeyColumn]) -> None:
        self._rows = rows
        self._key_columns = normal_key_columns(rows, columns)
        groups, count = _numbered(list(self._key_columns.values()), rows.num_rows)
        first_rows = pa.array(first_places(groups, count))
        own = [column.take(first_rows) for column in self._key_columns.values()]
        keys = row_bytes(own)
        hashes = byte_hashes(keys)
        order = stable_order(hashes)
        at = pa.array(order)
        self._own_columns = {name: column.take(at) for name, column in zip(self._key_columns, own, strict=True)}
        self._hashes = hashes[order]
        self._groups = places_in(order)[groups]
        self.keys: pa.Array = keys.take(at)

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        return self._rows.schema

    def sums(self, marks: Marks, accumulators: Accumulators, *, end_column: str | None) -> PartialSums:
        """Sums by group and step; `end_column` says when a group closes, if it does."""
        steps = one_array(self._rows.column(STEP)).to_numpy().astype(np.int64)
        ends = None if end_column is None else times(self._key_columns[end_column])
        steps = effective_steps(steps, ends, marks)
        order = stable_order(self._groups) if ends is None else order_by(self._groups, steps)
        groups, steps = self._groups[order], steps[order]
        starts = run_starts(groups, steps)
        at = pa.array(order)
        # What comes from Spark has its types: a time without a zone is not what it is in the engine's process.
        inputs = [
            one_array(self._rows.column(name)).take(at).cast(data_type)
            for name, data_type in zip(input_names(accumulators), accumulators.input_types, strict=True)
        ]
        weights = one_array(self._rows.column(WEIGHT)).to_numpy().astype(np.int64)[order]
        return PartialSums(
            self.keys,
            self._hashes,
            self._own_columns,
            groups[starts],
            steps[starts],
            accumulators.of_rows(WeightedRows(inputs, weights, starts)),
        )

    def parted(self, count: int) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each of so many parts of the keys that has some, by number."""
        parts = parts_of(self._hashes, count)[self._groups]
        order = stable_order(parts)
        rows = taken(self._rows, order)
        for begin, end in pairwise([*run_starts(parts[order]), len(order)]):
            yield int(parts[order[begin]]), rows.slice(begin, end - begin)


def _numbered(columns: Sequence[pa.Array], rows: int) -> tuple[Longs, int]:
    """The group number of each row, and the number of groups.

    Groups are found column by column, and only one row of each is written as bytes.
    """
    groups, count = np.zeros(rows, dtype=np.int64), min(rows, 1)
    for column in columns:
        encoded = _as_numbers(column).dictionary_encode(null_encoding="encode")
        if count > 1:
            # Both are at most the number of rows, so their product has its place in 64 bits.
            both = groups * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
            encoded = pa.array(both).dictionary_encode()
        groups, count = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    return groups, count


def _as_numbers(column: pa.Array) -> pa.Array:
    """A column in which Arrow finds equal values: float bits, bytes of nested ones."""
    if types.is_floating(column.type):
        return pc.if_else(column.is_valid(), pa.array(ordered_bits(column.fill_null(0.0))), None)
    return row_bytes([column]) if types.is_nested(column.type) else column


def added_up(parts: Sequence[PartialSums], accumulators: Accumulators) -> PartialSums:
    """Sums of several pieces of a run as one."""
    if len(parts) == 1:
        return parts[0]
    encoded = pa.concat_arrays([part.keys for part in parts]).dictionary_encode()
    places = encoded.indices.to_numpy().astype(np.int64)
    first = first_places(places, len(encoded.dictionary))
    hashes = np.concatenate([part.hashes for part in parts])[first]
    in_order = stable_order(hashes)
    places = places_in(in_order)[places]
    begins = np.cumsum([0, *(len(part.keys) for part in parts[:-1])])
    groups = np.concatenate([places[begin + part.groups] for begin, part in zip(begins, parts, strict=True)])
    steps = np.concatenate([part.steps for part in parts])
    order = order_by(groups, steps)
    starts = run_starts(groups[order], steps[order])
    entries = np.empty(len(order), dtype=np.int64)
    entries[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    ends = np.cumsum([len(part.groups) for part in parts])
    values = accumulators.zeros(len(starts))
    values.add_all([(own, part.values) for own, part in zip(np.split(entries, ends[:-1]), parts, strict=True)])
    at = pa.array(first[in_order])
    columns = {
        name: pa.concat_arrays([part.key_columns[name] for part in parts]).take(at) for name in parts[0].key_columns
    }
    keys = encoded.dictionary.take(pa.array(in_order))
    return PartialSums(keys, hashes[in_order], columns, groups[order][starts], steps[order][starts], values)


def effective_steps(steps: Longs, ends: Longs | None, marks: Marks) -> Longs:
    """The step at which a row shows: its own, or its group's closing if later."""
    return np.zeros_like(steps) if ends is None else np.maximum(steps, closing_steps(ends, marks))


def input_names(accumulators: Accumulators) -> list[str]:
    """Columns of rows that hold the inputs of aggregate functions."""
    return [f"input{index}" for index in range(len(accumulators.input_types))]


def closing_steps(ends: Longs, marks: Marks) -> Longs:
    """The step after which a group is final: -1 if before, the step count if never."""
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
