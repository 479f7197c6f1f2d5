"""The scheduler: start what is due, end what its job has ended.

One round looks at the rows and at nothing else, and each step is one write that expects what was seen, so that two schedulers at
once, or one that dies between two steps, lose and double nothing. Invariant: an attempt of a run has one job, whose name comes from both, and
a run that is marked as running without a job gets it in the next round.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from odfabric.domain.flows.flow_readiness import Missed, Start, WaitForInputs, WaitForRecords, WaitUntil
from odfabric.domain.flows.flow_schedule import is_too_far
from odfabric.domain.flows.flow_steps import (
    RunFailure,
    cancelled,
    failed,
    fired,
    missed,
    started,
    starts_another,
    succeeded,
)
from odfabric.errors import Corrupt, NotFound
from odfabric.formats.jobs.pull_request import write_pull_request
from odfabric.formats.jobs.verify_request import write_verify_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.jobs.flow import Cause, CauseKind, Flow, FlowKind, FlowRun, RunStatus
from odfabric.model.jobs.job import Job, JobKind, JobStatus, NewJob
from odfabric.model.jobs.requests import Envelope, PullRequest, VerifyRequest
from odfabric.model.people.audit import THE_NODE, AuditEntry, AuditKind
from odfabric.model.subscriptions.event import Event, EventType
from odfabric.usecases.flows.causes import FlowLimits, FlowPorts, cause_run
from odfabric.usecases.flows.follow_inputs import is_behind
from odfabric.usecases.flows.waits import UNFINISHED_MAX, RunsView, WaitingRun

_log = logging.getLogger(__name__)

DUE_MAX = 1000
_OUTSIDE = frozenset(("unavailable", "outcome-unknown", "internal-error"))
_OF_THE_QUERY = frozenset(
    ("invalid-query", "incompatible-schema", "invalid-data", "invalid-request", "chains-diverged")
)


@dataclass(frozen=True, slots=True)
class Round:
    """Results of a round: runs started and ended, and the next due instant.

    At that instant a schedule or a waiting run is due.
    """

    started: int
    ended: int
    next_at: Instant | None


def run_round(*, ports: FlowPorts, limits: FlowLimits) -> Round:
    """Look at everything once. Raises Determinate, Indeterminate."""
    unfinished = ports.flows.unfinished(limit=UNFINISHED_MAX)
    ended = sum(_settle(run, ports, limits) for run in unfinished if run.status is RunStatus.RUNNING)
    for flow in ports.flows.due(ports.clock.now(), limit=DUE_MAX):
        _fire(flow, ports)
    begun, next_at = 0, ports.flows.next_due()
    for each in RunsView.now(ports, limits).waiting():
        match each.verdict:
            case Start():
                begun += _start(each, ports)
            case Missed():
                ports.flows.write(run=missed(each.run, now=ports.clock.now()))
            case WaitUntil(at=at) | WaitForInputs(at=at) | WaitForRecords(at=Instant() as at):
                next_at = at if next_at is None else min(at, next_at)
            case _:
                pass
    return Round(begun, ended, next_at)


def set_clocks_right(*, ports: FlowPorts, page: int = 1000) -> int:
    """Pull in starts that only a clock ahead can have set; how many schedules.

    They start one duration from now at the latest.
    """
    now, after, count = ports.clock.now(), None, 0
    while flows := ports.flows.page(after=after, limit=page):
        for flow in flows:
            if is_too_far(flow, now):
                count += ports.flows.write(flow=replace(flow, next_at=now, updated_at=now))
        after = flows[-1].id
    return count


def _fire(flow: Flow, ports: FlowPorts) -> None:
    """The time of a schedule has come."""
    now, due = ports.clock.now(), flow.next_at
    unfinished = [run for run in ports.flows.runs(flow_id=flow.id, limit=2) if not run.status.final]
    if not ports.flows.write(flow=fired(flow, now=now)) or not flow.active:
        return
    if starts_another(flow, next(iter(unfinished), None)):
        cause = Cause(CauseKind.SCHEDULE, now)
        cause_run(flow, cause, wave=ports.flows.last_wave() + 1, ports=ports, due_at=due)


def _start(waiting: WaitingRun, ports: FlowPorts) -> bool:
    """Mark the run as running, then queue its job; whether it was started."""
    run, flow = waiting.run, waiting.flow
    entry = ports.repository.find(run.dataset_id)
    if entry is None:
        return False
    if _has_nothing_to_do(run, flow, entry, ports):
        ports.flows.drop_run(run)
        return False
    running = started(run, job_id=f"{run.id}-{run.attempt}", now=ports.clock.now())
    if not ports.flows.write(run=running):
        return False
    ports.jobs.enqueue(_job(running, flow, entry, ports), now=ports.clock.now())
    return True


def _has_nothing_to_do(run: FlowRun, flow: Flow, entry: CatalogEntry, ports: FlowPorts) -> bool:
    """A run of a wave finds nothing new: its inputs gave nothing or were read before."""
    if flow.kind is not FlowKind.TRANSFORM or any(cause.kind is not CauseKind.INPUT for cause in run.causes):
        return False
    try:
        return not is_behind(entry, ports.repository)
    except (Corrupt, NotFound):
        return False  # its job says what is wrong


def _job(run: FlowRun, flow: Flow, entry: CatalogEntry, ports: FlowPorts) -> NewJob:
    envelope = Envelope(flow=run.id)
    if flow.kind is FlowKind.VERIFY:
        verify = VerifyRequest(dataset=entry.id, data=True, replay=False, head=ports.repository.head(entry.id).hash)
        kind, request = JobKind.VERIFY, write_verify_request(verify, envelope)
    else:
        pull = PullRequest(
            dataset=entry.id,
            alias=entry.alias,
            fetch_uncacheable=flow.rule.fetch_uncacheable,
            recompute=flow.rule.recompute,
        )
        kind, request = JobKind.PULL, write_pull_request(pull, envelope)
    return NewJob(
        id=run.job_id or "",
        kind=kind,
        account=flow.owner,
        dataset_id=entry.id,
        request=request,
    )


def _settle(run: FlowRun, ports: FlowPorts, limits: FlowLimits) -> bool:
    """End the run if its job has ended; whether it did."""
    flow = ports.flows.get(run.flow_id)
    entry = ports.repository.find(run.dataset_id)
    if flow is None or entry is None:
        return False
    job = ports.jobs.get(run.job_id or "")
    if job is None:
        ports.jobs.enqueue(_job(run, flow, entry, ports), now=ports.clock.now())
        return False
    if not job.status.final:
        return False
    after, ended = _outcome(flow, run, job, ports)
    audit = [_stopped(after, entry)] if after.stop is not None and flow.stop is None else []
    events = [_failed(ended, flow, entry)] if ended.status is RunStatus.FAILED else []
    if not ports.flows.write(flow=after, run=ended, audit=audit, events=events):
        if ended.status is not RunStatus.WAITING or ports.flows.waiting(flow.id) is None:
            return False
        # Another run waits already: it is the next attempt.
        last = replace(run, status=RunStatus.FAILED, error=job.error, ended_at=ended.updated_at)
        return ports.flows.write(run=last, events=[_failed(last, flow, entry)])
    ports.flows.forget(flow.id, keep=limits.runs_kept_max)
    return True


def _outcome(flow: Flow, run: FlowRun, job: Job, ports: FlowPorts) -> tuple[Flow, FlowRun]:
    now = ports.clock.now()
    match job.status:
        case JobStatus.SUCCEEDED:
            return succeeded(flow, run, result=job.result, now=now)
        case JobStatus.CANCELLED:
            return replace(flow, updated_at=now), cancelled(run, now=now)
        case _:
            jitter = int.from_bytes(ports.entropy.random_bytes(4), "big") / 2**32
            return failed(flow, run, _failure(run, job, ports), now=now, jitter=jitter)


def _failure(run: FlowRun, job: Job, ports: FlowPorts) -> RunFailure:
    document: Mapping[str, Any] = json.loads(job.error or "{}")
    head = ports.repository.chains.head(run.dataset_id)
    return RunFailure(
        document=job.error or "{}",
        reason=str(document.get("detail") or document.get("message") or "it failed without a word"),
        head=head.hash if head else None,
        outside=document.get("code") in _OUTSIDE,
        blames_query=document.get("code") in _OF_THE_QUERY,
    )


def _failed(run: FlowRun, flow: Flow, entry: CatalogEntry) -> Event:
    """Without the error itself, which may quote records."""
    document: Mapping[str, Any] = json.loads(run.error or "{}")
    return Event(
        type=EventType.FLOW_FAILED,
        dataset_id=entry.id,
        alias=entry.alias,
        occurred_at=run.updated_at,
        detail={
            "flow": flow.id,
            "kind": flow.kind.value,
            "run": run.id,
            "attempts": run.attempt,
            "code": document.get("code"),
        },
    )


def _stopped(flow: Flow, entry: CatalogEntry) -> AuditEntry:
    reason = flow.stop.reason if flow.stop else ""
    return AuditEntry(
        kind=AuditKind.FLOW_STOPPED,
        actor=THE_NODE,
        at=flow.updated_at,
        target=str(entry.alias),
        dataset=entry.id,
        detail={"flow": flow.id, "kind": flow.kind.value, "reason": reason[:500]},
    )
