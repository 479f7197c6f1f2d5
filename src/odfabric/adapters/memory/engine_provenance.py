"""Provenance by the engine without Spark, whose transforms are row-wise.

Owns which input record each output record comes from: the k-th record of a block from the k-th record that the block read. The first block
of a changed transform withdraws what was there, in order, before it writes its rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from odfabric.errors import InvalidQuery, LimitExceeded, Place
from odfabric.formats.parquet.provenance_file import ProvenanceRow, write_provenance_rows
from odfabric.model.engine import EngineIdentity, SliceFile, TransformRequestInput
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.provenance import (
    PROVENANCE_ROWS_LIMIT,
    CellRole,
    InputWitnesses,
    ProvenanceCost,
    ProvenanceKind,
    ProvenanceRequest,
    ProvenanceResult,
    RecordProvenance,
    RowsRead,
)
from odfabric.model.vocabulary import DatasetVocabulary

Row = dict[str, object]
RowsOf = Callable[[tuple[SliceFile, ...], DatasetVocabulary], Iterator[Row]]


def derive_row_wise(
    request: ProvenanceRequest, source: TransformRequestInput, *, root: Path, rows_of: RowsOf, made_by: EngineIdentity
) -> ProvenanceResult:
    """The answer for a transform that copies its one input, row by row.

    Raises LimitExceeded for more rows than the request allows.
    """
    transaction = request.transaction
    number = transaction.inputs.index(source)
    read = list(rows_of(source.slices, source.vocabulary))
    if 0 < request.rows_max < len(read):
        maximum = request.rows_max
        raise LimitExceeded(f"{len(read)} rows to read", limit=PROVENANCE_ROWS_LIMIT, maximum=maximum)
    by_offset = {row[source.vocabulary.offset]: row for row in read}
    written = {row[transaction.vocabulary.offset]: row for row in rows_of(request.output, transaction.vocabulary)}
    records, rows = [], list[ProvenanceRow]()
    for offset in sorted(request.offsets):  # as the rows of the file are sorted
        begin, origin = len(rows), _origin(request, number, offset)
        record, found = written.get(offset), by_offset.get(origin)
        if record is None:
            raise InvalidQuery(f"the block has no record {offset}", place=Place(field="offsets"))
        op = OperationType(record[transaction.vocabulary.operation_type])  # type: ignore[arg-type]
        columns = _columns(request, record, source.vocabulary)
        if found is None or any(found.get(name) != record[name] for name in columns):
            note = "the query gives no such row over these inputs"
            records.append(RecordProvenance(offset=offset, op=op, found=False, notes=(note,)))
            continue
        rows.extend(_rows(request, number, offset, origin, columns))
        records.append(_record(request, number, offset, origin, op, OffsetRange(begin, len(rows))))
    count = write_provenance_rows(root / request.answer_path, rows)
    cost = ProvenanceCost(read=RowsRead.ROW_WISE, rows_read=len(read), rows_bound=len(records), jobs=0, evaluations=1)
    records.sort(key=lambda one: request.offsets.index(one.offset))
    return ProvenanceResult(records=tuple(records), cost=cost, made_by=made_by, answer_rows=count)


def _origin(request: ProvenanceRequest, number: int, offset: int) -> int:
    """Offset of the input record that an output record comes from."""
    position = offset - request.transaction.next_offset
    if request.previous is None:
        return request.intervals[number].offsets.begin + position
    withdrawn = request.transaction.next_offset
    return position if position < withdrawn else position - withdrawn


def _columns(request: ProvenanceRequest, record: Row, vocabulary: DatasetVocabulary) -> list[str]:
    given = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
    return [name for name in record if name not in given and (not request.columns or name in request.columns)]


def _rows(
    request: ProvenanceRequest, number: int, offset: int, origin: int, columns: list[str]
) -> Iterator[ProvenanceRow]:
    for kind in (ProvenanceKind.WITNESSES, ProvenanceKind.TRIGGER):
        if kind in request.kinds:
            yield ProvenanceRow(record=offset, kind=kind, input=number, offset=origin)
    if ProvenanceKind.CELLS in request.kinds:
        for name in sorted(columns):
            yield ProvenanceRow(
                record=offset,
                kind=ProvenanceKind.CELLS,
                input=number,
                offset=origin,
                column=name,
                output_column=name,
                role=CellRole.COPIED,
            )


def _record(
    request: ProvenanceRequest, number: int, offset: int, origin: int, op: OperationType, rows: OffsetRange
) -> RecordProvenance:
    one = (InputWitnesses(input=number, count=1, ranges=(OffsetRange(origin, origin + 1),)),)
    how = {"operator": "row", "input": number, "offset": origin}
    return RecordProvenance(
        offset=offset,
        op=op,
        found=True,
        verified=True,
        minimal=True,
        witnesses=one if ProvenanceKind.WITNESSES in request.kinds else (),
        trigger=one if ProvenanceKind.TRIGGER in request.kinds else (),
        how=json.dumps(how) if ProvenanceKind.HOW in request.kinds else "",
        answer_rows=rows,
    )
