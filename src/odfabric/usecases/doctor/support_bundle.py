"""Gather what helps others to diagnose a node, without secrets.

Invariants: every text passes the redaction; a part that fails or hangs is reported by its own error and stops no other; no part is longer than a
limit, of which its end is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odfabric.domain.people.redaction import Redaction
from odfabric.errors import OdfError
from odfabric.model.instant import Instant
from odfabric.model.jobs.flow import FlowRun
from odfabric.model.jobs.job import Job
from odfabric.ports.node.surroundings import Bounded

QUOTING_CODES = frozenset(
    {
        *("invalid-request", "invalid-name", "invalid-manifest", "invalid-block", "invalid-data", "invalid-query"),
        *("incompatible-schema", "source-not-found", "unsupported-media-type", "corrupted-source"),
    }
)
"""Errors whose texts quote what somebody sent: of these only the code is reported."""
TELLING = ("code", "message", "hint", "limit", "maximum", "kind")


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the bundle.

    `is_log`: quoted texts in it are hidden, because they may be values of rows.
    """

    name: str
    read: Callable[[], str]
    is_log: bool = False


def gather(
    parts: Sequence[Part], *, redaction: Redaction, bounded: Bounded, within_s: float, bytes_max: int
) -> Mapping[str, bytes]:
    """Bytes of each part by name, each at most `bytes_max` long."""
    found: dict[str, bytes] = {}
    for part, result in zip(parts, bounded.results([part.read for part in parts], within_s=within_s), strict=True):
        text = _failure(result) if isinstance(result, Exception) else result
        shown = redaction.log(text) if part.is_log else redaction.text(text)
        found[part.name] = shown.encode("utf-8", "replace")[-bytes_max:]
    return found


def job_value(job: Job) -> dict[str, object]:
    """A job without what it was asked and what it answered."""
    return {
        "id": job.id,
        "kind": job.kind.value,
        "status": job.status.value,
        "dataset": str(job.dataset_id) if job.dataset_id else None,
        "attempts": job.attempts,
        "createdAt": str(job.created_at),
        "updatedAt": str(job.updated_at),
        "error": _error_value(job.error),
    }


def run_value(run: FlowRun) -> dict[str, object]:
    """The same of a run of a flow."""
    return {
        "id": run.id,
        "flow": run.flow_id,
        "dataset": str(run.dataset_id),
        "status": run.status.value,
        "attempt": run.attempt,
        "job": run.job_id,
        "createdAt": str(run.created_at),
        "startedAt": _time(run.started_at),
        "endedAt": _time(run.ended_at),
        "error": _error_value(run.error),
    }


def _error_value(document: str | None) -> dict[str, object] | None:
    if document is None:
        return None
    try:
        told = json.loads(document)
    except ValueError:
        return {"code": "unknown"}
    code = told.get("code") if isinstance(told, dict) else None
    if code is None or code in QUOTING_CODES:
        return {"code": code or "unknown"}
    return {name: told[name] for name in TELLING if name in told}


def _failure(error: Exception) -> str:
    text = error.message if isinstance(error, OdfError) else type(error).__name__
    return json.dumps({"notGathered": text})


def _time(moment: Instant | None) -> str | None:
    return None if moment is None else str(moment)
