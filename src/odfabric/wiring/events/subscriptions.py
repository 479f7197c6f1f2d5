"""Subscriptions and their deliveries, bound to a node's ports.

Owns the binding, like `node`, and who waits for a test: a receiver that hangs holds a thread, so only some tests run at once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from odfabric.domain.people.access import Subject
from odfabric.domain.subscriptions.delivery_shares import UnderWay, under_way
from odfabric.errors import LimitExceeded
from odfabric.model.subscriptions.event import EventType
from odfabric.model.subscriptions.subscription import (
    ALL_MOVES,
    NOTHING_AVOIDED,
    Avoided,
    Delivery,
    DeliveryAttempt,
    MoveOptions,
    Subscription,
    SubscriptionFormat,
)
from odfabric.ports.subscriptions.signals import Topic
from odfabric.settings import Settings
from odfabric.telemetry import present_trace
from odfabric.usecases.chain.head_move import HeadMoves
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.events.filter_moves import MoveFilter
from odfabric.usecases.events.unchanged_columns import UnchangedColumns
from odfabric.usecases.reading.move_rows import PORTIONS_MIN, MoveRows
from odfabric.usecases.rights.access import Access
from odfabric.usecases.subscriptions.change_subscription import OwnSubscription, Replay
from odfabric.usecases.subscriptions.deliver import DELIVERY_LEASE_MS, DeliveryPorts, DeliveryRules, deliver
from odfabric.usecases.subscriptions.node_signature import NodeSignature
from odfabric.usecases.subscriptions.subscribe import NewSubscription, seen_subscriptions, subscribe, unsubscribe
from odfabric.usecases.subscriptions.subscription_scope import Scope, may_receive
from odfabric.wiring.events.cursors import change_reader
from odfabric.wiring.node_ports import NodePorts

TESTS_AT_ONCE_MAX = 4
"""Tests of receivers that one process waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionVerbs:
    """Verbs about subscriptions, those of people each for one subject."""

    ports: NodePorts
    settings: Settings
    access: Access
    repository: Repository
    unchanged: UnchangedColumns
    rows: MoveRows
    signature: NodeSignature = field(init=False)
    """The key of the node that signs all webhooks."""
    _moves: HeadMoves = field(init=False)
    _tests: threading.BoundedSemaphore = field(init=False)

    def __post_init__(self) -> None:
        signature = NodeSignature(self.ports.signing_keys, clock=self.ports.clock, entropy=self.ports.entropy)
        object.__setattr__(self, "signature", signature)
        object.__setattr__(self, "_moves", HeadMoves(self.repository))
        object.__setattr__(self, "_tests", threading.BoundedSemaphore(TESTS_AT_ONCE_MAX))

    def subscribe(
        self,
        scope: Scope,
        *,
        by: Subject,
        url: str,
        secret: bytes | None,
        format: SubscriptionFormat = SubscriptionFormat.CLOUD_EVENT,
        events: frozenset[EventType] | None = None,
        moves: MoveOptions = ALL_MOVES,
    ) -> NewSubscription:
        """Subscribe a webhook."""
        return subscribe(
            scope,
            url=url,
            secret=secret,
            format=format,
            moves=moves,
            subject=by,
            repository=self.repository,
            subscriptions=self.ports.subscriptions,
            sender=self.ports.webhooks,
            clock=self.ports.clock,
            entropy=self.ports.entropy,
            access=self.access,
            per_dataset_max=self.settings.subscriptions_per_dataset_max,
            events=events,
        )

    def unsubscribe(self, scope: Scope, subscription_id: str, *, by: Subject) -> None:
        """End a subscription. Raises NotFound."""
        unsubscribe(
            scope,
            subscription_id,
            subject=by,
            access=self.access,
            subscriptions=self.ports.subscriptions,
            clock=self.ports.clock,
        )

    def seen(self, scope: Scope, *, by: Subject) -> Sequence[Subscription]:
        """Subscriptions of a scope that the subject may see."""
        return seen_subscriptions(
            scope,
            subject=by,
            access=self.access,
            subscriptions=self.ports.subscriptions,
            limit=self.settings.subscriptions_per_dataset_max,
        )

    def get(self, scope: Scope, subscription_id: str, *, by: Subject) -> Subscription:
        """One that the subject may see. Raises NotFound."""
        return self._own(scope, subscription_id, by).get()

    def pause(self, scope: Scope, subscription_id: str, *, by: Subject) -> Subscription:
        """Let deliveries wait. Raises NotFound."""
        return self._own(scope, subscription_id, by).pause()

    def resume(self, scope: Scope, subscription_id: str, *, by: Subject) -> Subscription:
        """Deliver what has waited. Raises NotFound."""
        found = self._own(scope, subscription_id, by).resume()
        self.ports.signals.send(Topic.DELIVERIES)
        return found

    def rotate_secret(
        self,
        scope: Scope,
        subscription_id: str,
        *,
        by: Subject,
        secret: bytes | None = None,
        overlap_s: float | None = None,
    ) -> NewSubscription:
        """Change the secret; the old one signs on for `overlap_s`.

        By default as long as the settings say. Raises NotFound, AccessDenied, InvalidRequest.
        """
        lasting_s = self.settings.webhook_secret_overlap_s if overlap_s is None else overlap_s
        return self._own(scope, subscription_id, by).rotate_secret(secret=secret, overlap_s=lasting_s)

    def replay(self, scope: Scope, subscription_id: str, which: Replay, *, by: Subject) -> int:
        """Deliver again; how many. Raises NotFound."""
        count = self._own(scope, subscription_id, by).replay(which)
        self.ports.signals.send(Topic.DELIVERIES)
        return count

    def test(self, scope: Scope, subscription_id: str, *, by: Subject) -> DeliveryAttempt:
        """Try the receiver and wait for its answer. Raises NotFound, LimitExceeded."""
        own = self._own(scope, subscription_id, by)
        if not self._tests.acquire(blocking=False):
            raise LimitExceeded(
                "too many receivers are being tested",
                limit="tests_at_once_max",
                maximum=TESTS_AT_ONCE_MAX,
                retry_after_s=5,
            )
        try:
            return own.test(source=self.settings.node_uri)
        finally:
            self._tests.release()

    def deliveries(self, scope: Scope, subscription_id: str, *, by: Subject) -> Sequence[Delivery]:
        """Its newest deliveries, newest first. Raises NotFound."""
        return self._own(scope, subscription_id, by).deliveries(limit=self.settings.page_rows_max)

    def delivery(self, scope: Scope, subscription_id: str, delivery_id: str, *, by: Subject) -> Delivery:
        """One delivery. Raises NotFound."""
        return self._own(scope, subscription_id, by).delivery(delivery_id)

    def attempts(
        self, scope: Scope, subscription_id: str, delivery_id: str, *, by: Subject
    ) -> Sequence[DeliveryAttempt]:
        """The kept attempts at one delivery, newest first. Raises NotFound."""
        return self._own(scope, subscription_id, by).attempts(delivery_id, limit=self.settings.page_rows_max)

    def may_receive(self, delivery: Delivery, *, by: Subject) -> bool:
        """Whether the subject itself may see the event of a delivery now."""
        return may_receive(delivery, by, self.repository.find(delivery.dataset_id), self.access)

    # background work

    @property
    def filters(self) -> MoveFilter:
        """Which subscriptions a move makes no event for."""
        return MoveFilter(self.ports.subscriptions, self._moves, self.unchanged)

    def due(self, worker: str, *, limit: int, avoided: Avoided = NOTHING_AVOIDED) -> Sequence[Delivery]:
        """Lease at most `limit` deliveries to be sent now."""
        return self.ports.deliveries.lease_due(
            worker, now=self.ports.clock.now(), lease_ms=DELIVERY_LEASE_MS, limit=limit, avoided=avoided
        )

    def under_way(self, delivery: Delivery) -> UnderWay | None:
        """What a leased delivery holds a sender for, None if its subscription is gone."""
        found = self.ports.subscriptions.get(delivery.subscription_id)
        return under_way(found) if found else None

    def deliver(self, delivery: Delivery) -> bool:
        """Make one attempt at a leased delivery; whether its receiver accepted it."""
        rules = DeliveryRules(
            source=self.settings.node_uri,
            base=self.settings.public_url or "",
            attempts_kept=self.settings.delivery_attempts_kept,
            failing_days_max=self.settings.subscription_failing_days_max,
        )
        return deliver(delivery, ports=self._delivery_ports(), rules=rules)

    def drop_old_secrets(self) -> int:
        """Remove secrets that sign no more; how many."""
        return self.ports.subscriptions.drop_old_secrets(now=self.ports.clock.now())

    def forget_signing_keys(self) -> int:
        """Remove signing keys that were retired long ago; how many."""
        return self.signature.forget_retired(kept_days=self.settings.signing_keys_kept_days)

    def _own(self, scope: Scope, subscription_id: str, by: Subject) -> OwnSubscription:
        return OwnSubscription(scope=scope, subscription_id=subscription_id, subject=by, ports=self._delivery_ports())

    def _delivery_ports(self) -> DeliveryPorts:
        return DeliveryPorts(
            access=self.access,
            repository=self.repository,
            moves=self._moves,
            rows=self.rows,
            subscriptions=self.ports.subscriptions,
            deliveries=self.ports.deliveries,
            signature=self.signature,
            sender=self.ports.webhooks,
            clock=self.ports.clock,
            entropy=self.ports.entropy,
            trace=present_trace,
        )


def subscription_verbs(
    ports: NodePorts, settings: Settings, *, access: Access, repository: Repository
) -> SubscriptionVerbs:
    """With the limits of the node."""
    bytes_max = settings.webhook_rows_bytes_max
    portion = bytes_max // PORTIONS_MIN
    reader = change_reader(settings, bytes_max=portion, repository=repository, exchange=ports.exchange)
    return SubscriptionVerbs(
        ports=ports,
        settings=settings,
        access=access,
        repository=repository,
        rows=MoveRows(repository=repository, reader=reader, bytes_max=bytes_max),
        unchanged=UnchangedColumns(
            repository=repository, exchange=ports.exchange, bytes_max=settings.webhook_compared_bytes_max
        ),
    )
