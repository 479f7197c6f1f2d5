"""Jobs of the visitor and of a dataset, and the actions update and verify."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.requests import PullRequest
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric_api.auth import Caller, FollowableDataset, Member, Subject, WritableDataset, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import allowed_on, dataset_frame
from odfabric_api.web.job_views import datasets_of, job_view
from odfabric_api.web.pages import page, see_other

router = APIRouter(route_class=PageRoute, include_in_schema=False)

JOBS_LOOKED_AT = 200
"""The last jobs of the node, or of a dataset, among which a visitor is shown those that they may see."""

JobId = Annotated[str, Path(max_length=100)]


@router.get("/-/jobs")
def get_jobs(request: Request, caller: Member) -> Response:
    """The visitor's jobs and those on datasets that they may change, newest first."""
    return page(request, "publish/jobs.html", _listed(request, caller, None))


@router.get("/{account}/{dataset}/-/jobs")
def get_dataset_jobs(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """The same of one dataset."""
    frame = dataset_frame(request, entry, caller)
    return page(request, "publish/dataset_jobs.html", {**frame, **_listed(request, caller, entry), "tab": "jobs"})


@router.get("/-/jobs/{job_id}")
def get_job(
    request: Request,
    caller: Member,
    job_id: JobId,
    live: Annotated[Literal["yes", "no"], Query(description="Whether the page loads itself again")] = "yes",
) -> Response:
    """One job.

    The page loads itself again until it has ended, or the reader wants it to stop.
    """
    job = node_of(request).jobs.get(job_id, by=caller)
    entry = next(iter(datasets_of(request, caller, [job]).values()), None)
    values = {
        "job": job_view(job),
        "entry": entry,
        "allowed": allowed_on(request, entry, caller) if entry else {},
        "ahead": node_of(request).browsing.jobs_ahead(job, by=caller),
        "is_live": live == "yes" and not job.status.final,
    }
    return page(request, "publish/job.html", values)


@router.post("/-/jobs/{job_id}/cancel")
async def post_cancel(request: Request, caller: Member, job_id: JobId) -> Response:
    """Cancel it.

    A job that has ended or committed stays as it is, and the page says so.
    """
    await read_form(request, frozenset())
    found = await to_thread.run_sync(partial(node_of(request).jobs.cancel, job_id, by=caller))
    return see_other(f"/-/jobs/{found.id}")


@router.post("/{account}/{dataset}/-/pull")
async def post_pull(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """Queue an update.

    With `recursive` of its inputs too, with `fetch_uncacheable` also from a source that cannot tell what is new, with
    `recompute` from the beginning if an input was rewritten.
    """
    form = await read_form(request, frozenset({"recursive", "fetch_uncacheable", "recompute"}))
    wish = PullRequest(
        dataset=entry.id,
        alias=entry.alias,
        recursive="recursive" in form,
        fetch_uncacheable="fetch_uncacheable" in form,
        recompute="recompute" in form,
    )
    job = await to_thread.run_sync(partial(node_of(request).requests.pull, wish, by=caller))
    return see_other(f"/-/jobs/{job.id}")


@router.post("/{account}/{dataset}/-/verify")
async def post_verify(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Queue a full verification: chain, objects, re-execution of each transaction."""
    await read_form(request, frozenset())
    job = await to_thread.run_sync(partial(node_of(request).requests.verify, entry, VerifyOptions(), by=caller))
    return see_other(f"/-/jobs/{job.id}")


def _listed(request: Request, caller: Subject, entry: CatalogEntry | None) -> dict[str, Any]:
    jobs = node_of(request).browsing.jobs_seen(entry, limit=JOBS_LOOKED_AT, by=caller)
    return {"jobs": [job_view(job) for job in jobs], "datasets": datasets_of(request, caller, jobs)}
