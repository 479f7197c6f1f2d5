"""Records of row-wise queries: the interval of the block is mapped once more.

Owns replaying the interval. The k-th record of the block is the k-th of the replay, so equal rows are told apart exactly, and no history is
read. Source: docs/engine.md#row-identity-and-pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from odfabric.errors import LimitExceeded
from odfabric.model.provenance import PROVENANCE_ROWS_LIMIT, ProvenanceRequest
from odfabric_engine_spark.operators.row_wise.record_mapping import HIDDEN, images, literal_records, records
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.provenance.asked_records import AskedRecord, table_of
from odfabric_engine_spark.provenance.equal_rows import places_of
from odfabric_engine_spark.provenance.explained_query import ExplainedQuery
from odfabric_engine_spark.rows.input_scan import ScanRows
from odfabric_engine_spark.rows.output_shape import OutputShape
from odfabric_engine_spark.spark.calls.call import EngineCall


@dataclass(frozen=True, slots=True)
class InputRecord:
    """The record of which another one is the image: use of an input, and offset."""

    use: int
    alias: str
    offset: int


def replayed(
    request: ProvenanceRequest,
    query: ExplainedQuery,
    linear: LinearQuery,
    shape: OutputShape,
    asked: Sequence[AskedRecord],
    call: EngineCall,
    *,
    rows_max: int,
) -> list[InputRecord | None]:
    """For each record its input record, None if the replay gives another row.

    Raises LimitExceeded, and what a transaction raises.
    """
    count = sum(len(interval.offsets) for interval in request.intervals)
    if count > rows_max:
        raise LimitExceeded(
            f"explaining the record replays the {count} records of its block",
            limit=PROVENANCE_ROWS_LIMIT,
            maximum=rows_max,
        )
    inputs = [
        replace(one, offsets=interval.offsets)
        for one, interval in zip(request.transaction.inputs, request.intervals, strict=True)
    ]
    needed = [frozenset(query.tables[scan.alias].no_rows.column_names) for scan in linear.scans]
    rows = ScanRows(linear.scans, needed, tables=query.tables, inputs=inputs, call=call, consolidated=False)
    found = images(
        linear, shape, [_marked(rows, at, query.tables[scan.alias], call) for at, scan in enumerate(linear.scans)]
    )
    replay = literal_records(found) if shape.op_selected else records(found)
    places = np.arange(len(replay.operations)) if replay.places is None else replay.places
    begin = min(piece.offsets.begin for piece in request.output)
    answer: list[InputRecord | None] = []
    for record in asked:
        at = record.offset - begin
        if not 0 <= at < len(places) or int(replay.operations[at]) != record.op:
            answer.append(None)
            continue
        place = int(places[at])
        same = places_of(table_of([record], shape.rows), found.rows.slice(place, 1))[0]
        use = int(found.branches[place])
        known = InputRecord(use, linear.scans[use].alias, int(found.offsets[place]))
        answer.append(known if len(same) else None)
    return answer


def _marked(rows: ScanRows, scan: int, table: InputTable, call: EngineCall) -> pa.Table:
    """The interval's rows of a scan, with branch, offset and operation."""
    settings = call.settings
    pieces = rows.pieces(scan, rows_max=settings.transform_piece_rows, bytes_max=settings.transform_piece_bytes)
    found = rows.together(scan, list(pieces))
    names = table.vocabulary
    branch = pa.array(np.full(found.num_rows, scan, dtype=np.int32))
    marks = (branch, found.column(names.offset), found.column(names.operation_type))
    for field, mark in zip(HIDDEN, marks, strict=True):
        found = found.append_column(field, mark)
    return found
