"""Stable sorting of many numbers.

Owns sorting positions. Invariant: equal numbers keep their order, however they are sorted. Numbers that span few bits are sorted by their
digits. Others are packed with their positions and sorted as they are, which is faster than sorting positions by what stands at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts

FEW = 1 << 12
"""Numbers up to which packing takes longer than it saves."""
MANY = 1 << 20
"""Numbers from which halves are sorted at the same time, where there are cores for it."""
_SAMPLE = 1 << 10
"""Of so many the middle is taken for that of all."""
_BITS = 64
_DIGIT_BITS = 16
"""NumPy sorts integers of this size by counting them."""


def stable_order(keys: npt.NDArray[Any]) -> Longs:
    """Positions in the order in which `keys`, integers of any width, ascend.

    Equal ones in the order in which they stand.
    """
    if (keys[1:] >= keys[:-1]).all():
        return np.arange(len(keys))
    if len(keys) <= FEW:
        return np.argsort(keys, kind="stable")
    return _order(_above_least(keys), pa.cpu_count())


def _order(numbers: npt.NDArray[np.uint64], at_once: int) -> Longs:
    """As `stable_order`, by so many threads."""
    bits = int(numbers.max()).bit_length()
    if at_once > 1 and bits > _DIGIT_BITS and len(numbers) >= MANY:
        sample = np.sort(numbers[:: max(len(numbers) // _SAMPLE, 1)])
        lower = numbers < sample[len(sample) // 2]
        if MANY // 4 <= int(lower.sum()) <= len(numbers) - MANY // 4:
            return _order_in_halves(numbers, lower, at_once)
    return _order_by_digits(numbers) if bits <= 2 * _DIGIT_BITS else _order_packed(numbers, bits)


def _order_in_halves(numbers: npt.NDArray[np.uint64], lower: npt.NDArray[np.bool_], at_once: int) -> Longs:
    """The order of the `lower` numbers, then of the others, in two threads."""

    def own(chosen: npt.NDArray[np.bool_]) -> Longs:
        places = np.nonzero(chosen)[0]
        return places[_order(numbers[places], at_once // 2)]

    with ThreadPoolExecutor(2) as threads:
        return np.concatenate(list(threads.map(own, (lower, ~lower))))


def _order_packed(numbers: npt.NDArray[np.uint64], bits: int) -> Longs:
    """The order of numbers of so many bits."""
    place_bits = len(numbers).bit_length()
    surplus = max(bits + place_bits - _BITS, 0)
    packed = numbers >> np.uint64(surplus)
    packed <<= np.uint64(place_bits)
    packed |= np.arange(len(numbers), dtype=np.uint64)
    packed.sort()
    order: Longs = (packed & np.uint64((1 << place_bits) - 1)).view(np.int64)
    if surplus:
        packed >>= np.uint64(place_bits)
        _sort_within(order, numbers, packed)
    return order


def order_by(*columns: npt.NDArray[Any]) -> Longs:
    """As `stable_order`, by several integers, the first of which counts most."""
    *others, last = _side_by_side(columns)
    order = stable_order(last)
    for column in reversed(others):
        order = order[stable_order(column[order])]
    return order


def _order_by_digits(numbers: npt.NDArray[np.uint64]) -> Longs:
    """The order of numbers of at most two digits."""
    order: Longs = np.argsort(numbers.astype(np.uint16), kind="stable")
    high = (numbers >> np.uint64(_DIGIT_BITS)).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")] if high.any() else order


def _side_by_side(columns: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """As few columns as order like these: neighbours and places packed in 64 bits."""
    count = len(columns[0])
    if count <= FEW:
        return list(columns)
    free = _BITS - count.bit_length()
    found = [columns[-1]]
    used = _span_bits(columns[-1])
    for column in reversed(columns[:-1]):
        bits = _span_bits(column)
        if used + bits <= free:
            low, high = _above_least(found[0]), _above_least(column)
            found[0] = (high << np.uint64(used)) | low
            used += bits
        else:
            found.insert(0, column)
            used = bits
    return found


def _span_bits(keys: npt.NDArray[Any]) -> int:
    return (int(keys.max()) - int(keys.min())).bit_length()


def _above_least(keys: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """How far each is above the least.

    Modulo 2^64 differences are right whatever the signs.
    """
    above: npt.NDArray[np.uint64] = keys.astype(np.uint64) - np.uint64(int(keys.min()) % (1 << _BITS))
    return above


def _sort_within(order: Longs, keys: npt.NDArray[Any], groups: npt.NDArray[np.uint64]) -> None:
    """Sorts positions of the same group, which stand together, by what stands at them."""
    ordered = keys[order]
    wrong = np.append(False, ordered[1:] < ordered[:-1])
    if not wrong.any():
        return
    starts = run_starts(groups)
    lengths = np.diff(np.append(starts, len(groups)))
    mixed = np.repeat(np.logical_or.reduceat(wrong, starts), lengths)
    order[mixed] = order[mixed][np.argsort(ordered[mixed], kind="stable")]
