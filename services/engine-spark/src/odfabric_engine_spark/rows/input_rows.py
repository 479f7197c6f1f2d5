"""Rows of inputs, read from slices and bound to the scans of a plan.

Owns reading an interval of offsets in bounded pieces, in the types that Spark takes. Invariant: rows come in the order of
offsets, and only columns that the query needs are read; the others are null. Not here: what the rows mean (`record_mapping`,
`aggregate_run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.errors import InvalidData, Place
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.engine import SliceFile
from odfabric.model.offsets import OffsetRange
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.spark.calls.call import EngineCall


class InputRows:
    """The new rows of one input, taken piece by piece in the order of offsets."""

    def __init__(
        self,
        table: InputTable,
        offsets: OffsetRange,
        slices: Sequence[SliceFile],
        *,
        needed: frozenset[str],
        call: EngineCall,
    ) -> None:
        self.table = table
        self._schema = table.no_rows.schema
        self._position = offsets.begin
        self._needed = needed
        self._call = call
        self._batches = self._read(offsets, slices)
        self._rest: list[pa.RecordBatch] = []

    def take(self, count: int, *, bytes_max: int) -> pa.Table:
        """The next `count` rows, fewer beyond about `bytes_max` bytes, at least one.

        They come as Spark takes them, offsets and operations included. Raises InvalidData if a slice is damaged, a row is missing, or
        a value has no form in Spark.
        """
        taken: list[pa.RecordBatch] = []
        missing, room = count, bytes_max
        while missing and (room > 0 or not taken):
            batch = self._rest.pop() if self._rest else next(self._batches, None)
            if batch is None:
                message = f"input {self.table.alias} has no row with offset {self._position + count - missing}"
                raise InvalidData(message, place=Place(rule="file-offsets"))
            fitting = max(int(batch.num_rows * room / max(batch.nbytes, 1)), 0 if taken else 1)
            own = batch.slice(0, min(missing, fitting))
            while own.nbytes > room and own.num_rows > 1:
                own = own.slice(0, own.num_rows // 2)
            if batch.num_rows > own.num_rows:
                self._rest.append(batch.slice(own.num_rows))
            if not own.num_rows:
                break
            taken.append(own)
            missing, room = missing - own.num_rows, room - own.nbytes
        rows = pa.Table.from_batches(taken, schema=self._schema)
        self._check_offsets(rows)
        self._position += rows.num_rows
        return rows

    def _check_offsets(self, rows: pa.Table) -> None:
        name = self.table.vocabulary.offset
        found = rows.column(name).to_numpy()
        wrong = np.nonzero(found != np.arange(self._position, self._position + rows.num_rows))[0]
        if len(wrong):
            raise InvalidData(
                f"input {self.table.alias} has the offset {found[wrong[0]]} where {self._position + wrong[0]} is expected",
                place=Place(field=name, rule="file-offsets"),
            )

    def _read(self, offsets: OffsetRange, slices: Sequence[SliceFile]) -> Iterator[pa.RecordBatch]:
        for piece in slices:
            if piece.offsets.begin < offsets.end and piece.offsets.end > offsets.begin:
                yield from self._read_slice(piece, offsets)

    def _read_slice(self, piece: SliceFile, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        names = self.table.vocabulary
        columns = sorted({*self._needed, names.offset, names.operation_type})
        first = piece.offsets.begin
        near = range(max(offsets.begin - first, 0), min(offsets.end, piece.offsets.end) - first)
        with open_slice(self._call.exchange.input(piece.path), names) as reader:
            for batch in reader.batches(columns, near=near, bytes_max=self._call.settings.batch_bytes):
                self._call.check()
                offset = batch.column(names.offset)
                within = pc.and_(pc.greater_equal(offset, offsets.begin), pc.less(offset, offsets.end))
                rows = batch if pc.all(within).as_py() else batch.filter(within)
                if rows.num_rows:
                    yield self.as_spark(rows, piece.path)

    def as_spark(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        """A batch of a slice as this input is handed to Spark. Raises InvalidData."""
        return batch_as_spark(batch, self._schema, path)


def batch_as_spark(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """A batch of the slice `path` with the columns and types of `schema`.

    Columns that were not read are null. Raises InvalidData for a value without a form in Spark.
    """
    columns: list[pa.Array] = []
    for field in schema:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        try:
            columns.append(batch.column(field.name).cast(field.type))
        except pa.ArrowException as error:
            place = Place(file=path, field=field.name, rule="file-value")
            raise InvalidData(f"a value of the column has no form in Spark: {error}", place=place) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
