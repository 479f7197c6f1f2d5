"""Records of one input from the first on, read from its slices by offset.

Owns reading them: of few records only the pages that hold them, of many all in their order. Invariant: what is read costs as much as the records
that are asked for, however long the history is. Not here: which records (`key_search`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from odfabric.errors import InvalidData, Place
from odfabric.formats.slices.canonical_rows import one_array
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.engine import SliceFile, TransformRequestInput
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.partitioning.partition_keys import stage_schema
from odfabric_engine_spark.provenance.history_segments import Segment, segments_of
from odfabric_engine_spark.rows.input_rows import batch_as_spark
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute

Places: TypeAlias = range | Longs
"""Offsets of records, ascending, each once: all of a range, or some."""

_FEW = 8
"""Below one record of a slice in so many, its pages are read one by one."""


class InputHistory:
    """The records before the end of what a transaction consumed.

    `rows_read` counts those that were read.
    """

    def __init__(self, one: TransformRequestInput, table: InputTable, call: EngineCall) -> None:
        self.alias = one.query_alias
        self.end = one.offsets.end
        self.schema: pa.Schema = table.no_rows.schema
        self.rows_read = 0
        self._slices = [piece for piece in one.slices if len(piece.offsets)]
        self._vocabulary = one.vocabulary
        self._call = call

    @property
    def all(self) -> range:
        """All offsets."""
        return range(self.end)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """All records, in parts; a part may have records after the end."""
        return tuple(segments_of(self._slices, rows_min=self._call.settings.provenance_index_rows_min))

    def read(self, names: frozenset[str], places: Places) -> pa.Table:
        """Some columns of some records. Raises InvalidData."""
        wanted = pa.schema([field for field in self.schema if field.name in names])
        batches = [batch for piece, own in self._by_slice(places) for batch in self._of_slice(piece, own, wanted)]
        rows = pa.Table.from_batches(batches, schema=wanted)
        self.rows_read += rows.num_rows
        if rows.num_rows != len(places):
            message = f"input {self.alias} has {rows.num_rows} of {len(places)} records that its slices should hold"
            raise InvalidData(message, place=Place(rule="file-offsets"))
        return rows

    @cached_property
    def _begins(self) -> list[int]:
        return [piece.offsets.begin for piece in self._slices]

    def _by_slice(self, places: Places) -> Iterator[tuple[SliceFile, Places]]:
        """The slices that have some of the records, with these."""
        at = 0
        while at < len(places):
            number = bisect_right(self._begins, int(places[at])) - 1
            if number < 0:
                return
            piece = self._slices[number]
            if isinstance(places, range):
                end = at + max(1, min(piece.offsets.end, places.stop) - places[at])
            else:
                end = max(at + 1, int(np.searchsorted(places, piece.offsets.end)))
            yield piece, places[at:end]
            at = end

    def _of_slice(self, piece: SliceFile, places: Places, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        self._call.check()
        offset, begin = self._vocabulary.offset, piece.offsets.begin
        columns = sorted({*schema.names, offset})
        with open_slice(self._call.exchange.input(piece.path), self._vocabulary) as reader:
            if not isinstance(places, range) and len(places) * _FEW < len(piece.offsets):
                rows = reader.rows_of(places - begin, columns)
                taken = one_array(rows.column(offset)).to_numpy() == places if rows.num_rows == len(places) else []
                if np.all(taken):
                    yield from (batch_as_spark(batch, schema, piece.path) for batch in rows.to_batches())
                return
            wanted = np.zeros(len(piece.offsets), dtype=bool)
            wanted[np.asarray(places) - begin] = True
            near = range(int(places[0]) - begin, int(places[-1]) - begin + 1)
            for batch in reader.batches(columns, near=near, bytes_max=self._call.settings.batch_bytes):
                self._call.check()
                within = _within(batch.column(offset).to_numpy() - begin, wanted)
                if within.any():
                    own = batch if within.all() else batch.filter(pa.array(within))
                    yield batch_as_spark(own, schema, piece.path)


def _within(positions: Longs, wanted: Mask) -> Mask:
    """Which rows of a batch are wanted."""
    there: Mask = (positions >= 0) & (positions < len(wanted))
    there[there] = wanted[positions[there]]
    return there


def as_scan(rows: pa.Table, columns: Sequence[Attribute]) -> pa.Table:
    """Rows by names of columns as rows of a scan, by position."""
    schema = stage_schema(tuple(columns))
    arrays = [rows.column(str(column.name())).cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
