"""Aggregate functions: their stored statistics, and their results.

Owns the choice of statistics, shared between functions of one input, and the rounding and overflow of results. Invariant: every
group has the net number of its rows in statistic 0; a group with none, or fewer, has no result. Overflow is judged on the net
value, where Spark may fail over an intermediate one. Source: docs/engine.md#exact-aggregates; Spark's result types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyarrow import types

from odfabric.errors import InvalidData
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.arrays.exact_sums import (
    Integers,
    decimal_quotient,
    integer_quotient,
    object_array,
    units_to_decimal,
    units_to_floats,
)
from odfabric_engine_spark.arrays.weighted_rows import WeightedRows
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import (
    Counts,
    CountStatistic,
    FloatSums,
    FloatSumStatistic,
    Multiset,
    Statistic,
    StatisticValue,
    Sums,
    SumStatistic,
)
from odfabric_engine_spark.operators.aggregate.accumulators.count_distinct import Distinct, DistinctStatistic
from odfabric_engine_spark.operators.aggregate.accumulators.min_and_max import Extremes, ExtremeStatistic
from odfabric_engine_spark.operators.aggregate.accumulators.multisets import multiset_statistic
from odfabric_engine_spark.operators.aggregate.accumulators.percentile import PercentileStatistic, Ranked
from odfabric_engine_spark.plan.aggregates.aggregate_calls import AggregateCall, AggregateFunction

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_LONG_MAX = (1 << 63) - 1
_LONG_MIN = -(1 << 63)


@dataclass(slots=True)
class GroupValues:
    """The statistics of a number of groups."""

    statistics: list[StatisticValue]

    def __len__(self) -> int:
        return len(self.statistics[0])

    @property
    def rows(self) -> Longs:
        """Net number of rows of each group."""
        first = self.statistics[0]
        assert isinstance(first, Counts)
        return first.counts

    def add_at(self, groups: Longs, other: GroupValues) -> None:
        """Adds the n-th group of `other` to group `groups[n]`; no group occurs twice."""
        for own, others in zip(self.statistics, other.statistics, strict=True):
            own.add_at(groups, others)

    def add_all(self, parts: Sequence[tuple[Longs, GroupValues]]) -> None:
        """As `add_at` for each part."""
        for at, own in enumerate(self.statistics):
            placed = [(groups, part.statistics[at]) for groups, part in parts]
            if isinstance(own, Extremes):
                own.add_all([(groups, other) for groups, other in placed if isinstance(other, Extremes)])
            elif isinstance(own, Distinct):
                own.add_all([(groups, other) for groups, other in placed if isinstance(other, Distinct)])
            elif isinstance(own, Ranked):
                own.add_all([(groups, other) for groups, other in placed if isinstance(other, Ranked)])
            else:
                for groups, other in placed:
                    own.add_at(groups, other)

    def take(self, groups: Longs) -> GroupValues:
        """A copy of some groups."""
        return GroupValues([statistic.take(groups) for statistic in self.statistics])

    def is_zero(self) -> Mask:
        """Which groups are as if they had never had a row."""
        zero = self.statistics[0].is_zero()
        for statistic in self.statistics[1:]:
            zero = zero & statistic.is_zero()
        return zero

    def arrays(self) -> list[pa.Array]:
        """Stored columns of all statistics."""
        return [array for statistic in self.statistics for array in statistic.arrays()]


@dataclass(frozen=True, slots=True)
class Accumulators:
    """The statistics of a query, and how each call's result is made of them."""

    statistics: tuple[Statistic, ...]
    results: tuple[Callable[[GroupValues], pa.Array], ...]
    input_types: tuple[pa.DataType, ...]

    @classmethod
    def of(cls, calls: Sequence[AggregateCall], input_types: Sequence[pa.DataType]) -> Accumulators:
        """What the calls need; `input_types` are the Arrow types of their inputs."""
        made = _StatisticMaker(input_types)
        results = tuple(made.result(call) for call in calls)
        return cls(tuple(made.statistics), results, tuple(input_types))

    @property
    def fields(self) -> list[pa.Field]:
        """Stored columns."""
        return [field for statistic in self.statistics for field in statistic.fields]

    def of_rows(self, rows: WeightedRows) -> GroupValues:
        """What weighted rows alone give."""
        return GroupValues([statistic.of_rows(rows) for statistic in self.statistics])

    def zeros(self, count: int) -> GroupValues:
        """Groups without rows."""
        return GroupValues([statistic.zeros(count) for statistic in self.statistics])

    @property
    def values_statistics(self) -> dict[int, Multiset]:
        """Values kept beside their groups, by the position of their statistic."""
        found = {at: multiset_statistic(statistic) for at, statistic in enumerate(self.statistics)}
        return {at: statistic for at, statistic in found.items() if statistic is not None}

    def load(self, arrays: Sequence[pa.Array], count: int) -> GroupValues:
        """From stored columns of `count` groups."""
        found: list[StatisticValue] = []
        position = 0
        for statistic in self.statistics:
            width = len(statistic.fields)
            found.append(statistic.load(arrays[position : position + width], count))
            position += width
        return GroupValues(found)

    def result_columns(self, groups: GroupValues) -> list[pa.Array]:
        """The result of each call for each group.

        Raises GroupOverflows where a sum overflows its type.
        """
        return [result(groups) for result in self.results]


