"""SQL that pages run for their visitor: as the visitor, within their slots for queries."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from odfabric.usecases.query_data import QueryData
from odfabric.usecases.query_document import QueryForm
from odfabric_api.auth import Subject, node_of


def ask(request: Request, caller: Subject, query: str, *, skip: int = 0, limit: int) -> dict[str, Any]:
    """`{names, rows, inputs, seconds, limit}`. Raises InvalidQuery, LimitExceeded, Unavailable."""
    clock = node_of(request).ports.clock
    started = clock.now()
    form = QueryForm(data_format="JsonAoA", include=("Input", "Schema"), schema_format="OdfJson")
    asked = QueryData(sql=query, datasets=None, skip=skip, limit=limit)
    document: dict[str, Any] = node_of(request).query_document(asked, form, by=caller)
    output = document["output"]
    return {
        "names": [field["name"] for field in output["schema"]["fields"]],
        "rows": output["data"],
        "inputs": document["input"]["datasets"],
        "seconds": (clock.now().epoch_ns - started.epoch_ns) / 1e9,
        "limit": limit,
    }
