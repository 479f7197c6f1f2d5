"""An answer on provenance as OpenLineage run events, one for each block.

Owns the mapping: a block is a run of the job that is its dataset, its hash the version of the dataset; cells give the lineage of columns,
and a facet of our own gives that of rows. Source: OpenLineage 2-0-2; facets ColumnLineageDatasetFacet, DatasetVersionDatasetFacet,
SQLJobFacet.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

PRODUCER = "https://odfabric.dev/"
SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = "https://openlineage.io/spec/facets"
_COLUMN_LINEAGE = "1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet"
_DIRECT = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")
"""Words for a value that is made of another; the others say what decided on it."""
_TRANSFORMATIONS = {
    "copied": {"type": "DIRECT", "subtype": "IDENTITY"},
    "computed": {"type": "DIRECT", "subtype": "TRANSFORMATION"},
    "compared": {"type": "INDIRECT", "subtype": "SORT"},
    "inspected": {"type": "INDIRECT", "subtype": "FILTER"},
}
_BLOCKS = uuid.UUID("9d3e5c1e-7a51-5f0d-8f2e-6f6466616272")
"""Namespace of the ids of runs."""


def openlineage_events(
    answer: Mapping[str, Any], *, namespace: str, lineage: Mapping[str, Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Run events of an answer, in the order of its blocks; `namespace` names the node.

    `lineage` by dataset is that of its columns by a query (`usecases.provenance.column_lineage`). It is of all columns, and takes the place
    of that of the cells asked for where a block was made by this query.
    """
    by_block: dict[str, list[Mapping[str, Any]]] = {}
    for one in answer["records"]:
        if one.get("why") is not None:
            by_block.setdefault(one["block"]["hash"], []).append(one)
    return [_event(answer, records, namespace, lineage or {}) for records in by_block.values()]


def run_id(block: str) -> str:
    """The id of the run that a block is."""
    return str(uuid.uuid5(_BLOCKS, block))


def _event(
    answer: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    namespace: str,
    lineage: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    block, why = records[0]["block"], records[0]["why"]
    name = _name(answer, records[0]["dataset"])
    static = lineage.get(records[0]["dataset"])
    inputs = {rows["dataset"]: rows for one in records for rows in (*one["why"]["witnesses"], *one["why"]["trigger"])}
    facets = {
        "version": {
            **_facet("1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet"),
            "datasetVersion": block["hash"],
        },
        "columnLineage": _of_query(static["columns"], namespace)
        if static is not None and static["columns"] and static["queries"] == list(why["queries"])
        else _column_lineage(answer, records, namespace),
        "odf_rowLineage": {**_facet("1-0-0/CustomFacet.json"), "rows": [_row_lineage(answer, one) for one in records]},
    }
    return {
        "eventType": "COMPLETE",
        "eventTime": block["systemTime"],
        "producer": PRODUCER,
        "schemaURL": SCHEMA,
        "run": {"runId": run_id(block["hash"]), "facets": {}},
        "job": {
            "namespace": _namespace(answer, records[0]["dataset"], namespace),
            "name": name,
            "facets": {
                "sql": {**_facet("1-0-1/SQLJobFacet.json#/$defs/SQLJobFacet"), "query": ";\n".join(why["queries"])}
            },
        },
        "inputs": [
            {"namespace": _namespace(answer, dataset, namespace), "name": _name(answer, dataset), "facets": {}}
            for dataset in inputs
        ],
        "outputs": [
            {"namespace": _namespace(answer, records[0]["dataset"], namespace), "name": name, "facets": facets}
        ],
    }


def _of_query(columns: Sequence[Mapping[str, Any]], namespace: str) -> dict[str, Any]:
    """The facet by a query.

    What decides that rows are there is behind the whole dataset.
    """
    fields: dict[str, list[dict[str, Any]]] = {}
    whole: dict[tuple[str, str, str], dict[str, Any]] = {}
    for one in columns:
        direct = one["role"] in ("copied", "computed")
        word = one["transformation"]
        if direct and word not in _DIRECT:
            word = "TRANSFORMATION"
        kind = {"type": "DIRECT" if direct else "INDIRECT", "subtype": word}
        behind = {"namespace": namespace, "name": one["name"], "field": one["column"], "transformations": [kind]}
        if one["role"] == "inspected":
            whole[one["name"], one["column"], word] = behind
        else:
            fields.setdefault(one["of"], []).append(behind)
    return {
        **_facet(_COLUMN_LINEAGE),
        "fields": {column: {"inputFields": behind} for column, behind in fields.items()},
        "dataset": list(whole.values()),
    }


def _column_lineage(answer: Mapping[str, Any], records: Sequence[Mapping[str, Any]], namespace: str) -> dict[str, Any]:
    fields: dict[str, dict[tuple[str, str], list[dict[str, str]]]] = {}
    whole: dict[tuple[str, str], list[dict[str, str]]] = {}
    for one in records:
        by_input = {rows["input"]: rows["dataset"] for rows in (*one["why"]["witnesses"], *one["why"]["trigger"])}
        for cell in one["why"]["cells"]:
            dataset = by_input.get(cell["input"])
            if dataset is None:
                continue
            behind = whole if cell["of"] is None else fields.setdefault(cell["of"], {})
            found = behind.setdefault((dataset, cell["column"]), [])
            if _TRANSFORMATIONS[cell["role"]] not in found:
                found.append(_TRANSFORMATIONS[cell["role"]])

    def listed(behind: Mapping[tuple[str, str], list[dict[str, str]]]) -> list[dict[str, Any]]:
        return [
            {
                "namespace": _namespace(answer, dataset, namespace),
                "name": _name(answer, dataset),
                "field": column,
                "transformations": found,
            }
            for (dataset, column), found in behind.items()
        ]

    return {
        **_facet(_COLUMN_LINEAGE),
        "fields": {column: {"inputFields": listed(behind)} for column, behind in fields.items()},
        "dataset": listed(whole),
    }


def _row_lineage(answer: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "offset": one["offset"],
        "operation": one["op"],
        "verified": one["why"]["verified"],
        **({"claimedBy": list(one["claimedBy"])} if "claimedBy" in one else {}),
        "witnesses": [_rows(answer, rows) for rows in one["why"]["witnesses"]],
        "trigger": [_rows(answer, rows) for rows in one["why"]["trigger"]],
    }


def _rows(answer: Mapping[str, Any], rows: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": _name(answer, rows["dataset"]), "count": rows["count"], "ranges": rows["ranges"]}


def _facet(path: str) -> dict[str, str]:
    return {"_producer": PRODUCER, "_schemaURL": f"{_FACETS}/{path}"}


def _name(answer: Mapping[str, Any], dataset: str) -> str:
    known = answer["datasets"].get(dataset)
    return str(known["alias"]) if known else dataset


def _namespace(answer: Mapping[str, Any], dataset: str, namespace: str) -> str:
    """The node that has a dataset: this one, or the one that claims what is said."""
    claimants = answer["datasets"].get(dataset, {}).get("claimedBy")
    return str(claimants[-1]) if claimants else namespace
