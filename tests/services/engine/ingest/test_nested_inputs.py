"""Inputs of types without a slice form, made columns by a preprocess query.

Examples: orders with lines, records of changes, maps.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import IncompatibleSchema, InvalidData, InvalidQuery
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.source import (
    MergeStrategyChangelogStream,
    MergeStrategyUpsertStream,
    ReadStepJson,
    ReadStepNdJson,
)
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import Dataset
from tests.services.engine.ingest.test_ingest import sql

pytestmark = pytest.mark.spark

SYSTEM = ("offset", "system_time", "event_time")


def declared(*fields: tuple[str, pa.DataType]) -> ReadStepNdJson:
    return ReadStepNdJson(schema=arrow_to_data_schema(pa.schema(list(fields))))


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def ingested(dataset: Dataset, step: ReadStepNdJson, query: str, *rows: object) -> list[dict[str, Any]]:
    found = dataset.ingest(step, lines(*rows), preprocess=sql(query))
    return [{name: value for name, value in row.items() if name not in SYSTEM} for row in found]


LINES = pa.list_(pa.struct([("sku", pa.string()), ("n", pa.int64())]))
EXPLODED = "SELECT id, l.sku AS sku, l.n AS n FROM input LATERAL VIEW explode(lines) t AS l"


def test_orders_become_rows_of_their_lines(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    step = declared(("id", pa.int64()), ("lines", LINES))
    orders = ({"id": 1, "lines": [{"sku": "x", "n": 1}, {"sku": "y"}]}, {"id": 2, "lines": []}, {"id": 3})
    assert ingested(dataset, step, EXPLODED, *orders) == [
        {"op": 0, "id": 1, "sku": "x", "n": 1},
        {"op": 0, "id": 1, "sku": "y", "n": None},
    ]
    assert ingested(dataset, step, EXPLODED, {"id": 4, "lines": []}) == [], "lists without items have their type"
    with pytest.raises(InvalidData, match="'one' is not") as refused:
        ingested(dataset, step, EXPLODED, {"id": 5, "lines": [{"sku": "x", "n": 1}, {"sku": "y", "n": "one"}]})
    assert (refused.value.place.line, refused.value.place.field) == (1, "lines[1].n")


def test_the_result_of_the_query_is_held_to_what_slices_store(engine_call: EngineCall) -> None:
    step = declared(("id", pa.int64()), ("lines", LINES), ("attributes", pa.map_(pa.string(), pa.string())))
    row = {"id": 1, "lines": [{"sku": "x", "n": 1}], "attributes": {"colour": "red"}}
    with pytest.raises(InvalidQuery, match="the column lines") as refused:
        ingested(Dataset(engine_call), step, "SELECT id, lines FROM input", row)
    assert refused.value.place.rule == "column-type"
    with pytest.raises(IncompatibleSchema, match="Column `attributes` is a Map") as unstored:
        ingested(Dataset(engine_call, rounds=5), step, "SELECT id, attributes FROM input", row)
    assert "map_keys" in (unstored.value.hint or "")


def test_maps_of_json_have_keys_that_nobody_declared(engine_call: EngineCall) -> None:
    step = declared(("id", pa.int64()), ("tags", pa.map_(pa.string(), pa.float64())))
    query = "SELECT id, map_keys(tags) AS names, map_values(tags) AS sizes, tags['a'] AS a FROM input"
    rows = ingested(
        Dataset(engine_call), step, query, {"id": 1, "tags": {"b": 2, "a": None}}, {"id": 2, "tags": {}}, {"id": 3}
    )
    assert [(row["names"], row["sizes"], row["a"]) for row in rows] == [
        (["b", "a"], [2.0, None], None),
        ([], [], None),
        (None, None, None),
    ]
    with pytest.raises(InvalidData) as refused:
        ingested(Dataset(engine_call, rounds=5), step, query, {"id": 1, "tags": {"odd key": "x"}})
    assert refused.value.place.field == "tags['odd key']"
    numbered = ReadStepJson(schema=arrow_to_data_schema(pa.schema([("m", pa.map_(pa.int64(), pa.string()))])))
    with pytest.raises(IncompatibleSchema, match="has no form in JSON"):
        Dataset(engine_call, rounds=6).ingest(numbered, b"[]", preprocess=sql("SELECT 1 AS x FROM input"))


ROW = pa.struct([("id", pa.int64()), ("name", pa.string())])
DEBEZIUM = declared(("before", ROW), ("after", ROW), ("op", pa.string()), ("ts_ms", pa.int64()))
UPSERTS = (
    "SELECT CASE op WHEN 'd' THEN 1 ELSE 0 END AS op, timestamp_millis(ts_ms) AS event_time,"
    " coalesce(after.id, before.id) AS id, if(op = 'd', before.name, after.name) AS name FROM input"
)


def change(op: str, before: tuple[int, str | None] | None, after: tuple[int, str | None] | None) -> dict[str, Any]:
    old, new = (None if row is None else {"id": row[0], "name": row[1]} for row in (before, after))
    return {"before": old, "after": new, "source": {"lsn": 1}, "op": op, "ts_ms": 1_700_000_000_000}


def test_records_of_one_kind_alone_are_taken(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call, merge=MergeStrategyUpsertStream(primary_key=("id",)))
    inserted = ingested(dataset, DEBEZIUM, UPSERTS, change("c", None, (1, "bolt")), change("r", None, (2, None)))
    assert [(row["op"], row["id"], row["name"]) for row in inserted] == [(0, 1, "bolt"), (0, 2, None)]
    updated = ingested(dataset, DEBEZIUM, UPSERTS, change("u", (2, None), (2, "nut")))
    assert [(row["op"], row["name"]) for row in updated] == [(2, None), (3, "nut")]
    deleted = ingested(dataset, DEBEZIUM, UPSERTS, change("d", (1, "bolt"), None))
    assert [(row["op"], row["id"], row["name"]) for row in deleted] == [(1, 1, "bolt")]


def test_both_halves_of_a_change_are_a_changelog(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call, merge=MergeStrategyChangelogStream(primary_key=("id",)))
    halves = (
        "SELECT CAST(e.k AS INT) AS op, if(e.k = 1, NULL, timestamp_millis(ts_ms)) AS event_time, e.r.id AS id,"
        " e.r.name AS name FROM input LATERAL VIEW explode(CASE op"
        " WHEN 'u' THEN array(named_struct('k', 1, 'r', before), named_struct('k', 0, 'r', after))"
        " WHEN 'd' THEN array(named_struct('k', 1, 'r', before))"
        " ELSE array(named_struct('k', 0, 'r', after)) END) t AS e"
    )
    ingested(dataset, DEBEZIUM, halves, change("c", None, (1, "A")))
    moved = ingested(dataset, DEBEZIUM, halves, change("u", (1, "A"), (2, "A")))
    assert sorted((row["op"], row["id"]) for row in moved) == [(0, 2), (1, 1)]
