"""Outbox, subscriptions and deliveries in memory.

Owns fan-out and leasing of deliveries over `MemoryStore`. Invariant: numbers of a subscription's deliveries have no gap, and a
message makes its deliveries once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from odfabric.adapters.memory.store import MemoryStore, StoredAttempt, StoredDelivery, StoredSubscription
from odfabric.errors import AlreadyExists, Determinate, HeadMoved, NotFound
from odfabric.model.commit import PendingMessage
from odfabric.model.identity import AccountId, DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.multihash import Multihash
from odfabric.model.people.audit import AuditEntry
from odfabric.model.subscriptions.event import Event, EventType
from odfabric.model.subscriptions.subscription import (
    NOTHING_AVOIDED,
    Avoided,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    Subscription,
    SubscriptionState,
    delivery_id,
    event_delivery_id,
)


class MemoryOutbox:
    """An Outbox."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def pending(self, *, limit: int) -> Sequence[PendingMessage]:
        """See the port."""
        with self._store.lock:
            waiting = [
                PendingMessage(number, stored.message)
                for number, stored in enumerate(self._store.outbox, start=1)
                if not stored.done
            ]
        return waiting[:limit]

    def wanted(self, pending: PendingMessage) -> frozenset[EventType]:
        """See the port."""
        with self._store.lock:
            following = self._following(pending)
            return frozenset(type for stored in following for type in stored.subscription.events)

    def fan_out(
        self, message_id: int, *, now: Instant, derived: Sequence[Event] = (), skipped: Collection[str] = ()
    ) -> int:
        """See the port."""
        with self._store.lock:
            if not 0 < message_id <= len(self._store.outbox) or self._store.outbox[message_id - 1].done:
                return 0
            message = self._store.outbox[message_id - 1].message
            for earlier in self._store.outbox[: message_id - 1]:
                if not earlier.done and earlier.message.dataset_id == message.dataset_id:
                    raise Determinate("an older move of this head has not been told yet")
            events: Sequence[Event | None] = [message.event]
            if message.event is None:
                events = [] if message.new_head is None else [None, *derived]
            made = 0
            for event in events:
                type = event.type if event else EventType.HEAD_MOVED
                for stored in self._following(PendingMessage(message_id, message)):
                    if event is None and stored.subscription.id in skipped:
                        continue
                    if type in stored.subscription.events:
                        self._deliver(stored, PendingMessage(message_id, message), event, now)
                        made += 1
            self._store.outbox[message_id - 1].done = True
            return made

    def _following(self, pending: PendingMessage) -> list[StoredSubscription]:
        """Subscriptions that are older than the message and whose scope has its dataset."""
        message = pending.message
        dataset = self._store.datasets.get(message.dataset_id)
        alias = message.event.alias if message.event else dataset.entry.alias if dataset else None
        owner = self._store.account_named(alias.account) if alias and alias.account else None

        def has_it(found: Subscription) -> bool:
            if found.dataset_id is not None:
                return found.dataset_id == message.dataset_id
            return found.scope_account is None or (owner is not None and found.scope_account == owner.account.id)

        known = self._store.subscriptions.values()
        return [stored for stored in known if stored.after_message < pending.id and has_it(stored.subscription)]

    def _deliver(self, stored: StoredSubscription, pending: PendingMessage, event: Event | None, now: Instant) -> None:
        stored.sequence += 1
        message, subscription = pending.message, stored.subscription.id
        old_head = message.old_head
        if event is not None:
            identity = event_delivery_id(subscription, pending.id, event.type)
        else:
            assert message.new_head is not None
            identity = delivery_id(subscription, message.new_head)
            if stored.subscription.moves.skips:
                old_head = self._last_head(stored)
        self._store.deliveries[identity] = StoredDelivery(
            Delivery(
                id=identity,
                subscription_id=subscription,
                dataset_id=message.dataset_id,
                sequence=stored.sequence,
                old_head=old_head,
                new_head=message.new_head,
                occurred_at=message.occurred_at,
                status=DeliveryStatus.PENDING,
                attempts=0,
                next_attempt_at=now,
                event=event,
            ),
            updated_at=now,
        )

    def _last_head(self, stored: StoredSubscription) -> Multihash | None:
        """The new head of the subscription's last move, or the one it was created at.

        For a subscription that skips some moves.
        """
        earlier = (each.delivery for each in self._store.deliveries.values())
        own = [each for each in earlier if each.subscription_id == stored.subscription.id and each.event is None]
        last = max(own, key=lambda each: each.sequence, default=None)
        return last.new_head if last else stored.subscription.created_at_head