class _StatisticMaker:
    """Makes each statistic once."""

    def __init__(self, input_types: Sequence[pa.DataType]) -> None:
        self._types = input_types
        self.statistics: list[Statistic] = [CountStatistic("rows", None)]
        self._known: dict[tuple[str, int], int] = {}

    def result(self, call: AggregateCall) -> Callable[[GroupValues], pa.Array]:
        """How a call's result is made."""
        match call.function:
            case AggregateFunction.COUNT:
                count = 0 if call.input is None else self._count(call.input)
                # Of unmatched retractions there are none, not fewer.
                return lambda groups: pa.array(np.maximum(_counts(groups, count), 0))
            case AggregateFunction.COUNT_DISTINCT:
                assert call.input is not None
                at = self._at("distinct", call.input, DistinctStatistic.of(call.input, self._types[call.input]))
                return lambda groups: pa.array(_distinct(groups, at))
            case AggregateFunction.MIN | AggregateFunction.MAX:
                assert call.input is not None
                return self._extreme(call.input, greatest=call.function is AggregateFunction.MAX)
            case AggregateFunction.SUM | AggregateFunction.AVG:
                assert call.input is not None
                return self._sum(call, call.input)
            case AggregateFunction.PERCENTILE:
                assert call.input is not None
                return self._percentiles(call, call.input)

    def _percentiles(self, call: AggregateCall, source: int) -> Callable[[GroupValues], pa.Array]:
        at = self._at("ranked", source, PercentileStatistic.of(source, self._types[source], ()))
        known = self.statistics[at]
        assert isinstance(known, PercentileStatistic)
        self.statistics[at] = replace(known, ranks=tuple(dict.fromkeys((*known.ranks, *call.ranks))))
        return lambda groups: _percentiles_of(groups.statistics[at], call)

    def _extreme(self, source: int, *, greatest: bool) -> Callable[[GroupValues], pa.Array]:
        kind = self._types[source]
        statistic = ExtremeStatistic(Multiset(f"values{source}", source, kind, least=not greatest, greatest=greatest))
        at = self._at("values", source, statistic)
        known = self.statistics[at]
        assert isinstance(known, ExtremeStatistic)
        least, most = known.multiset.least or not greatest, known.multiset.greatest or greatest
        self.statistics[at] = ExtremeStatistic(replace(known.multiset, least=least, greatest=most))
        return lambda groups: _extreme_of(groups.statistics[at], greatest=greatest)

    def _sum(self, call: AggregateCall, source: int) -> Callable[[GroupValues], pa.Array]:
        count = self._count(source)
        data_type = self._types[source]
        if types.is_floating(data_type):
            at = self._at("float", source, FloatSumStatistic(f"float{source}", source))
            mean = call.function is AggregateFunction.AVG
            return lambda groups: _float_result(groups.statistics[at], _counts(groups, count), mean=mean)
        scale = data_type.scale if types.is_decimal(data_type) else 0
        at = self._at("sum", source, SumStatistic(f"sum{source}", source, scale))
        return lambda groups: _number_result(call, groups.statistics[at], _counts(groups, count))

    def _count(self, source: int) -> int:
        return self._at("count", source, CountStatistic(f"count{source}", source))

    def _at(self, kind: str, source: int, statistic: Statistic) -> int:
        if (kind, source) not in self._known:
            self._known[kind, source] = len(self.statistics)
            self.statistics.append(statistic)
        return self._known[kind, source]


