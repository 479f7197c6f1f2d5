"""The outbox in SQL.

Owns the statements of fan-out. Invariants: a message makes its deliveries in the transaction that marks it done; numbers of a subscription
come from a counter in its own row, so that they have no gap even if a fan-out is rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Connection, Row, Text, and_, insert, or_, select, type_coerce, update

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.tables.datasets import datasets
from odfabric.adapters.sql.tables.node import outbox
from odfabric.adapters.sql.tables.people import accounts
from odfabric.adapters.sql.tables.subscriptions import deliveries, subscriptions
from odfabric.errors import Determinate
from odfabric.formats.webhooks.event_document import event_text, parse_event_text
from odfabric.model.commit import OutboxMessage, PendingMessage
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.subscriptions.event import Event, EventType
from odfabric.model.subscriptions.subscription import DeliveryStatus, delivery_id, event_delivery_id


class SqlOutbox:
    """An Outbox."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self, *, limit: int) -> Sequence[PendingMessage]:
        """See the port."""
        wanted = select(outbox).where(outbox.c.done_at.is_(None)).order_by(outbox.c.id).limit(limit)
        with self._database.read() as connection:
            return [PendingMessage(row.id, _message(row)) for row in connection.execute(wanted)]

    def wanted(self, pending: PendingMessage) -> frozenset[EventType]:
        """See the port."""
        wanted = select(subscriptions.c.events).where(_follows(pending.id, pending.message)).distinct()
        with self._database.read() as connection:
            return frozenset().union(*connection.execute(wanted).scalars())

    def fan_out(
        self, message_id: int, *, now: Instant, derived: Sequence[Event] = (), skipped: Collection[str] = ()
    ) -> int:
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
            pending = PendingMessage(message_id, message)
            _hold(connection, pending)
            events = _events(message, derived)
            made = sum(_deliver(connection, pending, event, now, () if event else skipped) for event in events)
            connection.execute(update(outbox).where(outbox.c.id == message_id).values(done_at=now))
            return made


def send(connection: Connection, message: OutboxMessage) -> None:
    """Append a message in the transaction of what it reports."""
    connection.execute(
        insert(outbox).values(
            dataset_id=message.dataset_id,
            old_head=message.old_head,
            new_head=message.new_head,
            occurred_at=message.occurred_at,
            event=event_text(message.event) if message.event else None,
        )
    )


def stored_event(row: Row[tuple[object, ...]]) -> Event | None:
    """The event of a row of the outbox or of the delivery log, None for a head move."""
    if row.event is None:
        return None
    return parse_event_text(row.event, dataset_id=row.dataset_id, occurred_at=row.occurred_at)


def _message(row: Row[tuple[object, ...]]) -> OutboxMessage:
    return OutboxMessage(
        dataset_id=row.dataset_id,
        old_head=row.old_head,
        new_head=row.new_head,
        occurred_at=row.occurred_at,
        event=stored_event(row),
    )


def _events(message: OutboxMessage, derived: Sequence[Event]) -> Sequence[Event | None]:
    """What the message reports, None for the head move itself.

    Nothing for a removal, which has an event of its own.
    """
    if message.event is not None:
        return [message.event]
    return [] if message.new_head is None else [None, *derived]


def _follows(message_id: int, message: OutboxMessage) -> ColumnElement[bool]:
    """Subscriptions that are older than the message and whose scope has its dataset.

    A head move names no account: the dataset does.
    """
    known = subscriptions.c
    owner = select(accounts.c.id)
    if message.event is None:
        owner = owner.join(datasets, datasets.c.account_folded == accounts.c.name_folded)
        owner = owner.where(datasets.c.id == message.dataset_id)
    else:
        account = message.event.alias.account
        owner = owner.where(accounts.c.name_folded == (account.folded if account else ""))
    of_account = or_(known.scope_account.is_(None), known.scope_account == owner.scalar_subquery())
    in_scope = or_(known.dataset_id == message.dataset_id, and_(known.dataset_id.is_(None), of_account))
    return and_(in_scope, known.after_message < message_id)


def _hold(connection: Connection, pending: PendingMessage) -> None:
    """Lock the subscriptions in one order; SQLite has one writer.

    Messages of two datasets may be fanned out at once to the same ones.
    """
    if connection.dialect.name != "sqlite":
        held = select(subscriptions.c.id).where(_follows(pending.id, pending.message))
        connection.execute(held.order_by(subscriptions.c.position).with_for_update()).all()


def _deliver(
    connection: Connection, pending: PendingMessage, event: Event | None, now: Instant, skipped: Collection[str]
) -> int:
    """One delivery of an event or head move per subscription of its type; how many."""
    message = pending.message
    type = event.type if event else EventType.HEAD_MOVED
    types = type_coerce(subscriptions.c.events, Text)
    numbered = (
        update(subscriptions)
        .where(_follows(pending.id, message), types.contains(f" {type.value} ", autoescape=True))
        .where(subscriptions.c.id.not_in(sorted(skipped)))
        .values(last_sequence=subscriptions.c.last_sequence + 1)
        .returning(
            subscriptions.c.id,
            subscriptions.c.last_sequence,
            (subscriptions.c.only_with_data | subscriptions.c.move_columns.is_not(None)).label("skips"),
            subscriptions.c.created_at_head,
        )
    )
    values = [
        {
            "id": event_delivery_id(row.id, pending.id, type) if event else _move_id(row.id, message),
            "subscription_id": row.id,
            "dataset_id": message.dataset_id,
            "sequence": row.last_sequence,
            "old_head": _last_head(connection, row) if row.skips and event is None else message.old_head,
            "new_head": message.new_head,
            "occurred_at": message.occurred_at,
            "status": DeliveryStatus.PENDING.value,
            "attempts": 0,
            "next_attempt_at": now,
            "updated_at": now,
            "event": event_text(event) if event else None,
        }
        for row in connection.execute(numbered).all()
    ]
    if values:
        connection.execute(insert(deliveries), values)
    return len(values)


def _last_head(connection: Connection, row: Row[tuple[object, ...]]) -> Multihash:
    """The new head of the subscription's last move, or the one it was created at.

    For a subscription that skips some moves.
    """
    wanted = select(deliveries.c.new_head).where(deliveries.c.subscription_id == row.id, deliveries.c.event.is_(None))
    found = connection.execute(wanted.order_by(deliveries.c.sequence.desc()).limit(1)).scalar_one_or_none()
    head: Multihash = found or row.created_at_head
    return head


def _move_id(subscription_id: str, message: OutboxMessage) -> str:
    assert message.new_head is not None
    return delivery_id(subscription_id, message.new_head)