class MemorySubscriptions:
    """A Subscriptions."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def create(self, subscription: Subscription, *, secret: bytes, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        with self._store.lock:
            scope = subscription.dataset_id
            dataset = self._store.datasets.get(scope) if scope else None
            if dataset is None and scope is not None:
                raise NotFound("dataset", str(scope))
            if subscription.id in self._store.subscriptions:
                raise AlreadyExists(f"subscription {subscription.id} exists already")
            if dataset is not None and dataset.head.hash != subscription.created_at_head:
                raise HeadMoved(expected=str(subscription.created_at_head), actual=str(dataset.head.hash))
            stored = StoredSubscription(subscription, secret, len(self._store.outbox))
            self._store.subscriptions[subscription.id] = stored
            self._store.log(*audit)

    def get(self, subscription_id: str) -> Subscription | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.subscriptions.get(subscription_id)
            return stored.subscription if stored else None

    def secrets(self, subscription_id: str, *, now: Instant) -> Sequence[bytes]:
        """See the port."""
        with self._store.lock:
            stored = self._store.subscriptions.get(subscription_id)
            if stored is None:
                return []
            until = stored.subscription.old_secret_until
            is_old_valid = stored.old_secret is not None and until is not None and until > now
            return [stored.secret, *([stored.old_secret] if is_old_valid and stored.old_secret else [])]

    def set_secret(
        self, subscription_id: str, secret: bytes, *, old_until: Instant, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """See the port."""
        with self._store.lock:
            stored = self._store.subscriptions.get(subscription_id)
            if stored is None:
                return False
            stored.old_secret, stored.secret = stored.secret, secret
            stored.subscription = replace(stored.subscription, old_secret_until=old_until)
            self._store.log(*audit)
            return True

    def drop_old_secrets(self, *, now: Instant) -> int:
        """See the port."""
        dropped = 0
        with self._store.lock:
            for stored in self._store.subscriptions.values():
                until = stored.subscription.old_secret_until
                if until is not None and until <= now:
                    stored.old_secret = None
                    stored.subscription = replace(stored.subscription, old_secret_until=None)
                    dropped += 1
        return dropped

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
        with self._store.lock:
            stored = self._store.subscriptions.get(subscription_id)
            if stored is None or stored.subscription.state is state:
                return False
            stored.subscription = replace(stored.subscription, state=state, state_reason=reason)
            if state is SubscriptionState.ACTIVE:
                stored.subscription = replace(stored.subscription, failing_since=None)
                for waiting in self._store.deliveries.values():
                    delivery = waiting.delivery
                    if delivery.subscription_id == subscription_id and delivery.status is DeliveryStatus.PENDING:
                        waiting.delivery = replace(delivery, attempts=0, next_attempt_at=now)
                        waiting.updated_at = now
            self._store.log(*audit)
            return True

    def note_test(self, subscription_id: str, *, proven: bool, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        with self._store.lock:
            stored = self._store.subscriptions.get(subscription_id)
            if stored is None:
                return False
            if proven:
                stored.subscription = replace(stored.subscription, proven=True, slow=False)
            self._store.log(*audit)
            return True

    def of_dataset(self, dataset: DatasetId, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        return [found for found in self._all() if found.dataset_id == dataset][:limit]

    def of_account(self, account: AccountId, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        return [found for found in self._all() if found.scope_account == account][:limit]

    def of_node(self, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        return [found for found in self._all() if found.dataset_id is None and found.scope_account is None][:limit]

    def counted(self) -> Mapping[SubscriptionState, int]:
        """See the port."""
        return Counter(found.state for found in self._all())

    def _all(self) -> list[Subscription]:
        with self._store.lock:
            return [stored.subscription for stored in self._store.subscriptions.values()]

    def delete(self, subscription_id: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        with self._store.lock:
            if subscription_id not in self._store.subscriptions:
                return False
            _drop(self._store, subscription_id)
            self._store.log(*audit)
            return True


class MemoryDeliveries:
    """A Deliveries."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def lease_due(
        self, worker: str, *, now: Instant, lease_ms: int, limit: int, avoided: Avoided = NOTHING_AVOIDED
    ) -> Sequence[Delivery]:
        """See the port."""
        with self._store.lock:
            due = [
                stored
                for stored in self._lowest_pending()
                if _is_free(stored, now, lease_ms) and self._is_wanted(stored.delivery, avoided)
            ]
            due.sort(key=lambda stored: (stored.delivery.next_attempt_at, stored.delivery.id))
            for stored in due[:limit]:
                stored.leased_until = Instant(now.epoch_ns + lease_ms * NANOS_PER_MILLI)
                stored.updated_at = now
                stored.delivery = replace(stored.delivery, attempts=stored.delivery.attempts + 1)
            return [stored.delivery for stored in due[:limit]]

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
        with self._store.lock:
            stored = self._pending(delivery_id)
            if stored is None:
                return
            stored.leased_until = None
            stored.updated_at = now
            stored.delivery = replace(
                stored.delivery, status=DeliveryStatus.DELIVERED, last_status_code=status_code, last_error=None
            )
            of = self._store.subscriptions.get(stored.delivery.subscription_id)
            if of is not None:
                is_slow = attempt is not None and attempt.is_slow
                of.subscription = replace(of.subscription, failing_since=None, slow=is_slow, proven=True)
            self._log_attempt(stored.delivery, attempt, attempts_kept)

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
        with self._store.lock:
            stored = self._pending(delivery_id)
            if stored is None:
                return
            stored.leased_until = None
            stored.updated_at = now
            stored.delivery = replace(
                stored.delivery,
                status=DeliveryStatus.FAILED if next_attempt_at is None else DeliveryStatus.PENDING,
                next_attempt_at=next_attempt_at or stored.delivery.next_attempt_at,
                last_status_code=status_code,
                last_error=error,
            )
            of = self._store.subscriptions.get(stored.delivery.subscription_id)
            if of is not None:
                since = of.subscription.failing_since or now
                is_slow = attempt is not None and attempt.is_slow
                of.subscription = replace(of.subscription, failing_since=since, slow=is_slow)
            self._log_attempt(stored.delivery, attempt, attempts_kept)

    def get(self, delivery_id: str) -> Delivery | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.deliveries.get(delivery_id)
            return stored.delivery if stored else None

    def attempts(self, delivery_id: str, *, limit: int) -> Sequence[DeliveryAttempt]:
        """See the port."""
        with self._store.lock:
            known = [logged.attempt for logged in self._store.attempts if logged.delivery_id == delivery_id]
        return known[::-1][:limit]

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
        count = 0
        with self._store.lock:
            if subscription_id not in self._store.subscriptions:
                return 0
            for stored in self._store.deliveries.values():
                delivery = stored.delivery
                is_leased = stored.leased_until is not None and stored.leased_until > now
                is_under_way = delivery.status is DeliveryStatus.PENDING and is_leased
                if delivery.subscription_id != subscription_id or is_under_way:
                    continue
                if _is_replayed(delivery, delivery_id, from_sequence):
                    stored.delivery = replace(delivery, status=DeliveryStatus.PENDING, attempts=0, next_attempt_at=now)
                    stored.leased_until, stored.updated_at = None, now
                    count += 1
            if count:
                self._store.log(*audit)
        return count

    def of_subscription(self, subscription_id: str, *, limit: int) -> Sequence[Delivery]:
        """See the port."""
        with self._store.lock:
            known = [stored.delivery for stored in self._store.deliveries.values()]
        mine = [delivery for delivery in known if delivery.subscription_id == subscription_id]
        return sorted(mine, key=lambda delivery: -delivery.sequence)[:limit]

    def _lowest_pending(self) -> list[StoredDelivery]:
        lowest: dict[str, StoredDelivery] = {}
        for stored in self._store.deliveries.values():
            if stored.delivery.status is DeliveryStatus.PENDING:
                known = lowest.setdefault(stored.delivery.subscription_id, stored)
                if stored.delivery.sequence < known.delivery.sequence:
                    lowest[stored.delivery.subscription_id] = stored
        return list(lowest.values())

    def _is_wanted(self, delivery: Delivery, avoided: Avoided) -> bool:
        stored = self._store.subscriptions.get(delivery.subscription_id)
        if stored is None:
            return False
        found = stored.subscription
        is_doubtful = found.slow or not found.proven
        return found.state is SubscriptionState.ACTIVE and not (
            found.receiver in avoided.receivers
            or found.account in avoided.accounts
            or (is_doubtful and found.account in avoided.doubtful_accounts)
            or (is_doubtful and found.dataset_id in avoided.doubtful_datasets)
            or (is_doubtful and avoided.doubtful)
            or (found.slow and avoided.slow)
        )

    def _log_attempt(self, delivery: Delivery, attempt: DeliveryAttempt | None, kept: int) -> None:
        if attempt is None or kept < 1:
            return
        of = delivery.subscription_id
        self._store.attempts.append(StoredAttempt(of, delivery.id, attempt))
        mine = [logged for logged in self._store.attempts if logged.subscription_id == of]
        for logged in mine[:-kept]:
            self._store.attempts.remove(logged)

    def _pending(self, identity: str) -> StoredDelivery | None:
        stored = self._store.deliveries.get(identity)
        return stored if stored and stored.delivery.status is DeliveryStatus.PENDING else None


