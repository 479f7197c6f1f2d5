"""The audit log in SQL.

Owns how entries become rows: `insert_audit`, which every adapter calls in the transaction of its change, last. Invariant: what
`unflushed` returns ends at an entry below which none can appear any more. Numbers are given when a row is inserted and seen when its
transaction commits; SQLite has one writer at a time, on PostgreSQL a reader waits for those who are writing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import takewhile

from sqlalchemy import Connection, Row, Select, case, delete, insert, literal, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.outbox import send
from odfabric.adapters.sql.tables.people import COUNTED, NOT_FLUSHED, audit_log
from odfabric.domain.subscriptions.events import event_of
from odfabric.model.commit import OutboxMessage
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.people.audit import Actor, AuditEntry, AuditKind, AuditOutcome, StoredAuditEntry
from odfabric.ports.people.audit import repeat_key, storable, storable_text


class SqlAuditLog:
    """An AuditLog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, entry: AuditEntry) -> None:
        """See the port."""
        with self._database.write() as connection:
            insert_audit(connection, [entry])

    def refused(self, entry: AuditEntry, *, window_s: float) -> None:
        """See the port."""
        values = _values(entry)
        key = values["refusal_key"] = hashlib.sha3_256(json.dumps(repeat_key(entry)).encode()).digest()
        begun = Instant(entry.at.epoch_ns - int(window_s * NANOS_PER_SECOND))
        over = update(audit_log).where(audit_log.c.refusal_key == key, audit_log.c.at <= begun)
        with self._database.write() as connection:
            connection.execute(over.values(refusal_key=None))
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            insertion = dialect.insert(audit_log).values(values)
            newest = case(
                (audit_log.c.last_at < insertion.excluded.last_at, insertion.excluded.last_at),
                else_=audit_log.c.last_at,
            )
            counted = insertion.on_conflict_do_update(
                index_elements=[audit_log.c.refusal_key],
                index_where=COUNTED,
                set_={"count": audit_log.c.count + 1, "last_at": newest},
            )
            connection.execute(counted)

    def page(
        self,
        *,
        after: int = 0,
        kinds: frozenset[str] | None = None,
        account: str | None = None,
        target: str | None = None,
        outcome: AuditOutcome | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        before: int | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[StoredAuditEntry]:
        """See the port."""
        wanted = select(audit_log).where(audit_log.c.position > after)
        if kinds is not None:
            wanted = wanted.where(audit_log.c.kind.in_(kinds))
        if account is not None:
            wanted = wanted.where(audit_log.c.actor_account == storable_text(account))
        if target is not None:
            wanted = wanted.where(audit_log.c.target == storable_text(target))
        if outcome is not None:
            wanted = wanted.where(audit_log.c.outcome == outcome.value)
        if since is not None:
            wanted = wanted.where(audit_log.c.at >= since)
        if until is not None:
            wanted = wanted.where(audit_log.c.at < until)
        if before is not None:
            wanted = wanted.where(audit_log.c.position < before)
        order = audit_log.c.position.desc() if newest_first else audit_log.c.position
        with self._database.read() as connection:
            return [_stored(row) for row in connection.execute(wanted.order_by(order).limit(limit))]

    def unflushed(self, *, counted_before: Instant, limit: int) -> Sequence[StoredAuditEntry]:
        """See the port."""
        wanted = _oldest(select(audit_log).where(NOT_FLUSHED), limit)
        with self._database.read() as connection:
            # Asked often, and mostly in vain: then nobody waits for anybody.
            if (
                connection.execute(select(literal(1)).where(NOT_FLUSHED).select_from(audit_log).limit(1)).first()
                is None
            ):
                return []
        with self._database.read() as connection:
            if not self._database.is_sqlite:
                connection.execute(text("LOCK TABLE audit_log IN SHARE MODE"))
            rows = connection.execute(wanted).all()
        return [_stored(row) for row in takewhile(lambda row: not _is_counted(row, counted_before), rows)]

    def flushed(self, up_to: int) -> None:
        """See the port."""
        mark = update(audit_log).where(NOT_FLUSHED, audit_log.c.position <= up_to)
        with self._database.write() as connection:
            connection.execute(mark.values(is_flushed=True, refusal_key=None))

    def forget(self, *, flushed_before: Instant, limit: int) -> int:
        """See the port."""
        old = select(audit_log.c.position).where(audit_log.c.is_flushed, audit_log.c.at < flushed_before)
        with self._database.write() as connection:
            gone = delete(audit_log).where(audit_log.c.position.in_(old.order_by(audit_log.c.at).limit(limit)))
            return connection.execute(gone).rowcount


def insert_audit(connection: Connection, entries: Iterable[AuditEntry]) -> None:
    """Append audit entries in the transaction of the change, events to the outbox.

    The last thing that it does: readers of the log wait for it.
    """
    kept = list(entries)
    for event in map(event_of, kept):
        if event is not None:
            send(connection, OutboxMessage.of(event))
    values = [_values(entry) for entry in kept]
    if values:
        connection.execute(insert(audit_log), values)


def _oldest(wanted: Select[tuple[object, ...]], limit: int) -> Select[tuple[object, ...]]:
    return wanted.order_by(audit_log.c.position).limit(limit)


def _is_counted(row: Row[tuple[object, ...]], before: Instant) -> bool:
    return row.refusal_key is not None and row.at > before


def _values(entry: AuditEntry) -> dict[str, object]:
    kept = storable(entry)
    return {
        "at": kept.at,
        "kind": kept.kind.value,
        "actor_account": kept.actor.account,
        "actor_name": kept.actor.name,
        "actor_token": kept.actor.token,
        "actor_address": kept.actor.address,
        "target": kept.target,
        "dataset_id": kept.dataset,
        "outcome": kept.outcome.value,
        "detail": json.dumps(dict(kept.detail), sort_keys=True),
        "count": 1,
        "last_at": kept.at,
        "refusal_key": None,
        "is_flushed": False,
    }


def _stored(row: Row[tuple[object, ...]]) -> StoredAuditEntry:
    entry = AuditEntry(
        kind=AuditKind(row.kind),
        actor=Actor(account=row.actor_account, name=row.actor_name, token=row.actor_token, address=row.actor_address),
        at=row.at,
        target=row.target,
        dataset=row.dataset_id,
        outcome=AuditOutcome(row.outcome),
        detail=json.loads(row.detail),
    )
    # Rows of SQLAlchemy have a method `count`.
    return StoredAuditEntry(id=row.position, entry=entry, count=row._mapping["count"], last_at=row.last_at)
