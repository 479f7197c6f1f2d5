"""Merge cases: every file of ODF_MERGE_CASES, every case, every level.

Default: the copy beside the tests, and our own.

A case of the copy is held to its own expectation, or to ours where the reference has a defect (`ours.json`); a case that is not
in the copy is held to the rules by `merge_oracle`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from odfabric.errors import InvalidData, OdfError, Place
from odfabric.formats.manifests.manifest_events import merge_strategy_from_value
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.ingest.merge.batch_keys import BatchRows, refused_key
from odfabric_engine_spark.ingest.merge.changelog_rows import refused_change
from odfabric_engine_spark.ingest.merge.strategies import merge_rows, project
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.failures import spark_text
from odfabric_engine_spark.spark.frames.read_rows import ROW, stopped_by
from odfabric_engine_spark.spark.frames.spark_types import spark_schema
from tests.services.engine.ingest import writer_oracle
from tests.services.engine.ingest.ingesting import Dataset
from tests.services.engine.ingest.merge import merge_oracle

pytestmark = pytest.mark.spark

CASES = Path(__file__).resolve().parents[4] / "cases"
OURS = json.loads((CASES / "ours.json").read_text())["cases"]
COPY = {case["id"]: case for case in json.loads((CASES / "merge-cases.json").read_text())["cases"]}
OWN = [str(CASES / name) for name in ("merge-cases.json", "stream-cases.json")]
FILES = os.environ["ODF_MERGE_CASES"].split(os.pathsep) if "ODF_MERGE_CASES" in os.environ else OWN

Case = dict[str, Any]
Row = dict[str, Any]

ARROW_TYPES = {
    "Bool": pa.bool_(),
    "Boolean": pa.bool_(),
    "Int8": pa.int8(),
    "Int16": pa.int16(),
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Utf8": pa.string(),
    "String": pa.string(),
}


def of_level(level: str) -> Any:
    found = []
    for file in FILES:
        for number, case in enumerate(json.loads(Path(file).read_text())["cases"]):
            assert case["level"] in ("merge", "project", "writer")
            if case["level"] == level:
                found.append(pytest.param(case, id=str(case.get("id", number))))
    return pytest.mark.parametrize("case", found)


def test_our_expectations_are_of_cases_that_exist() -> None:
    assert set(OURS) <= set(COPY)


def is_known(case: Case) -> bool:
    return COPY.get(case.get("id")) == case


@of_level("merge")
def test_merge(case: Case, engine_call: EngineCall) -> None:
    expectation = (OURS.get(case["id"]) or recorded(case)) if is_known(case) else by_oracle(case)
    outcome = merged_by_engine(case, engine_call)
    if "error" in expectation:
        assert isinstance(outcome, InvalidData), outcome
        assert expectation.get("message", "") in str(outcome)
        assert expectation.get("rule") in (None, outcome.place.rule)
    elif case["ordered"]:
        assert outcome == expectation["expected"]
    else:
        assert sorted_rows(outcome) == sorted_rows(expectation["expected"])


@of_level("merge")
def test_the_oracle_agrees_with_what_is_written_down(case: Case) -> None:
    judged = by_oracle(case)
    written = (OURS.get(case["id"]) or recorded(case)) if is_known(case) else judged
    assert ("error" in written) == ("error" in judged)
    assert sorted_rows(written.get("expected", [])) == sorted_rows(judged.get("expected", []))


@of_level("project")
def test_project(case: Case, engine_call: EngineCall) -> None:
    keys = case["strategy"]["primaryKey"]
    system = [pa.field("offset", pa.int64()), pa.field("op", pa.int32())]
    rows = [{**row, "offset": offset} for offset, row in enumerate(case["prev"])]
    changelog = frame(engine_call, rows, pa.schema([*system, *schema_of(case)]))
    state = project(changelog, keys, vocabulary=vocabulary_of(case)).toArrow().to_pylist()
    judged = merge_oracle.project(case["prev"], keys)
    assert sorted_rows(state) == sorted_rows(judged)
    if is_known(case):
        assert sorted_rows(judged) == sorted_rows(case["expected"])


@of_level("writer")
def test_writer(case: Case, engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call, vocabulary=vocabulary_of(case), merge=merge_strategy_from_value(case["strategy"]))
    judge = writer_oracle.WriterOracle(case)
    for number, given in enumerate(case["rounds"]):
        if number:
            judge.between_rounds(dataset)
        before = dataset.watermark
        expected = judge.round(given)
        if isinstance(expected, writer_oracle.Refused):
            with pytest.raises(expected.error) as caught:
                dataset.commit(judge.request(dataset, given))
            assert expected.message in str(caught.value)
            assert dataset.watermark == before
            continue
        rows = dataset.commit(judge.request(dataset, given)).to_pylist()
        assert [writer_oracle.comparable(row) for row in rows] == [writer_oracle.comparable(row) for row in expected]
        assert dataset.watermark == judge.watermark


@of_level("writer")
def test_the_writer_oracle_agrees_with_what_is_written_down(case: Case) -> None:
    judge = writer_oracle.WriterOracle(case)
    for given in case["rounds"]:
        expected = judge.round(given)
        if not is_known(case):
            continue
        if "expectError" in given:
            assert isinstance(expected, writer_oracle.Refused)
        elif "expectedRows" in given:
            assert isinstance(expected, list)
            assert [writer_oracle.comparable(row) for row in expected] == [
                writer_oracle.comparable(row) for row in given["expectedRows"]
            ]
        if "expectedWatermark" in given:
            assert judge.watermark == writer_oracle.instant(given["expectedWatermark"])


def recorded(case: Case) -> Case:
    return {"expected": case["expected"]}


def by_oracle(case: Case) -> Case:
    try:
        rows = merge_oracle.merge(
            case["strategy"], list(columns_of(case)), case["input"], case["prev"], case["vocab"]["eventTime"]
        )
    except merge_oracle.Refusal as refusal:
        words = {
            "null key": "null",
            "duplicate key": "same primary key",
            "no kind of change": "kind of change is none",
            "out of turn": "cannot have",
            "half a correction": "not followed",
        }
        return {"error": "InvalidData", "message": words.get(refusal.rule, "")}
    return {"expected": rows}


def merged_by_engine(case: Case, call: EngineCall) -> Any:
    """Rows in order, or the error."""
    vocabulary, schema = vocabulary_of(case), schema_of(case)
    op = vocabulary.operation_type
    if vocabulary.event_time not in schema.names:
        schema = schema.append(pa.field(vocabulary.event_time, pa.timestamp("ms", "UTC")))
    prev = None
    if case["prev"] is not None:
        system = [pa.field(vocabulary.offset, pa.int64()), pa.field(op, pa.int32())]
        rows = [{**row, vocabulary.offset: offset} for offset, row in enumerate(case["prev"])]
        prev = frame(call, rows, pa.schema([*system, *(field for field in schema if field.name != op)]))
    numbered = [{**row, ROW: number} for number, row in enumerate(case["input"])]
    new = frame(call, numbered, schema.append(pa.field(ROW, pa.int64())))
    strategy = merge_strategy_from_value(case["strategy"])
    try:
        merged = merge_rows(strategy, new, prev, schema=schema, vocabulary=vocabulary)
        table = merged.frame.coalesce(1).sortWithinPartitions(*merged.order, ROW).toArrow()
    except OdfError as error:
        return error
    except (PySparkException, Py4JError) as error:
        stopped = stopped_by(spark_text(error))
        if stopped is None:
            raise
        batch = BatchRows(new, strategy.primary_key, lambda row: Place(row=row + 1))
        return refused_key(*stopped, batch) or refused_change(*stopped, batch)
    return [{name: row[name] for name in dict.fromkeys((op, *case["schema"]))} for row in table.to_pylist()]


def frame(call: EngineCall, rows: list[Row], schema: pa.Schema) -> DataFrame:
    table = pa.Table.from_pylist(rows, schema=schema)
    return call.session.createDataFrame(table).to(spark_schema(schema))


def schema_of(case: Case) -> pa.Schema:
    fields = []
    for name, text in columns_of(case).items():
        kind = ARROW_TYPES[text.split()[0]]
        fields.append(pa.field(name, kind, nullable="not null" not in text))
    return pa.schema(fields)


def columns_of(case: Case) -> dict[str, str]:
    """Columns of the input.

    Kinds of change are recorded in rows even where the schema does not name them.
    """
    op, known = case["vocab"]["op"], case["schema"]
    carried = any(op in row for row in case.get("input", ())) and case["strategy"]["kind"] == "ChangelogStream"
    return {op: "Int32", **known} if carried and op not in known else known


def vocabulary_of(case: Case) -> DatasetVocabulary:
    vocab = case["vocab"]
    return DatasetVocabulary(vocab["offset"], vocab["op"], vocab["systemTime"], vocab["eventTime"])


def sorted_rows(rows: Any) -> list[list[tuple[str, Any]]]:
    assert isinstance(rows, list), rows
    return sorted((sorted(row.items()) for row in rows), key=repr)
