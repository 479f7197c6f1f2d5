"""The table of a call of `why` in a query: rows that the coordinator computed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.formats.provenance.why_table import WHY_SCHEMA, WhyRow, write_why_rows
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.engine import QueryInput, SliceFile
from odfabric.model.offsets import OffsetRange
from odfabric.model.table_function import TableCall
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.test_raw_query import as_query_input, query
from tests.services.engine.transforming import A, Input, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()))
ROWS = [
    WhyRow(depth=0, kind="asked", dataset="acc/sum", offset=3, op=3, system_time=-1, block="f1620", verified=True),
    WhyRow(
        depth=1,
        of_dataset="acc/sum",
        of_offset=3,
        kind="witness",
        dataset="acc/data",
        offset=1,
        op=0,
        system_time=0,
        block="f1620",
        role="computed",
        columns="k (computed)",
        reason="root",
        message="ingested by this block",
    ),
    WhyRow(depth=1, kind="witness", dataset="did:odf:x", records=7, reason="not-readable"),
]


def test_computed_rows_join_with_records(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "acc/data", SCHEMA).add([(A, 0, "x"), (A, 1, "y")])
    folder = engine_call.exchange.output("why").parent
    write_why_rows(folder / "why", ROWS)
    called = QueryInput(
        alias="",
        vocabulary=DatasetVocabulary(),
        data_schema=arrow_to_data_schema(WHY_SCHEMA),
        slices=(SliceFile(path="why", offsets=OffsetRange(0, len(ROWS))),),
        call=TableCall("why", ("acc/sum", "3")),
    )
    inputs = (as_query_input(one), called)
    _, found = query(engine_call, inputs, "SELECT * FROM why('acc/sum', 3) ORDER BY depth, reason DESC")
    assert [{**row, "system_time": None} for row in found] == [{**asdict(row), "system_time": None} for row in ROWS]
    sql = (
        "SELECT w.offset, d.k, unix_millis(w.system_time) AS t, w.columns, w.reason FROM why('acc/sum', 3) AS w "
        "JOIN \"acc/data\" AS d ON d.offset = w.offset WHERE w.kind = 'witness'"
    )
    _, found = query(engine_call, inputs, sql)
    assert found == [{"offset": 1, "k": "y", "t": 0, "columns": "k (computed)", "reason": "root"}]
