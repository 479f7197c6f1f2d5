"""Pure steps of flows and runs, from one state of the rows to the next.

Owns how causes merge, how a run ends, when a flow stops. Not here: when a run starts (`domain.flows.flow_readiness`), writing (`ports.jobs.flows`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from odfabric.domain.flows.flow_schedule import next_start, retry_pause_s
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.flow import Cause, Flow, FlowRule, FlowRun, FlowStop, Overlap, Reactive, RunStatus
from odfabric.model.multihash import Multihash

CAUSES_KEPT_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """How an attempt failed.

    The problem document (JSON text), the same in a sentence, and the head of the dataset at that time.

    `outside` if nothing of the dataset is to blame; `blames_query` if its query, or what it reads, is.
    """

    document: str
    reason: str
    head: Multihash | None
    outside: bool
    blames_query: bool


def with_cause(run: FlowRun, cause: Cause, *, due_at: Instant) -> FlowRun:
    """The waiting run with one more cause: same place and wave, due no later."""
    return replace(
        run,
        causes=(*run.causes, cause)[:CAUSES_KEPT_MAX] if cause not in run.causes else run.causes,
        cause_count=run.cause_count + 1,
        due_at=min(run.due_at, due_at) if run.attempt == 1 else run.due_at,
        updated_at=cause.at,
    )


def fired(flow: Flow, *, now: Instant) -> Flow:
    """The flow after its schedule has started a run, or left one out."""
    return replace(flow, last_at=now, next_at=next_start(flow.rule.trigger, last=now, now=now), updated_at=now)


def starts_another(flow: Flow, running: FlowRun | None) -> bool:
    """Whether the schedule makes a run while this one is not ended."""
    return running is None or flow.rule.overlap is Overlap.QUEUE_ONE


def started(run: FlowRun, *, job_id: str, now: Instant) -> FlowRun:
    """The run, whose job is queued."""
    return replace(run, status=RunStatus.RUNNING, job_id=job_id, started_at=now, updated_at=now)


def succeeded(flow: Flow, run: FlowRun, *, result: str | None, now: Instant) -> tuple[Flow, FlowRun]:
    """Both after a run that ended well: failures are forgotten."""
    ended = replace(run, status=RunStatus.SUCCEEDED, result=result, error=None, ended_at=now, updated_at=now)
    return replace(flow, failures=0, stop=None, updated_at=now), ended


def cancelled(run: FlowRun, *, now: Instant) -> FlowRun:
    """The run that somebody ended."""
    return replace(run, status=RunStatus.CANCELLED, ended_at=now, updated_at=now)


def missed(run: FlowRun, *, now: Instant) -> FlowRun:
    """The run that could not start in time."""
    return replace(run, status=RunStatus.MISSED, ended_at=now, updated_at=now)


def failed(flow: Flow, run: FlowRun, failure: RunFailure, *, now: Instant, jitter: float) -> tuple[Flow, FlowRun]:
    """Both after a failed attempt.

    An outside failure is tried again as the rule says. Where the dataset's own query is to blame, a flow that follows inputs stops until
    the head of the dataset is another; a schedule goes on, for its source may be another by then.
    """
    pause_s = retry_pause_s(flow.rule.retry, run.attempt, jitter=jitter) if failure.outside else None
    if pause_s is not None:
        due = Instant(now.epoch_ns + int(pause_s * NANOS_PER_SECOND))
        again = replace(
            run, status=RunStatus.WAITING, attempt=run.attempt + 1, error=failure.document, due_at=due, updated_at=now
        )
        return flow, again
    ended = replace(run, status=RunStatus.FAILED, error=failure.document, ended_at=now, updated_at=now)
    failures = flow.failures + 1
    stop = flow.stop
    if failure.blames_query and isinstance(flow.rule.trigger, Reactive):
        stop = FlowStop(failure.reason, now, failure.head)
    elif flow.rule.failures_max is not None and failures >= flow.rule.failures_max:
        stop = FlowStop(f"{failures} runs failed one after the other, the last: {failure.reason}", now)
    return replace(flow, failures=failures, stop=stop, updated_at=now), ended


def resumed(flow: Flow, *, now: Instant) -> Flow:
    """The flow, which starts runs again."""
    next_at = flow.next_at or next_start(flow.rule.trigger, last=flow.last_at, now=now)
    return replace(flow, paused=False, stop=None, failures=0, next_at=next_at, updated_at=now)


def ruled(flow: Flow, rule: FlowRule, *, now: Instant) -> Flow:
    """The flow under another rule."""
    next_at = next_start(rule.trigger, last=flow.last_at, now=now)
    return replace(flow, rule=rule, is_default=False, stop=None, failures=0, next_at=next_at, updated_at=now)
