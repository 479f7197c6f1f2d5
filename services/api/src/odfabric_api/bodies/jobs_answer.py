"""Answers about jobs: accepted, done, failed."""

from __future__ import annotations

import json
import time
from functools import partial

from anyio import sleep, to_thread
from fastapi import Request
from starlette.responses import Response

from odfabric.model.jobs.job import Job, JobStatus
from odfabric_api.auth import Subject, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.problems import document_response, plain_problem

LOOK_EVERY_S = 0.01
LOOK_EVERY_S_MAX = 0.25


def job_value(job: Job) -> dict[str, object]:
    """A job as JSON: `{id, kind, status, progress, result, error}` and times.

    `error` of an unfinished job is the last try's.
    """
    return {
        "id": job.id,
        "kind": job.kind.value,
        "dataset": str(job.dataset_id) if job.dataset_id else None,
        "status": job.status.value,
        "progress": json.loads(job.progress) if job.progress else None,
        "result": json.loads(job.result) if job.result else None,
        "error": json.loads(job.error) if job.error and job.status is not JobStatus.SUCCEEDED else None,
        "attempts": job.attempts,
        "createdAt": str(job.created_at),
        "updatedAt": str(job.updated_at),
    }


def accepted(job: Job, *, preference: str | None = None) -> Response:
    """202: the work is durable and will be done.

    `preference` is the wish that was followed.
    """
    headers = {"location": f"/jobs/{job.id}"}
    if preference is not None:
        headers["preference-applied"] = preference
    return JsonAnswer({"job": {"id": job.id, "status": job.status.value}}, status_code=202, headers=headers)


async def job_when_done(request: Request, job: Job, caller: Subject, *, until: float) -> Job:
    """The job as it ended, or as it is when the wait is over.

    The wait ends at `until` (monotonic seconds), or when the service or the client leaves.
    """
    node = node_of(request)
    pause_s = LOOK_EVERY_S
    while not job.status.final and time.monotonic() < until and not request.app.state.closing.is_set():
        await sleep(min(pause_s, max(0.0, until - time.monotonic())))
        pause_s = min(pause_s * 1.2, LOOK_EVERY_S_MAX)
        job = await to_thread.run_sync(partial(node.jobs.get, job.id, by=caller))
        if await request.is_disconnected():
            break
    return job


async def answer_when_done(request: Request, job: Job, caller: Subject, *, until: float) -> Response:
    """The job's own answer if it ends before `until` (monotonic seconds).

    202 if not, or if the service or the client leaves.
    """
    job = await job_when_done(request, job, caller, until=until)
    match job.status:
        case JobStatus.SUCCEEDED:
            return JsonAnswer(json.loads(job.result or "null"))
        case JobStatus.FAILED:
            return document_response(json.loads(job.error or "{}"))
        case JobStatus.CANCELLED:
            return plain_problem(409, "cancelled", "the job was cancelled")
        case _:
            return accepted(job)
