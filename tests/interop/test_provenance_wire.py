"""Provenance on the wire: requests and answers survive a round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidRequest
from odfabric.formats.engine_messages import judgement_wire
from odfabric.formats.engine_messages import provenance_wire as wire
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.model.engine import ColumnLineage, EngineIdentity, SliceFile, TransformRequest, ValidateResult
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.provenance import (
    ConsumedInterval,
    InputWitnesses,
    ProvenanceCost,
    ProvenanceEffort,
    ProvenanceKind,
    ProvenanceRequest,
    ProvenanceResult,
    RecordProvenance,
    RowsRead,
)
from tests.interop.test_engine_wire import TRANSFORM_REQUESTS, TRANSFORMS

COUNTS = st.integers(0, 2**40)
RANGES = st.tuples(COUNTS, COUNTS).map(lambda ends: OffsetRange(min(ends), max(ends)))
WITNESSES = st.builds(
    InputWitnesses,
    input=st.integers(0, 9),
    count=COUNTS,
    ranges=st.lists(RANGES, max_size=3).map(tuple),
    more=st.booleans(),
)
RECORDS = st.builds(
    RecordProvenance,
    offset=COUNTS,
    op=st.sampled_from(OperationType),
    found=st.booleans(),
    alternatives=st.integers(0, 99),
    verified=st.booleans(),
    minimal=st.booleans(),
    by_watermark=st.booleans(),
    witnesses=st.lists(WITNESSES, max_size=2).map(tuple),
    trigger=st.lists(WITNESSES, max_size=2).map(tuple),
    notes=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=2).map(tuple),
    how=st.sampled_from(["", '{"plus":[]}']),
    answer_rows=RANGES,
)
COSTS = st.builds(
    ProvenanceCost, read=st.sampled_from(RowsRead), rows_read=COUNTS, rows_bound=COUNTS, jobs=COUNTS, evaluations=COUNTS
)


@given(TRANSFORM_REQUESTS, st.data())
def test_requests(transaction: TransformRequest, data: st.DataObject) -> None:
    """Every member of a request arrives."""
    intervals = tuple(
        ConsumedInterval(offsets=data.draw(RANGES), steps_before=data.draw(st.integers(0, 99)))
        for _ in transaction.inputs
    )
    request = ProvenanceRequest(
        transaction=transaction,
        intervals=intervals,
        output=(SliceFile(path="out", offsets=data.draw(RANGES)),),
        offsets=tuple(data.draw(st.lists(COUNTS, max_size=3))),
        answer_path="answer",
        columns=("a",),
        kinds=frozenset(data.draw(st.sets(st.sampled_from(ProvenanceKind), min_size=1))),
        effort=data.draw(st.sampled_from(ProvenanceEffort)),
        rows_max=data.draw(COUNTS),
        evaluations_max=data.draw(COUNTS),
        bytes_in_hand_max=data.draw(COUNTS),
        wall_ms_max=data.draw(st.none() | st.integers(1, 9)),
        previous=data.draw(st.none() | TRANSFORMS),
    )
    message = pb.DeriveProvenanceRequest.FromString(wire.provenance_request_to_wire(request).SerializeToString())
    assert wire.provenance_request_from_wire(message) == request


@given(st.lists(RECORDS, max_size=3), COSTS, st.booleans(), COUNTS)
def test_results(records: list[RecordProvenance], cost: ProvenanceCost, known: bool, rows: int) -> None:
    """Every member of an answer arrives."""
    made_by = EngineIdentity(name="e", version="1", digest="d") if known else None
    result = ProvenanceResult(records=tuple(records), cost=cost, answer_rows=rows, made_by=made_by)
    message = pb.DeriveProvenanceSuccess.FromString(wire.provenance_result_to_wire(result).SerializeToString())
    assert wire.provenance_result_from_wire(message) == result


def test_lineage_of_columns() -> None:
    """The columns behind the output columns arrive with a judgement."""
    one = ColumnLineage(output_column="o", input="a", column="c", role="copied", transformation="IDENTITY")
    result = ValidateResult(problems=(), data_schema=None, operator_class=None, keys=(), column_lineage=(one,))
    assert judgement_wire.validate_result_from_wire(judgement_wire.validate_result_to_wire(result)) == result


def test_what_is_no_provenance_is_refused() -> None:
    """A message with unknown numbers, or without an interval for an input, is refused."""
    with pytest.raises(InvalidRequest, match="one interval"):
        wire.provenance_request_from_wire(pb.DeriveProvenanceRequest(intervals=[pb.ConsumedInterval()]))
    with pytest.raises(InvalidRequest, match="way of reading"):
        wire.provenance_result_from_wire(pb.DeriveProvenanceSuccess(cost=pb.ProvenanceCost(read="guess")))