def _counts(groups: GroupValues, at: int) -> Longs:
    statistic = groups.statistics[at]
    assert isinstance(statistic, Counts)
    return statistic.counts


def _distinct(groups: GroupValues, at: int) -> Longs:
    statistic = groups.statistics[at]
    assert isinstance(statistic, Distinct)
    return statistic.counts()


def _extreme_of(value: StatisticValue, *, greatest: bool) -> pa.Array:
    assert isinstance(value, Extremes)
    found, _ = value.values.extreme(greatest=greatest)
    return value.multiset.shown(found)


def _percentiles_of(value: StatisticValue, call: AggregateCall) -> pa.Array:
    assert isinstance(value, Ranked)
    found = [value.percentiles(rank) for rank in call.ranks]
    if not call.listed:
        ((percentiles, there),) = found
        return pa.array(percentiles, mask=~there)
    if not found:
        # Of an empty list Spark makes null.
        return pa.nulls(len(value), pa.list_(pa.float64()))
    there = found[0][1]
    items = np.stack([percentiles[there] for percentiles, _ in found], axis=1).reshape(-1)
    offsets = np.concatenate([[0], np.cumsum(there * len(found))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(items), mask=pa.array(~there))


def _float_result(value: StatisticValue, counts: Longs, *, mean: bool) -> pa.Array:
    assert isinstance(value, FloatSums)
    divisors = np.maximum(counts, 1) if mean else np.ones_like(counts)
    found = units_to_floats(value.units, divisors)
    up, down = value.infinities > 0, value.negative_infinities > 0
    found[up], found[down] = np.inf, -np.inf
    found[(value.nans > 0) | (up & down)] = np.nan
    return pa.array(found, mask=counts <= 0)


def _number_result(call: AggregateCall, value: StatisticValue, counts: Longs) -> pa.Array:
    assert isinstance(value, Sums)
    valid = counts > 0
    decimal = _DECIMAL.fullmatch(call.result)
    if call.function is AggregateFunction.AVG and decimal is None:
        means = [
            integer_quotient(total, int(count)) if count > 0 else None
            for total, count in zip(value.units, counts, strict=True)
        ]
        return pa.array(means, pa.float64())
    if decimal is None:
        return _long_result(call, value.units, valid)
    precision, scale = int(decimal[1]), int(decimal[2])
    units = value.units
    if call.function is AggregateFunction.AVG:
        quotients = [
            decimal_quotient(total, int(count), scale=value.scale, result_scale=scale) if count > 0 else 0
            for total, count in zip(units, counts, strict=True)
        ]
        units = object_array(quotients)
    fits = np.asarray(abs(units) < 10**precision, dtype=bool)
    units, valid = _without_overflow(call, units, valid, fits)
    return units_to_decimal(units, pa.decimal128(precision, scale), valid=valid)


def _long_result(call: AggregateCall, units: Integers, valid: Mask) -> pa.Array:
    fits = np.asarray((units <= _LONG_MAX) & (units >= _LONG_MIN), dtype=bool)
    units, valid = _without_overflow(call, units, valid, fits)
    return pa.array(units.astype(np.int64), mask=~valid)


class GroupOverflows(Exception):
    """A result of the group at a position does not fit its type."""

    def __init__(self, call: AggregateCall, at: int) -> None:
        super().__init__(call.text, at)
        self.at = at
        self._message = f"{call.text} overflows {'bigint' if call.result == 'long' else call.result}"

    def told(self, group: str) -> InvalidData:
        """The same for users; `group` says which group it is."""
        return InvalidData(f"{self._message}{group}", hint="cast its argument to a wider decimal, or use try_sum")


def _without_overflow(call: AggregateCall, units: Integers, valid: Mask, fits: Mask) -> tuple[Integers, Mask]:
    right = fits | ~valid
    if not right.all() and not call.lenient:
        raise GroupOverflows(call, int(np.argmin(right)))
    return np.where(fits & valid, units, 0), valid & fits
