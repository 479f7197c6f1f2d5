"""Contract of Flows and Roles.

Rows with versions, one run of each state per flow, one holder per role.

A subclass gives `storage`, `flows` and `roles` over one database, new and empty for each test.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.model.identity import DatasetId
from odfabric.model.jobs.flow import (
    Backoff,
    Cause,
    CauseKind,
    Cron,
    Every,
    Flow,
    FlowKind,
    FlowRule,
    FlowRun,
    FlowStop,
    Overlap,
    Reactive,
    RetryPolicy,
    RunStatus,
)
from odfabric.model.people.audit import THE_NODE, AuditEntry, AuditKind
from odfabric.ports.jobs.flows import Flows
from odfabric.ports.people.audit import AuditLog
from odfabric.ports.people.roles import Roles
from odfabric.testing.conformance.examples import NOW, GrowingChain, StoragePorts, entry_of, hash_of, later, new_chain
from odfabric.testing.conformance.together import outcomes_of_threads

LEASE_MS = 1000


def flow_of(dataset: DatasetId, flow_id: str = "f", *, kind: FlowKind = FlowKind.POLL, **values: object) -> Flow:
    """A new flow each hour."""
    flow = Flow(
        id=flow_id,
        dataset_id=dataset,
        kind=kind,
        owner="did:odf:owner",
        rule=FlowRule(trigger=Every(3600)),
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(flow, **values)  # type: ignore[arg-type]


def run_of(flow: Flow, run_id: str = "r", **values: object) -> FlowRun:
    """A new run of it."""
    run = FlowRun(
        id=run_id,
        flow_id=flow.id,
        dataset_id=flow.dataset_id,
        wave=1,
        causes=(Cause(CauseKind.SCHEDULE, NOW),),
        cause_count=1,
        due_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(run, **values)  # type: ignore[arg-type]


def stored(flows: Flows, run: FlowRun) -> FlowRun:
    """The run as it is stored."""
    assert flows.write(run=run)
    found = flows.run(run.id)
    assert found is not None
    return found


class FlowsContract:
    """Flows and their runs."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    @pytest.fixture
    def flows(self, storage: StoragePorts) -> Flows:
        raise NotImplementedError

    @pytest.fixture
    def audit(self) -> AuditLog:
        """The audit log of the same storage."""
        raise NotImplementedError

    @pytest.fixture
    def chain(self, storage: StoragePorts) -> GrowingChain:
        """A dataset."""
        return new_chain(storage.chains)

    @pytest.fixture
    def flow(self, flows: Flows, chain: GrowingChain) -> Flow:
        """A stored flow of it."""
        assert flows.write(flow=flow_of(chain.id))
        found = flows.get("f")
        assert found is not None
        return found

    def test_what_was_stored_is_read(self, flows: Flows, chain: GrowingChain) -> None:
        rules = [
            FlowRule(trigger=Every(90), fetch_uncacheable=True, failures_max=None),
            FlowRule(trigger=Cron("30 2 * * *", "Europe/Berlin"), overlap=Overlap.SKIP, latest_start_s=600),
            FlowRule(trigger=Reactive(5, 60), retry=RetryPolicy(attempts_max=0, pause_s=7, backoff=Backoff.LINEAR)),
        ]
        stop = FlowStop('it said "no"', NOW, hash_of("head"))
        for kind, rule in zip(FlowKind, rules, strict=False):
            made = flow_of(chain.id, kind.value, kind=kind, rule=rule, stop=stop, paused=True, failures=3, next_at=NOW)
            assert flows.write(flow=made)
            assert flows.get(kind.value) == flows.of_kind(chain.id, kind) == replace(made, version=1)
        assert [flow.kind for flow in flows.of_dataset(chain.id)] == [
            FlowKind.MIRROR,
            FlowKind.POLL,
            FlowKind.TRANSFORM,
        ]
        assert [flow.id for flow in flows.page(limit=2)] == ["mirror", "poll"]
        assert [flow.id for flow in flows.page(after="poll", limit=2)] == ["transform"]
        assert flows.get("other") is flows.of_kind(chain.id, FlowKind.VERIFY) is None

    def test_runs_are_read_as_they_were_stored(self, flows: Flows, flow: Flow) -> None:
        causes = (Cause(CauseKind.INPUT, NOW, dataset=entry_of("x").id), Cause(CauseKind.HAND, later(1), who="sergei"))
        made = run_of(flow, causes=causes, cause_count=99, job_id="j", result="{}", error="[]", started_at=later(2))
        assert flows.write(run=made)
        assert flows.run("r") == flows.waiting("f") == replace(made, version=1)
        assert list(flows.unfinished(limit=9)) == list(flows.runs(limit=9)) == list(flows.runs(flow_id="f", limit=9))
        assert flows.run("other") is flows.waiting("other") is None
        assert list(flows.runs(flow_id="other", limit=9)) == []

    def test_only_who_has_seen_the_last_version_writes(self, flows: Flows, flow: Flow) -> None:
        run = stored(flows, run_of(flow))
        assert flows.write(flow=replace(flow, paused=True), run=replace(run, attempt=2))
        assert not flows.write(flow=replace(flow, paused=False))
        assert not flows.write(run=replace(run, attempt=3))
        found = flows.get("f")
        assert found is not None
        assert not flows.write(flow=replace(found, paused=False), run=replace(run, attempt=3))
        assert flows.get("f") == found
        assert found.paused

    def test_one_of_many_writers_wins(self, flows: Flows, flow: Flow) -> None:
        def write(number: int) -> bool:
            return flows.write(flow=replace(flow, failures=number + 1))

        assert outcomes_of_threads(write).count(True) == 1

    def test_one_run_waits_and_one_runs(self, flows: Flows, flow: Flow) -> None:
        first = stored(flows, run_of(flow, "first"))
        assert not flows.write(run=run_of(flow, "second"))
        assert flows.write(run=replace(first, status=RunStatus.RUNNING))
        second = stored(flows, run_of(flow, "second"))
        assert not flows.write(run=replace(second, status=RunStatus.RUNNING))
        running = flows.run("first")
        assert running is not None
        assert not flows.write(run=replace(running, status=RunStatus.WAITING))
        assert flows.write(run=replace(running, status=RunStatus.SUCCEEDED))
        assert flows.write(run=replace(second, status=RunStatus.RUNNING))
        assert [run.id for run in flows.unfinished(limit=9)] == ["second"]
        assert [run.id for run in flows.runs(limit=9)] == ["second", "first"]

    def test_one_flow_of_a_kind_and_none_without_dataset(self, flows: Flows, flow: Flow) -> None:
        assert not flows.write(flow=flow_of(flow.dataset_id, "other"))
        assert not flows.write(flow=flow_of(entry_of("nowhere").id, "other"))
        assert not flows.write(run=run_of(replace(flow, id="nowhere")))
        assert flows.write(flow=flow_of(flow.dataset_id, "other", kind=FlowKind.VERIFY))
        assert not flows.write(flow=flow_of(flow.dataset_id, "new", kind=FlowKind.MIRROR), run=run_of(flow, version=5))
        assert flows.get("new") is None

    def test_flows_are_due_in_order(self, flows: Flows, chain: GrowingChain) -> None:
        assert flows.next_due() is None
        for millis, kind in zip((30, 10, 20), FlowKind, strict=False):
            assert flows.write(flow=flow_of(chain.id, f"at {millis}", kind=kind, next_at=later(millis)))
        assert flows.write(flow=flow_of(chain.id, "never", kind=FlowKind.VERIFY))
        assert flows.next_due() == later(10)
        assert [flow.id for flow in flows.due(later(20), limit=9)] == ["at 10", "at 20"]
        assert [flow.id for flow in flows.due(later(99), limit=2)] == ["at 10", "at 20"]
        assert list(flows.due(later(9), limit=9)) == []

    def test_the_newest_run_of_each_flow_is_found(self, flows: Flows, flow: Flow) -> None:
        other = flow_of(flow.dataset_id, "other", kind=FlowKind.VERIFY)
        for number in range(3):
            assert flows.write(run=run_of(flow, f"r{number}", status=RunStatus.FAILED))
        assert flows.write(flow=other, run=run_of(other, "o", status=RunStatus.RUNNING))
        assert flows.write(flow=flow_of(flow.dataset_id, "none", kind=FlowKind.MIRROR))
        found = flows.last_runs(["f", "other", "none", "nowhere", *map(str, range(1200))])
        assert {flow_id: run.id for flow_id, run in found.items()} == {"f": "r2", "other": "o"}
        assert flows.last_runs([]) == {}

    def test_waves_grow(self, flows: Flows, flow: Flow) -> None:
        assert flows.last_wave() == 0
        run = stored(flows, run_of(flow, wave=7))
        assert flows.write(run=replace(run, status=RunStatus.MISSED))
        assert flows.write(run=run_of(flow, "next", wave=3))
        assert flows.last_wave() == 7

    def test_runs_are_dropped_and_forgotten(self, flows: Flows, flow: Flow) -> None:
        for number in range(5):
            assert flows.write(run=run_of(flow, f"r{number}", status=RunStatus.FAILED))
        waiting = stored(flows, run_of(flow, "waits"))
        assert flows.forget("f", keep=2) == 3
        assert [run.id for run in flows.runs(limit=9)] == ["waits", "r4", "r3"]
        assert flows.forget("f", keep=2) == 0
        assert flows.write(run=replace(waiting, attempt=2))
        assert not flows.drop_run(waiting)
        assert flows.drop_run(replace(waiting, version=2))
        assert flows.waiting("f") is None

    def test_flows_go_by_hand_and_with_their_dataset(
        self, flows: Flows, flow: Flow, chain: GrowingChain, storage: StoragePorts
    ) -> None:
        assert flows.write(run=run_of(flow))
        assert not flows.delete(replace(flow, version=9))
        assert flows.delete(flow)
        assert flows.run("r") is None
        assert flows.write(flow=flow_of(chain.id), run=run_of(flow))
        chain.remove()
        assert not flows.page(limit=9)
        assert not flows.runs(limit=9)

    def test_audit_entries_are_written_with_the_flow(self, flows: Flows, flow: Flow, audit: AuditLog) -> None:
        entry = AuditEntry(kind=AuditKind.FLOW_CHANGED, actor=THE_NODE, at=NOW, target="local/flights")
        assert flows.write(flow=replace(flow, paused=True), audit=[entry])
        assert not flows.write(flow=replace(flow, paused=True), audit=[entry])
        assert len(audit.page(kinds=frozenset({"flow.changed"}), limit=9)) == 1


