"""Rows of Arrow as relations of Spark.

Owns the one way in which rows of this process enter a plan. Invariant: a struct may be null though its members may not, which
Arrow's checks refuse once such rows have been read from a file; so to Spark every member may be null. And rows that nobody can
reach any more are not kept: Spark lets go of a frame's rows when Python lets go of the frame, which lies in a cycle. Not here: rows
that Spark reads itself (`slice_reader`).
"""

from __future__ import annotations

import gc
from threading import Lock

import pyarrow as pa
from pyarrow import types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from odfabric.formats.slices.canonical_rows import one_array

HANDED_BYTES_MAX = 256 << 20
"""Python's collector counts objects, not what Spark keeps for them; after so many bytes it is asked to look."""


class _Handed:
    """Bytes that Spark was given since garbage was collected last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._bytes = 0

    def add(self, size: int) -> None:
        """More of them. Any thread."""
        with self._lock:
            self._bytes += size
            due = self._bytes > HANDED_BYTES_MAX
            self._bytes = 0 if due else self._bytes
        if due:
            gc.collect()


_handed = _Handed()


def local_rows(session: SparkSession, rows: pa.Table) -> DataFrame:
    """A frame of the rows, in their order where it has one partition."""
    if any(types.is_nested(field.type) for field in rows.schema):
        columns = [one_array(column).cast(loose(column.type)) for column in rows.columns]
        rows = pa.Table.from_arrays(columns, names=rows.column_names)
    if any(not batch.num_rows for batch in rows.to_batches()):
        # Spark takes an empty batch for the last one.
        rows = pa.Table.from_batches([batch for batch in rows.to_batches() if batch.num_rows], schema=rows.schema)
    _handed.add(rows.nbytes)
    return session.createDataFrame(rows)


def schema_of_rows(session: SparkSession, schema: pa.Schema) -> T.StructType:
    """The types that Spark gives such rows."""
    return local_rows(session, schema.empty_table()).schema


def loose(data_type: pa.DataType) -> pa.DataType:
    """The type in which everything may be null; keys of maps stay."""
    if types.is_struct(data_type):
        return pa.struct([pa.field(member.name, loose(member.type)) for member in data_type])
    if types.is_map(data_type):
        return pa.map_(data_type.key_type, loose(data_type.item_type))
    if types.is_list(data_type):
        return pa.list_(loose(data_type.value_type))
    return data_type