def drop_subscriptions(store: MemoryStore, dataset: DatasetId) -> None:
    """Remove the subscriptions of a dataset that goes away. The lock must be held."""
    for stored in list(store.subscriptions.values()):
        if stored.subscription.dataset_id == dataset:
            _drop(store, stored.subscription.id)


def drop_subscriptions_of_account(store: MemoryStore, account: AccountId) -> None:
    """Remove the subscriptions of a whole account that goes away.

    The lock must be held.
    """
    for stored in list(store.subscriptions.values()):
        if stored.subscription.scope_account == account:
            _drop(store, stored.subscription.id)


def _drop(store: MemoryStore, subscription_id: str) -> None:
    del store.subscriptions[subscription_id]
    store.attempts = [logged for logged in store.attempts if logged.subscription_id != subscription_id]
    for stored in store.deliveries.values():
        delivery = stored.delivery
        if delivery.subscription_id == subscription_id and delivery.status is DeliveryStatus.PENDING:
            stored.delivery = replace(delivery, status=DeliveryStatus.DROPPED)


def _is_free(stored: StoredDelivery, now: Instant, lease_ms: int) -> bool:
    free = stored.leased_until is None or stored.leased_until <= now
    ahead = stored.updated_at.epoch_ns > now.epoch_ns + lease_ms * NANOS_PER_MILLI
    return ahead or (stored.delivery.next_attempt_at <= now and free)


def _is_replayed(delivery: Delivery, delivery_id: str | None, from_sequence: int | None) -> bool:
    if delivery_id is not None:
        return delivery.id == delivery_id
    if from_sequence is not None:
        return delivery.sequence >= from_sequence
    return delivery.status is DeliveryStatus.FAILED
