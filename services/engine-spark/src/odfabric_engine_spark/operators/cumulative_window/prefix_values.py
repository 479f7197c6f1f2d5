"""Values of cumulative windows over the rows before the first change.

Owns how much has to be known of them: their number, how many have a value, the sum, the least or the greatest of these, the first or the last that is
there. Invariant: rows come in pieces and in no order, and one that was withdrawn may come without the one that took it back, long before it or
never; where they do not tell for certain what is left, the key is in doubt. Not here: which rows come before (`cumulative_read`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.exact_sums import (
    Integers,
    decimal_longs,
    decimal_units,
    object_array,
    units_to_decimal,
)
from odfabric_engine_spark.operators.touched_keys.partial_read import Mask, column_name
from odfabric_engine_spark.state.row_search import numbers_of

_EXACT = 1 << 62
"""Sums of magnitudes below this are exact as 64 bits."""


class Gives(Enum):
    """What is known of values; of rows where they have no column."""

    COUNT = "count"
    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Before:
    """One thing to know: of the values in the column at `position`.

    `sql_type` is how Spark names the `type` of the result.
    """

    position: int | None
    gives: Gives
    type: pa.DataType
    sql_type: str

    @property
    def goes_by_order(self) -> bool:
        """Whether it matters which row comes before another."""
        return self.gives in (Gives.FIRST, Gives.LAST)


@dataclass(frozen=True, slots=True)
class Stretches:
    """Some rows: each owner's, by number, follow from one of `starts` on.

    `in_order` has numbers that ascend with their order.
    """

    owners: Longs
    starts: Longs
    rows: pa.Table
    weights: Longs
    in_order: Longs | None

    @property
    def owner_of(self) -> Longs:
        """Whose each row is."""
        return np.repeat(self.owners, np.diff(np.append(self.starts, len(self.weights))))

    def values(self, part: Before) -> pa.Array | None:
        """Of the column that it is about."""
        return None if part.position is None else one_array(self.rows.column(column_name(part.position)))


class PrefixValue(Protocol):
    """One value over all rows that were added: a total, or the outermost value."""

    def add(self, some: Stretches) -> None:
        """More rows."""

    def settled(self) -> tuple[pa.Array, Mask]:
        """The value by owner, and which owners are in doubt."""


def prefix_value(part: Before, owners: int) -> PrefixValue:
    """Of no rows yet."""
    if part.gives in (Gives.COUNT, Gives.SUM):
        nothing = np.zeros(owners, dtype=np.int64)
        return _PrefixTotal(part, object_array([0] * owners), nothing)
    return _OutermostValue(part, np.full(owners, np.iinfo(np.int64).min), np.zeros(owners, dtype=bool))


@dataclass(slots=True)
class _PrefixTotal:
    """A number or a sum; `counts` says of how many values."""

    part: Before
    totals: Integers
    counts: Longs

    def add(self, some: Stretches) -> None:
        column, there = some.values(self.part), some.weights
        if column is not None and column.null_count:
            there = np.where(_is_valid(column), there, 0)
        counts = np.add.reduceat(there, some.starts)
        np.add.at(self.counts, some.owners, counts)
        is_sum = self.part.gives is Gives.SUM and column is not None
        added = _sums(column, there, some.starts) if is_sum else counts.astype(object)
        np.add.at(self.totals, some.owners, added)

    def settled(self) -> tuple[pa.Array, Mask]:
        data_type = self.part.type
        is_decimal = types.is_decimal(data_type)
        largest = 10**data_type.precision - 1 if is_decimal else (1 << 63) - 1
        is_doubtful: Mask = (np.abs(self.totals) > largest).astype(bool)  # Spark has the word for what does not fit
        totals = np.where(is_doubtful, 0, self.totals)
        valid = self.counts > 0 if self.part.gives is Gives.SUM else np.ones(len(totals), dtype=bool)
        if is_decimal:
            return units_to_decimal(totals, data_type, valid=valid), is_doubtful
        return pa.array(totals.astype(np.int64), data_type, mask=~valid), is_doubtful


@dataclass(slots=True)
class _OutermostValue:
    """The first, last, least or greatest value: that of the outermost row."""

    part: Before
    furthest: Longs
    has_any: Mask
    candidates: list[pa.Table] = field(default_factory=list)
    """Rows that may have it, by owner, number and value: in each stretch those furthest out, and those that were withdrawn no nearer."""

    def add(self, some: Stretches) -> None:
        values = some.values(self.part)
        assert values is not None
        if not self.part.goes_by_order:
            values = _normal(values)
        numbers, valid = self._numbers(some, values), _is_valid(values)
        there = valid & (some.weights > 0)
        owner_of = some.owner_of
        np.maximum.at(self.furthest, owner_of[there], numbers[there])
        self.has_any[owner_of[there]] = True
        matters = np.nonzero(valid & (numbers >= self.furthest[owner_of]))[0]
        columns = {
            "owner": pa.array(owner_of[matters]),
            "number": pa.array(numbers[matters]),
            "value": _by_bits(values.take(pa.array(matters))),
            "weight": pa.array(some.weights[matters]),
        }
        self.candidates.append(_together(pa.table(columns)))

    def settled(self) -> tuple[pa.Array, Mask]:
        owners = len(self.furthest)
        if not self.candidates:
            return pa.nulls(owners, self.part.type), np.zeros(owners, dtype=bool)
        found = pa.concat_tables(self.candidates).combine_chunks()
        owner, number = (one_array(found.column(name)).to_numpy() for name in ("owner", "number"))
        left = _together(found.filter(pa.array(self.has_any[owner] & (number == self.furthest[owner]))))
        left = left.filter(pa.array(one_array(left.column("weight")).to_numpy() > 0))
        owner = one_array(left.column("owner")).to_numpy()
        # With nothing left the next one has it; of several, further parts of the order tell which.
        is_doubtful = self.has_any & (np.bincount(owner, minlength=owners) != 1)
        at = np.zeros(owners, dtype=np.int64)
        at[owner] = np.arange(len(owner))
        places = pa.array(at, mask=~self.has_any | is_doubtful)
        return one_array(left.column("value")).take(places).view(self.part.type), is_doubtful

    def _numbers(self, some: Stretches, values: pa.Array) -> Longs:
        """By which the row furthest out has the greatest."""
        if self.part.goes_by_order:
            assert some.in_order is not None
            return some.in_order if self.part.gives is Gives.LAST else ~some.in_order
        numbers = numbers_of(values)
        return numbers if self.part.gives is Gives.GREATEST else ~numbers


def _together(rows: pa.Table) -> pa.Table:
    """Rows with one owner, number and value as one."""
    summed = rows.group_by(["owner", "number", "value"], use_threads=False).aggregate([("weight", "sum")])
    return summed.rename_columns({"weight_sum": "weight"}).select(["owner", "number", "value", "weight"])


def _normal(values: pa.Array) -> pa.Array:
    """Floats with one zero and one NaN, as compared where others do not order them."""
    if not types.is_floating(values.type):
        return values
    nothing = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nothing, pc.add(values, pa.scalar(0.0, values.type)))


def _by_bits(values: pa.Array) -> pa.Array:
    """Floats as their bits, so that those are one that are the same."""
    if not types.is_floating(values.type):
        return values
    return values.view(pa.int64() if values.type == pa.float64() else pa.int32())


def _is_valid(values: pa.Array) -> Mask:
    found: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return found


def _sums(column: pa.Array, weights: Longs, starts: Longs) -> Integers:
    """Sums of runs of whole numbers or decimals, weighted, in units of their scale."""
    is_decimal = types.is_decimal(column.type)
    longs = decimal_longs(column) if is_decimal else column.fill_null(0).to_numpy().astype(np.int64)
    if longs is not None and _magnitude(longs) * int(np.abs(weights).sum()) < _EXACT:
        return np.add.reduceat(longs * weights, starts).astype(object)
    units = decimal_units(column) if longs is None else longs.astype(object)
    return np.add.reduceat(units * weights, starts)


def _magnitude(values: Longs) -> int:
    return max(abs(int(values.max())), abs(int(values.min())))
