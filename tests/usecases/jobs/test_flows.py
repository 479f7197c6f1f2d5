"""Flows: derivatives follow, schedules poll, failures repeat, waits are explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.domain.flows.flow_readiness import WaitForRecords, WaitUntil, WaitWhilePaused
from odfabric.errors import InvalidQuery
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import TransformRequest, TransformResult
from odfabric.model.jobs.flow import (
    Backoff,
    CauseKind,
    Cron,
    Every,
    Flow,
    FlowKind,
    FlowRule,
    FlowRun,
    Overlap,
    Reactive,
    RetryPolicy,
    RunStatus,
)
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.people.audit import AuditKind
from odfabric.model.subscriptions.event import EventType
from odfabric.ports.engine import ProgressListener
from odfabric.testing.memory_node import START, MemoryNode
from odfabric.usecases.flows.change_flows import SeenFlow
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring.composed.verifying import VerifyVerbs
from odfabric.wiring.monitoring.metrics import FlowsCollector
from tests.usecases.manifests import DERIVED, POLLED, ROOT

SECOND = 1000
HOUR = 3600 * SECOND
HOURLY = FlowRule(trigger=Every(3600))


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def row(day: int, city: str = "A") -> str:
    return json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": city}) + "\n"


def push(memory: MemoryNode, entry: CatalogEntry, text: str) -> None:
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([text.encode()])))
    assert isinstance(job, Job)
    assert memory.finish(job).status is JobStatus.SUCCEEDED


def derived(memory: MemoryNode, name: str, *inputs: str) -> CatalogEntry:
    """A derivative of all rows of its last input, which is read with the others."""
    refs = ", ".join(f"{{datasetRef: {each}}}" for each in inputs)
    query = f"SELECT * FROM {inputs[-1]}"
    manifest = DERIVED.replace("name: copied", f"name: {name}")
    manifest = manifest.replace("[{datasetRef: readings}]", f"[{refs}]").replace("SELECT * FROM readings", query)
    return memory.add(manifest)


def rows(memory: MemoryNode, entry: CatalogEntry) -> int:
    _, state = memory.node.repository.current(entry.id)
    return state.next_offset


def commits(memory: MemoryNode, entry: CatalogEntry) -> int:
    """How many transactions a derivative dataset has had."""
    return sum(
        type(link.block.event).__name__ == "ExecuteTransform" for link in memory.node.datasets.log(entry, limit=1000)
    )


def flow(memory: MemoryNode, entry: CatalogEntry, kind: FlowKind = FlowKind.TRANSFORM) -> SeenFlow:
    (seen,) = [each for each in memory.node.flows.of_dataset(entry, by=memory.node.operator) if each.flow.kind is kind]
    return seen


def set_rule(memory: MemoryNode, entry: CatalogEntry, kind: FlowKind, rule: FlowRule) -> Flow:
    return memory.node.flows.set(entry, kind, rule, by=memory.node.operator)


def last_run(memory: MemoryNode, entry: CatalogEntry, kind: FlowKind = FlowKind.TRANSFORM) -> FlowRun:
    return flow(memory, entry, kind).runs[0]


def poll(memory: MemoryNode, rule: FlowRule = HOURLY) -> CatalogEntry:
    """A dataset that polls files, by a schedule."""
    entry = memory.add(POLLED)
    set_rule(memory, entry, FlowKind.POLL, rule)
    return entry


def arrive(memory: MemoryNode, name: str, text: str) -> None:
    memory.files.add(f"arrivals/{name}", text.encode(), modified_at=START)


class FussyEngine(MemoryEngine):
    """Likes queries with two spaces only."""

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        if "  " not in str(request.transform):
            raise InvalidQuery("there is one space too few")
        return super().execute_transform(request, progress=progress)


class TestFollowing:
    def test_two_levels_follow_a_push_by_themselves(self, memory: MemoryNode) -> None:
        root, first = memory.add(ROOT), memory.add(DERIVED)
        second = derived(memory, "again", "copied")
        push(memory, root, row(1) + row(2))
        memory.work()
        assert (rows(memory, first), rows(memory, second)) == (2, 2)
        push(memory, root, row(3))
        memory.work()
        assert (rows(memory, first), rows(memory, second)) == (3, 3)
        assert last_run(memory, second).status is RunStatus.SUCCEEDED
        assert [cause.kind for cause in last_run(memory, first).causes] == [CauseKind.INPUT]

    def test_nothing_runs_where_nothing_has_moved(self, memory: MemoryNode) -> None:
        root, first = memory.add(ROOT), memory.add(DERIVED)
        push(memory, root, row(1))
        memory.work()
        assert memory.work() == 0
        memory.node.flows.catch_up()
        assert memory.work() == 0
        assert len(flow(memory, first).runs) == 1

    def test_a_new_derivative_dataset_reads_what_is_there(self, memory: MemoryNode) -> None:
        root = memory.add(ROOT)
        push(memory, root, row(1))
        memory.work()
        first = memory.add(DERIVED)
        memory.work()
        assert rows(memory, first) == 1

    @pytest.mark.parametrize("long_way", [1, 3])
    def test_a_diamond_computes_each_dataset_once(self, memory: MemoryNode, long_way: int) -> None:
        root, left = memory.add(ROOT), memory.add(DERIVED)
        before = "readings"
        for number in range(long_way):
            derived(memory, f"right-{number}", before)
            before = f"right-{number}"
        end = derived(memory, "joined", "copied", before)
        after = derived(memory, "after", "joined")
        for day in range(1, 4):
            push(memory, root, row(day))
            memory.work()
            assert (commits(memory, left), commits(memory, end), commits(memory, after)) == (day, day, day)
        assert (rows(memory, end), rows(memory, after)) == (3, 3)

    def test_what_came_while_it_ran_is_read_by_the_next_run(self, memory: MemoryNode) -> None:
        root, first = memory.add(ROOT), memory.add(DERIVED)
        push(memory, root, row(1))
        memory.node.background.relay_outbox()
        memory.node.flows.step("worker")
        assert last_run(memory, first).status is RunStatus.RUNNING
        push(memory, root, row(2))
        push(memory, root, row(3))
        memory.node.background.relay_outbox()
        waiting, running = flow(memory, first).runs
        assert (waiting.status, running.status) == (RunStatus.WAITING, RunStatus.RUNNING)
        memory.work()
        assert rows(memory, first) == 3

    def test_many_pushes_are_read_by_one_run(self, memory: MemoryNode) -> None:
        root, first = memory.add(ROOT), memory.add(DERIVED)
        memory.work()
        for day in range(1, 10):
            push(memory, root, row(day))
            memory.node.background.relay_outbox()
        memory.work()
        assert (rows(memory, first), commits(memory, first)) == (9, 1)
        assert last_run(memory, first).cause_count == 9

    def test_records_and_time_are_awaited(self, memory: MemoryNode) -> None:
        root, first = memory.add(ROOT), memory.add(DERIVED)
        memory.work()
        set_rule(memory, first, FlowKind.TRANSFORM, FlowRule(trigger=Reactive(records_min=3, wait_s=3600)))
        push(memory, root, row(1))
        memory.work()
        waits = flow(memory, first).waits
        assert isinstance(waits, WaitForRecords)
        assert (waits.waiting, waits.needed) == (1, 3)
        push(memory, root, row(2) + row(3))
        memory.work()
        assert rows(memory, first) == 3
        push(memory, root, row(4))
        memory.work()
        assert rows(memory, first) == 3
        memory.clock.advance(HOUR)
        memory.work()
        assert rows(memory, first) == 4

    def test_what_is_behind_one_that_waits_does_not_wait_for_it(self, memory: MemoryNode) -> None:
        root, slow = memory.add(ROOT), memory.add(DERIVED)
        end = derived(memory, "joined", "copied", "readings")
        push(memory, root, row(1))
        memory.work()
        set_rule(memory, slow, FlowKind.TRANSFORM, FlowRule(trigger=Reactive(wait_s=3600)))
        push(memory, root, row(2))
        memory.work()
        assert isinstance(flow(memory, slow).waits, WaitUntil)
        assert (rows(memory, slow), rows(memory, end)) == (1, 2)

    def test_a_paused_flow_rests_and_catches_up(self, memory: MemoryNode) -> None:
        root, first = memory.add(ROOT), memory.add(DERIVED)
        memory.work()
        memory.node.flows.pause(first, FlowKind.TRANSFORM, by=memory.node.operator)
        push(memory, root, row(1))
        assert memory.work() == 0
        run = memory.node.flows.run_now(first, FlowKind.TRANSFORM, by=memory.node.operator)
        memory.work()
        assert rows(memory, first) == 1
        assert memory.node.flows.run(run.id, by=memory.node.operator)[0].status is RunStatus.SUCCEEDED
        push(memory, root, row(2))
        memory.work()
        assert rows(memory, first) == 1
        memory.node.flows.resume(first, FlowKind.TRANSFORM, by=memory.node.operator)
        memory.work()
        assert rows(memory, first) == 2

    def test_a_run_that_waits_is_told_that_its_flow_was_paused(self, memory: MemoryNode) -> None:
        root, first = memory.add(ROOT), memory.add(DERIVED)
        push(memory, root, row(1))
        memory.node.background.relay_outbox()
        memory.node.flows.pause(first, FlowKind.TRANSFORM, by=memory.node.operator)
        assert memory.work() == 0
        assert isinstance(flow(memory, first).waits, WaitWhilePaused)

    def test_an_owner_may_decide_against_following(self, tmp_path: Path) -> None:
        memory = MemoryNode(tmp_path)
        memory.settings = memory.settings.model_copy(update={"derivatives_follow": False})
        memory.restart()
        root, first = memory.add(ROOT), memory.add(DERIVED)
        push(memory, root, row(1))
        assert memory.work() == 0
        set_rule(memory, first, FlowKind.TRANSFORM, FlowRule(trigger=Reactive()))
        memory.work()
        assert rows(memory, first) == 1


class TestSchedules:
    def test_a_source_is_polled_each_hour(self, memory: MemoryNode) -> None:
        entry = memory.add(POLLED)
        arrive(memory, "1.ndjson", row(1))
        set_rule(memory, entry, FlowKind.POLL, HOURLY)
        memory.work()
        assert rows(memory, entry) == 1
        arrive(memory, "2.ndjson", row(2))
        assert memory.work() == 0
        memory.clock.advance(HOUR)
        memory.work()
        assert rows(memory, entry) == 2
        assert last_run(memory, entry, FlowKind.POLL).causes[0].kind is CauseKind.SCHEDULE

    def test_a_node_that_was_down_polls_once(self, memory: MemoryNode) -> None:
        arrive(memory, "1.ndjson", row(1))
        entry = poll(memory)
        memory.work()
        memory.clock.advance(50 * HOUR)
        memory.restart()
        assert memory.work() == 1
        assert flow(memory, entry, FlowKind.POLL).flow.next_at is not None

    def test_a_late_run_is_missed(self, memory: MemoryNode) -> None:
        entry = poll(memory, FlowRule(trigger=Cron("0 * * * *"), latest_start_s=600))
        memory.work()
        memory.clock.advance(HOUR + HOUR // 2)
        assert memory.work() == 0
        assert last_run(memory, entry, FlowKind.POLL).status is RunStatus.MISSED

    def test_a_run_that_is_not_ended_is_followed_by_one_or_none(self, memory: MemoryNode) -> None:
        for overlap, unfinished in ((Overlap.SKIP, 1), (Overlap.QUEUE_ONE, 2)):
            entry = memory.add(POLLED.replace("name: polled", f"name: {overlap.value}"))
            set_rule(memory, entry, FlowKind.POLL, FlowRule(trigger=Every(60), overlap=overlap))
            for _ in range(4):
                memory.node.flows.step("worker")
                memory.clock.advance(60 * SECOND)
            states = [run.status.final for run in flow(memory, entry, FlowKind.POLL).runs]
            assert states == [False] * unfinished

    def test_a_clock_that_was_ahead_holds_no_schedule_up(self, memory: MemoryNode) -> None:
        entry = poll(memory)
        arrive(memory, "1.ndjson", row(1))
        memory.work()
        now = memory.clock.now()
        memory.clock.advance(1000 * HOUR)
        memory.work()
        memory.clock.set(now)
        memory.restart()
        arrive(memory, "2.ndjson", row(2))
        memory.work()
        assert rows(memory, entry) == 2

    def test_verification_runs_by_schedule(self, memory: MemoryNode) -> None:
        root = memory.add(ROOT)
        push(memory, root, row(1))
        set_rule(memory, root, FlowKind.VERIFY, HOURLY)
        memory.work()
        run = last_run(memory, root, FlowKind.VERIFY)
        assert json.loads(run.result or "") == {"ok": True, "errors": []}
        last = VerifyVerbs(memory.node).last(root, by=memory.node.operator)
        assert last is not None
        assert (last.behind, last.problems, last.is_whole) == (0, 0, False)


class TestFailures:
    RETRY = RetryPolicy(attempts_max=2, pause_s=60, backoff=Backoff.LINEAR)

    def test_an_outside_failure_is_tried_again_after_its_pauses(self, memory: MemoryNode) -> None:
        entry = poll(memory, FlowRule(trigger=Every(86_400), retry=self.RETRY))
        arrive(memory, "1.ndjson", row(1))
        failing = FaultPlan(lambda _, call: Fault.BEFORE if call.name == "source.glob" and down else None)
        down = [True]
        memory.restart(failing)
        memory.work()
        run = last_run(memory, entry, FlowKind.POLL)
        assert (run.status, run.attempt) == (RunStatus.WAITING, 2)
        assert isinstance(flow(memory, entry, FlowKind.POLL).waits, WaitUntil)
        memory.clock.advance(59 * SECOND)
        assert memory.work() == 0
        memory.clock.advance(2 * SECOND)
        assert memory.work() == 1
        down.clear()
        memory.clock.advance(121 * SECOND)
        memory.work()
        assert last_run(memory, entry, FlowKind.POLL).status is RunStatus.SUCCEEDED
        assert rows(memory, entry) == 1

    def test_a_flow_stops_after_failures_in_a_row_and_says_why(self, memory: MemoryNode) -> None:
        rule = FlowRule(trigger=Every(60), retry=RetryPolicy(attempts_max=0), failures_max=3)
        entry = poll(memory, rule)
        arrive(memory, "1.ndjson", "oops\n")
        for _ in range(5):
            memory.work()
            memory.clock.advance(61 * SECOND)
        seen = flow(memory, entry, FlowKind.POLL)
        assert [run.status for run in seen.runs] == [RunStatus.FAILED] * 3
        assert seen.flow.stop is not None
        assert "3 runs failed" in seen.flow.stop.reason
        assert "1.ndjson" in seen.flow.stop.reason
        kinds = [stored.entry.kind for stored in memory.node.ports.audit.page(limit=100)]
        assert kinds.count(AuditKind.FLOW_STOPPED) == 1
        sent = [stored.message.event.type for stored in memory.store.outbox if stored.message.event]
        assert sent[-4:] == [EventType.FLOW_FAILED] * 3 + [EventType.FLOW_STOPPED]
        arrive(memory, "1.ndjson", row(1))
        memory.node.flows.resume(entry, FlowKind.POLL, by=memory.node.operator)
        memory.work()
        assert rows(memory, entry) == 1
        assert flow(memory, entry, FlowKind.POLL).flow.failures == 0

    def test_a_query_that_fails_runs_again_when_it_is_another(self, memory: MemoryNode) -> None:
        memory.use_engine(FussyEngine(memory.folder / "exchange"))
        root, first = memory.add(ROOT), memory.add(DERIVED)
        push(memory, root, row(1))
        memory.work()
        seen = flow(memory, first)
        assert seen.runs[0].status is RunStatus.FAILED
        assert seen.flow.stop is not None
        assert seen.flow.stop.head is not None
        push(memory, root, row(2))
        assert memory.work() == 0
        (snapshot,) = parse_snapshots(DERIVED.replace("SELECT *", "SELECT  *"), file="test.yaml")
        memory.node.editing.set_transform(snapshot, memory.node.operator)
        memory.work()
        assert rows(memory, first) == 2
        assert flow(memory, first).flow.stop is None

    def test_a_run_that_was_cancelled_is_not_tried_again(self, memory: MemoryNode) -> None:
        root, first = memory.add(ROOT), memory.add(DERIVED)
        push(memory, root, row(1))
        memory.node.background.relay_outbox()
        memory.node.flows.step("worker")
        run = last_run(memory, first)
        memory.node.flows.cancel(run.id, by=memory.node.operator)
        assert memory.work() == 0
        assert last_run(memory, first).status is RunStatus.CANCELLED
        push(memory, root, row(2))
        memory.work()
        assert rows(memory, first) == 2


class TestMetrics:
    def samples(self, memory: MemoryNode) -> dict[tuple[str, ...], float]:
        found = FlowsCollector(memory.node.ports.flows, memory.clock).collect()
        return {(each.name, *each.labels.values()): each.value for family in found for each in family.samples}

    def test_lag_lateness_failures_and_states_are_told(self, memory: MemoryNode) -> None:
        entry = poll(memory, FlowRule(trigger=Every(60), retry=RetryPolicy(attempts_max=0), failures_max=2))
        arrive(memory, "1.ndjson", "oops\n")
        memory.work()
        memory.clock.advance(100 * SECOND)
        told = self.samples(memory)
        assert told["odf_flows", "poll", "active"] == 1
        assert told["odf_flow_failures_in_a_row", "poll"] == 1
        assert 39 < told["odf_flow_late_seconds", "poll"] < 41
        memory.node.flows.step("worker")
        memory.clock.advance(5 * SECOND)
        told = self.samples(memory)
        assert told["odf_flow_runs_unfinished", "poll", "running"] == 1
        assert 4 < told["odf_flow_lag_seconds", "poll"] < 6
        memory.work()
        assert self.samples(memory)["odf_flows", "poll", "stopped"] == 1
        assert flow(memory, entry, FlowKind.POLL).flow.stop is not None
