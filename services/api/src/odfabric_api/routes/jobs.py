"""Routes of work: pull, verify, and the jobs that do it."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.responses import JSONResponse

from odfabric.domain.access import Action
from odfabric.errors import NotFound
from odfabric.usecases.pull_dataset import PullRequest
from odfabric.usecases.verify_dataset import VerifyOptions
from odfabric_api.auth import dataset_of, node_of, require_account
from odfabric_api.jobs_answer import accepted, job_value
from odfabric_api.json_body import JsonModel, read_json

router = APIRouter(tags=["jobs"])


class PullBody(JsonModel):
    """Wishes of a pull; with `url` the dataset is, or becomes, a copy of the one there."""

    url: str | None = Field(None, max_length=2048)
    recursive: bool = False
    fetch_uncacheable: bool = Field(False, alias="fetchUncacheable")


class VerifyBody(JsonModel):
    """What to verify besides the chain."""

    data: bool = True
    replay: bool = True


@router.post("/{account}/{dataset}/pull", status_code=202, summary="Bring a dataset up to date")
async def pull(request: Request, account: str, dataset: str) -> Response:
    """Polls the source, runs the transform, or copies from the given URL. 202 with the job."""
    node = node_of(request)
    body = await read_json(request, PullBody, bytes_max=node.settings.json_body_bytes_max)

    def enqueue() -> Response:
        alias = node.repository.local_alias(account, dataset)
        entry = None
        try:
            entry = dataset_of(request, account, dataset, Action.WRITE)
        except NotFound:
            if body.url is None:
                raise
            require_account(request, Action.CREATE)
        wish = PullRequest(
            dataset=entry.id if entry else None,
            alias=alias,
            url=body.url,
            recursive=body.recursive,
            fetch_uncacheable=body.fetch_uncacheable,
        )
        return accepted(node.enqueue_pull(wish))

    return await to_thread.run_sync(enqueue)


@router.post("/{account}/{dataset}/verify", status_code=202, summary="Verify a dataset")
async def verify(request: Request, account: str, dataset: str) -> Response:
    """Chain, objects, and by re-execution every transaction. 202 with the job; its result is `{ok, errors}`."""
    node = node_of(request)
    body = await read_json(request, VerifyBody, bytes_max=node.settings.json_body_bytes_max)

    def enqueue() -> Response:
        entry = dataset_of(request, account, dataset, Action.READ)
        require_account(request, Action.WRITE)
        return accepted(node.enqueue_verify(entry, VerifyOptions(data=body.data, replay=body.replay)))

    return await to_thread.run_sync(enqueue)


@router.get("/jobs/{job_id}", summary="A job")
def job(request: Request, job_id: str) -> Response:
    """`{id, kind, status, progress, result, error}`."""
    require_account(request, Action.WRITE)
    return JSONResponse(job_value(node_of(request).job(job_id)))


@router.delete("/jobs/{job_id}", summary="Cancel a job")
def cancel(request: Request, job_id: str) -> Response:
    """The job as it is now; one that has ended stays as it is."""
    require_account(request, Action.WRITE)
    return JSONResponse(job_value(node_of(request).cancel_job(job_id)))
