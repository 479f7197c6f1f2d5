"""SetDataSchema in its legacy form, as old chains have it."""

from __future__ import annotations

import pyarrow as pa

from odfabric.model.metadata import SetDataSchema


def legacy(*fields: pa.Field) -> SetDataSchema:
    """A SetDataSchema in legacy form: the bare Schema table inside an IPC message."""
    message = pa.schema(fields).serialize().to_pybytes()
    header = 8 + int.from_bytes(message[8:12], "little")
    vtable = header - int.from_bytes(message[header : header + 4], "little", signed=True)
    slot = header + int.from_bytes(message[vtable + 8 : vtable + 10], "little")
    schema_table = slot + int.from_bytes(message[slot : slot + 4], "little")
    # A FlatBuffer may start anywhere before its root: four bytes that point to the table, then the message as it is.
    return SetDataSchema(raw_arrow_schema=(schema_table + 8).to_bytes(4, "little") + bytes(4) + message)
