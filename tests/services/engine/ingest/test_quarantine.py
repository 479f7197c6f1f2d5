"""Rows that cannot be read are kept apart, and the others are taken in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData, LimitExceeded
from odfabric.formats.manifests.ddl_schema import ddl_to_schema
from odfabric.model.data_schema import DataTypeOption
from odfabric.model.engine import IngestResult
from odfabric.model.intake import FieldContract
from odfabric.model.source import MergeStrategyLedger, ReadStep, ReadStepCsv, ReadStepNdJson
from odfabric_engine_spark.ingest.ingest_files import ingest
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import Dataset

pytestmark = pytest.mark.spark

SCHEMA = ddl_to_schema(("id BIGINT NOT NULL", "v STRING"))
CSV, NDJSON = ReadStepCsv(header=True, schema=SCHEMA), ReadStepNdJson(schema=SCHEMA)


def taken(
    dataset: Dataset, read: ReadStep, *contents: bytes, rows_max: int = 100, contract: FieldContract | None = None
) -> tuple[IngestResult, list[int], list[dict[str, Any]]]:
    """What the engine says, the ids that it took, and the rows that it rejected."""
    request = replace(
        dataset.request(read, *contents), rejected_path="rejected", rejected_rows_max=rows_max, contract=contract
    )
    result = ingest(request, dataset.call)
    root = dataset.call.exchange.root
    ids = pq.read_table(root / request.new_data_path).column("id").to_pylist() if result.offsets else []
    path = root / "rejected"
    rejected = [json.loads(line) for line in path.read_text().splitlines()] if result.rejected else []
    assert len(rejected) == result.rejected
    return result, ids, rejected


def shown(rejected: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [(row["file"], row["line"], row["field"], row["raw"]) for row in rejected]


def test_rows_of_csv_with_wrong_cells_counts_and_nulls(engine_call: EngineCall) -> None:
    content = b'id,v\n1,a\nx,b\n2,"two\nlines"\n3\n,c\n"y","much\r\ntext"\nid,v\n4,d'
    result, ids, rejected = taken(Dataset(engine_call), CSV, content)
    assert ids == [1, 2, 4]
    assert shown(rejected) == [
        ("file0", 6, None, "3"),
        ("file0", 10, None, "id,v"),
        ("file0", 3, "id", "x,b"),
        ("file0", 7, "id", ",c"),
        ("file0", 8, "id", '"y","much\r\ntext"'),
    ]
    assert result.changes.added == 3
    assert all(row["reason"] for row in rejected)


def test_lines_of_ndjson_that_are_no_rows(engine_call: EngineCall) -> None:
    content = b'{"id": 1}\nnot json\n\n[1]\n{"id": "x", "v": "a"}\n{"v": "b"}\n{"id": 2, "v": "c"}\nnull'
    _, ids, rejected = taken(Dataset(engine_call), NDJSON, content)
    assert ids == [1, 2]
    assert shown(rejected) == [
        ("file0", 2, None, "not json"),
        ("file0", 4, None, "[1]"),
        ("file0", 5, "id", '{"id": "x", "v": "a"}'),
        ("file0", 6, "id", '{"v": "b"}'),
        ("file0", 8, None, "null"),
    ]


def test_the_last_row_without_a_line_end_and_another_encoding(engine_call: EngineCall) -> None:
    read = replace(CSV, encoding="windows-1252")
    _, ids, rejected = taken(Dataset(engine_call), read, "id,v\n1,é\nü,ö".encode("cp1252"))
    assert (ids, rejected[0]["raw"]) == ([1], "ü,ö")


def test_places_of_what_is_wrong_afterwards_are_those_of_the_file(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call, merge=MergeStrategyLedger(primary_key=("id",)))
    with pytest.raises(InvalidData) as refused:
        taken(dataset, CSV, b"id,v\nx,a\n1,b\n\n1,c\n")
    assert refused.value.place.line == 5


def test_fields_that_are_left_out_are_so_in_the_second_look_too(engine_call: EngineCall) -> None:
    for read, content in (
        (CSV, b"id,w,v\n1,z,a\nx,,b\n"),
        (NDJSON, b'{"id": 1, "w": 1}\n{"id": "x"}\n'),
    ):
        dataset = Dataset(engine_call, rounds=len(content))
        again = replace(engine_call, scratch=engine_call.scratch / f"of-{len(content)}")
        again.scratch.mkdir()
        _, ids, rejected = taken(replace(dataset, call=again), read, content, contract=FieldContract.DISCARD)
        assert (ids, len(rejected)) == ([1], 1)


def test_a_file_without_wrong_rows_is_read_once(engine_call: EngineCall) -> None:
    result, ids, _ = taken(Dataset(engine_call), CSV, b"id,v\n1,a\n")
    assert (result.rejected, ids) == (0, [1])
    assert not (engine_call.exchange.root / "rejected").exists()


@pytest.mark.parametrize("content", [b"nid,v\n1,a\n", b'id,v\n1,"a\n', b"\xff\xfe\n"])
def test_a_file_that_is_wrong_as_a_whole_is_refused(engine_call: EngineCall, content: bytes) -> None:
    with pytest.raises(InvalidData):
        taken(Dataset(engine_call), CSV, content)


def test_more_than_the_limit_are_refused(engine_call: EngineCall) -> None:
    with pytest.raises(LimitExceeded) as refused:
        taken(Dataset(engine_call), NDJSON, b"a\nb\nc\n", rows_max=2)
    assert refused.value.limit == "rejected_rows_max"


@pytest.mark.parametrize(
    ("read", "content"),
    [(CSV, b"id,w,v\n1,x,a\n2,,b\n"), (NDJSON, b'{"id": 1, "w": "x"}\n{"id": 2, "w": null}\n')],
)
def test_fields_without_a_column_are_left_out_or_refused(
    engine_call: EngineCall, read: ReadStep, content: bytes
) -> None:
    result, ids, _ = taken(Dataset(engine_call), read, content, contract=FieldContract.DISCARD)
    assert ids == [1, 2]
    assert [(one.name, one.rows) for one in result.undeclared] == [("w", 1)]
    frozen = replace(Dataset(engine_call, rounds=7).request(read, content), contract=FieldContract.FREEZE)
    again = replace(engine_call, scratch=engine_call.scratch / "frozen")
    again.scratch.mkdir()
    with pytest.raises(InvalidData, match="`w`") as refused:
        ingest(frozen, again)
    assert "set-source" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("read", "content", "types"),
    [
        (CSV, b"id,w,x,v\n1,5,,a\n2,6,,b\n", {"w": "String"}),
        (replace(CSV, infer_schema=True), b"id,w,x,v\n1,5,1.5,a\n2,6,2,b\n", {"w": "Int64", "x": "Float64"}),
        (NDJSON, b'{"id": 1, "w": "x"}\n{"id": 2, "w": null, "y": [1]}\n', {"w": "String", "y": "List"}),
    ],
)
def test_fields_that_are_to_become_columns_have_types(
    engine_call: EngineCall, read: ReadStep, content: bytes, types: dict[str, str]
) -> None:
    result, ids, _ = taken(Dataset(engine_call), read, content, contract=FieldContract.EVOLVE)
    assert (ids, result.found is not None) == ([1, 2], True)
    found = {field.name: field.type for field in result.found.fields} if result.found else {}
    assert {name: type(kind.inner).__name__ for name, kind in found.items() if isinstance(kind, DataTypeOption)} == {
        name: f"DataType{kind}" for name, kind in types.items()
    }


def test_a_field_of_several_kinds_becomes_no_column(engine_call: EngineCall) -> None:
    content = b'{"id": 1, "w": "x"}\n{"id": 2, "w": 5}\n'
    request = replace(Dataset(engine_call).request(NDJSON, content), contract=FieldContract.EVOLVE)
    with pytest.raises(InvalidData, match="`w`"):
        ingest(request, engine_call)
