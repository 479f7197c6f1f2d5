"""Arrow types of a Parquet file as the reference's reader sees them.

Owns the one place where pyarrow reads a file differently: types that Parquet cannot express and that writers leave as a hint
in `ARROW:schema`. The logical hash covers types, so both readers must agree. Source: specification facts, "Hashing", traps.
"""

from __future__ import annotations

import base64
import binascii

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

_HINT_KEY = b"ARROW:schema"


def arrow_schema_of(file: pq.ParquetFile) -> pa.Schema:
    """The schema of a file with hints honoured; cast batches to it before hashing or comparing types."""
    schema = file.schema_arrow.remove_metadata()
    hints = _hints(file)
    if hints is None or len(hints) != len(schema):
        return schema
    return pa.schema([_hinted_field(field, hint) for field, hint in zip(schema, hints, strict=True)])


def _hints(file: pq.ParquetFile) -> pa.Schema | None:
    encoded = (file.metadata.metadata or {}).get(_HINT_KEY)
    if encoded is None:
        return None
    try:
        return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(encoded)))
    except (binascii.Error, pa.ArrowException):
        # pyarrow itself reads files with a broken hint as if it were absent.
        return None


def _hinted_field(field: pa.Field, hint: pa.Field) -> pa.Field:
    return field.with_type(_hinted(field.type, hint.type))


def _hinted(data_type: pa.DataType, hint: pa.DataType) -> pa.DataType:
    if types.is_struct(data_type) and types.is_struct(hint) and data_type.num_fields == hint.num_fields:
        return pa.struct([_hinted_field(data_type.field(i), hint.field(i)) for i in range(data_type.num_fields)])
    if types.is_list(data_type) and types.is_list(hint):
        return pa.list_(_hinted_field(data_type.value_field, hint.value_field))
    if types.is_large_list(data_type) and types.is_large_list(hint):
        return pa.large_list(_hinted_field(data_type.value_field, hint.value_field))
    return hint if _is_lost(data_type, hint) else data_type


def _is_lost(data_type: pa.DataType, hint: pa.DataType) -> bool:
    if types.is_date64(hint):
        return bool(types.is_int64(data_type) or types.is_date32(data_type))
    if types.is_timestamp(hint) or types.is_time64(hint):
        return bool(types.is_int64(data_type))
    return bool(types.is_time32(hint) and types.is_int32(data_type))
