"""Flows, their runs, and roles in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from odfabric.adapters.memory.store import MemoryStore
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.jobs.flow import Flow, FlowKind, FlowRun, RunStatus
from odfabric.model.people.audit import AuditEntry
from odfabric.model.subscriptions.event import Event


class MemoryFlows:
    """A Flows. Runs stand in the order in which they were made."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def write(
        self,
        *,
        flow: Flow | None = None,
        run: FlowRun | None = None,
        audit: Sequence[AuditEntry] = (),
        events: Sequence[Event] = (),
    ) -> bool:
        """See the port."""
        with self._store.lock:
            if (flow is not None and not self._takes_flow(flow)) or (
                run is not None and not self._takes_run(run, flow)
            ):
                return False
            if flow is not None:
                self._store.flows[flow.id] = replace(flow, version=flow.version + 1)
            if run is not None:
                self._store.flow_runs[run.id] = replace(run, version=run.version + 1)
            self._store.send(*events)
            self._store.log(*audit)
            return True

    def delete(self, flow: Flow, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        with self._store.lock:
            if self._flows(lambda each: each.id == flow.id and each.version == flow.version) == []:
                return False
            del self._store.flows[flow.id]
            self._store.log(*audit)
            return True

    def drop_run(self, run: FlowRun) -> bool:
        """See the port."""
        with self._store.lock:
            if not any(each.id == run.id and each.version == run.version for each in self._runs()):
                return False
            del self._store.flow_runs[run.id]
            return True

    def get(self, flow_id: str) -> Flow | None:
        """See the port."""
        return next(iter(self._flows(lambda flow: flow.id == flow_id)), None)

    def of_dataset(self, dataset: DatasetId) -> Sequence[Flow]:
        """See the port."""
        return sorted(self._flows(lambda flow: flow.dataset_id == dataset), key=lambda flow: flow.kind.value)

    def of_kind(self, dataset: DatasetId, kind: FlowKind) -> Flow | None:
        """See the port."""
        return next(iter(self._flows(lambda flow: flow.dataset_id == dataset and flow.kind is kind)), None)

    def page(self, *, after: str | None = None, limit: int) -> Sequence[Flow]:
        """See the port."""
        found = self._flows(lambda flow: after is None or flow.id > after)
        return sorted(found, key=lambda flow: flow.id)[:limit]

    def due(self, now: Instant, *, limit: int) -> Sequence[Flow]:
        """See the port."""
        found = [(flow.next_at, flow.id, flow) for flow in self._flows(lambda _: True) if flow.next_at is not None]
        return [flow for at, _, flow in sorted(found, key=lambda each: each[:2]) if at <= now][:limit]

    def next_due(self) -> Instant | None:
        """See the port."""
        return min((flow.next_at for flow in self._flows(lambda _: True) if flow.next_at is not None), default=None)

    def run(self, run_id: str) -> FlowRun | None:
        """See the port."""
        return next((run for run in self._runs() if run.id == run_id), None)

    def waiting(self, flow_id: str) -> FlowRun | None:
        """See the port."""
        waits = (run for run in self._runs() if run.flow_id == flow_id and run.status is RunStatus.WAITING)
        return next(waits, None)

    def unfinished(self, *, limit: int) -> Sequence[FlowRun]:
        """See the port."""
        return list(islice((run for run in self._runs() if not run.status.final), limit))

    def runs(self, *, flow_id: str | None = None, limit: int) -> Sequence[FlowRun]:
        """See the port."""
        found = [run for run in self._runs() if flow_id in (None, run.flow_id)]
        return found[::-1][:limit]

    def last_runs(self, flow_ids: Sequence[str]) -> Mapping[str, FlowRun]:
        """See the port."""
        return {run.flow_id: run for run in self._runs() if run.flow_id in flow_ids}

    def last_wave(self) -> int:
        """See the port."""
        return max((run.wave for run in self._runs()), default=0)

    def forget(self, flow_id: str, *, keep: int) -> int:
        """See the port."""
        with self._store.lock:
            ended = [run for run in self._runs() if run.flow_id == flow_id and run.status.final]
            old = ended[: max(0, len(ended) - keep)]
            for run in old:
                del self._store.flow_runs[run.id]
            return len(old)

    def _takes_flow(self, flow: Flow) -> bool:
        if flow.version:
            return any(each.version == flow.version for each in self._flows(lambda each: each.id == flow.id))
        is_new = flow.id not in self._store.flows and self.of_kind(flow.dataset_id, flow.kind) is None
        return is_new and flow.dataset_id in self._store.datasets

    def _takes_run(self, run: FlowRun, flow: Flow | None) -> bool:
        if self.get(run.flow_id) is None and (flow is None or flow.id != run.flow_id):
            return False
        found = self.run(run.id)
        if (found.version if found else 0) != run.version:
            return False
        others = (each for each in self._runs() if each.flow_id == run.flow_id and each.id != run.id)
        return run.status.final or all(each.status is not run.status for each in others)

    def _flows(self, wanted: Callable[[Flow], bool]) -> list[Flow]:
        """Flows go with their dataset."""
        with self._store.lock:
            there = [flow for flow in self._store.flows.values() if flow.dataset_id in self._store.datasets]
        return [flow for flow in there if wanted(flow)]

    def _runs(self) -> list[FlowRun]:
        with self._store.lock:
            flows = {flow.id for flow in self._flows(lambda _: True)}
            return [run for run in self._store.flow_runs.values() if run.flow_id in flows]


class MemoryRoles:
    """A Roles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[str, Instant]] = {}

    def hold(self, role: str, holder: str, *, now: Instant, lease_ms: int) -> bool:
        """See the port."""
        until = Instant(now.epoch_ns + lease_ms * NANOS_PER_MILLI)
        with self._lock:
            other, leased_until = self._held.get(role, (holder, now))
            if other != holder and now < leased_until <= until:
                return False
            self._held[role] = (holder, until)
            return True

    def release(self, role: str, holder: str) -> None:
        """See the port."""
        with self._lock:
            if self._held.get(role, ("", None))[0] == holder:
                del self._held[role]
