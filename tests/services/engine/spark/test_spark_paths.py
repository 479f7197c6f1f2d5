"""Only meant files are read, once each, whatever the outer folder's name."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.model.engine import QueryInput, QueryRequest
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.source import ReadStepNdJson, ReadStepParquet
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.ingest.raw_query import run_query
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from tests.services.engine.ingest.ingesting import Dataset

pytestmark = pytest.mark.spark

PREPROCESS = TransformSql(engine="spark", queries=(SqlQueryStep(query="select n + 0L as n from input"),))


@pytest.mark.parametrize("name", ["a\\b", "[ab],{c,d}*?#%20 e", "{", "[", "a:b,c"])
def test_any_name_of_a_folder_will_do(engine_call: EngineCall, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    (folder / "scratch").mkdir(parents=True)
    call = replace(engine_call, exchange=ExchangeFolder.at(folder), scratch=folder / "scratch")
    parquet = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array([3], pa.int64())}), parquet)
    dataset = Dataset(call)
    for read, content in (
        (ReadStepNdJson(), b'{"n":1}\n'),
        (ReadStepNdJson(), b'{"n":2}\n'),
        (ReadStepParquet(), parquet.getvalue()),
    ):
        assert len(dataset.ingest(read, content, preprocess=PREPROCESS)) == 1
    found = QueryInput(
        alias="d", vocabulary=DatasetVocabulary(), data_schema=dataset.data_schema, slices=dataset.history
    )
    request = QueryRequest(
        sql="select n from d order by n",
        inputs=(found,),
        skip=0,
        limit=100,
        bytes_max=1 << 20,
        wall_ms_max=60_000,
        output_path="result",
    )
    run_query(request, call)
    assert pa.ipc.open_stream(folder / "result").read_all().to_pydict() == {"n": [1, 2, 3]}
