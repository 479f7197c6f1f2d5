"""Flows, their runs, and roles in SQL.

Owns the statements behind `ports.jobs.flows` and `ports.people.roles`. Invariant: every change of a row has its version in the condition, so of several
who have seen one version exactly one writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Row, Table, delete, func, literal_column, select, update
from sqlalchemy.exc import IntegrityError

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.outbox import send
from odfabric.adapters.sql.tables.flows import flow_runs, flows
from odfabric.adapters.sql.tables.node import roles
from odfabric.formats.manifests.flow_document import (
    causes_text,
    parse_causes_text,
    parse_rule_text,
    parse_stop_text,
    rule_text,
    stop_text,
)
from odfabric.model.commit import OutboxMessage
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.jobs.flow import Flow, FlowKind, FlowRun, RunStatus
from odfabric.model.people.audit import AuditEntry
from odfabric.model.subscriptions.event import Event

# Literal, so that the partial indexes are used by prepared statements too.
_UNFINISHED = flow_runs.c.status.in_([literal_column("'waiting'"), literal_column("'running'")])

_IDS = 500  # of one statement: databases bound its values


class SqlFlows:
    """A Flows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(
        self,
        *,
        flow: Flow | None = None,
        run: FlowRun | None = None,
        audit: Sequence[AuditEntry] = (),
        events: Sequence[Event] = (),
    ) -> bool:
        """See the port."""
        try:
            with self._database.write() as connection:
                _store(connection, flow, run)
                for event in events:
                    send(connection, OutboxMessage.of(event))
                insert_audit(connection, audit)
        except (IntegrityError, _Stale):
            return False
        return True

    def delete(self, flow: Flow, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        gone = delete(flows).where(flows.c.id == flow.id, flows.c.version == flow.version)
        with self._database.write() as connection:
            if connection.execute(gone).rowcount == 0:
                return False
            insert_audit(connection, audit)
            return True

    def drop_run(self, run: FlowRun) -> bool:
        """See the port."""
        gone = delete(flow_runs).where(flow_runs.c.id == run.id, flow_runs.c.version == run.version)
        with self._database.write() as connection:
            return connection.execute(gone).rowcount > 0

    def get(self, flow_id: str) -> Flow | None:
        """See the port."""
        with self._database.read() as connection:
            found = connection.execute(select(flows).where(flows.c.id == flow_id)).one_or_none()
            return _flow(found) if found else None

    def of_dataset(self, dataset: DatasetId) -> Sequence[Flow]:
        """See the port."""
        wanted = select(flows).where(flows.c.dataset_id == dataset)
        with self._database.read() as connection:
            found = [_flow(row) for row in connection.execute(wanted)]
        return sorted(found, key=lambda flow: flow.kind.value)

    def of_kind(self, dataset: DatasetId, kind: FlowKind) -> Flow | None:
        """See the port."""
        wanted = select(flows).where(flows.c.dataset_id == dataset, flows.c.kind == kind.value)
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
            return _flow(found) if found else None

    def page(self, *, after: str | None = None, limit: int) -> Sequence[Flow]:
        """See the port."""
        wanted = select(flows).order_by(flows.c.id).limit(limit)
        if after is not None:
            wanted = wanted.where(flows.c.id > after)
        with self._database.read() as connection:
            return [_flow(row) for row in connection.execute(wanted)]

    def due(self, now: Instant, *, limit: int) -> Sequence[Flow]:
        """See the port."""
        wanted = select(flows).where(flows.c.next_at <= now).order_by(flows.c.next_at, flows.c.id).limit(limit)
        with self._database.read() as connection:
            return [_flow(row) for row in connection.execute(wanted)]

    def next_due(self) -> Instant | None:
        """See the port."""
        wanted = select(flows.c.next_at).where(flows.c.next_at.is_not(None)).order_by(flows.c.next_at).limit(1)
        with self._database.read() as connection:
            found: Instant | None = connection.execute(wanted).scalar_one_or_none()
            return found

    def run(self, run_id: str) -> FlowRun | None:
        """See the port."""
        with self._database.read() as connection:
            found = connection.execute(select(flow_runs).where(flow_runs.c.id == run_id)).one_or_none()
            return _run(found) if found else None

    def waiting(self, flow_id: str) -> FlowRun | None:
        """See the port."""
        waits = flow_runs.c.status == RunStatus.WAITING.value
        wanted = select(flow_runs).where(_UNFINISHED, flow_runs.c.flow_id == flow_id, waits)
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
            return _run(found) if found else None

    def unfinished(self, *, limit: int) -> Sequence[FlowRun]:
        """See the port."""
        wanted = select(flow_runs).where(_UNFINISHED).order_by(flow_runs.c.position).limit(limit)
        with self._database.read() as connection:
            return [_run(row) for row in connection.execute(wanted)]

    def runs(self, *, flow_id: str | None = None, limit: int) -> Sequence[FlowRun]:
        """See the port."""
        wanted = select(flow_runs).order_by(flow_runs.c.position.desc()).limit(limit)
        if flow_id is not None:
            wanted = wanted.where(flow_runs.c.flow_id == flow_id)
        with self._database.read() as connection:
            return [_run(row) for row in connection.execute(wanted)]

    def last_runs(self, flow_ids: Sequence[str]) -> Mapping[str, FlowRun]:
        """See the port."""
        found: dict[str, FlowRun] = {}
        with self._database.read() as connection:
            for start in range(0, len(flow_ids), _IDS):
                wanted = flow_runs.c.flow_id.in_(flow_ids[start : start + _IDS])
                newest = select(func.max(flow_runs.c.position)).where(wanted).group_by(flow_runs.c.flow_id)
                rows = connection.execute(select(flow_runs).where(flow_runs.c.position.in_(newest)))
                found |= {row.flow_id: _run(row) for row in rows}
        return found

    def last_wave(self) -> int:
        """See the port."""
        newest = select(flow_runs.c.wave).order_by(flow_runs.c.position.desc()).limit(100).subquery()
        with self._database.read() as connection:
            return connection.execute(select(func.max(newest.c.wave))).scalar_one() or 0

    def forget(self, flow_id: str, *, keep: int) -> int:
        """See the port."""
        ended = select(flow_runs.c.position).where(flow_runs.c.flow_id == flow_id, ~_UNFINISHED)
        old = ended.order_by(flow_runs.c.position.desc()).offset(keep).limit(10_000)
        with self._database.read() as connection:
            positions = connection.execute(old).scalars().all()
        if not positions:
            return 0
        with self._database.write() as connection:
            return connection.execute(delete(flow_runs).where(flow_runs.c.position.in_(positions))).rowcount


class SqlRoles:
    """A Roles."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def hold(self, role: str, holder: str, *, now: Instant, lease_ms: int) -> bool:
        """See the port."""
        until = Instant(now.epoch_ns + lease_ms * NANOS_PER_MILLI)
        free = (roles.c.holder == holder) | (roles.c.leased_until <= now) | (roles.c.leased_until > until)
        taken = update(roles).where(roles.c.role == role, free).values(holder=holder, leased_until=until)
        with self._database.write() as connection:
            if connection.execute(taken).rowcount > 0:
                return True
            return insert_new(connection, roles, {"role": role, "holder": holder, "leased_until": until})

    def release(self, role: str, holder: str) -> None:
        """See the port."""
        with self._database.write() as connection:
            connection.execute(delete(roles).where(roles.c.role == role, roles.c.holder == holder))


class _Stale(Exception):
    """A row is not the one that the writer has seen."""


def _store(connection: Connection, flow: Flow | None, run: FlowRun | None) -> None:
    if flow is not None:
        _put(connection, flows, flow.id, flow.version, _flow_values(flow))
    if run is not None:
        _put(connection, flow_runs, run.id, run.version, _run_values(run))


def _put(connection: Connection, table: Table, row_id: str, version: int, values: Mapping[str, object]) -> None:
    if version == 0:
        connection.execute(table.insert().values(id=row_id, version=1, **values))
        return
    seen = (table.c.id == row_id) & (table.c.version == version)
    if connection.execute(update(table).where(seen).values(version=version + 1, **values)).rowcount == 0:
        raise _Stale


def _flow_values(flow: Flow) -> dict[str, object]:
    return {
        "dataset_id": flow.dataset_id,
        "kind": flow.kind.value,
        "owner": flow.owner,
        "rule": rule_text(flow.rule),
        "is_default": flow.is_default,
        "paused": flow.paused,
        "stop": stop_text(flow.stop),
        "failures": flow.failures,
        "next_at": flow.next_at,
        "last_at": flow.last_at,
        "created_at": flow.created_at,
        "updated_at": flow.updated_at,
    }


def _flow(row: Row[tuple[object, ...]]) -> Flow:
    return Flow(
        id=row.id,
        dataset_id=row.dataset_id,
        kind=FlowKind(row.kind),
        owner=row.owner,
        rule=parse_rule_text(row.rule),
        is_default=row.is_default,
        paused=row.paused,
        stop=parse_stop_text(row.stop),
        failures=row.failures,
        next_at=row.next_at,
        last_at=row.last_at,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _run_values(run: FlowRun) -> dict[str, object]:
    return {
        "flow_id": run.flow_id,
        "dataset_id": run.dataset_id,
        "wave": run.wave,
        "causes": causes_text(run.causes),
        "cause_count": run.cause_count,
        "status": run.status.value,
        "attempt": run.attempt,
        "job_id": run.job_id,
        "result": run.result,
        "error": run.error,
        "due_at": run.due_at,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
    }


def _run(row: Row[tuple[object, ...]]) -> FlowRun:
    return FlowRun(
        id=row.id,
        flow_id=row.flow_id,
        dataset_id=row.dataset_id,
        wave=row.wave,
        causes=parse_causes_text(row.causes),
        cause_count=row.cause_count,
        status=RunStatus(row.status),
        attempt=row.attempt,
        job_id=row.job_id,
        result=row.result,
        error=row.error,
        version=row.version,
        due_at=row.due_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