class RolesContract:
    """One holder at a time."""

    @pytest.fixture
    def roles(self) -> Roles:
        raise NotImplementedError

    def test_one_holds_until_the_lease_ends(self, roles: Roles) -> None:
        assert roles.hold("scheduler", "a", now=NOW, lease_ms=LEASE_MS)
        assert not roles.hold("scheduler", "b", now=later(LEASE_MS - 1), lease_ms=LEASE_MS)
        assert roles.hold("scheduler", "a", now=later(900), lease_ms=LEASE_MS)
        assert not roles.hold("scheduler", "b", now=later(LEASE_MS + 800), lease_ms=LEASE_MS)
        assert roles.hold("scheduler", "b", now=later(LEASE_MS + 900), lease_ms=LEASE_MS)
        assert not roles.hold("scheduler", "a", now=later(LEASE_MS + 900), lease_ms=LEASE_MS)
        assert roles.hold("other", "a", now=NOW, lease_ms=LEASE_MS)

    def test_a_lease_of_a_clock_that_was_ahead_is_free(self, roles: Roles) -> None:
        assert roles.hold("scheduler", "a", now=later(3_600_000), lease_ms=LEASE_MS)
        assert roles.hold("scheduler", "b", now=NOW, lease_ms=LEASE_MS)

    def test_it_is_given_back_by_its_holder_alone(self, roles: Roles) -> None:
        assert roles.hold("scheduler", "a", now=NOW, lease_ms=LEASE_MS)
        roles.release("scheduler", "b")
        assert not roles.hold("scheduler", "b", now=NOW, lease_ms=LEASE_MS)
        roles.release("scheduler", "a")
        assert roles.hold("scheduler", "b", now=NOW, lease_ms=LEASE_MS)

    def test_one_of_many_takes_it(self, roles: Roles) -> None:
        def take(number: int) -> bool:
            return roles.hold("scheduler", f"worker {number}", now=NOW, lease_ms=LEASE_MS)

        assert outcomes_of_threads(take).count(True) == 1
