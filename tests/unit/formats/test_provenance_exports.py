"""Answers on provenance as PROV-JSON and as OpenLineage events."""

from __future__ import annotations

import io
import json
from typing import Any

from prov.model import ProvDocument

from odfabric.formats.provenance.openlineage import openlineage_events, run_id
from odfabric.formats.provenance.prov_json import prov_document

REPORT, SALES, SECRET = "did:odf:fed0101", "did:odf:fed0102", "did:odf:fed0103"
BLOCK, ROOT = "f1620aa", "f1620bb"


def rows(number: int, dataset: str, count: int, *ranges: list[int]) -> dict[str, Any]:
    value = {"input": number, "dataset": dataset, "alias": "s", "count": count, "ranges": list(ranges), "more": False}
    return {**value, "leftOut": 0}


def cell(offset: int, column: str, of: str | None, role: str) -> dict[str, Any]:
    return {"input": 0, "offset": offset, "column": column, "of": of, "role": role}


def record(dataset: str, offset: int, op: str, block: str, **members: Any) -> dict[str, Any]:
    where = {"hash": block, "sequence": 3, "systemTime": "2026-01-01T00:00:00Z"}
    return {"dataset": dataset, "offset": offset, "op": op, "depth": 0, "block": where, **members}


WHY = {
    "found": True,
    "verified": True,
    "queries": ["SELECT region, sum(amount) AS total FROM s GROUP BY region"],
    "witnesses": [rows(0, SALES, 5, [0, 2], [4, 7]), rows(1, SECRET, 2)],
    "trigger": [rows(0, SALES, 1, [6, 7])],
    "cells": [
        cell(0, "region", "region", "copied"),
        cell(0, "amount", "total", "computed"),
        cell(1, "amount", "total", "computed"),
        cell(0, "region", None, "inspected"),
    ],
    "derivedBy": {"name": "odfabric", "version": "1", "digest": "ab"},
}
ANSWER: dict[str, Any] = {
    "records": [
        record(REPORT, 17, "correct_to", BLOCK, values={"region": "north", "total": 42}, why=WHY, corrects=16),
        record(REPORT, 16, "correct_from", BLOCK, corrects=3),
        record(SALES, 0, "append", ROOT, end={"reason": "root", "message": ""}),
        record(SALES, 1, "append", ROOT, end={"reason": "root", "message": ""}),
    ],
    "datasets": {REPORT: {"alias": "ann/report"}, SALES: {"alias": "ann/sales"}},
}


def test_prov_json_is_read_by_the_library_of_that_name() -> None:
    document = prov_document(ANSWER)
    read = ProvDocument.deserialize(io.StringIO(json.dumps(document)), format="json")
    again = json.loads(read.serialize(format="json"))
    for part in ("entity", "activity", "agent", "wasGeneratedBy", "wasDerivedFrom", "wasInvalidatedBy", "used"):
        assert len(again[part]) == len(document[part]), part


def test_prov_json_says_what_was_made_of_what() -> None:
    document = prov_document(ANSWER)
    derived = [
        (each["prov:generatedEntity"], each["prov:usedEntity"], each.get("odfp:role"))
        for each in document["wasDerivedFrom"].values()
    ]
    assert derived[0] == ("odf:fed0101/17", "odf:fed0101/16", None)
    assert ("odf:fed0101/17", "odf:fed0102/0", "witness") in derived
    # Three of five records are not followed, nor are those of the hidden input: collections stand for them.
    assert {used for _, used, _ in derived if "rows-" in used} == {
        "odf:fed0102/rows-0..1_4..6-5",
        "odf:fed0103/rows-hidden-2",
    }
    (invalidated,) = document["wasInvalidatedBy"].values()
    assert invalidated["prov:entity"] == "odf:fed0101/3"
    (associated,) = document["wasAssociatedWith"].values()
    assert document["entity"][associated["prov:plan"]]["prov:value"] == WHY["queries"][0]  # type: ignore[index]


