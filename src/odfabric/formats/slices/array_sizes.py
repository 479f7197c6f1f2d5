"""Sizes and counts of Arrow arrays, by row and by leaf.

Owns what a value takes in memory once it is decoded, also where it is still a number of a dictionary entry, and how many values a Parquet
page has for it. Nulls and empty lists count as Parquet counts them: one value that stands for nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.slices.arrow_cast import map_as_list

Sizes = npt.NDArray[np.int64]

_SIZE_OF_LENGTH = 4


def row_sizes(array: pa.Array) -> Sizes:
    """How many bytes each value takes when it is decoded, about."""
    kind, count = array.type, len(array)
    if types.is_dictionary(kind):
        lengths = pa.array(row_sizes(array.dictionary))
        return _numbers(pc.take(lengths, array.indices), count)
    if _has_length(kind):
        return _numbers(pc.binary_length(array), count) + _SIZE_OF_LENGTH
    if types.is_struct(kind):
        return sum((row_sizes(member) for member in array.flatten()), np.zeros(count, np.int64))
    if types.is_map(kind):
        return row_sizes(map_as_list(array))
    if _is_list(kind):
        return _of_rows(row_sizes(pc.list_flatten(array)), array) + _SIZE_OF_LENGTH
    return np.full(count, -(-kind.bit_width // 8) if _has_width(kind) else array.nbytes // max(1, count), np.int64)


def leaf_slots(array: pa.Array) -> list[Sizes]:
    """How many values each row has in the pages of each leaf.

    Including those that stand for nulls and empty lists.
    """
    if types.is_struct(array.type):
        return [slots for member in array.flatten() for slots in leaf_slots(member)]
    if types.is_map(array.type):
        return leaf_slots(map_as_list(array))
    if _is_list(array.type):
        return [np.maximum(1, _of_rows(slots, array)) for slots in leaf_slots(pc.list_flatten(array))]
    return [np.ones(len(array), np.int64)]


def leaf_values(array: pa.Array) -> list[int]:
    """How many values each leaf has that are not null."""
    if types.is_struct(array.type):
        return [count for member in array.flatten() for count in leaf_values(member)]
    if types.is_map(array.type):
        return leaf_values(map_as_list(array))
    if _is_list(array.type):
        return leaf_values(pc.list_flatten(array))
    return [len(array) - array.null_count]


def _of_rows(items: Sizes, array: pa.Array) -> Sizes:
    """The sum over the items of each list, from numbers of all items."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(items)])
    return np.diff(sums[np.cumsum(_numbers(pc.list_value_length(array), len(array)))], prepend=0)


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _has_length(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    )


def _has_width(kind: pa.DataType) -> bool:
    return bool(types.is_primitive(kind) or types.is_fixed_size_binary(kind) or types.is_decimal(kind))


def _numbers(found: pa.Array, count: int) -> Sizes:
    filled = pc.fill_null(found, 0).to_numpy(zero_copy_only=False)
    return np.asarray(filled, np.int64).reshape(count)
