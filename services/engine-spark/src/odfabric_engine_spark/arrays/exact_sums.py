"""Exact numbers: sums that no order of rows can change.

Owns the ways between Arrow's decimals and floats and Python's integers, on whole columns. A decimal is an integer in units of
its scale, a float an integer in units of 2^-1074, the least one there is; sums of those are exact, and are rounded once, when
they become a result. Not here: what is summed (`count_and_sum`).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Longs

Integers: TypeAlias = npt.NDArray[np.object_]
"""Python integers of any size."""


FLOAT_UNIT_BITS = 1074
MANTISSA_BITS = 53
LOW_BITS = 27
"""Mantissas are summed in two halves .."""
LOW_SUMS_MAX = 1 << 35
""".. so that fewer of them than this cannot overflow, equal ones counted one by one."""
EXACT_SUMS_MAX = 1 << (MANTISSA_BITS - LOW_BITS)
"""Sums of so many halves are exact even as floats."""

_WORD = (1 << 64) - 1
_DOUBLE_UNIT = 1 << FLOAT_UNIT_BITS
_GUARD_SCALE = 39
"""Spark divides decimals to this scale before it rounds to that of the result."""


def object_array(values: list[int]) -> Integers:
    """Python integers as a column."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def decimal_longs(array: pa.Array) -> Longs | None:
    """Decimals as unscaled integers, nulls 0; None if one needs more than 64 bits."""
    rows = _decimal_words(array)
    longs = rows[:, 0].view(np.int64)
    if not (rows[:, 1:].view(np.int64) == (longs >> np.int64(63))[:, np.newaxis]).all():
        return None
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), longs, 0) if array.null_count else longs


def decimal_units(array: pa.Array) -> Integers:
    """The same of any size."""
    longs = decimal_longs(array)
    if longs is not None:
        return longs.astype(object)
    rows = _decimal_words(array)
    words = rows.shape[1]
    total = rows[:, words - 1].view(np.int64).astype(object)
    for word in reversed(range(words - 1)):
        total = (total << 64) + rows[:, word].astype(object)
    if array.null_count:
        total[~array.is_valid().to_numpy(zero_copy_only=False)] = 0
    return total


def _decimal_words(array: pa.Array) -> npt.NDArray[np.uint64]:
    """The words of which decimals are made, the lowest first."""
    words = array.type.bit_width // 64
    raw = np.frombuffer(array.buffers()[1], dtype=np.uint64).reshape(-1, words)
    return raw[array.offset : array.offset + len(array)]


def units_to_decimal(
    units: Integers, data_type: pa.DataType, *, valid: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """The way back; every integer must fit the precision of the type."""
    words = data_type.bit_width // 64
    raw = np.empty((len(units), words), dtype=np.uint64)
    try:
        longs = units.astype(np.int64)
        raw[:, 0] = longs.view(np.uint64)
        raw[:, 1:] = (longs >> np.int64(63)).view(np.uint64)[:, np.newaxis]
    except OverflowError:
        for word in range(words):
            raw[:, word] = ((units >> (64 * word)) & _WORD).astype(np.uint64)
    bitmap = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(data_type, len(units), [bitmap, pa.py_buffer(raw.tobytes())])


def float_parts(values: npt.NDArray[np.float64]) -> tuple[Longs, Longs]:
    """Mantissa and exponent of finite floats: mantissa * 2^exponent, 53 bits at most."""
    fractions, exponents = np.frexp(values)
    return np.ldexp(fractions, MANTISSA_BITS).astype(np.int64), exponents.astype(np.int64) - MANTISSA_BITS


def float_units(mantissas: Integers, exponents: Longs) -> Integers:
    """Sums of mantissas of one exponent each, in units of 2^-1074."""
    shifts = exponents + FLOAT_UNIT_BITS
    left, right = np.maximum(shifts, 0).astype(object), np.maximum(-shifts, 0).astype(object)
    shifted: Integers = (mantissas << left) >> right
    return shifted


def units_to_float(units: int, count: int = 1) -> float:
    """The sum of floats divided by a count, rounded once, to nearest even.

    Too large is infinite, as in Spark.
    """
    try:
        return units / (count * _DOUBLE_UNIT)
    except OverflowError:
        return float("inf") if units > 0 else float("-inf")


def units_to_floats(units: Integers, counts: Longs) -> npt.NDArray[np.float64]:
    """The same for a column."""
    try:
        found: npt.NDArray[np.float64] = (units / (counts.astype(object) * _DOUBLE_UNIT)).astype(np.float64)
        return found
    except OverflowError:
        each = zip(units, counts.tolist(), strict=True)
        return np.array([units_to_float(total, count) for total, count in each], dtype=np.float64)


def integer_quotient(total: int, count: int) -> float:
    """The mean of integers, rounded once."""
    return total / count


def decimal_quotient(units: int, count: int, *, scale: int, result_scale: int) -> int:
    """The mean of decimals in units of the result's scale, rounded half up twice.

    As Spark does.
    """
    guarded = _half_up(units * 10 ** (_GUARD_SCALE - scale), count)
    return _half_up(guarded, 10 ** (_GUARD_SCALE - result_scale))


def _half_up(number: int, divisor: int) -> int:
    """Quotient rounded to nearest, halves away from zero."""
    magnitude = (2 * abs(number) + divisor) // (2 * divisor)
    return magnitude if number >= 0 else -magnitude


def pack_units(units: int) -> tuple[bytes, int]:
    """An integer's bytes without trailing zero bits, and how many those were.

    Short for the usual sums of floats.
    """
    if units == 0:
        return b"", 0
    zeros = (units & -units).bit_length() - 1
    odd = units >> zeros
    return odd.to_bytes(odd.bit_length() // 8 + 1, "big", signed=True), zeros


def unpack_units(packed: bytes, zeros: int) -> int:
    """The way back from `pack_units`."""
    return int.from_bytes(packed, "big", signed=True) << zeros


def sum_runs(values: Longs, starts: Longs, *, largest: int) -> Integers:
    """Exact sums of consecutive runs of integers; `largest` bounds their magnitude."""
    if len(starts) == 0:
        return np.empty(0, dtype=object)
    if largest * len(values) < 1 << 62:
        return np.add.reduceat(values, starts).astype(object)
    return np.add.reduceat(values.astype(object), starts)


def sum_integers(values: Integers, starts: Longs) -> Integers:
    """Sums of consecutive runs of integers of any size."""
    return np.add.reduceat(values, starts) if len(starts) else object_array([])
