"""Runs of equal numbers in arrays.

Owns the orders that bring rows of a group together, and where groups begin. Invariant: rows of one group keep their order.
"""

from __future__ import annotations

import numpy as np

from odfabric_engine_spark.incremental.exact import Longs


def by_group(groups: Longs) -> Longs:
    """The order by group. Few groups are sorted in one pass, as NumPy does with short integers."""
    few = len(groups) > 0 and groups.min() >= 0 and groups.max() <= np.iinfo(np.uint16).max
    return np.argsort(groups.astype(np.uint16) if few else groups, kind="stable")


def run_starts(*columns: Longs) -> Longs:
    """Where runs of equal values begin in sorted columns."""
    if not len(columns[0]):
        return np.zeros(0, dtype=np.int64)
    differs = np.zeros(len(columns[0]), dtype=bool)
    differs[0] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.nonzero(differs)[0]


def first_places(numbers: Longs, count: int) -> Longs:
    """Where each of so many numbers, which all occur, comes first."""
    found = np.empty(count, dtype=np.int64)
    found[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return found
