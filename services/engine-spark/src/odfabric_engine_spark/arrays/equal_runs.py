"""Runs of equal numbers in sorted arrays.

Owns where groups begin, where a number comes first, and where an order has it. Not here: the order that brings rows of a group together
(`stable_order`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from odfabric_engine_spark.arrays.array_types import Longs


def run_starts(*columns: npt.NDArray[Any]) -> Longs:
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


def places_in(order: Longs) -> Longs:
    """For each of some things its place in their `order`."""
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.arange(len(order))
    return found
