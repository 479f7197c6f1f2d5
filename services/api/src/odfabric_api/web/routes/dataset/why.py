"""Why this cell: what a record is made of, and what made the node write it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidQuery, InvalidRequest, LimitExceeded, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import JobKind, JobStatus
from odfabric.model.metadata import DatasetKind
from odfabric.model.operation import OperationType
from odfabric.model.why_request import WhyRequest
from odfabric.ports.engine import ProgressListener
from odfabric_api.auth import Caller, ReadableDataset, Subject, node_of
from odfabric_api.bodies.answer_in_time import answered_in_time, kind_of_question
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.job_views import job_view, own_job
from odfabric_api.web.pages import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS_SHOWN = 50
"""Source rows of one input on a page."""
INT64_MAX = 2**63 - 1
RECORDS_NAMED = 5
"""Most records that a page names as those that give a value."""
_GIVING = ("copied", "computed")
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
    peers: Annotated[
        bool, Query(description="Ask the node that the dataset came from, where inputs are not here")
    ] = False,
    wait: Annotated[bool, Query(description="Answer when the engine has answered, not before")] = False,
    job: Annotated[str, Query(max_length=100, description="The job that answers it")] = "",
) -> Response:
    """One step: the cell, and the rows of the inputs behind it.

    What the engine does follows in a second request with `wait`, and if that takes long in further ones about its `job`. Records of a root
    are answered at once.
    """
    asked = {"offset": offset, "column": column, "after": after, "whole": whole, "peers": peers}
    wish = _wish(asked)
    node = node_of(request)

    def render(**shown: Any) -> Response:
        frame = dataset_frame(request, entry, caller)
        ended = (shown.get("record") or {}).get("end", {}).get("reason", "")
        asks_peers = caller.account is not None and (ended == "not-here" or ended.startswith("peer-"))
        given = {
            "asks_peers": asks_peers,
            "answer": None,
            "record": None,
            "refusal": None,
            "waiting": False,
            "job": None,
            **shown,
        }
        return page(request, "why.html", {**frame, **asked, **given, "op_numbers": _OP_NUMBERS, "tab": "rows"})

    def work(listener: ProgressListener = lambda _: None) -> Response:
        try:
            return render(**_shown(node.provenance.why(entry, wish, listener, by=caller)))
        except (InvalidQuery, InvalidRequest, LimitExceeded, NotFound) as error:
            return render(refusal=error)

    if job:
        return await to_thread.run_sync(lambda: render(**_of_job(request, entry, caller, job, offset)))
    if entry.kind is DatasetKind.ROOT:
        return await to_thread.run_sync(work)
    if not wait:
        return await to_thread.run_sync(lambda: render(waiting=True))
    found = await answered_in_time(
        *(request, caller, work),
        wait_s=node.settings.provenance_wait_s_max,
        kind=kind_of_question(entry, wish),
    )
    if found is not None:
        return found
    queued = await to_thread.run_sync(lambda: node.requests.why(entry, wish, by=caller))
    return await to_thread.run_sync(lambda: render(waiting=True, job=job_view(queued)))


def _wish(asked: Mapping[str, Any]) -> WhyRequest:
    return WhyRequest(
        offsets=(asked["offset"],),
        columns=(asked["column"],) if asked["column"] else (),
        depth="1",
        limit=ROWS_SHOWN,
        after=asked["after"] or None,
        values=True,
        whole=asked["whole"],
        peers=asked["peers"],
    )


def _of_job(request: Request, entry: CatalogEntry, caller: Subject, job_id: str, offset: int) -> _Found:
    """What a job has found, or how far it is.

    Raises NotFound for a job that the visitor did not ask for, and for one about another record.
    """
    job = own_job(request, caller, job_id, JobKind.WHY)
    if job.status is JobStatus.SUCCEEDED:
        try:
            answer: Any = node_of(request).provenance.kept(job.id, "json", by=caller, namespace="")
        except NotFound as error:
            return {"refusal": error}
        if (answer["dataset"], answer["asked"]) != (str(entry.id), [offset]):
            raise NotFound("job", job_id)
        return _shown(answer)
    if job.status.final:
        problem = json.loads(job.error or "{}")
        return {
            "refusal": {
                "message": problem.get("message", f"the job was {job.status.value}"),
                "hint": problem.get("hint"),
                "limit": problem.get("limit"),
            }
        }
    return {"waiting": True, "job": job_view(job)}


def _shown(answer: Mapping[str, Any]) -> _Found:
    records: Sequence[_Found] = answer["records"]
    first = records[0]
    by_ref = {(one["dataset"], one["offset"]): one for one in records}
    why = first.get("why")
    now = first["values"]
    return {
        "replaced": {name: value for name, value in (first.get("before") or {}).items() if value != now.get(name)},
        "from_cells": why is None
        or why["cellsLeftOut"]
        or not why["found"]
        or any(cell["of"] is not None for cell in why["cells"]),
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
        giving = {
            name: sorted(offset for (offset, each), role in roles.items() if each == name and role in _GIVING)
            for name in behind
        }
        yield {
            **rows,
            "name": known["alias"] if known else None,
            "base": known["claimedBy"][-1] if known and "claimedBy" in known else "",
            "records": records,
            "names": list(dict.fromkeys(name for one in records for name in one["values"])),
            "roles": roles,
            "behind": [
                {
                    "column": column,
                    "records": giving[column] if len(giving[column]) < min(rows["count"], RECORDS_NAMED + 1) else [],
                    "role": min((role for (_, name), role in roles.items() if name == column), key=_ROLES.index),
                }
                for column in behind
            ],
        }
