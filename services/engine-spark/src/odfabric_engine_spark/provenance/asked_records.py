"""The records that are asked for, read from the output slices of their block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.errors import InvalidRequest
from odfabric.formats.slices.canonical_rows import one_array
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.operation import OperationType
from odfabric.model.provenance import ProvenanceRequest
from odfabric_engine_spark.spark.calls.call import EngineCall

_ADDS = frozenset({OperationType.APPEND, OperationType.CORRECT_TO})


@dataclass(frozen=True, slots=True)
class AskedRecord:
    """One record: its offset, what it does, its row without system columns."""

    offset: int
    op: OperationType
    row: pa.Table

    @property
    def added(self) -> bool:
        """Whether it adds its row."""
        return self.op in _ADDS


def asked_records(request: ProvenanceRequest, call: EngineCall) -> list[AskedRecord]:
    """In the order in which they are asked for.

    Raises InvalidRequest for an offset that the block has not.
    """
    names = request.transaction.vocabulary
    found: dict[int, AskedRecord] = {}
    for piece in request.output:
        offsets = sorted({each for each in request.offsets if piece.offsets.begin <= each < piece.offsets.end})
        if not offsets:
            continue
        with open_slice(call.exchange.input(piece.path), names) as reader:
            rows = reader.rows_of(np.array(offsets, np.int64) - piece.offsets.begin)
        operations = one_array(rows.column(names.operation_type)).to_pylist()
        hidden = {names.offset, names.operation_type, names.system_time}
        data = rows.select([name for name in rows.column_names if name not in hidden])
        for at, (offset, op) in enumerate(zip(offsets, operations, strict=True)):
            found[offset] = AskedRecord(offset, OperationType(op), data.slice(at, 1))
    missing = [each for each in request.offsets if each not in found]
    if missing:
        raise InvalidRequest(
            f"the block has no record with offset {missing[0]}", hint="ask for records of one block at a time"
        )
    return [found[each] for each in request.offsets]


def table_of(records: list[AskedRecord], schema: pa.Schema) -> pa.Table:
    """Rows of records in the columns of a query; missing columns are null."""
    rows = pa.concat_tables([record.row for record in records])
    arrays = [
        one_array(rows.column(field.name)).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))