def test_openlineage_has_a_run_for_each_block_with_columns_and_rows() -> None:
    (event,) = openlineage_events(ANSWER, namespace="https://node.example")
    assert (event["eventType"], event["run"]["runId"]) == ("COMPLETE", run_id(BLOCK))
    assert (event["job"]["namespace"], event["job"]["name"]) == ("https://node.example", "ann/report")
    assert [each["name"] for each in event["inputs"]] == ["ann/sales", SECRET]
    facets = event["outputs"][0]["facets"]
    assert facets["version"]["datasetVersion"] == BLOCK
    (total,) = facets["columnLineage"]["fields"]["total"]["inputFields"]
    assert (total["field"], total["transformations"]) == ("amount", [{"type": "DIRECT", "subtype": "TRANSFORMATION"}])
    (whole,) = facets["columnLineage"]["dataset"]
    assert (whole["field"], whole["transformations"][0]["type"]) == ("region", "INDIRECT")
    assert facets["odf_rowLineage"]["rows"][0]["witnesses"][0]["ranges"] == [[0, 2], [4, 7]]
    for facet in (*facets.values(), event["job"]["facets"]["sql"]):
        assert facet["_producer"].startswith("https://")
        assert facet["_schemaURL"].startswith("https://openlineage.io/spec/facets/")


def behind(of: str, name: str, column: str, role: str, transformation: str) -> dict[str, Any]:
    return {"of": of, "dataset": SALES, "name": name, "column": column, "role": role, "transformation": transformation}


LINEAGE = {
    REPORT: {
        "queries": WHY["queries"],
        "columns": [
            behind("region", "ann/sales", "region", "copied", "IDENTITY"),
            behind("total", "ann/sales", "amount", "computed", "AGGREGATION"),
            behind("total", "ann/sales", "at", "compared", "SORT"),
            behind("total", "ann/sales", "region", "inspected", "GROUP_BY"),
            behind("region", "ann/sales", "region", "inspected", "GROUP_BY"),
        ],
    }
}


def test_the_lineage_of_the_query_is_that_of_the_columns() -> None:
    (event,) = openlineage_events(ANSWER, namespace="http://n", lineage=LINEAGE)
    facet = event["outputs"][0]["facets"]["columnLineage"]
    total = [(one["field"], one["transformations"]) for one in facet["fields"]["total"]["inputFields"]]
    assert total == [
        ("amount", [{"type": "DIRECT", "subtype": "AGGREGATION"}]),
        ("at", [{"type": "INDIRECT", "subtype": "SORT"}]),
    ]
    assert [(one["field"], one["transformations"][0]["subtype"]) for one in facet["dataset"]] == [
        ("region", "GROUP_BY")
    ]
    document = prov_document(ANSWER, lineage=LINEAGE)
    plan = document["entity"][f"odfp:query-{BLOCK}"]
    assert "total from ann/sales amount (computed, AGGREGATION)" in plan["odfp:columnLineage"]
    ProvDocument.deserialize(io.StringIO(json.dumps(document)), format="json")


def test_the_lineage_of_another_query_is_not() -> None:
    other = {REPORT: {**LINEAGE[REPORT], "queries": ["SELECT 1"]}}
    assert openlineage_events(ANSWER, namespace="http://n", lineage=other) == openlineage_events(
        ANSWER, namespace="http://n"
    )
    assert prov_document(ANSWER, lineage=other) == prov_document(ANSWER)


def test_what_another_node_claims_is_marked_and_named_there() -> None:
    claims: dict[str, Any] = json.loads(json.dumps(ANSWER))
    claims["records"][0]["claimedBy"] = ["http://b.test"]
    claims["datasets"][SALES]["claimedBy"] = ["http://b.test"]
    (event,) = openlineage_events(claims, namespace="http://here")
    assert event["outputs"][0]["namespace"] == "http://here"
    assert event["inputs"][0]["namespace"] == "http://b.test"
    facets = event["outputs"][0]["facets"]
    assert facets["odf_rowLineage"]["rows"][0]["claimedBy"] == ["http://b.test"]
    fields = facets["columnLineage"]["fields"]["region"]["inputFields"]
    assert fields[0]["namespace"] == "http://b.test"
    entities = prov_document(claims)["entity"]
    assert [one["odfp:claimedBy"] for one in entities.values() if "odfp:claimedBy" in one] == [["http://b.test"]]
