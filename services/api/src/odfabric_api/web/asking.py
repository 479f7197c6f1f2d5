"""SQL of pages: as the visitor, within their slots for queries."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from odfabric.domain.people.access import Action
from odfabric.errors import InvalidRequest
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.ports.engine import ProgressListener
from odfabric.usecases.queries.query_data import PinnedDataset, QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric_api.auth import Subject, node_of

DATASETS_COMPLETED = 100
COLUMNS_OF_MAX = 30
"""Of so many datasets the editor completes columns too."""


def pins_of(request: Request, caller: Subject, text: str) -> tuple[PinnedDataset, ...] | None:
    """`alias@hash alias@hash` as datasets that the visitor may read.

    None for an empty text. Raises InvalidRequest, NotFound.
    """
    found = []
    for pin in text.split():
        alias, _, block = pin.rpartition("@")
        account, _, name = alias.partition("/")
        if not name:
            raise InvalidRequest(f"{pin!r} is no dataset at a block", hint="write account/name@hash")
        entry = node_of(request).access.find(caller, Action.READ, account, name)
        found.append(PinnedDataset(id=entry.id, alias=alias, block_hash=parse_multihash(block)))
    return tuple(found) or None


def completed(request: Request, caller: Subject) -> dict[str, list[str]]:
    """Completions of the SQL editor.

    Names of the datasets that were changed last, and columns of the first of them.
    """
    browsing = node_of(request).browsing
    found = [each.entry for each in browsing.search(limit=DATASETS_COMPLETED, by=caller)]
    known = [browsing.column_names(entry, by=caller) for entry in found[:COLUMNS_OF_MAX]]
    unknown: list[list[str]] = [[]] * (len(found) - len(known))
    return {str(entry.alias): columns for entry, columns in zip(found, known + unknown, strict=True)}


def ask(
    request: Request,
    caller: Subject,
    query: str,
    *,
    skip: int = 0,
    limit: int,
    pins: tuple[PinnedDataset, ...] | None = None,
    listener: ProgressListener = lambda _: None,
) -> dict[str, Any]:
    """`{names, rows, inputs, seconds, limit}`.

    With `pins` only those datasets exist, up to their blocks.

    Raises InvalidQuery, NotFound, LimitExceeded, Unavailable.
    """
    clock = node_of(request).ports.clock
    started = clock.now()
    form = QueryForm(data_format="JsonAoA", include=("Input", "Schema"), schema_format="OdfJson")
    asked = QueryData(sql=query, datasets=pins, skip=skip, limit=limit)
    document: dict[str, Any] = node_of(request).rows.query_document(asked, form, listener, by=caller)
    output = document["output"]
    return {
        "pins": " ".join(f"{each['alias']}@{each['blockHash']}" for each in document["input"]["datasets"]),
        "names": [field["name"] for field in output["schema"]["fields"]],
        "rows": output["data"],
        "inputs": document["input"]["datasets"],
        "seconds": (clock.now().epoch_ns - started.epoch_ns) / 1e9,
        "limit": limit,
    }
