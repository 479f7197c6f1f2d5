"""The operation DeriveProvenance: why records of a derivative dataset exist.

Owns the order of the work: read the records, find the rows that can matter, run the query over them with numbers, read witnesses and cells
back, check them by a run of the query, find the trigger. Nothing was stored for this when the transform ran. Invariant: what is called
verified was checked by a run that knows nothing of how it was found. Source: docs/engine.md#provenance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odfabric.errors import InvalidRequest
from odfabric.model.provenance import NO_ROWS, ProvenanceRequest, ProvenanceResult, RecordProvenance
from odfabric_engine_spark.provenance.answer import AnswerRows
from odfabric_engine_spark.provenance.asked_records import AskedRecord, asked_records
from odfabric_engine_spark.provenance.explained_query import explained_query
from odfabric_engine_spark.provenance.explained_records import Explanation, explain_by_rows, explain_row_wise
from odfabric_engine_spark.provenance.work import Work
from odfabric_engine_spark.spark.calls.call import EngineCall


def derive_provenance(request: ProvenanceRequest, call: EngineCall) -> ProvenanceResult:
    """Explains the records and writes the answer file.

    Raises InvalidRequest, InvalidQuery, InvalidData, LimitExceeded.
    """
    call.progress("validate")
    _check(request, call)
    work = Work.of(request, call)
    found: dict[int, RecordProvenance] = {}
    with call.exchange.outputs(request.answer_path) as (path,):
        rows = AnswerRows()
        records = asked_records(request, call)
        for added in (True, False):
            side = [record for record in records if record.added is added]
            if side:
                found |= {each.offset: each for each in _side(request, side, rows, work, call)}
        count, ranges = rows.write(path)
    ordered = tuple(replace(found[each], answer_rows=ranges.get(each, NO_ROWS)) for each in request.offsets)
    return ProvenanceResult(records=ordered, cost=work.cost(), answer_rows=count)


def _side(
    request: ProvenanceRequest, records: Sequence[AskedRecord], rows: AnswerRows, work: Work, call: EngineCall
) -> list[RecordProvenance]:
    """Records that are all added, or all withdrawn, by the block."""
    added = records[0].added
    previous = None if added else request.previous
    query = explained_query(request.transaction, previous or request.transaction.transform, call)
    assert query.shape is not None, "a query that was judged has a shape"
    shape = query.shape if previous is not None else query.shape.fitted(request.transaction.data_schema)
    explanation = Explanation(request, query, shape, tuple(records), rows, work, call)
    if query.linear is not None and request.previous is None:
        return explain_row_wise(explanation, query.linear)
    return explain_by_rows(explanation)


def _check(request: ProvenanceRequest, call: EngineCall) -> None:
    """Raises InvalidRequest for what no block can be."""
    if len(request.intervals) != len(request.transaction.inputs):
        raise InvalidRequest("provenance needs one interval for each input of the transaction")
    if request.transaction.checkpoint_paths:
        raise InvalidRequest("provenance reads its inputs from the beginning, without a checkpoint")
    if len(set(request.offsets)) < len(request.offsets) or not request.offsets:
        raise InvalidRequest("provenance needs the offsets of some records, each once")
    maximum = call.settings.provenance_records_max
    if len(request.offsets) > maximum:
        raise InvalidRequest(
            f"provenance explains at most {maximum} records at once, not {len(request.offsets)}",
            hint="ask for a page of them",
        )
