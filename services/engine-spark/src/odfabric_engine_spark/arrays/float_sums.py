"""Exact sums of floats by group.

Owns how they are summed fast: mantissas of one exponent are integers, and only what is summed becomes an integer of any size. Invariant: the
sums are exact, so no order of rows changes them. Not here: what is kept of a group (`count_and_sum`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.exact_sums import (
    EXACT_SUMS_MAX,
    FLOAT_UNIT_BITS,
    LOW_BITS,
    LOW_SUMS_MAX,
    Integers,
    float_parts,
    float_units,
    object_array,
    sum_integers,
)
from odfabric_engine_spark.arrays.stable_order import order_by
from odfabric_engine_spark.arrays.weighted_rows import WeightedRows

_SPAN = 8
"""Exponents that are summed in 64 bits: what `EXACT_SUMS_MAX` bounds takes 53 of them, and the greatest exponent adds 7."""


def sum_floats(values: npt.NDArray[np.float64], rows: WeightedRows) -> Integers:
    """Each group's sum of finite values, weighted, in units of 2^-1074.

    Each value counts as often as its row.
    """
    if rows.group_count == 0:
        return object_array([])
    mantissas, exponents = float_parts(values)
    groups, least = rows.groups, int(exponents.min())
    kinds = int(exponents.max()) - least + 1
    if rows.group_count * kinds <= len(groups) and rows.times <= EXACT_SUMS_MAX:
        return _sum_by_bins(mantissas, groups * kinds + (exponents - least), rows, kinds=kinds, least=least)
    order = order_by(groups, exponents)
    groups, exponents = groups[order], exponents[order]
    mantissas, weights = mantissas[order], rows.weights[order]
    starts = run_starts(groups, exponents)
    low = (1 << LOW_BITS) - 1
    if rows.times >= LOW_SUMS_MAX:
        weighted = sum_integers(mantissas.astype(object) * weights.astype(object), starts)
    else:
        # Each half by itself: a mantissa times a weight may need more than 64 bits.
        high_sums = np.add.reduceat((mantissas >> LOW_BITS) * weights, starts).astype(object)
        low_sums = np.add.reduceat((mantissas & low) * weights, starts).astype(object)
        weighted = (high_sums << LOW_BITS) + low_sums
    return _sum_parts(groups[starts], weighted, exponents[starts])


def _sum_by_bins(mantissas: Longs, bins: Longs, rows: WeightedRows, *, kinds: int, least: int) -> Integers:
    """The same by exponent bins, without sorting.

    For rows that outnumber the `kinds` of exponents, from `least` on, for each group.
    """
    count, spans = rows.group_count, -(-kinds // _SPAN)
    weights = 1 << np.arange(_SPAN)
    sums: list[Longs] = []
    for half in (mantissas >> LOW_BITS, mantissas & ((1 << LOW_BITS) - 1)):
        binned = np.zeros((count, spans * _SPAN), dtype=np.int64)
        binned[:, :kinds] = np.bincount(bins, half * rows.weights, count * kinds).reshape(count, kinds)
        sums.append(binned.reshape(-1, _SPAN) @ weights)
    high, low = sums
    # Most groups have few exponents, and integers of any size take their time; one part of each group stays.
    some = (high | low) != 0
    some[::spans] = True
    groups, exponents = np.repeat(np.arange(count), spans), np.tile(least + _SPAN * np.arange(spans), count)
    return _sum_parts(groups[some], (high[some].astype(object) << LOW_BITS) + low[some].astype(object), exponents[some])


def _sum_parts(groups: Longs, mantissas: Integers, exponents: Longs) -> Integers:
    """Exact sums by group of mantissa * 2^exponent.

    Groups are sorted and all have at least one part.
    """
    zero = np.asarray(mantissas == 0, dtype=bool)
    units = float_units(mantissas, np.where(zero, -FLOAT_UNIT_BITS, exponents))
    return sum_integers(units, run_starts(groups))
