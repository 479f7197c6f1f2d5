"""Flows, bound to a node's ports: the scheduler's verbs and those of people."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from odfabric.domain.people.access import Subject
from odfabric.domain.people.dataset_search import Narrowing
from odfabric.errors import Corrupt, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, NANOS_PER_SECOND, Instant
from odfabric.model.jobs.flow import Flow, FlowKind, FlowRule, FlowRun
from odfabric.model.metadata import DatasetKind
from odfabric.ports.people.roles import Roles
from odfabric.ports.subscriptions.signals import Signals, Topic
from odfabric.settings import Settings
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.flows.causes import FlowLimits, FlowPorts
from odfabric.usecases.flows.change_flows import (
    SeenFlow,
    all_flows,
    cancel_run,
    flows_of,
    pause_flow,
    remove_flow,
    resume_flow,
    run_now,
    seen_run,
    set_flow,
)
from odfabric.usecases.flows.follow_inputs import follow_head, follow_own_change
from odfabric.usecases.flows.run_flows import run_round, set_clocks_right
from odfabric.usecases.rights.access import Access
from odfabric.wiring.node_ports import NodePorts

_log = logging.getLogger(__name__)

SCHEDULER = "scheduler"
CATCH_UP_PAGE = 500


@dataclass(slots=True, kw_only=True)
class FlowVerbs:
    """The verbs on flows."""

    ports: FlowPorts
    roles: Roles
    signals: Signals
    settings: Settings
    _held_until: Instant | None = field(default=None, init=False)

    @property
    def limits(self) -> FlowLimits:
        """Bounds of the scheduler."""
        settings = self.settings
        return FlowLimits(
            at_once_max=settings.flow_runs_at_once_max,
            wave_wait_s=settings.flow_wave_wait_s,
            runs_kept_max=settings.flow_runs_kept_max,
        )

    def follow(self, dataset: DatasetId) -> None:
        """A dataset has changed: what follows it gets a cause to run."""
        if follow_head(dataset, ports=self.ports):
            self.signals.send(Topic.FLOWS)

    def step(self, worker: str) -> float:
        """One round of the scheduler, if this worker has the role or can take it.

        How many seconds the next one may be away.
        """
        settings = self.settings
        if not settings.flows or not self._holds(worker):
            return settings.flow_look_s
        done = run_round(ports=self.ports, limits=self.limits)
        if done.started:
            self.signals.send(Topic.JOBS)
        if done.ended:
            return 0.0
        if done.next_at is None:
            return settings.flow_look_s
        ahead_s = (done.next_at.epoch_ns - self.ports.clock.now().epoch_ns) / NANOS_PER_SECOND
        return min(max(ahead_s, 0.0), settings.flow_look_s)

    @property
    def schedules(self) -> bool:
        """Whether the last round had the role of the scheduler."""
        return self._held_until is not None

    def release(self, worker: str) -> None:
        """Let another worker schedule at once."""
        self._held_until = None
        self.roles.release(SCHEDULER, worker)

    def catch_up(self) -> int:
        """Give derivatives behind their inputs a cause to run, after any miss; how many."""
        set_clocks_right(ports=self.ports)
        after: DatasetAlias | None = None
        count = 0
        derived = Narrowing(kind=DatasetKind.DERIVATIVE)
        while page := self.ports.repository.catalog.page(derived, after=after, limit=CATCH_UP_PAGE):
            for entry in page:
                try:
                    count += follow_own_change(entry, ports=self.ports)
                except (Corrupt, NotFound) as error:
                    _log.warning("whether %s is behind its inputs is not known: %s", entry.alias, error)
            after = page[-1].alias
        if count:
            self.signals.send(Topic.FLOWS)
        return count

    def of_dataset(self, entry: CatalogEntry, *, by: Subject, runs: int = 20) -> list[SeenFlow]:
        """The flows of a dataset. Raises NotFound, AccessDenied."""
        return flows_of(entry, subject=by, ports=self.ports, limits=self.limits, runs=runs)

    def all(self, *, by: Subject) -> list[SeenFlow]:
        """The flows of all datasets that the subject may change, those at work first."""
        return all_flows(subject=by, ports=self.ports, limits=self.limits, flows_max=self.settings.flows_listed_max)

    def set(
        self, entry: CatalogEntry, kind: FlowKind, rule: FlowRule, *, by: Subject, if_version: int | None = None
    ) -> Flow:
        """Make a flow, or put it under another rule.

        Raises NotFound, AccessDenied, InvalidRequest, Changed.
        """
        every_s_min = self.settings.flow_every_s_min
        flow = set_flow(entry, kind, rule, subject=by, ports=self.ports, every_s_min=every_s_min, if_version=if_version)
        self.signals.send(Topic.FLOWS)
        return flow

    def pause(self, entry: CatalogEntry, kind: FlowKind, *, by: Subject) -> Flow:
        """Start no runs any more. Raises NotFound, AccessDenied."""
        return pause_flow(entry, kind, subject=by, ports=self.ports)

    def resume(self, entry: CatalogEntry, kind: FlowKind, *, by: Subject) -> Flow:
        """Start runs again. Raises NotFound, AccessDenied."""
        flow = resume_flow(entry, kind, subject=by, ports=self.ports)
        self.signals.send(Topic.FLOWS)
        return flow

    def remove(self, entry: CatalogEntry, kind: FlowKind, *, by: Subject) -> None:
        """Delete a flow with its runs. Raises NotFound, AccessDenied, InvalidRequest."""
        remove_flow(entry, kind, subject=by, ports=self.ports)

    def run_now(self, entry: CatalogEntry, kind: FlowKind, *, by: Subject) -> FlowRun:
        """Have a flow run as soon as possible. Raises NotFound, AccessDenied."""
        run = run_now(entry, kind, subject=by, ports=self.ports)
        self.signals.send(Topic.FLOWS)
        return run

    def run(self, run_id: str, *, by: Subject) -> tuple[FlowRun, CatalogEntry]:
        """A run and its dataset. Raises NotFound."""
        return seen_run(run_id, subject=by, ports=self.ports)

    def cancel(self, run_id: str, *, by: Subject) -> FlowRun:
        """End a run. Raises NotFound."""
        run = cancel_run(run_id, subject=by, ports=self.ports)
        self.signals.send(Topic.FLOWS)
        return run

    def _holds(self, worker: str) -> bool:
        """The role is kept for as long as rounds come.

        It is asked for again after half of its time.
        """
        now, lease_ms = self.ports.clock.now(), int(self.settings.flow_role_lease_s * 1000)
        half_ns = lease_ms * NANOS_PER_MILLI // 2
        until = self._held_until
        if until is not None and half_ns < until.epoch_ns - now.epoch_ns <= 2 * half_ns:
            return True
        held = self.roles.hold(SCHEDULER, worker, now=now, lease_ms=lease_ms)
        if held and until is None:
            self.catch_up()
        self._held_until = Instant(now.epoch_ns + lease_ms * NANOS_PER_MILLI) if held else None
        return held


def flow_verbs(ports: NodePorts, settings: Settings, *, repository: Repository, access: Access) -> FlowVerbs:
    """The verbs over the ports of a node."""
    flow_ports = FlowPorts(
        flows=ports.flows,
        jobs=ports.jobs,
        repository=repository,
        access=access,
        clock=ports.clock,
        entropy=ports.entropy,
        derivatives_follow=settings.derivatives_follow,
    )
    return FlowVerbs(ports=flow_ports, roles=ports.roles, signals=ports.signals, settings=settings)
