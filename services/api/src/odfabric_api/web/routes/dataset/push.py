"""Push rows to a root dataset: a file by scripts, or pasted rows by a form."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, NotFound, OdfError, Place
from odfabric.formats.jobs.try_request import read_try_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric.model.jobs.requests import PushToTry
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring.composed.uploads import UploadVerbs
from odfabric_api.auth import Caller, PushableDataset, Subject, node_of
from odfabric_api.bodies.forms import FORM_BYTES_MAX, read_form
from odfabric_api.bodies.jobs_answer import job_when_done
from odfabric_api.bodies.streamed_body import sent_file
from odfabric_api.capacity import Capacity
from odfabric_api.page_route import PageRoute
from odfabric_api.problems import status_of
from odfabric_api.sessions import public_origin
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.job_views import WAIT_S_MAX, job_view, own_job
from odfabric_api.web.pages import dataset_path, page, see_other
from odfabric_api.web.problem_places import places_in, places_of
from odfabric_api.web.submitted import shown_again, submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PASTED_BYTES_MAX = 1024 * 1024
"""Rows that a form takes, as it is sent; larger ones are pushed as a file."""

_MEDIA_TYPES = (
    "text/csv",
    "application/x-ndjson",
    "application/json",
    "application/geo+json",
    "application/x-ndgeojson",
)
"""Formats that are text, so that their rows can be pasted."""

_TRY_FIELDS = frozenset({"source", "media_type"})
_FILE_TYPES = (*_MEDIA_TYPES, "application/vnd.apache.parquet", "application/vnd.shp")
_FIELDS = frozenset({"rows", "media_type", "source"})


@router.get("/{account}/{dataset}/-/push")
def get_push(
    request: Request,
    entry: PushableDataset,
    caller: Caller,
    job: Annotated[str, Query(max_length=100, description="A push whose result is shown")] = "",
    tried: Annotated[str, Query(max_length=100, description="A trial whose result is shown")] = "",
) -> Response:
    """The forms, and the same as a command.

    Raises NotFound for a job that the visitor may not see.
    """
    trial = _own_trial(request, entry, caller, tried) if tried else None
    pushed = node_of(request).jobs.get(job, by=caller) if job else None
    is_shown = pushed is not None and pushed.dataset_id == entry.id and pushed.status is JobStatus.SUCCEEDED
    result = json.loads(pushed.result or "{}") if is_shown and pushed else None
    return _screen(request, entry, caller, {}, result=result, trial=trial)


@router.post("/{account}/{dataset}/-/push")
async def post_push(request: Request, entry: PushableDataset, caller: Caller) -> Response:
    """Push pasted rows and wait for their commit, as `POST /ingest` does.

    A push that takes longer leads to its job.
    """
    node = node_of(request)
    form = await read_form(request, _FIELDS, bytes_max=PASTED_BYTES_MAX + FORM_BYTES_MAX)
    capacity: Capacity = request.app.state.capacity

    def again(error: OdfError, status: int) -> Response:
        return _screen(request, entry, caller, form, problems=places_of(error), status=status)

    until = time.monotonic() + node.settings.push_wait_s_max
    with capacity.pushes.taking_one():
        try:
            push = _pushed(entry, form)
            found = await capacity.run_push(lambda: node.requests.push(push, by=caller))
        except OdfError as refused:
            return await to_thread.run_sync(partial(shown_again, request, refused, again))
        assert isinstance(found, Job)  # a push without a key is a new one
        job = await job_when_done(request, found, caller, until=until)
    if job.status is JobStatus.FAILED:
        problem = json.loads(job.error or "{}")
        return await to_thread.run_sync(
            lambda: _screen(request, entry, caller, form, problems=places_in(problem), status=status_of(problem))
        )
    if job.status is JobStatus.SUCCEEDED:
        return see_other(f"{dataset_path(entry, 'push')}?job={job.id}")
    return see_other(f"/-/jobs/{job.id}")


@router.post("/{account}/{dataset}/-/push/try")
async def post_try(request: Request, entry: PushableDataset, caller: Caller) -> Response:
    """Take a file in and try what its push would do; leads to the page that shows it."""
    node = node_of(request)
    capacity: Capacity = request.app.state.capacity

    def take() -> Job:
        sent = sent_file(request, fields=_TRY_FIELDS, bytes_max=node.settings.push_body_bytes_max)
        return UploadVerbs(node).try_push(
            entry,
            sent.chunks,
            file_name=sent.name,
            source_name=sent.fields.get("source") or None,
            media_type=sent.fields.get("media_type") or None,
            by=caller,
        )

    def again(error: OdfError, status: int) -> Response:
        return _screen(request, entry, caller, {}, problems=places_of(error), status=status)

    with capacity.pushes.taking_one():
        try:
            job = await capacity.run_push(take)
        except OdfError as refused:
            return await to_thread.run_sync(partial(shown_again, request, refused, again))
    await job_when_done(request, job, caller, until=time.monotonic() + WAIT_S_MAX)
    return see_other(f"{dataset_path(entry, 'push')}?tried={job.id}")


@router.post("/{account}/{dataset}/-/push/tried")
async def post_tried(request: Request, entry: PushableDataset, caller: Caller) -> Response:
    """Push the file of a trial; leads to the job."""
    form = await read_form(request, frozenset({"job"}))

    def act() -> Response:
        trial = _own_trial(request, entry, caller, form.get("job", ""))
        return see_other(f"/-/jobs/{UploadVerbs(node_of(request)).push_tried(entry, trial, by=caller).id}")

    return await submitted(
        request,
        act,
        lambda error, status: _screen(request, entry, caller, {}, problems=places_of(error), status=status),
    )


def _own_trial(request: Request, entry: CatalogEntry, caller: Subject, job_id: str) -> Job:
    """A trial of a push to this dataset that the visitor asked for. Raises NotFound."""
    found = own_job(request, caller, job_id, JobKind.TRY)
    target = read_try_request(found).target
    if not isinstance(target, PushToTry) or target.dataset != entry.id:
        raise NotFound("job", job_id)
    return found


def _pushed(entry: CatalogEntry, form: dict[str, str]) -> PushData:
    rows = form.get("rows", "")
    if not rows.strip():
        raise InvalidRequest("there are no rows", place=Place(field="rows"), hint="paste some, or choose a file")
    return PushData(
        dataset=entry.id,
        body=iter([rows.encode()]),
        file_name="pasted rows",
        source_name=form.get("source") or None,
        media_type=form.get("media_type") or None,
    )


def _screen(
    request: Request,
    entry: CatalogEntry,
    caller: Subject,
    form: dict[str, str],
    *,
    result: dict[str, Any] | None = None,
    problems: list[dict[str, Any]] | None = None,
    trial: Job | None = None,
    status: int = 200,
) -> Response:
    values = {
        "rows": form.get("rows", ""),
        "media_type": form.get("media_type", ""),
        "source": form.get("source", ""),
        "media_types": _MEDIA_TYPES,
        "file_types": _FILE_TYPES,
        "result": result,
        "trial": job_view(trial) if trial is not None else None,
        "trial_file": read_try_request(trial).file_name if trial is not None else None,
        "problems": problems or [],
        "origin": public_origin(request),
        "tab": "push",
    }
    return page(request, "publish/push.html", {**dataset_frame(request, entry, caller), **values}, status=status)
