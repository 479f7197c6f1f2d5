"""What runs wait for, and whose turn it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.flows.flow_readiness import (
    Missed,
    Readiness,
    RunFacts,
    Start,
    WaitForInputs,
    WaitForRecords,
    WaitForRun,
    WaitUntil,
    WaitWhilePaused,
    WaitWhileStopped,
    in_turn,
    readiness,
)
from odfabric.model.jobs.flow import Cause, CauseKind, Every, FlowKind, FlowRule, FlowRun, FlowStop, Reactive, RunStatus
from odfabric.testing.conformance.examples import NOW, entry_of, later
from odfabric.testing.conformance.jobs.flows import flow_of, run_of

FLOW = flow_of(entry_of("derived").id, kind=FlowKind.TRANSFORM, rule=FlowRule(trigger=Reactive()))
BUFFERED = replace(FLOW, rule=FlowRule(trigger=Reactive(records_min=5, wait_s=60)))
RUN = run_of(FLOW, wave=7, causes=(Cause(CauseKind.INPUT, NOW),))
ABOVE = run_of(flow_of(entry_of("above").id, "above", kind=FlowKind.TRANSFORM), "above", wave=7)
BY_HAND = replace(RUN, causes=(*RUN.causes, Cause(CauseKind.HAND, NOW)))
SCHEDULED = replace(RUN, causes=(Cause(CauseKind.SCHEDULE, NOW),))


def judged(run: FlowRun, *, after_s: float = 1, flow: object = FLOW, **facts: object) -> Readiness:
    return readiness(run, flow, RunFacts(**facts), now=later(int(after_s * 1000)), wave_wait_s=60)  # type: ignore[arg-type]


def test_a_run_starts_when_nothing_is_in_its_way() -> None:
    assert judged(RUN) == Start()


@pytest.mark.parametrize(
    ("above", "waits"),
    [
        (ABOVE, True),
        (replace(ABOVE, wave=6), True),
        (replace(ABOVE, wave=8), False),
        (replace(ABOVE, attempt=2), False),
        (replace(ABOVE, attempt=2, status=RunStatus.RUNNING), True),
        (replace(ABOVE, status=RunStatus.FAILED), False),
    ],
)
def test_what_runs_above_in_the_same_wave_goes_first(above: FlowRun, waits: bool) -> None:
    assert isinstance(judged(RUN, above=[above]), WaitForInputs if waits else Start)
    assert judged(RUN, above=[above], after_s=61) == Start()


def test_pauses_stops_and_the_run_before_are_waited_for() -> None:
    assert judged(RUN, flow=replace(FLOW, paused=True)) == WaitWhilePaused()
    assert judged(BY_HAND, flow=replace(FLOW, paused=True)) == Start()
    stop = FlowStop("the query is wrong", NOW)
    assert judged(RUN, flow=replace(FLOW, stop=stop)) == WaitWhileStopped(stop)
    assert judged(RUN, running=replace(RUN, id="before")) == WaitForRun("before")
    assert judged(replace(RUN, due_at=later(5000))) == WaitUntil(later(5000))


def test_a_run_of_a_clock_that_was_ahead_is_due() -> None:
    ahead = replace(RUN, due_at=later(9_000_000), updated_at=later(8_000_000), created_at=later(8_000_000))
    assert judged(ahead, above=[ABOVE]) == Start()


def test_records_are_awaited_for_a_time() -> None:
    assert judged(RUN, flow=BUFFERED, records_behind=3) == WaitForRecords(3, 5, later(60_000))
    assert judged(RUN, flow=BUFFERED, records_behind=5) == Start()
    assert judged(RUN, flow=BUFFERED, records_behind=3, after_s=60) == Start()
    assert judged(BY_HAND, flow=BUFFERED, records_behind=0) == Start()
    timed = replace(FLOW, rule=FlowRule(trigger=Reactive(wait_s=60)))
    assert judged(RUN, flow=timed, records_behind=99) == WaitUntil(later(60_000))


def test_a_scheduled_run_that_is_too_late_is_missed() -> None:
    flow = replace(FLOW, rule=FlowRule(trigger=Every(60), latest_start_s=10))
    assert judged(SCHEDULED, flow=flow, after_s=10) == Start()
    assert judged(SCHEDULED, flow=flow, after_s=11) == Missed()
    assert judged(replace(SCHEDULED, causes=(*SCHEDULED.causes, *BY_HAND.causes)), flow=flow, after_s=11) == Start()


@given(
    st.lists(st.sampled_from("abc"), max_size=20),
    st.lists(st.sampled_from("abc"), max_size=8),
)
def test_owners_take_turns(waiting: list[str], running: list[str]) -> None:
    """No owner, at any number of places, gets more while a waiting owner has fewer."""
    runs = [(replace(RUN, id=str(number)), owner) for number, owner in enumerate(waiting)]
    order = in_turn(runs, running)
    assert sorted(run.id for run in order) == sorted(run.id for run, _ in runs)
    owner_of = {run.id: owner for run, owner in runs}
    at_work = {owner: running.count(owner) for owner in "abc"}
    left = list(order)
    while left:
        run = left.pop(0)
        owner = owner_of[run.id]
        others = {owner_of[other.id] for other in left}
        assert all(at_work[owner] <= at_work[other] for other in others)
        at_work[owner] += 1
    for owner in "abc":
        mine = [int(run.id) for run in order if owner_of[run.id] == owner]
        assert mine == sorted(mine)
