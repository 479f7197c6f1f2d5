"""Values of one Arrow type as values of another, within structs and lists too.

Owns what Arrow's own cast refuses: below a null struct its members are null, also those that may not be null where the struct is there.
Invariant: no value changes but by the cast of its type. Not here: whether a null may be where it is (`slice_schema.null_problems`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


def cast_array(array: pa.Array, data_type: pa.DataType, *, safe: bool = True) -> pa.Array:
    """The array in another type; `safe`: what a type cannot hold raises pa.ArrowException, else it is cut as Arrow cuts."""
    if array.type.equals(data_type):
        return array
    if _alike(array.type, data_type):
        members = [cast_array(each, own.type, safe=safe) for each, own in zip(array.flatten(), data_type, strict=True)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(data_type), mask=mask)
    if types.is_list(array.type) and types.is_list(data_type) and _alike(array.type.value_type, data_type.value_type):
        items = cast_array(pc.list_flatten(array), data_type.value_type, safe=safe)
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(offsets, items, type=data_type, mask=mask)
    return array.cast(data_type, safe=safe)


def _alike(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether both are structs with members of the same names."""
    return (
        types.is_struct(have)
        and types.is_struct(want)
        and [member.name for member in have] == [member.name for member in want]
    )
