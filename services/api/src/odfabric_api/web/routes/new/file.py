"""New root datasets from a file: uploaded or fetched, judged, tried, and made.

All of its rows are judged.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, OdfError, Place
from odfabric.formats.jobs.judge_request import read_judge_request
from odfabric.formats.jobs.try_request import read_try_request
from odfabric.formats.manifests.manifest_yaml import dump_yaml, snapshot_to_manifest
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric.model.jobs.requests import ReceivedFile
from odfabric.model.manifest import DatasetSnapshot
from odfabric.usecases.ingestion.draft_source import draft_source
from odfabric.usecases.ingestion.uploads import Upload
from odfabric.wiring.composed.uploads import UploadVerbs
from odfabric_api.auth import Member, Subject, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.bodies.jobs_answer import job_when_done
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.streamed_body import sent_file
from odfabric_api.capacity import Capacity
from odfabric_api.page_route import PageRoute, shows_page
from odfabric_api.sessions import public_origin
from odfabric_api.web.file_form import (
    FormColumn,
    chosen_columns,
    draft_of,
    form_bytes_max,
    form_fields,
    form_values,
    shape_of_form,
    shape_values,
)
from odfabric_api.web.job_views import WAIT_S_MAX, job_view, own_job
from odfabric_api.web.new_dataset import OWNER_FIELDS, alias_of, owner_values, visibility_of
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.problem_places import places_in, places_of
from odfabric_api.web.routes.new.manifest import manifest_form
from odfabric_api.web.submitted import shown_again, submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_KINDS = (JobKind.JUDGE, JobKind.TRY)
JobId = Annotated[str, Path(max_length=100)]


@router.get("/-/new/file")
def get_new_file(request: Request, caller: Member) -> Response:
    """Where a file is chosen, or an address."""
    return _first_screen(request, {})


@router.post("/-/new/file")
async def post_new_file(request: Request, caller: Member) -> Response:
    """Take a file in, from a form or as a raw body, and have it judged.

    Leads to what was found.
    """
    node = node_of(request)
    capacity: Capacity = request.app.state.capacity

    def take() -> Job:
        sent = sent_file(request, fields=frozenset(), bytes_max=node.settings.push_body_bytes_max)
        return UploadVerbs(node).upload(sent.chunks, file_name=sent.name, by=caller)

    with capacity.pushes.taking_one():
        try:
            job = await capacity.run_push(take)
        except OdfError as refused:
            again = lambda error, status: _first_screen(request, {}, error=error, status=status)  # noqa: E731
            return await to_thread.run_sync(partial(shown_again, request, refused, again))
    if not shows_page(request):
        return JsonAnswer({"job": job.id}, status_code=201, headers={"location": _path(job.id)})
    await _wait(request, caller, job)
    return see_other(_path(job.id))


@router.post("/-/new/file/url")
async def post_url(request: Request, caller: Member) -> Response:
    """Have a file fetched and judged; leads to what was found."""
    form = await read_form(request, frozenset({"url"}))
    again = lambda error, status: _first_screen(request, form, error=error, status=status)  # noqa: E731
    fetch = partial(UploadVerbs(node_of(request)).fetch, form.get("url", "").strip(), by=caller)
    return await submitted(request, lambda: see_other(_path(fetch().id)), again)


@router.get("/-/new/file/{job_id}")
def get_file(
    request: Request,
    caller: Member,
    job_id: JobId,
    tried: Annotated[str, Query(max_length=100, description="A trial whose result is shown")] = "",
) -> Response:
    """What was found in a file, and the choices; with `tried` what they would do."""
    job = own_job(request, caller, job_id, *_KINDS)
    if job.status is not JobStatus.SUCCEEDED:
        return _unjudged_screen(request, job)
    trial = own_job(request, caller, tried, *_KINDS) if tried else None
    form = _shown(trial) if trial is not None and trial.kind is JobKind.TRY else {}
    return _screen(request, caller, job, form, trial=trial)


@router.post("/-/new/file/{job_id}")
async def post_file(request: Request, caller: Member, job_id: JobId) -> Response:
    """Do what `action` says.

    `shape` judges again, `try` tries, `make` makes the dataset and pushes, `manifest` shows it, `discard` discards.
    """
    job = await to_thread.run_sync(partial(own_job, request, caller, job_id, *_KINDS))
    columns = len(json.loads(job.result)["columns"]) if job.result else 0
    fields = form_fields(columns)
    form = await read_form(request, fields, bytes_max=form_bytes_max(columns), fields_max=len(fields))
    begun: list[Job] = []

    def again(error: OdfError, status: int) -> Response:
        if job.status is not JobStatus.SUCCEEDED:
            return _unjudged_screen(request, job, error=error, status=status)
        return _screen(request, caller, job, form, error=error, status=status)

    answer = await submitted(request, lambda: _done(request, caller, job, form, begun=begun.append), again)
    for each in begun:
        await _wait(request, caller, each)
    return answer


def _done(
    request: Request, caller: Subject, job: Job, form: dict[str, str], *, begun: Callable[[Job], None]
) -> Response:
    """The answer to the form.

    `begun` gets a job whose result the page of the answer shows.
    """
    verbs, action = UploadVerbs(node_of(request)), form.get("action", "try")
    if action == "discard":
        verbs.discard(job, by=caller)
        return see_other("/-/new/file")
    if action == "shape":
        judged = verbs.judge_again(job, shape_of_form(form), by=caller)
        begun(judged)
        return see_other(_path(judged.id))
    upload = verbs.judged(job, by=caller)
    snapshot = _snapshot(upload, form)
    match action:
        case "try":
            trial = verbs.try_new(upload, snapshot, shown=form, by=caller)
            begun(trial)
            return see_other(f"{_path(job.id)}?tried={trial.id}")
        case "make":
            _, made = verbs.make(upload, snapshot, visibility=visibility_of(form), by=caller)
            return see_other(f"/-/jobs/{made.id}")
        case "manifest":
            kept = {name: form[name] for name in OWNER_FIELDS if name in form}
            return manifest_form(request, caller, {"manifest": _yaml(snapshot), "then": "push", **kept})
        case _:
            raise InvalidRequest(f"{action[:60]!r} is no choice", place=Place(field="action"))


async def _wait(request: Request, caller: Subject, job: Job) -> None:
    await job_when_done(request, job, caller, until=time.monotonic() + WAIT_S_MAX)


def _shown(trial: Job) -> dict[str, str]:
    """The form that a trial was asked for with."""
    return {name: str(value) for name, value in read_try_request(trial).shown.items()}


def _path(job_id: str) -> str:
    return f"/-/new/file/{job_id}"


def _snapshot(upload: Upload, form: dict[str, str]) -> DatasetSnapshot:
    return draft_source(draft_of(upload, form, alias_of(form), chosen_columns(upload, form)))


def _yaml(snapshot: DatasetSnapshot) -> str:
    return dump_yaml(snapshot_to_manifest(snapshot))


def _columns_again(upload: Upload, form: dict[str, str]) -> list[FormColumn]:
    try:
        return chosen_columns(upload, form)
    except InvalidRequest:
        return chosen_columns(upload, {})  # no browser sends this


def _first_screen(
    request: Request, form: Mapping[str, str], *, error: OdfError | None = None, status: int = 200
) -> Response:
    values = {"url": form.get("url", ""), "problems": places_of(error)}
    return page(request, "publish/new_file.html", values, status=status)


def _unjudged_screen(request: Request, job: Job, *, error: OdfError | None = None, status: int = 200) -> Response:
    """A file being judged, or one that failed: the reader may correct its format."""
    asked = read_judge_request(job)
    values = {
        "job": job_view(job),
        "file_name": asked.file_name,
        "is_there": isinstance(asked.file, ReceivedFile),
        **shape_values(asked.shape),
        "problems": places_of(error) or (places_in(json.loads(job.error)) if job.error else []),
    }
    return page(request, "publish/judging_file.html", values, status=status)


def _screen(
    request: Request,
    caller: Subject,
    job: Job,
    form: dict[str, str],
    *,
    trial: Job | None = None,
    error: OdfError | None = None,
    status: int = 200,
) -> Response:
    upload = UploadVerbs(node_of(request)).judged(job, by=caller)
    columns = _columns_again(upload, form)
    values: dict[str, Any] = {
        "job": job_view(job),
        "upload": upload,
        "found": upload.found,
        **shape_values(upload.shape),
        **form_values(upload, form, columns),
        **owner_values(request, caller, form),
        "problems": places_of(error),
        "trial": job_view(trial) if trial is not None else None,
        "manifest": _yaml(_snapshot(upload, form)) if trial is not None else "",
        "alias": alias_of(form) if trial is not None else None,
        "origin": public_origin(request),
    }
    return page(request, "publish/judged_file.html", values, status=status)
