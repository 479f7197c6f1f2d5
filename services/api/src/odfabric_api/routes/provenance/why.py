"""Routes of provenance: why records of a dataset are there."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from odfabric.model.commit import CatalogEntry
from odfabric.model.why_request import ALL_KINDS, LIMIT_DEFAULT, WhyRequest
from odfabric_api.auth import Caller, Member, ReadableDataset, Subject, node_of, querying
from odfabric_api.bodies.answer_in_time import answered_in_time, kind_of_question
from odfabric_api.bodies.jobs_answer import accepted
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.schemas import Accepted, answers
from odfabric_api.bodies.why_answer import WhyAnswer
from odfabric_api.capacity import Capacity
from odfabric_api.preconditions import header_parameters, wait_s_of

router = APIRouter(tags=["provenance"])

WhyFormat = Literal["json", "prov", "openlineage"]
WHY_OFFSETS_MAX = 1000
INT64_MAX = 2**63 - 1
_ASK = "`peers`: where inputs are not on this node, ask the node that the dataset was pulled from; what it says is marked `claimedBy`"
_HOPS = "Nodes that the question came through; a node that asks another counts itself"
_PREFER = header_parameters({"Prefer": "`respond-async`: 202 at once; `wait=N`: 202 after N seconds"})


class WhyBody(JsonModel):
    """Records, and what is asked of them."""

    offsets: list[Annotated[int, Field(ge=0, le=INT64_MAX)]] = Field(min_length=1, max_length=WHY_OFFSETS_MAX)
    columns: list[str] = Field(default_factory=list, max_length=1000, description="Cells asked for; none: all")
    kinds: list[str] = Field(default_factory=lambda: ALL_KINDS.split(","), max_length=4, description=ALL_KINDS)
    depth: str | int = Field("all", description="How many datasets to follow records through, or `all`")
    effort: str = Field("verified", description="lineage, verified or minimal")
    limit: int = Field(LIMIT_DEFAULT, ge=1, description="Rows of each input that are followed")
    after: str | None = Field(None, max_length=100, description="`next` of the page before")
    format: WhyFormat = Field("json", description="json, prov (PROV-JSON) or openlineage (a list of run events)")
    values: bool = Field(False, description="Put the values of rows into the answer")
    whole: bool = Field(False, description="Read as many rows as it takes, beyond `provenance_rows_max`")
    ask: Literal["here", "peers"] = Field("here", description=_ASK)
    hops: int = Field(0, ge=0, le=100, description=_HOPS)


@router.get(
    "/{account}/{dataset}/why",
    summary="Why a record is there",
    responses=answers(
        WhyAnswer | dict[str, Any] | list[Any], text="The record and what it comes from", also={202: Accepted}
    ),
    openapi_extra=_PREFER,
)
async def get_why(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    offset: Annotated[int, Query(ge=0, le=INT64_MAX, description="Offset of the record")],
    columns: Annotated[str, Query(max_length=10_000, description="Comma list of cells asked for; none: all")] = "",
    kinds: Annotated[str, Query(max_length=100, description="Comma list")] = ALL_KINDS,
    depth: Annotated[str, Query(max_length=10, description="How many datasets to follow it through, or `all`")] = "all",
    effort: Annotated[str, Query(max_length=20, description="lineage, verified or minimal")] = "verified",
    limit: Annotated[int, Query(ge=1, description="Rows of each input that are followed")] = LIMIT_DEFAULT,
    after: Annotated[str | None, Query(max_length=100, description="`next` of the page before")] = None,
    format: Annotated[
        WhyFormat, Query(description="json, prov (PROV-JSON) or openlineage (a list of run events)")
    ] = "json",
    values: Annotated[bool, Query(description="Put the values of rows into the answer")] = False,
    whole: Annotated[bool, Query(description="Read as many rows as it takes")] = False,
    ask: Annotated[Literal["here", "peers"], Query(description=_ASK)] = "here",
    hops: Annotated[int, Query(ge=0, le=100, description=_HOPS)] = 0,
) -> Response:
    """The rows of inputs behind a record, and what made the node write it.

    They are followed through datasets to what was ingested.

    Every answer is checked by running the query over those rows alone (`verified`). A branch that goes no further says why (`end`). Of inputs
    that the caller may not read there are counts only.

    With `ask=peers` a branch whose inputs are not on this node goes on with what the node says that the dataset was pulled from. It is a
    claim: pull the datasets and ask again to have it derived here. A node that cannot be asked, or answers something else, ends the branch.

    A question that takes longer than `provenance_wait_s_max` becomes a job (202): `GET /jobs/{id}` says how far it is, and
    `GET /jobs/{id}/answer` has the answer. The same question asked again meanwhile is the same job.
    """
    asked = WhyRequest(
        offsets=(offset,),
        columns=tuple(part.strip() for part in columns.split(",") if part.strip()),
        kinds=tuple(part.strip() for part in kinds.split(",") if part.strip()),
        depth=depth,
        effort=effort,
        limit=limit,
        after=after,
        values=values,
        whole=whole,
        peers=ask == "peers",
        hops=hops,
    )
    return await _answer(request, entry, caller, asked, format)


@router.post(
    "/{account}/{dataset}/why",
    summary="Why records are there",
    responses=answers(
        WhyAnswer | dict[str, Any] | list[Any], text="The records and what they come from", also={202: Accepted}
    ),
    openapi_extra={**json_body(WhyBody, required=True), **_PREFER},
)
async def post_why(request: Request, entry: ReadableDataset, caller: Caller) -> Response:
    """Like GET, of many records at once."""
    bytes_max = node_of(request).settings.query_body_bytes_max
    body = await read_json(request, WhyBody, bytes_max=bytes_max, limit="query_body_bytes_max")
    asked = WhyRequest(
        offsets=tuple(body.offsets),
        columns=tuple(body.columns),
        kinds=tuple(body.kinds),
        depth=str(body.depth),
        effort=body.effort,
        limit=body.limit,
        after=body.after,
        values=body.values,
        whole=body.whole,
        peers=body.ask == "peers",
        hops=body.hops,
    )
    return await _answer(request, entry, caller, asked, body.format)


@router.get(
    "/jobs/{job_id}/answer",
    summary="The answer of a question that became a job",
    responses=answers(WhyAnswer | dict[str, Any] | list[Any], text="The records and what they come from"),
)
async def get_answer(
    request: Request,
    caller: Member,
    job_id: Annotated[str, Path(description="As the answer 202 gave it")],
    format: Annotated[
        WhyFormat, Query(description="json, prov (PROV-JSON) or openlineage (a list of run events)")
    ] = "json",
) -> Response:
    """The same document that `/why` answers with.

    404 while the job has not succeeded, and for a reader who may not, or no longer, read every dataset that the answer shows.
    """
    node, namespace = node_of(request), _namespace(request)

    def read() -> Response:
        return JsonAnswer(node.provenance.kept(job_id, format, by=caller, namespace=namespace))

    if format == "json":
        return await to_thread.run_sync(read)
    # The other forms ask the engine what columns are made of.
    capacity: Capacity = request.app.state.capacity
    with querying(request, caller):
        return await capacity.run_query(read)


async def _answer(
    request: Request, entry: CatalogEntry, caller: Subject, asked: WhyRequest, form: WhyFormat
) -> Response:
    node, namespace = node_of(request), _namespace(request)
    wait_s = wait_s_of(request, wait_s_max=node.settings.provenance_wait_s_max)
    found = await answered_in_time(
        request,
        caller,
        lambda listener: JsonAnswer(
            node.provenance.why_as(form, entry, asked, listener, by=caller, namespace=namespace)
        ),
        wait_s=wait_s,
        kind=kind_of_question(entry, asked),
    )
    if found is not None:
        return found
    job = await to_thread.run_sync(lambda: node.requests.why(entry, asked, by=caller))
    return accepted(job, preference="respond-async" if wait_s == 0 else None)


def _namespace(request: Request) -> str:
    return str(request.base_url).rstrip("/")
