"""Whether a run may start, and what it waits for if not.

One answer for the scheduler, which acts on it, and for the pages that tell why a run waits. A run of a derivative dataset waits until what
lies between it and the datasets that moved has had its turn in the same wave, so that a diamond of datasets computes each of them
once. Invariant: nothing waits for ever. Runs of later waves are not waited for, and none longer than `wave_wait_s`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.flow import CauseKind, Flow, FlowRun, FlowStop, Reactive, RunStatus


@dataclass(frozen=True, slots=True)
class Start:
    """The run may start."""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """For a time: the pause after a failed attempt, or the end of buffering."""

    at: Instant


@dataclass(frozen=True, slots=True)
class WaitForRecords:
    """For more records of the inputs, at most until `at`."""

    waiting: int
    needed: int
    at: Instant | None


@dataclass(frozen=True, slots=True)
class WaitForInputs:
    """For datasets on the way to it that run in the same wave.

    `at` is when it starts in any case.
    """

    datasets: tuple[DatasetId, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class WaitForRun:
    """For the run of the same flow that is not ended."""

    run_id: str


@dataclass(frozen=True, slots=True)
class WaitWhilePaused:
    """Until somebody resumes the flow."""


@dataclass(frozen=True, slots=True)
class WaitWhileStopped:
    """Until what stopped the flow has changed."""

    stop: FlowStop


@dataclass(frozen=True, slots=True)
class WaitForTurn:
    """For a free place: `running` runs are at work, as many as may be at once."""

    running: int


@dataclass(frozen=True, slots=True)
class Missed:
    """It could not start in time, and is dropped."""


Readiness: TypeAlias = (
    Start
    | WaitUntil
    | WaitForRecords
    | WaitForInputs
    | WaitForRun
    | WaitWhilePaused
    | WaitWhileStopped
    | WaitForTurn
    | Missed
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Facts about a waiting run.

    The running run of its flow, unfinished runs of datasets above it, records that wait for it.
    """

    running: FlowRun | None = None
    above: Collection[FlowRun] = ()
    records_behind: int = 0


def readiness(run: FlowRun, flow: Flow, facts: RunFacts, *, now: Instant, wave_wait_s: float) -> Readiness:
    """What a waiting run waits for."""
    by_hand = any(cause.kind is CauseKind.HAND for cause in run.causes)
    if not by_hand and flow.paused:
        return WaitWhilePaused()
    if not by_hand and flow.stop is not None:
        return WaitWhileStopped(flow.stop)
    if facts.running is not None:
        return WaitForRun(facts.running.id)
    due = _due(run, now)
    if due is not None:
        return WaitUntil(due)
    if _is_late(run, flow, now):
        return Missed()
    if run.attempt == 1 and not by_hand and isinstance(flow.rule.trigger, Reactive):
        buffered = _buffering(run, flow.rule.trigger, facts, now)
        if buffered is not None:
            return buffered
    until = _after(run.created_at, wave_wait_s)
    busy = tuple(dict.fromkeys(each.dataset_id for each in facts.above if _is_waited_for(each, run)))
    if busy and run.created_at <= now < until:
        return WaitForInputs(busy, until)
    return Start()


def _is_waited_for(above: FlowRun, run: FlowRun) -> bool:
    """Of the same wave or an older one, and not in a pause after a failure."""
    return (
        above.wave <= run.wave and not above.status.final and (above.attempt == 1 or above.status is RunStatus.RUNNING)
    )


def _due(run: FlowRun, now: Instant) -> Instant | None:
    """When it is due, None if it is.

    A run that was made after now is of a clock that was ahead.
    """
    return run.due_at if run.updated_at <= now < run.due_at else None


def _is_late(run: FlowRun, flow: Flow, now: Instant) -> bool:
    latest_s = flow.rule.latest_start_s
    scheduled = all(cause.kind is CauseKind.SCHEDULE for cause in run.causes)
    return latest_s is not None and scheduled and run.attempt == 1 and now > _after(run.due_at, latest_s)


def _buffering(run: FlowRun, trigger: Reactive, facts: RunFacts, now: Instant) -> Readiness | None:
    if trigger.at_once or any(cause.kind is CauseKind.CHANGE for cause in run.causes):
        return None
    end = _after(run.created_at, trigger.wait_s) if trigger.wait_s else None
    if end is not None and not run.created_at <= now < end:
        return None
    if trigger.records_min:
        if facts.records_behind >= trigger.records_min:
            return None
        return WaitForRecords(facts.records_behind, trigger.records_min, end)
    return WaitUntil(end) if end else None


def in_turn(waiting: Iterable[tuple[FlowRun, str]], running: Iterable[str]) -> list[FlowRun]:
    """Waiting runs in the order in which they may start.

    Each time the oldest of the owner with the fewest runs at work.

    Both come with the owners of their flows, `waiting` oldest first.
    """
    count: dict[str, int] = {}
    for owner in running:
        count[owner] = count.get(owner, 0) + 1
    placed: list[tuple[int, int, FlowRun]] = []
    for number, (run, owner) in enumerate(waiting):
        placed.append((count.get(owner, 0), number, run))
        count[owner] = count.get(owner, 0) + 1
    return [run for _, _, run in sorted(placed, key=lambda each: each[:2])]


def _after(start: Instant, seconds: float) -> Instant:
    return Instant(start.epoch_ns + int(seconds * NANOS_PER_SECOND))
