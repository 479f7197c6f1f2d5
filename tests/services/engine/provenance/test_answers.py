"""Answers: limits, changes of queries, late rows, columns without rows."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from odfabric.errors import InvalidRequest, LimitExceeded
from odfabric.model.engine import ColumnLineage, MigrateRequest, QueryInput, SliceFile, ValidateRequest
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.provenance import ConsumedInterval, ProvenanceEffort, RowsRead
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.execute.evolution.migrate_query import migrate_query
from odfabric_engine_spark.provenance.derive import derive_provenance
from odfabric_engine_spark.provenance.static_lineage import judge_with_lineage
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.provenance.explaining import explained, request_for
from tests.services.engine.provenance.test_witnesses import K, V, sales, stores
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, input_schema, written

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

SUM = "SELECT max(event_time) AS event_time, k, sum(v) AS s FROM sales GROUP BY k"
GLOBAL = "SELECT max(event_time) AS event_time, sum(v) AS s FROM sales"


def test_limits_end_an_answer(engine_call: EngineCall) -> None:
    """Too many rows are refused; too many evaluations leave records unchecked."""
    derivative = Derivative(GLOBAL, [sales(engine_call)], engine_call)
    derivative.pull()
    request = request_for(derivative, 0)
    with pytest.raises(LimitExceeded, match="6 rows of the input sales") as refused:
        derive_provenance(replace(request, rows_max=5), engine_call)
    assert refused.value.limit == "provenance_rows_max"
    with pytest.raises(LimitExceeded) as too_large:
        derive_provenance(replace(request, bytes_in_hand_max=10), engine_call)
    assert too_large.value.limit == "provenance_bytes_max"
    answer = explained(derivative, 0, evaluations_max=1, effort=ProvenanceEffort.MINIMAL)
    assert answer.result.cost.evaluations == 1
    assert answer.result.cost.read is RowsRead.WHOLE
    with pytest.raises(InvalidRequest, match="no record with offset 99"):
        derive_provenance(replace(request, offsets=(99,)), engine_call)
    with pytest.raises(InvalidRequest, match="no column nonsense"):
        derive_provenance(replace(request, columns=("nonsense",)), engine_call)


def test_a_minimal_answer_needs_each_witness(engine_call: EngineCall) -> None:
    """Of a distinct row one of its equal rows is enough."""
    one = Input(engine_call.exchange.root, "sales", input_schema(K, V))
    one.add([(A, HOUR, "x", 5), (A, HOUR, "x", 5), (A, HOUR, "x", 5)])
    derivative = Derivative("SELECT DISTINCT event_time, k FROM sales", [one], engine_call)
    derivative.pull()
    (offset,) = derivative.transactions[0].table.column("offset").to_pylist()
    assert explained(derivative, 0).witnesses(offset) == {("sales", 0), ("sales", 1), ("sales", 2)}
    least = explained(derivative, 0, effort=ProvenanceEffort.MINIMAL)
    assert len(least.witnesses(offset)) == 1
    assert least.record(offset).minimal


def test_a_record_that_no_query_gives_is_not_found(engine_call: EngineCall) -> None:
    """A block that another query made is not explained by a guess."""
    derivative = Derivative(SUM, [sales(engine_call)], engine_call)
    derivative.pull()
    other = TransformSql(engine="spark", queries=(SqlQueryStep(query=SUM.replace("sum(v)", "sum(v) + 1L")),))
    request = request_for(derivative, 0)
    result = derive_provenance(replace(request, transaction=replace(request.transaction, transform=other)), engine_call)
    assert all(not each.found and "no such row" in each.notes[0] for each in result.records)


def test_records_of_a_migration(engine_call: EngineCall) -> None:
    """Withdrawn records are explained by the query before, added ones by the next."""
    derivative = Derivative(SUM, [sales(engine_call)], engine_call)
    derivative.pull()
    first = derivative.transactions[0]
    following = TransformSql(engine="spark", queries=(SqlQueryStep(query=SUM.replace("sum(v)", "sum(v) + 1L")),))
    derivative.taken = [0]
    next_one = replace(
        derivative.request([2]),
        transform=following,
        checkpoint_paths=(),
        checkpoint_hashes=(),
        new_data_path="m",
        new_checkpoint_path="mc",
    )
    assert first.result.offsets is not None
    migration = MigrateRequest(
        next=next_one, output=(SliceFile(path=first.request.new_data_path, offsets=first.result.offsets),)
    )
    done = written(next_one, migrate_query(migration, engine_call), engine_call.exchange.root)
    end = next_one.inputs[0].offsets.end
    offsets = done.table.column("offset").to_pylist()
    request = replace(
        request_for(derivative, 0),
        transaction=next_one,
        intervals=(ConsumedInterval(offsets=OffsetRange(end, end), steps_before=2),),
        output=(SliceFile(path="m", offsets=OffsetRange(offsets[0], offsets[-1] + 1)),),
        offsets=tuple(offsets),
        previous=derivative.transform,
    )
    result = derive_provenance(request, engine_call)
    assert {each.op for each in result.records} == {R, A}
    assert all(each.found and each.verified for each in result.records)
    assert all(any("change of the query" in note for note in each.notes) for each in result.records)


def test_rows_that_came_too_late_are_no_witnesses(engine_call: EngineCall) -> None:
    """What the lateness of a query dropped is in no answer."""
    one = Input(engine_call.exchange.root, "sales", input_schema(K, V))
    one.add([(A, 1 * HOUR, "x", 5)], watermark=9 * HOUR)
    one.add([(A, 1 * HOUR + 1, "x", 7), (A, 10 * HOUR, "x", 1)], watermark=12 * HOUR)
    query = (
        "SELECT /*+ lateness('1 hour') */ window.start AS event_time, k, sum(v) AS s FROM sales "
        "GROUP BY window(event_time, '1 hour'), k"
    )
    derivative = Derivative(query, [one], engine_call)
    derivative.pull()
    assert derivative.transactions[0].result.late_rows_dropped == 1
    answer = explained(derivative, 0)
    found = [answer.witnesses(each.offset) for each in answer.result.records]
    assert found == [{("sales", 0)}, {("sales", 2)}]
    assert all(each.verified for each in answer.result.records)


def test_columns_without_rows(engine_call: EngineCall) -> None:
    """What each output column is made of is known from the query alone."""
    query = (
        "SELECT max(s.event_time) AS event_time, t.region, sum(s.v + 1) AS total "
        "FROM sales s JOIN stores t ON s.k = t.k WHERE s.v > 0 GROUP BY t.region"
    )
    inputs = tuple(
        QueryInput(alias=each.alias, vocabulary=DatasetVocabulary(), data_schema=each.data_schema)
        for each in (sales(engine_call), stores(engine_call))
    )
    transform = TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))
    result = judge_with_lineage(
        ValidateRequest(vocabulary=DatasetVocabulary(), transform=transform, inputs=inputs), engine_call
    )
    assert result.problems == ()
    found = {
        (one.output_column, one.input, one.column): (one.role, one.transformation) for one in result.column_lineage
    }
    assert found["region", "stores", "region"] == ("copied", "IDENTITY")
    assert found["total", "sales", "v"] == ("computed", "AGGREGATION")
    assert found["region", "sales", "v"] == ("inspected", "FILTER")
    assert found["total", "stores", "k"] == ("inspected", "JOIN")
    assert found["total", "stores", "region"] == ("inspected", "GROUP_BY")
    assert (
        ColumnLineage(
            output_column="event_time", input="sales", column="event_time", role="copied", transformation="IDENTITY"
        )
        in result.column_lineage
    )


def test_row_wise_records_of_equal_rows_are_told_apart(engine_call: EngineCall) -> None:
    """Each of two equal records is the image of its own input record."""
    one = Input(engine_call.exchange.root, "sales", input_schema(K, pa.field("v", pa.int64())))
    one.add([(A, HOUR, "x", 5), (A, HOUR, "y", 5), (A, HOUR, "x", 6)])
    derivative = Derivative("SELECT event_time, v FROM sales WHERE v = 5", [one], engine_call)
    derivative.pull()
    answer = explained(derivative, 0)
    assert [answer.witnesses(at) for at in (0, 1)] == [{("sales", 0)}, {("sales", 1)}]


def test_a_branch_that_is_named_by_a_constant(engine_call: EngineCall) -> None:
    """A tag of a union is a key that no row of the input has."""
    query = (
        "SELECT max(event_time) AS event_time, tag, sum(v) AS s FROM "
        "(SELECT event_time, 'a' AS tag, v FROM sales UNION ALL SELECT event_time, 'b', -v FROM sales) GROUP BY tag"
    )
    derivative = Derivative(query, [sales(engine_call)], engine_call)
    derivative.pull()
    answer = explained(derivative, 0)
    assert answer.result.cost.read is RowsRead.KEYS
    assert all(each.verified for each in answer.result.records)
