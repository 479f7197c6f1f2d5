"""Flows and their runs: the rows that remember what is to run, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.flow import Flow, FlowKind, FlowRun
from odfabric.model.people.audit import AuditEntry
from odfabric.model.subscriptions.event import Event


class Flows(Protocol):
    """Rows with versions: anyone who writes one has seen its last state.

    Raises Determinate or Indeterminate for outside failures.

    Flows and runs go with their dataset.
    """

    def write(
        self,
        *,
        flow: Flow | None = None,
        run: FlowRun | None = None,
        audit: Sequence[AuditEntry] = (),
        events: Sequence[Event] = (),
    ) -> bool:
        """Store what is given, both or nothing, and send `events` to the outbox.

        Version 0 makes a new row, others replace the one of that version, which grows by one.

        False, and nothing is written, if a row has another version by now or is gone, if its dataset is gone, if the dataset has a flow
        of this kind already, or if the flow would have two runs that wait or two that run.
        """

    def delete(self, flow: Flow, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Delete a flow of this version with its runs; whether it was there."""

    def drop_run(self, run: FlowRun) -> bool:
        """Delete a run of this version; whether it was there."""

    def get(self, flow_id: str) -> Flow | None:
        """The flow, or None."""

    def of_dataset(self, dataset: DatasetId) -> Sequence[Flow]:
        """The flows of a dataset, by kind."""

    def of_kind(self, dataset: DatasetId, kind: FlowKind) -> Flow | None:
        """The flow of a dataset that does this, or None."""

    def page(self, *, after: str | None = None, limit: int) -> Sequence[Flow]:
        """At most `limit` flows in the order of their ids, those behind `after`."""

    def due(self, now: Instant, *, limit: int) -> Sequence[Flow]:
        """Flows whose `next_at` has come, whether they are active or not.

        The longest due first.
        """

    def next_due(self) -> Instant | None:
        """The earliest `next_at`."""

    def run(self, run_id: str) -> FlowRun | None:
        """The run, or None."""

    def waiting(self, flow_id: str) -> FlowRun | None:
        """The run of a flow that waits, or None."""

    def unfinished(self, *, limit: int) -> Sequence[FlowRun]:
        """Runs that wait or run, oldest first."""

    def runs(self, *, flow_id: str | None = None, limit: int) -> Sequence[FlowRun]:
        """Runs of a flow, or of all, newest first."""

    def last_runs(self, flow_ids: Sequence[str]) -> Mapping[str, FlowRun]:
        """The newest run of each of these flows that has one."""

    def last_wave(self) -> int:
        """The greatest `wave` of all runs, 0 without runs."""

    def forget(self, flow_id: str, *, keep: int) -> int:
        """Delete all but the last `keep` ended runs of a flow; how many."""
