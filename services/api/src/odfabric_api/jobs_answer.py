"""Answers about jobs: accepted, done, failed."""

from __future__ import annotations

import json
import time

from anyio import sleep, to_thread
from starlette.responses import JSONResponse, Response

from odfabric.model.job import Job, JobStatus
from odfabric.wiring import Node
from odfabric_api.problems import document_response, plain_problem

LOOK_EVERY_S = 0.01
LOOK_EVERY_S_MAX = 0.25


def job_value(job: Job) -> dict[str, object]:
    """A job as JSON: `{id, kind, status, progress, result, error}` and times."""
    progress = json.loads(job.progress) if job.progress else None
    return {
        "id": job.id,
        "kind": job.kind.value,
        "dataset": str(job.dataset_id) if job.dataset_id else None,
        "status": job.status.value,
        "progress": progress,
        "result": json.loads(job.result) if job.result else None,
        "error": json.loads(job.error) if job.error and job.status is not JobStatus.SUCCEEDED else None,
        "attempts": job.attempts,
        "createdAt": str(job.created_at),
        "updatedAt": str(job.updated_at),
    }


def accepted(job: Job) -> Response:
    """202: the work is durable and will be done."""
    return JSONResponse(
        {"job": {"id": job.id, "status": job.status.value}},
        status_code=202,
        headers={"location": f"/jobs/{job.id}", "preference-applied": "respond-async"},
    )


async def answer_when_done(node: Node, job: Job, *, until: float) -> Response:
    """The job's own answer if it ends before `until` (monotonic seconds), else 202."""
    pause_s = LOOK_EVERY_S
    while not job.status.final and time.monotonic() < until:
        await sleep(pause_s)
        pause_s = min(pause_s * 1.2, LOOK_EVERY_S_MAX)
        job = await to_thread.run_sync(node.job, job.id)
    match job.status:
        case JobStatus.SUCCEEDED:
            return JSONResponse(json.loads(job.result or "null"))
        case JobStatus.FAILED:
            return document_response(json.loads(job.error or "{}"))
        case JobStatus.CANCELLED:
            return plain_problem(409, "cancelled", "the job was cancelled")
        case _:
            return accepted(job)
