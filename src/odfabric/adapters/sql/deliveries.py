"""Outbox, subscriptions and deliveries in SQL.

Owns the statements of fan-out and of leased deliveries. Invariants: a message makes its deliveries in the transaction that marks it
done; numbers of a subscription come from a counter in its own row, so that they have no gap even if a fan-out is rolled back;
looking for due deliveries writes nothing when there are none, for it happens many times a second.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.tables import deliveries, heads, outbox, subscriptions
from odfabric.errors import AlreadyExists, Determinate, HeadMoved, NotFound
from odfabric.model.audit import AuditEntry
from odfabric.model.commit import OutboxMessage, PendingMessage
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.subscription import Delivery, DeliveryStatus, Subscription, delivery_id

_PENDING = DeliveryStatus.PENDING.value


class SqlOutbox:
    """An Outbox."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self, *, limit: int) -> Sequence[PendingMessage]:
        """See the port."""
        wanted = select(outbox).where(outbox.c.done_at.is_(None)).order_by(outbox.c.id).limit(limit)
        with self._database.read() as connection:
            return [PendingMessage(row.id, _message(row)) for row in connection.execute(wanted)]

    def fan_out(self, message_id: int, *, now: Instant) -> int:
        """See the port."""
        not_done = outbox.c.done_at.is_(None)
        wanted = select(outbox).where(outbox.c.id == message_id, not_done).with_for_update()
        with self._database.write() as connection:
            found = connection.execute(wanted).one_or_none()
            if found is None:
                return 0
            message = _message(found)
            older = select(outbox.c.id).where(
                not_done, outbox.c.id < message_id, outbox.c.dataset_id == message.dataset_id
            )
            if connection.execute(older.limit(1)).one_or_none() is not None:
                raise Determinate("an older move of this head has not been told yet")
            made = _deliver(connection, message_id, message, now)
            connection.execute(update(outbox).where(outbox.c.id == message_id).values(done_at=now))
            return made


class SqlSubscriptions:
    """A Subscriptions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, subscription: Subscription, *, secret: bytes, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        # The head's row lock keeps commits of the dataset away, so that the newest message is the one of this head.
        head = select(heads.c.hash).where(heads.c.dataset_id == subscription.dataset_id).with_for_update()
        newest = select(func.coalesce(func.max(outbox.c.id), 0))
        with self._database.write() as connection:
            actual = connection.execute(head).scalar_one_or_none()
            if actual is None:
                raise NotFound("dataset", str(subscription.dataset_id))
            values = {
                "id": subscription.id,
                "dataset_id": subscription.dataset_id,
                "account": subscription.account,
                "url": subscription.url,
                "secret": secret,
                "created_at": subscription.created_at,
                "created_at_head": subscription.created_at_head,
                "after_message": connection.execute(newest).scalar_one(),
                "last_sequence": 0,
            }
            if not insert_new(connection, subscriptions, values):
                raise AlreadyExists(f"subscription {subscription.id} exists already")
            if actual != subscription.created_at_head:
                raise HeadMoved(expected=str(subscription.created_at_head), actual=str(actual))
            insert_audit(connection, audit)

    def get(self, subscription_id: str) -> Subscription | None:
        """See the port."""
        wanted = select(subscriptions).where(subscriptions.c.id == subscription_id)
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
        return _subscription(found) if found else None

    def secret(self, subscription_id: str) -> bytes | None:
        """See the port."""
        wanted = select(subscriptions.c.secret).where(subscriptions.c.id == subscription_id)
        with self._database.read() as connection:
            return connection.execute(wanted).scalar_one_or_none()

    def of_dataset(self, dataset: DatasetId, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        wanted = select(subscriptions).where(subscriptions.c.dataset_id == dataset)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(subscriptions.c.position).limit(limit)).all()
        return [_subscription(row) for row in rows]

    def delete(self, subscription_id: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        with self._database.write() as connection:
            gone = connection.execute(delete(subscriptions).where(subscriptions.c.id == subscription_id)).rowcount > 0
            if gone:
                _drop_pending(connection, [subscription_id])
                insert_audit(connection, audit)
            return gone


class SqlDeliveries:
    """A Deliveries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lease_due(self, worker: str, *, now: Instant, lease_ms: int, limit: int) -> Sequence[Delivery]:
        """See the port."""
        due = _due(now, Instant(now.epoch_ns + lease_ms * NANOS_PER_MILLI))
        with self._database.read() as connection:
            if connection.execute(due.limit(1)).one_or_none() is None:
                return []
        with self._database.write() as connection:
            locked = due.limit(limit).with_for_update(of=deliveries, skip_locked=True)
            ids = list(connection.execute(locked).scalars())
            leased = (
                update(deliveries)
                .where(deliveries.c.id.in_(ids))
                .values(
                    attempts=deliveries.c.attempts + 1,
                    leased_until=Instant(now.epoch_ns + lease_ms * NANOS_PER_MILLI),
                    worker=worker,
                    updated_at=now,
                )
                .returning(deliveries)
            )
            found = {row.id: _delivery(row) for row in connection.execute(leased)}
        return [found[identity] for identity in ids]

    def record_success(self, delivery_id: str, *, now: Instant, status_code: int) -> None:
        """See the port."""
        self._record(
            delivery_id,
            now,
            {"status": DeliveryStatus.DELIVERED.value, "last_status_code": status_code, "last_error": None},
        )

    def record_failure(
        self, delivery_id: str, *, now: Instant, status_code: int | None, error: str, next_attempt_at: Instant | None
    ) -> None:
        """See the port."""
        outcome: dict[str, object] = {"last_status_code": status_code, "last_error": error}
        if next_attempt_at is None:
            outcome["status"] = DeliveryStatus.FAILED.value
        else:
            outcome["next_attempt_at"] = next_attempt_at
        self._record(delivery_id, now, outcome)

    def of_subscription(self, subscription_id: str, *, limit: int) -> Sequence[Delivery]:
        """See the port."""
        wanted = select(deliveries).where(deliveries.c.subscription_id == subscription_id)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(deliveries.c.sequence.desc()).limit(limit)).all()
        return [_delivery(row) for row in rows]

    def _record(self, identity: str, now: Instant, outcome: dict[str, object]) -> None:
        pending = update(deliveries).where(deliveries.c.id == identity, deliveries.c.status == _PENDING)
        with self._database.write() as connection:
            connection.execute(pending.values(leased_until=None, worker=None, updated_at=now, **outcome))


