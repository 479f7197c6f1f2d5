"""Routes of work: pull, verify, and the jobs that do it."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from odfabric.errors import NotFound
from odfabric.model.jobs.requests import PullRequest
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric_api.auth import Caller, FollowableDataset, Member, PullableDataset, node_of
from odfabric_api.bodies.jobs_answer import accepted, job_value
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.schemas import Accepted, JobView, answers

router = APIRouter(tags=["jobs"])

JobId = Annotated[str, Path(description="As the answer 202 told it")]


class PullBody(JsonModel):
    """Wishes of a pull; with `url` the dataset is, or becomes, a copy of that one."""

    url: str | None = Field(
        None, min_length=1, max_length=2000, description="URL of the dataset there, or `repository/[account/]dataset`"
    )
    force: bool = Field(
        False,
        description="Replace a copy that is ahead of its source or aside from it; takes the right to rewrite its history",
    )
    recompute: bool = Field(
        False,
        description="If the history of an input was rewritten, drop the rows and compute them from the beginning; "
        "takes the right to rewrite",
    )
    recursive: bool = Field(False, description="Bring the inputs up to date first")
    fetch_again: bool = Field(
        False, alias="fetchAgain", description="Fetch again what is kept of a pull that fetched and then failed"
    )
    fetch_uncacheable: bool = Field(
        False, alias="fetchUncacheable", description="Append what a source sends that cannot tell what is new"
    )
    allow_shrink: bool = Field(
        False, alias="allowShrink", description="A Snapshot may lose more of its rows than `snapshot_shrink_max`"
    )


class VerifyBody(JsonModel):
    """What to verify besides the chain."""

    data: bool = Field(True, description="Hash every data slice and checkpoint")
    replay: bool = Field(True, description="Repeat every transform and compare")
    after: str | None = Field(
        None,
        max_length=200,
        description="Check objects and transactions of the blocks after this one, by hash or number; default: all",
    )
    until: str | None = Field(
        None, max_length=200, description="The last block that is checked, by hash or number; default: the head"
    )
    report: bool = Field(False, description="Put a signed report into the result")
    fetch: bool = Field(
        False,
        description="Fetch what is missing or damaged here from where the dataset was pulled from or pushed to, and from repositories; "
        "takes the right to change the dataset",
    )


@router.post(
    "/{account}/{dataset}/pull",
    status_code=202,
    summary="Bring a dataset up to date",
    responses=answers(Accepted, status=202, text="The job"),
    openapi_extra=json_body(PullBody, required=False),
)
async def pull(request: Request, found: PullableDataset, caller: Caller) -> Response:
    """Polls the source, runs the transform, or copies from the given URL.

    202 with the job.
    """
    node = node_of(request)
    body = await read_json(request, PullBody, bytes_max=node.settings.json_body_bytes_max)

    def enqueue() -> Response:
        alias, entry = found
        if entry is None and body.url is None:
            raise NotFound("dataset", str(alias), hint="with `url` it is copied from there")
        wish = PullRequest(
            dataset=entry.id if entry else None,
            alias=alias,
            url=None if body.url is None else node.sharing.names.source_url(body.url, caller),
            force=body.force,
            recompute=body.recompute,
            recursive=body.recursive,
            fetch_uncacheable=body.fetch_uncacheable,
            allow_shrink=body.allow_shrink,
            fetch_again=body.fetch_again,
        )
        return accepted(node.requests.pull(wish, by=caller))

    return await to_thread.run_sync(enqueue)


@router.post(
    "/{account}/{dataset}/verify",
    status_code=202,
    summary="Verify a dataset",
    responses=answers(Accepted, status=202, text="The job"),
    openapi_extra=json_body(VerifyBody, required=False),
)
async def verify(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Chain, objects, and by re-execution every transaction.

    202 with the job; its result is `{ok, errors}`, with `report` if one was asked for, with `fetched` and `notFetched` if it fetches.
    """
    node = node_of(request)
    body = await read_json(request, VerifyBody, bytes_max=node.settings.json_body_bytes_max)

    def enqueue() -> Response:
        options = VerifyOptions(
            data=body.data,
            replay=body.replay,
            after=node.reports.block(entry, body.after),
            until=node.reports.block(entry, body.until),
            report=body.report,
            fetch=body.fetch,
        )
        return accepted(node.requests.verify(entry, options, by=caller))

    return await to_thread.run_sync(enqueue)


@router.get("/jobs/{job_id}", summary="A job", responses=answers(JobView, text="The job as it is now"))
def get_job(request: Request, caller: Member, job_id: JobId) -> Response:
    """`{id, kind, status, progress, result, error}`."""
    return JsonAnswer(job_value(node_of(request).jobs.get(job_id, by=caller)))


@router.delete("/jobs/{job_id}", summary="Cancel a job", responses=answers(JobView, text="The job as it is now"))
def cancel_job(request: Request, caller: Member, job_id: JobId) -> Response:
    """The job as it is now.

    One that has ended, has committed or is just committing stays as it is.
    """
    return JsonAnswer(job_value(node_of(request).jobs.cancel(job_id, by=caller)))
