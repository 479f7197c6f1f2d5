"""Why this cell: what a record is made of, and what made the node write it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidQuery, InvalidRequest, LimitExceeded, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.metadata import DatasetKind
from odfabric.model.operation import OperationType
from odfabric.ports.engine import ProgressListener
from odfabric.usecases.provenance.why_request import WhyRequest
from odfabric_api.auth import Caller, ReadableDataset, Subject, node_of, querying
from odfabric_api.capacity import Capacity, while_client_waits
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.pages import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS_SHOWN = 50
"""Source rows of one input on a page."""
INT64_MAX = 2**63 - 1
_ROLES = ("copied", "computed", "compared", "inspected")
_OP_NUMBERS = {op.word: op.value for op in OperationType}
_Found = dict[str, Any]


@router.get("/{account}/{dataset}/-/why")
async def get_why(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    offset: Annotated[int, Query(ge=0, le=INT64_MAX)],
    column: Annotated[str, Query(max_length=300, description="The cell; default: the row")] = "",
    after: Annotated[str, Query(max_length=100, description="Further source rows")] = "",
    whole: Annotated[bool, Query(description="Read as many rows as it takes")] = False,
    wait: Annotated[bool, Query(description="Answer when the engine has answered, not before")] = False,
) -> Response:
    """One step: the cell, and the rows of the inputs behind it.

    What the engine does follows in a second request with `wait`. Records of a root are answered at once.
    """
    asked = {"offset": offset, "column": column, "after": after, "whole": whole}
    at_once = entry.kind is DatasetKind.ROOT
    capacity: Capacity = request.app.state.capacity

    def render(listener: ProgressListener = lambda _: None) -> Response:
        frame = dataset_frame(request, entry, caller)
        shown: _Found = {"answer": None, "record": None, "refusal": None, "waiting": not (wait or at_once)}
        if wait or at_once:
            try:
                shown |= _answered(request, entry, caller, asked, listener)
            except (InvalidQuery, InvalidRequest, LimitExceeded, NotFound) as error:
                shown["refusal"] = error
        return page(request, "why.html", {**frame, **asked, **shown, "op_numbers": _OP_NUMBERS, "tab": "rows"})

    if not wait:
        return await to_thread.run_sync(render)
    with querying(request, caller):
        async with while_client_waits(request) as listener:
            return await capacity.run_query(lambda: render(listener))


def _answered(
    request: Request, entry: CatalogEntry, caller: Subject, asked: Mapping[str, Any], listener: ProgressListener
) -> _Found:
    wish = WhyRequest(
        offsets=(asked["offset"],),
        columns=(asked["column"],) if asked["column"] else (),
        depth="1",
        limit=ROWS_SHOWN,
        after=asked["after"] or None,
        values=True,
        whole=asked["whole"],
    )
    answer = node_of(request).provenance.why(entry, wish, listener, by=caller)
    records: Sequence[_Found] = answer["records"]  # type: ignore[assignment]
    first = records[0]
    by_ref = {(one["dataset"], one["offset"]): one for one in records}
    why = first.get("why")
    return {
        "answer": answer,
        "record": first,
        "why": why,
        "made_of": list(_sources(answer, why, "witnesses", by_ref)) if why else [],
        "caused_by": list(_sources(answer, why, "trigger", by_ref)) if why else [],
        "inspected": sorted({cell["column"] for cell in why["cells"] if cell["role"] == "inspected"}) if why else [],
    }


def _sources(
    answer: Mapping[str, Any], why: Mapping[str, Any], member: str, by_ref: Mapping[tuple[str, int], _Found]
) -> Iterator[_Found]:
    """Of each input its records behind the cell, and cells by role."""
    for rows in why[member]:
        roles: dict[tuple[int, str], str] = {}
        for cell in why["cells"]:
            if cell["input"] == rows["input"]:
                key = (cell["offset"], cell["column"])
                if key not in roles or _ROLES.index(cell["role"]) < _ROLES.index(roles[key]):
                    roles[key] = cell["role"]
        known = answer["datasets"].get(rows["dataset"])
        records = [
            by_ref[rows["dataset"], offset]
            for begin, end in rows["ranges"]
            for offset in range(begin, min(end, begin + len(by_ref) + 1))
            if (rows["dataset"], offset) in by_ref
        ]
        behind = dict.fromkeys(column for (_, column), role in roles.items() if role != "inspected")
        yield {
            **rows,
            "name": known["alias"] if known else None,
            "records": records,
            "names": list(records[0]["values"]) if records else [],
            "roles": roles,
            "behind": [
                {
                    "column": column,
                    "role": min((role for (_, name), role in roles.items() if name == column), key=_ROLES.index),
                }
                for column in behind
            ],
        }
