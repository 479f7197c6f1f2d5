"""UUID columns of Parquet as the texts that everything else writes for them.

Owns what becomes of Arrow's extension types, at any depth: a UUID is its text (`00112233-4455-6677-8899-aabbccddeeff`), JSON is text
already. Invariant: a UUID and its text are the same 128 bits, and order by bytes is order by text. Source: RFC 9562, section 4.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.slices.arrow_cast import map_as_list

_BYTES = 16
_GROUPS = ((0, 4), (4, 6), (6, 8), (8, 10), (10, 16))
_DIGITS = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_DASH = ord("-")
_CHARACTERS = 36


def is_uuid(arrow: pa.DataType) -> bool:
    """Whether Arrow sees UUIDs in a column."""
    return isinstance(arrow, pa.UuidType)


def uuid_texts(array: pa.Array) -> pa.Array:
    """UUIDs, given as 16 bytes each, as texts."""
    present = array.drop_null()
    first, size = present.offset * _BYTES, len(present) * _BYTES
    raw = np.frombuffer(present.buffers()[1], np.uint8)[first : first + size].reshape(len(present), _BYTES)
    dashes = np.full((len(present), 1), _DASH, np.uint8)
    parts: list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]] = []
    for start, end in _GROUPS:
        parts += [_DIGITS[raw[:, start:end]].reshape(len(present), 2 * (end - start)), dashes]
    characters = np.ascontiguousarray(np.concatenate(parts[:-1], axis=1))
    texts = pa.Array.from_buffers(pa.binary(_CHARACTERS), len(present), [None, pa.py_buffer(characters)])
    places = np.cumsum(array.is_valid().to_numpy(zero_copy_only=False)) - 1
    indices = pa.array(places, mask=array.is_null().to_numpy(zero_copy_only=False))
    return texts.cast(pa.binary()).cast(pa.string()).take(indices)


def without_extensions(array: pa.Array, *, as_text: bool = True) -> pa.Array:
    """The array with UUIDs as texts or bytes, free of Arrow extensions; or itself."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return uuid_texts(array.storage) if is_uuid(kind) and as_text else array.storage
    if not _has_extension(kind):
        return array
    mask = array.is_null() if array.null_count else None
    if types.is_struct(kind):
        members = [without_extensions(member, as_text=as_text) for member in array.flatten()]
        fields = [field.with_type(member.type).with_nullable(True) for field, member in zip(kind, members, strict=True)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=mask)
    lists = map_as_list(array) if types.is_map(kind) else array
    items = without_extensions(pc.list_flatten(lists), as_text=as_text)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    if types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, items.field("key"), items.field("value"), mask=mask)
    return pa.ListArray.from_arrays(offsets, items, mask=mask)


def _has_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) or any(
        _has_extension(kind.field(index).type) for index in range(kind.num_fields)
    )
