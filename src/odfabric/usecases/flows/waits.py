"""What each waiting run waits for.

The scheduler looks at it and acts on it; pages show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from odfabric.domain.flows.flow_readiness import Readiness, RunFacts, Start, WaitForTurn, in_turn, readiness
from odfabric.errors import Corrupt, NotFound
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.flow import Flow, FlowKind, FlowRun, Reactive, RunStatus
from odfabric.usecases.datasets.derivatives import inputs_at
from odfabric.usecases.flows.causes import FlowLimits, FlowPorts
from odfabric.usecases.flows.follow_inputs import records_behind

UNFINISHED_MAX = 10_000
ABOVE_MAX = 1000
"""Datasets above a derivative one among which runs of its wave are looked for."""


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run that has not started, its flow, and why."""

    run: FlowRun
    flow: Flow
    verdict: Readiness


@dataclass(slots=True)
class RunsView:
    """The unfinished runs of a node, `runs`, at one moment."""

    runs: Sequence[FlowRun]
    ports: FlowPorts
    limits: FlowLimits
    _flows: dict[str, Flow | None] = field(default_factory=dict, init=False)
    _by_status: dict[tuple[RunStatus, str], FlowRun] | None = field(default=None, init=False)

    @classmethod
    def now(cls, ports: FlowPorts, limits: FlowLimits) -> RunsView:
        """As they are now."""
        return cls(ports.flows.unfinished(limit=UNFINISHED_MAX), ports, limits)

    def flow(self, run: FlowRun) -> Flow | None:
        """The flow of a run, None if it is gone."""
        if run.flow_id not in self._flows:
            self._flows[run.flow_id] = self.ports.flows.get(run.flow_id)
        return self._flows[run.flow_id]

    def waiting(self) -> Iterator[WaitingRun]:
        """Waiting runs: first those that cannot start, then as many in turn as have room."""
        ready: list[WaitingRun] = []
        for run, flow in self._of(RunStatus.WAITING):
            verdict = self.verdict(run, flow)
            if isinstance(verdict, Start):
                ready.append(WaitingRun(run, flow, verdict))
            else:
                yield WaitingRun(run, flow, verdict)
        owners = [flow.owner for _, flow in self._of(RunStatus.RUNNING)]
        by_id = {each.run.id: each for each in ready}
        for number, run in enumerate(in_turn([(each.run, each.flow.owner) for each in ready], owners), len(owners)):
            found = by_id[run.id]
            has_room = number < self.limits.at_once_max
            yield found if has_room else WaitingRun(run, found.flow, WaitForTurn(len(owners)))

    def verdict(self, run: FlowRun, flow: Flow) -> Readiness:
        """What a waiting run waits for, but for its turn."""
        facts = RunFacts(
            running=self._run_of(flow.id, RunStatus.RUNNING),
            above=list(self._above(run, flow)),
            records_behind=self._records(run, flow),
        )
        return readiness(run, flow, facts, now=self.ports.clock.now(), wave_wait_s=self.limits.wave_wait_s)

    def _of(self, status: RunStatus) -> Iterator[tuple[FlowRun, Flow]]:
        for run in self.runs:
            flow = self.flow(run) if run.status is status else None
            if flow is not None:
                yield run, flow

    def waiting_of(self, flow_id: str) -> FlowRun | None:
        """The run of a flow that waits, None if there is none."""
        return self._run_of(flow_id, RunStatus.WAITING)

    def _run_of(self, flow_id: str, status: RunStatus) -> FlowRun | None:
        if self._by_status is None:
            self._by_status = {(run.status, run.flow_id): run for run in self.runs}
        return self._by_status.get((status, flow_id))

    def _records(self, run: FlowRun, flow: Flow) -> int:
        trigger = flow.rule.trigger
        if not isinstance(trigger, Reactive) or not trigger.records_min:
            return 0
        entry = self.ports.repository.find(run.dataset_id)
        return 0 if entry is None else records_behind(entry, self.ports.repository)

    def _above(self, run: FlowRun, flow: Flow) -> Iterator[FlowRun]:
        """Unfinished runs of waves it waits for, on datasets above this one."""
        if flow.kind is not FlowKind.TRANSFORM:
            return
        others: dict[DatasetId, list[FlowRun]] = {}
        for other in self.runs:
            of = self.flow(other) if other.wave <= run.wave and other.dataset_id != run.dataset_id else None
            if of is not None and of.kind is FlowKind.TRANSFORM and _comes_soon(other, of):
                others.setdefault(other.dataset_id, []).append(other)
        if not others:
            return
        for dataset in self._datasets_above(run.dataset_id):
            yield from others.get(dataset, ())

    def _datasets_above(self, dataset: DatasetId) -> Iterable[DatasetId]:
        repository = self.ports.repository
        reached: dict[DatasetId, None] = {}
        frontier = [dataset]
        while frontier and len(reached) < ABOVE_MAX:
            each = frontier.pop()
            entry, head = repository.find(each), repository.chains.head(each)
            if entry is None or head is None:
                continue
            try:
                inputs = inputs_at(entry, head, repository)
            except (Corrupt, NotFound):
                continue
            new = [one for one in inputs if one not in reached and one != dataset]
            reached.update(dict.fromkeys(new))
            frontier += new
        return reached


def _comes_soon(run: FlowRun, flow: Flow) -> bool:
    """Whether the run is at work, or waits for its turn and nothing else."""
    trigger = flow.rule.trigger
    at_once = isinstance(trigger, Reactive) and trigger.at_once
    return run.status is RunStatus.RUNNING or (flow.active and at_once)
