"""Subscriptions and deliveries in SQL.

Owns the statements of subscriptions and of leased deliveries. Invariant: looking for due deliveries writes nothing when there are none,
for it happens many times a second. Not here: fan-out (`outbox`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    delete,
    false,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.sql.dml import Update

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.column_types import InstantNanos
from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.outbox import stored_event
from odfabric.adapters.sql.tables.datasets import heads
from odfabric.adapters.sql.tables.node import outbox
from odfabric.adapters.sql.tables.subscriptions import deliveries, delivery_attempts, subscriptions
from odfabric.errors import AlreadyExists, HeadMoved, NotFound
from odfabric.model.identity import AccountId, DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.multihash import Multihash
from odfabric.model.people.audit import AuditEntry
from odfabric.model.subscriptions.subscription import (
    NOTHING_AVOIDED,
    Avoided,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    FailureKind,
    MoveOptions,
    Subscription,
    SubscriptionFormat,
    SubscriptionState,
)

_PENDING = DeliveryStatus.PENDING.value


class SqlSubscriptions:
    """A Subscriptions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, subscription: Subscription, *, secret: bytes, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        newest = select(func.coalesce(func.max(outbox.c.id), 0))
        with self._database.write() as connection:
            actual = self._hold_messages(connection, subscription)
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
                "receiver": subscription.receiver,
                "format": subscription.format.value,
                "scope_account": subscription.scope_account,
                "events": subscription.events,
                **_columns_of_moves(subscription.moves),
            }
            if not insert_new(connection, subscriptions, values):
                raise AlreadyExists(f"subscription {subscription.id} exists already")
            if actual != subscription.created_at_head:
                raise HeadMoved(expected=str(subscription.created_at_head), actual=str(actual))
            insert_audit(connection, audit)

    def _hold_messages(self, connection: Connection, subscription: Subscription) -> Multihash | None:
        """Keep back messages for a new subscription; the head of its dataset.

        So that the newest message is the last before it.
        """
        if subscription.dataset_id is None:
            if not self._database.is_sqlite:
                connection.execute(text("LOCK TABLE outbox IN SHARE MODE"))
            return None
        head = select(heads.c.hash).where(heads.c.dataset_id == subscription.dataset_id).with_for_update()
        actual: Multihash | None = connection.execute(head).scalar_one_or_none()
        if actual is None:
            raise NotFound("dataset", str(subscription.dataset_id))
        return actual

    def get(self, subscription_id: str) -> Subscription | None:
        """See the port."""
        wanted = select(subscriptions).where(subscriptions.c.id == subscription_id)
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
        return _subscription(found) if found else None

    def secrets(self, subscription_id: str, *, now: Instant) -> Sequence[bytes]:
        """See the port."""
        wanted = select(subscriptions.c.secret, subscriptions.c.old_secret, subscriptions.c.old_secret_until)
        with self._database.read() as connection:
            row = connection.execute(wanted.where(subscriptions.c.id == subscription_id)).one_or_none()
        if row is None:
            return []
        is_old_valid = row.old_secret is not None and row.old_secret_until > now
        return [row.secret, row.old_secret] if is_old_valid else [row.secret]

    def set_secret(
        self, subscription_id: str, secret: bytes, *, old_until: Instant, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """See the port."""
        change = (
            update(subscriptions)
            .where(subscriptions.c.id == subscription_id)
            .values(old_secret=subscriptions.c.secret, secret=secret, old_secret_until=old_until)
        )
        return self._change(change, audit)

    def drop_old_secrets(self, *, now: Instant) -> int:
        """See the port."""
        over = subscriptions.c.old_secret_until <= now
        with self._database.read() as connection:
            if connection.execute(select(subscriptions.c.id).where(over).limit(1)).one_or_none() is None:
                return 0
        with self._database.write() as connection:
            change = update(subscriptions).where(over).values(old_secret=None, old_secret_until=None)
            return connection.execute(change).rowcount

    def set_state(
        self,
        subscription_id: str,
        state: SubscriptionState,
        *,
        now: Instant,
        reason: str | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        """See the port."""
        values: dict[str, object] = {"state": state.value, "state_reason": reason}
        if state is SubscriptionState.ACTIVE:
            values["failing_since"] = None
        change = update(subscriptions).where(
            subscriptions.c.id == subscription_id, subscriptions.c.state != state.value
        )
        with self._database.write() as connection:
            if connection.execute(change.values(values)).rowcount == 0:
                return False
            if state is SubscriptionState.ACTIVE:
                again = update(deliveries).where(
                    deliveries.c.subscription_id == subscription_id, deliveries.c.status == _PENDING
                )
                connection.execute(again.values(attempts=0, next_attempt_at=now, updated_at=now))
            insert_audit(connection, audit)
            return True

    def note_test(self, subscription_id: str, *, proven: bool, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        known = subscriptions.c
        if proven:
            change = update(subscriptions).values(proven=True, slow=False)
        else:
            change = update(subscriptions).values(proven=known.proven)
        return self._change(change.where(known.id == subscription_id), audit)

    def of_dataset(self, dataset: DatasetId, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        return self._of_scope(subscriptions.c.dataset_id == dataset, limit)

    def of_account(self, account: AccountId, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        known = subscriptions.c
        return self._of_scope(and_(known.dataset_id.is_(None), known.scope_account == account), limit)

    def of_node(self, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        known = subscriptions.c
        return self._of_scope(and_(known.dataset_id.is_(None), known.scope_account.is_(None)), limit)

    def counted(self) -> Mapping[SubscriptionState, int]:
        """See the port."""
        state = subscriptions.c.state
        with self._database.read() as connection:
            rows = connection.execute(select(state, func.count()).group_by(state)).all()
        return {SubscriptionState(found): int(count) for found, count in rows}

    def _of_scope(self, is_of_it: ColumnElement[bool], limit: int) -> Sequence[Subscription]:
        wanted = select(subscriptions).where(is_of_it)
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

    def _change(self, change: Update, audit: Sequence[AuditEntry]) -> bool:
        with self._database.write() as connection:
            is_changed = connection.execute(change).rowcount > 0
            if is_changed:
                insert_audit(connection, audit)
            return is_changed


class SqlDeliveries:
    """A Deliveries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lease_due(
        self, worker: str, *, now: Instant, lease_ms: int, limit: int, avoided: Avoided = NOTHING_AVOIDED
    ) -> Sequence[Delivery]:
        """See the port."""
        due = due_deliveries(now, Instant(now.epoch_ns + lease_ms * NANOS_PER_MILLI), avoided)
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

    def record_success(
        self,
        delivery_id: str,
        *,
        now: Instant,
        status_code: int,
        attempt: DeliveryAttempt | None = None,
        attempts_kept: int = 0,
    ) -> None:
        """See the port."""
        outcome = {"status": DeliveryStatus.DELIVERED.value, "last_status_code": status_code, "last_error": None}
        with self._database.write() as connection:
            of = _record(connection, delivery_id, now, outcome)
            if of is not None:
                is_slow = attempt is not None and attempt.is_slow
                change = update(subscriptions).where(subscriptions.c.id == of)
                connection.execute(change.values(failing_since=None, slow=is_slow, proven=True))
                _log_attempt(connection, of, delivery_id, attempt, attempts_kept)

    def record_failure(
        self,
        delivery_id: str,
        *,
        now: Instant,
        status_code: int | None,
        error: str,
        next_attempt_at: Instant | None,
        attempt: DeliveryAttempt | None = None,
        attempts_kept: int = 0,
    ) -> None:
        """See the port."""
        outcome: dict[str, object] = {"last_status_code": status_code, "last_error": error}
        if next_attempt_at is None:
            outcome["status"] = DeliveryStatus.FAILED.value
        else:
            outcome["next_attempt_at"] = next_attempt_at
        with self._database.write() as connection:
            of = _record(connection, delivery_id, now, outcome)
            if of is not None:
                is_slow = attempt is not None and attempt.is_slow
                since = func.coalesce(subscriptions.c.failing_since, literal(now, InstantNanos()))
                change = update(subscriptions).where(subscriptions.c.id == of)
                connection.execute(change.values(failing_since=since, slow=is_slow))
                _log_attempt(connection, of, delivery_id, attempt, attempts_kept)

    def get(self, delivery_id: str) -> Delivery | None:
        """See the port."""
        with self._database.read() as connection:
            found = connection.execute(select(deliveries).where(deliveries.c.id == delivery_id)).one_or_none()
        return _delivery(found) if found else None

    def attempts(self, delivery_id: str, *, limit: int) -> Sequence[DeliveryAttempt]:
        """See the port."""
        wanted = select(delivery_attempts).where(delivery_attempts.c.delivery_id == delivery_id)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(delivery_attempts.c.id.desc()).limit(limit)).all()
        return [_attempt(row) for row in rows]

    def replay(
        self,
        subscription_id: str,
        *,
        now: Instant,
        delivery_id: str | None = None,
        from_sequence: int | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> int:
        """See the port."""
        if delivery_id is not None:
            which = deliveries.c.id == delivery_id
        elif from_sequence is not None:
            which = deliveries.c.sequence >= from_sequence
        else:
            which = deliveries.c.status == DeliveryStatus.FAILED.value
        # A pending one that is being sent has a lease; its attempt counts.
        free = (
            (deliveries.c.status != _PENDING) | deliveries.c.leased_until.is_(None) | (deliveries.c.leased_until <= now)
        )
        again = (
            update(deliveries)
            .where(deliveries.c.subscription_id == subscription_id, which, free)
            .values(status=_PENDING, attempts=0, next_attempt_at=now, leased_until=None, updated_at=now)
        )
        with self._database.write() as connection:
            there = select(subscriptions.c.id).where(subscriptions.c.id == subscription_id).with_for_update()
            if connection.execute(there).one_or_none() is None:
                return 0
            count = connection.execute(again).rowcount
            if count:
                insert_audit(connection, audit)
            return count

    def of_subscription(self, subscription_id: str, *, limit: int) -> Sequence[Delivery]:
        """See the port."""
        wanted = select(deliveries).where(deliveries.c.subscription_id == subscription_id)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(deliveries.c.sequence.desc()).limit(limit)).all()
        return [_delivery(row) for row in rows]


def _record(connection: Connection, identity: str, now: Instant, outcome: dict[str, object]) -> str | None:
    """Write how an attempt ended.

    The subscription, or None if the delivery is not pending.
    """
    pending = (
        update(deliveries)
        .where(deliveries.c.id == identity, deliveries.c.status == _PENDING)
        .values(leased_until=None, worker=None, updated_at=now, **outcome)
        .returning(deliveries.c.subscription_id)
    )
    return connection.execute(pending).scalar_one_or_none()


def _log_attempt(
    connection: Connection, subscription_id: str, identity: str, attempt: DeliveryAttempt | None, kept: int
) -> None:
    if attempt is None or kept < 1:
        return
    values = {
        "subscription_id": subscription_id,
        "delivery_id": identity,
        "number": attempt.number,
        "at": attempt.at,
        "duration_ms": attempt.duration_ms,
        "status_code": attempt.status_code,
        "failure": attempt.failure.value if attempt.failure else None,
        "error": attempt.error,
        "request_headers": json.dumps(dict(attempt.request_headers)),
        "request_body": attempt.request_body,
        "response": attempt.response,
    }
    connection.execute(insert(delivery_attempts).values(values))
    of_it = delivery_attempts.c.subscription_id == subscription_id
    newest_gone = (
        select(delivery_attempts.c.id)
        .where(of_it)
        .order_by(delivery_attempts.c.id.desc())
        .limit(1)
        .offset(kept)
        .scalar_subquery()
    )
    connection.execute(delete(delivery_attempts).where(of_it, delivery_attempts.c.id <= newest_gone))


def drop_subscriptions(connection: Connection, dataset: DatasetId) -> None:
    """Remove the subscriptions of a dataset that goes away.

    They go first: a fan-out that holds one ends before we look.
    """
    gone = delete(subscriptions).where(subscriptions.c.dataset_id == dataset).returning(subscriptions.c.id)
    _drop_pending(connection, list(connection.execute(gone).scalars()))


def drop_subscriptions_of_account(connection: Connection, account: AccountId) -> None:
    """Remove the subscriptions of a whole account that goes away."""
    gone = delete(subscriptions).where(subscriptions.c.scope_account == account).returning(subscriptions.c.id)
    _drop_pending(connection, list(connection.execute(gone).scalars()))


def _drop_pending(connection: Connection, subscription_ids: Sequence[str]) -> None:
    for subscription_id in subscription_ids:
        connection.execute(
            update(deliveries)
            .where(deliveries.c.subscription_id == subscription_id, deliveries.c.status == _PENDING)
            .values(status=DeliveryStatus.DROPPED.value)
        )
        connection.execute(delete(delivery_attempts).where(delivery_attempts.c.subscription_id == subscription_id))


def _first() -> Select[tuple[str]]:
    """Ids of the lowest pending deliveries of active subscriptions.

    Asked subscription by subscription: a receiver that has been away for long has many pending deliveries, and only its
    first one counts."""
    others = deliveries.alias()
    lowest = (
        select(func.min(others.c.sequence))
        .where(others.c.subscription_id == subscriptions.c.id, others.c.status == _PENDING)
        .correlate(subscriptions)
        .scalar_subquery()
    )
    of_it = (subscriptions.c.id == deliveries.c.subscription_id) & (deliveries.c.sequence == lowest)
    found = select(deliveries.c.id).select_from(deliveries).join(subscriptions, of_it)
    return found.where(subscriptions.c.state == SubscriptionState.ACTIVE.value)


# Made once: making it takes longer than asking it.
_FIRST = _first()


def due_deliveries(now: Instant, lease_end: Instant, avoided: Avoided = NOTHING_AVOIDED) -> Select[tuple[str]]:
    """Ids of deliveries that are the lowest pending of their subscription, due, free.

    What was written after `lease_end` is of a clock that was ahead: its times mean nothing."""
    free = deliveries.c.leased_until.is_(None) | (deliveries.c.leased_until <= now)
    return (
        _FIRST.where(not_(_is_avoided(avoided)))
        .where((deliveries.c.updated_at > lease_end) | ((deliveries.c.next_attempt_at <= now) & free))
        .order_by(deliveries.c.next_attempt_at, deliveries.c.id)
    )


def _is_avoided(avoided: Avoided) -> ColumnElement[bool]:
    known = subscriptions.c
    doubtful = or_(known.slow, not_(known.proven))
    reasons: list[ColumnElement[bool]] = [false()]
    if avoided.receivers:
        reasons.append(known.receiver.in_(sorted(avoided.receivers)))
    if avoided.accounts:
        reasons.append(known.account.in_(sorted(avoided.accounts)))
    if avoided.doubtful_accounts:
        reasons.append(and_(doubtful, known.account.in_(sorted(avoided.doubtful_accounts))))
    if avoided.doubtful_datasets:
        datasets = sorted(avoided.doubtful_datasets, key=str)
        reasons.append(and_(doubtful, known.dataset_id.is_not(None), known.dataset_id.in_(datasets)))
    if avoided.doubtful:
        reasons.append(doubtful)
    if avoided.slow:
        reasons.append(known.slow)
    return or_(*reasons)


def _subscription(row: Row[tuple[object, ...]]) -> Subscription:
    return Subscription(
        id=row.id,
        dataset_id=row.dataset_id,
        account=row.account,
        url=row.url,
        created_at=row.created_at,
        created_at_head=row.created_at_head,
        state=SubscriptionState(row.state),
        state_reason=row.state_reason,
        failing_since=row.failing_since,
        old_secret_until=row.old_secret_until,
        slow=row.slow,
        proven=row.proven,
        format=SubscriptionFormat(row.format),
        moves=MoveOptions(
            only_with_data=row.only_with_data,
            columns=frozenset(json.loads(row.move_columns or "[]")),
            with_rows=row.with_rows,
        ),
        scope_account=row.scope_account,
        events=row.events,
    )


def _columns_of_moves(moves: MoveOptions) -> dict[str, object]:
    columns = json.dumps(sorted(moves.columns)) if moves.columns else None
    return {"only_with_data": moves.only_with_data, "move_columns": columns, "with_rows": moves.with_rows}


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
        event=stored_event(row),
    )


def _attempt(row: Row[tuple[object, ...]]) -> DeliveryAttempt:
    return DeliveryAttempt(
        number=row.number,
        at=row.at,
        duration_ms=row.duration_ms,
        status_code=row.status_code,
        failure=FailureKind(row.failure) if row.failure else None,
        error=row.error,
        request_headers=json.loads(row.request_headers),
        request_body=row.request_body,
        response=row.response,
    )
