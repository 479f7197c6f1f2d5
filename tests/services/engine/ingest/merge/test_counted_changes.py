"""What an ingest says about rows is what it has done to them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.formats.manifests.ddl_schema import ddl_to_schema
from odfabric.model.engine import IngestResult, RowChanges, SliceFile, UndeclaredField
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.source import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepNdJson,
)
from odfabric_engine_spark.ingest.ingest_files import ingest
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import Dataset

pytestmark = pytest.mark.spark

READ = ReadStepNdJson(schema=ddl_to_schema(("id BIGINT", "v BIGINT")))
WITH_OP = ReadStepNdJson(schema=ddl_to_schema(("op INT", "id BIGINT", "v BIGINT")))
ROUNDS = iter(range(10**6))


def lines(rows: list[dict[str, int]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def result_of(dataset: Dataset, content: bytes, preprocess: TransformSql | None = None) -> IngestResult:
    """Ingest a file, keep its rows, and give what the engine says."""
    dataset.rounds = next(ROUNDS) + 1000
    read = WITH_OP if isinstance(dataset.merge, MergeStrategyUpsertStream) else READ
    request = dataset.request(read, content, preprocess=preprocess)
    scratch = dataset.call.scratch / f"counted-{dataset.rounds}"
    scratch.mkdir()
    result = ingest(request, replace(dataset.call, scratch=scratch))
    dataset.data_schema = dataset.data_schema or result.data_schema
    if result.offsets is not None:
        dataset.history += (SliceFile(path=request.new_data_path, offsets=result.offsets),)
    return result


def in_slice(dataset: Dataset, result: IngestResult) -> Counter[int]:
    if result.offsets is None:
        return Counter()
    path = dataset.call.exchange.root / dataset.history[-1].path
    return Counter(pq.read_table(path, columns=["op"]).column("op").to_pylist())


KEYED = st.dictionaries(st.integers(0, 4), st.integers(0, 2), min_size=1, max_size=5)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(KEYED, min_size=2, max_size=3), st.sampled_from([MergeStrategySnapshot, MergeStrategyLedger]))
def test_counts_are_those_of_records_and_of_what_was_there(
    engine_call: EngineCall, files: list[dict[int, int]], kind: type[MergeStrategy]
) -> None:
    dataset = Dataset(engine_call, merge=kind(primary_key=("id",)))  # type: ignore[call-arg]
    there: dict[int, int] = {}
    for file in files:
        result = result_of(dataset, lines([{"id": key, "v": value} for key, value in file.items()]))
        made = in_slice(dataset, result)
        same = sum(there.get(key) == value for key, value in file.items())
        if kind is MergeStrategyLedger:
            known = sum(key in there for key in file)
            assert result.changes == RowChanges(added=made[0], known_keys=known)
            there = {**file, **there}
        else:
            corrected = sum(key in there and there[key] != value for key, value in file.items())
            gone = len(there.keys() - file.keys())
            wanted = RowChanges(added=made[0], corrected=corrected, retracted=gone, unchanged=same)
            assert result.changes == wanted
            assert (made[1], made[2], made[3]) == (gone, corrected, corrected)
            there = file


def test_rows_that_later_ones_replace_and_rows_of_queries(engine_call: EngineCall) -> None:
    upserts = Dataset(engine_call, merge=MergeStrategyUpsertStream(primary_key=("id",)))
    result_of(upserts, lines([{"op": 0, "id": 1, "v": 1}, {"op": 0, "id": 2, "v": 1}]))
    given_rows = [
        {"op": 0, "id": 1, "v": 5},
        {"op": 0, "id": 1, "v": 6},
        {"op": 1, "id": 2, "v": 1},
        {"op": 0, "id": 3},
    ]
    changes = result_of(upserts, lines(given_rows)).changes
    assert changes == RowChanges(added=1, corrected=1, retracted=1, unchanged=1)
    halved = TransformSql(engine="spark", queries=(SqlQueryStep(query="SELECT id, v FROM input WHERE id > 1"),))
    snapshot = Dataset(engine_call, merge=MergeStrategySnapshot(primary_key=("id",)))
    rows = lines([{"id": key, "v": key} for key in range(4)])
    assert result_of(snapshot, rows, halved).changes == RowChanges(added=2)
    assert result_of(snapshot, rows, halved).changes == RowChanges(unchanged=2)


def test_fields_without_a_column_are_counted(engine_call: EngineCall) -> None:
    rows = [{"id": 1, "v": 1, "w": 2}, {"id": 2, "v": 1, "w": 3, "x": 1}, {"id": 3, "y": None}]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    result = result_of(Dataset(engine_call, merge=MergeStrategyAppend()), content)
    assert result.undeclared == (UndeclaredField(name="w", rows=2), UndeclaredField(name="x", rows=1))