def drop_subscriptions(connection: Connection, dataset: DatasetId) -> None:
    """Remove the subscriptions of a dataset that goes away. They go first: a fan-out that holds one ends before we look."""
    gone = delete(subscriptions).where(subscriptions.c.dataset_id == dataset).returning(subscriptions.c.id)
    _drop_pending(connection, list(connection.execute(gone).scalars()))


def _drop_pending(connection: Connection, subscription_ids: Sequence[str]) -> None:
    for subscription_id in subscription_ids:
        connection.execute(
            update(deliveries)
            .where(deliveries.c.subscription_id == subscription_id, deliveries.c.status == _PENDING)
            .values(status=DeliveryStatus.DROPPED.value)
        )


def _deliver(connection: Connection, message_id: int, message: OutboxMessage, now: Instant) -> int:
    """One delivery for each subscription that is older than the message; returns how many."""
    if message.new_head is None:
        return 0
    numbered = (
        update(subscriptions)
        .where(subscriptions.c.dataset_id == message.dataset_id, subscriptions.c.after_message < message_id)
        .values(last_sequence=subscriptions.c.last_sequence + 1)
        .returning(subscriptions.c.id, subscriptions.c.last_sequence)
    )
    values = [
        {
            "id": delivery_id(row.id, message.new_head),
            "subscription_id": row.id,
            "dataset_id": message.dataset_id,
            "sequence": row.last_sequence,
            "old_head": message.old_head,
            "new_head": message.new_head,
            "occurred_at": message.occurred_at,
            "status": _PENDING,
            "attempts": 0,
            "next_attempt_at": now,
            "updated_at": now,
        }
        for row in connection.execute(numbered)
    ]
    if values:
        connection.execute(insert(deliveries), values)
    return len(values)


def _due(now: Instant, lease_end: Instant) -> Select[tuple[str]]:
    """Ids of deliveries that are the lowest pending of their subscription, due and free. Asked subscription by subscription: a
    receiver that has been away for long has many pending deliveries, and only its first one counts. What was written after `lease_end` is
    of a clock that was ahead: its times mean nothing.
    """
    others = deliveries.alias()
    lowest = (
        select(func.min(others.c.sequence))
        .where(others.c.subscription_id == subscriptions.c.id, others.c.status == _PENDING)
        .correlate(subscriptions)
        .scalar_subquery()
    )
    free = deliveries.c.leased_until.is_(None) | (deliveries.c.leased_until <= now)
    return (
        select(deliveries.c.id)
        .join(
            subscriptions,
            (subscriptions.c.id == deliveries.c.subscription_id) & (deliveries.c.sequence == lowest),
        )
        .where((deliveries.c.updated_at > lease_end) | ((deliveries.c.next_attempt_at <= now) & free))
        .order_by(deliveries.c.next_attempt_at, deliveries.c.id)
    )


def _message(row: Row[tuple[object, ...]]) -> OutboxMessage:
    return OutboxMessage(
        dataset_id=row.dataset_id, old_head=row.old_head, new_head=row.new_head, occurred_at=row.occurred_at
    )


def _subscription(row: Row[tuple[object, ...]]) -> Subscription:
    return Subscription(
        id=row.id,
        dataset_id=row.dataset_id,
        account=row.account,
        url=row.url,
        created_at=row.created_at,
        created_at_head=row.created_at_head,
    )


def _delivery(row: Row[tuple[object, ...]]) -> Delivery:
    return Delivery(
        id=row.id,
        subscription_id=row.subscription_id,
        dataset_id=row.dataset_id,
        sequence=row.sequence,
        old_head=row.old_head,
        new_head=row.new_head,
        occurred_at=row.occurred_at,
        status=DeliveryStatus(row.status),
        attempts=row.attempts,
        next_attempt_at=row.next_attempt_at,
        last_status_code=row.last_status_code,
        last_error=row.last_error,
    )
