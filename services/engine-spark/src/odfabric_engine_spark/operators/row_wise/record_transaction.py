"""A transaction of a row-wise query, in pieces that fit into memory.

Owns the order of pieces (branch by branch, by offset) and pairs that lie across two of them. Invariant: how rows are cut into
pieces, by their number or by their bytes, does not change the records. Not here: what a piece is mapped to (`record_mapping`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.util import inheritable_thread_target

from odfabric_engine_spark.arrays.ordered_threads import in_turn
from odfabric_engine_spark.operators.row_wise.record_mapping import (
    HIDDEN,
    Images,
    images,
    literal_records,
    open_pair,
    records,
)
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.rows.change_records import Records
from odfabric_engine_spark.rows.input_scan import ScanRows
from odfabric_engine_spark.rows.output_shape import OutputShape
from odfabric_engine_spark.rows.row_batches import in_pieces
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.result_rows import ResultTooLarge


def linear_records(
    query: LinearQuery, shape: OutputShape, rows: ScanRows, tables: Mapping[str, InputTable], call: EngineCall
) -> Generator[Records]:
    """The records of all new rows in order.

    Raises InvalidData, LimitExceeded, and what Spark raises on an expression.
    """
    waiting: Images | None = None
    with closing(_Mapping(query, shape, rows, tables, call).images()) as pieces:
        for found in pieces:
            together = found if waiting is None else waiting.then(found)
            ready, waiting = together.split(len(together) if shape.op_selected else open_pair(together))
            yield _as_records(ready, shape)
    if waiting is not None:
        yield _as_records(waiting, shape)


class _Mapping:
    """What the rows of a transaction are mapped to."""

    def __init__(
        self, query: LinearQuery, shape: OutputShape, rows: ScanRows, tables: Mapping[str, InputTable], call: EngineCall
    ) -> None:
        self._query = query
        self._shape = shape
        self._rows = rows
        self._tables = tables
        self._call = call
        self._scans = range(len(query.scans))
        self._total = sum(len(rows.offsets(scan)) for scan in self._scans)

    def images(self) -> Generator[Images]:
        """The images of all rows in order: in pieces, unless rows are few."""
        settings = self._call.settings
        bytes_max = settings.transform_piece_bytes
        whole = self._all_rows(bytes_max) if self._total <= settings.transform_piece_rows else None
        if whole is not None:
            yield from self._begun(whole)
            return
        done = 0
        for scan in self._scans:
            for count, found in self._begun_in_turn(scan, max(bytes_max // (settings.cores + 1), 1)):
                self._call.progress("map", done, self._total)
                yield from found
                done += count

    def _begun_in_turn(self, scan: int, bytes_max: int) -> Iterator[tuple[int, Iterator[Images]]]:
        """Pieces of a scan's rows: how many rows each has, and its images."""
        call, settings = self._call, self._call.settings
        nothing = [self._marked(each, self._rows.together(each, [])) for each in self._scans]

        def begun(piece: pa.Table) -> tuple[int, Iterator[Images]]:
            given = [*nothing[:scan], self._marked(scan, piece), *nothing[scan + 1 :]]
            return piece.num_rows, self._begun(given)

        pieces = self._rows.pieces(scan, rows_max=settings.transform_piece_rows, bytes_max=bytes_max)
        # Jobs of other threads belong to the call as its own do, so that they end with it; each has properties of its own.
        of_call = (inheritable_thread_target(call.session)(partial(begun, piece)) for piece in pieces)
        with closing(in_turn(lambda work: work(), of_call, at_once=settings.cores)) as found:
            yield from found

    def _begun(self, given: Sequence[pa.Table]) -> Iterator[Images]:
        """The images of rows of each scan.

        Where they are more than Spark collects, rows are mapped piece by piece when they are asked for.
        """
        try:
            return iter([self._images(given)])
        except ResultTooLarge:
            return in_pieces(given, self._images, self._call, rows_max=sum(map(len, given)) // 2)

    def _images(self, given: Sequence[pa.Table]) -> Images:
        return images(self._query, self._shape, given)

    def _all_rows(self, bytes_max: int) -> list[pa.Table] | None:
        """The rows of all scans, None if they have more bytes together."""
        found: list[list[pa.Table]] = []
        room = bytes_max
        for scan in self._scans:
            found.append([])
            rows_max = max(len(self._rows.offsets(scan)), 1)
            for piece in self._rows.pieces(scan, rows_max=rows_max, bytes_max=bytes_max):
                found[scan].append(piece)
                room -= piece.nbytes
                if room < 0:
                    return None
        return [self._marked(scan, self._rows.together(scan, own)) for scan, own in enumerate(found)]

    def _marked(self, scan: int, rows: pa.Table) -> pa.Table:
        """Rows with their branch, offset and operation beside the columns of the input."""
        names = self._tables[self._query.scans[scan].alias].vocabulary
        branch = pa.array(np.full(rows.num_rows, scan, dtype=np.int32))
        marks = (branch, rows.column(names.offset), rows.column(names.operation_type))
        for field, mark in zip(HIDDEN, marks, strict=True):
            rows = rows.append_column(field, mark)
        return rows


def _as_records(found: Images, shape: OutputShape) -> Records:
    return literal_records(found) if shape.op_selected else records(found)
