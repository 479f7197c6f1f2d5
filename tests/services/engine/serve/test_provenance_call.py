"""DeriveProvenance of an engine process arrives as the operation gives it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidRequest
from odfabric.formats.engine_messages import engine_wire, provenance_wire
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.model.provenance import ANSWER_COLUMNS, ProvenanceRequest, ProvenanceResult, RowsRead
from tests.services.engine.engine_process import EngineUnderTest
from tests.services.engine.provenance.explaining import request_for
from tests.services.engine.transforming import HOUR, A, Input, Requests, input_schema, written

pytestmark = pytest.mark.spark

QUERY = "SELECT max(event_time) AS event_time, k, sum(v) AS s FROM sales GROUP BY k"


def derived(engine: EngineUnderTest, request: ProvenanceRequest) -> ProvenanceResult:
    """The answer over the wire."""
    client = engine.client()
    message = provenance_wire.provenance_request_to_wire(request)
    answers: list[pb.DeriveProvenanceResponse] = list(
        client._stub.DeriveProvenance(message, timeout=300, metadata=client._metadata())
    )
    last = answers[-1]
    if last.HasField("failure"):
        raise engine_wire.failure_from_wire(last.failure)
    return provenance_wire.provenance_result_from_wire(last.success)


def test_an_engine_process_explains_records(compat_engine: EngineUnderTest) -> None:
    """Witnesses come in message and answer file; a wrong request is a failure."""
    one = Input(compat_engine.exchange, "sales", input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64())))
    one.add([(A, HOUR, "x", 5), (A, HOUR, "y", 7), (A, 2 * HOUR, "x", 9)])
    transactions = Requests(QUERY, [one], name="why")
    request = transactions.request()
    result = compat_engine.client().execute_transform(request, progress=lambda _: None)
    transactions.transactions.append(written(request, result, compat_engine.exchange))
    asked = request_for(transactions, 0)
    found = derived(compat_engine, asked)
    rows = {row["k"]: row["offset"] for row in transactions.transactions[0].table.to_pylist()}
    of_x = next(each for each in found.records if each.offset == rows["x"])
    assert (of_x.found, of_x.verified, of_x.witnesses[0].count) == (True, True, 2)
    assert [(each.begin, each.end) for each in of_x.witnesses[0].ranges] == [(0, 1), (2, 3)]
    assert found.cost.read is RowsRead.KEYS
    assert found.made_by is not None
    answer = pq.read_table(compat_engine.exchange / asked.answer_path)
    assert (answer.num_rows, tuple(answer.column_names)) == (found.answer_rows, ANSWER_COLUMNS)
    with pytest.raises(InvalidRequest, match="no record with offset"):
        derived(compat_engine, request_for(transactions, 0, [99]))
