"""Pause, resume, test a subscription, rotate its secret, replay its deliveries.

Invariant: each change is audited in its own transaction; a subscription is found by the one who may see it, and its secret is given to nobody
but its maker. Not here: the deliveries themselves (`usecases.subscriptions.deliver`).
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.errors import AccessDenied, InvalidRequest, NotFound, Place
from odfabric.formats.webhooks.reference_webhook import TESTED
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.people.audit import AuditEntry, AuditKind
from odfabric.model.subscriptions.subscription import Delivery, DeliveryAttempt, Subscription, SubscriptionState
from odfabric.usecases.subscriptions.deliver import DeliveryPorts
from odfabric.usecases.subscriptions.event_body import check_body
from odfabric.usecases.subscriptions.send_webhook import send_webhook
from odfabric.usecases.subscriptions.subscribe import NewSubscription, is_of, own_subscription, subscription_entry
from odfabric.usecases.subscriptions.subscription_scope import Scope

OVERLAP_S_MAX = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Which deliveries: one, or those from a sequence on, or those that failed.

    Exactly one of them.
    """

    delivery_id: str | None = None
    from_sequence: int | None = None
    failed: bool = False

    def __post_init__(self) -> None:
        given = [self.delivery_id is not None, self.from_sequence is not None, self.failed]
        if sum(given) != 1:
            raise InvalidRequest(
                "say which deliveries to replay",
                place=Place(field="fromSequence"),
                hint="give `fromSequence`, or `failed: true`",
            )
        if self.from_sequence is not None and self.from_sequence < 1:
            raise InvalidRequest("sequences count from 1", place=Place(field="fromSequence"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSubscription:
    """A subscription of a dataset, an account or the node, as one subject reaches it."""

    scope: Scope
    subscription_id: str
    subject: Subject
    ports: DeliveryPorts

    def get(self) -> Subscription:
        """The subscription. Raises NotFound."""
        return own_subscription(
            self.scope,
            self.subscription_id,
            subject=self.subject,
            access=self.ports.access,
            subscriptions=self.ports.subscriptions,
        )

    def pause(self) -> Subscription:
        """Deliver nothing until it is resumed; what is to be delivered waits.

        A disabled one stays disabled. Raises NotFound.
        """
        found = self.get()
        if found.state is not SubscriptionState.DISABLED:
            self._set_state(found, SubscriptionState.PAUSED, AuditKind.SUBSCRIPTION_PAUSED)
        return self.get()

    def resume(self) -> Subscription:
        """Deliver again, in order, what has waited. Raises NotFound."""
        self._set_state(self.get(), SubscriptionState.ACTIVE, AuditKind.SUBSCRIPTION_RESUMED)
        return self.get()

    def rotate_secret(self, *, secret: bytes | None, overlap_s: float) -> NewSubscription:
        """Give it another secret; the old one signs too for `overlap_s` seconds.

        Only its maker may. Raises NotFound, AccessDenied, InvalidRequest.
        """
        found = self.get()
        if not is_of(found, self.subject):
            raise AccessDenied(
                "the secret of a subscription is changed by its maker only", hint="end it and make one of your own"
            )
        if not 0 <= overlap_s <= OVERLAP_S_MAX:
            raise InvalidRequest(
                f"the old secret signs for 0 to {OVERLAP_S_MAX:.0f} seconds", place=Place(field="overlapSeconds")
            )
        secret = secret or self.ports.entropy.random_bytes(32)
        until = Instant(self.ports.clock.now().epoch_ns + round(overlap_s * NANOS_PER_SECOND))
        audit = self._audit(AuditKind.SUBSCRIPTION_SECRET_ROTATED, found, old_secret_until=str(until))
        if not self.ports.subscriptions.set_secret(found.id, secret, old_until=until, audit=[audit]):
            raise NotFound("subscription", found.id)
        return NewSubscription(self.get(), secret)

    def replay(self, which: Replay) -> int:
        """Deliver again, with the same event ids and the present secrets; how many.

        Raises NotFound, also for a delivery of another subscription.
        """
        found = self.get()
        if which.delivery_id is not None:
            self.delivery(which.delivery_id)
        asked = {
            "delivery": which.delivery_id,
            "from_sequence": str(which.from_sequence) if which.from_sequence else None,
            "failed": "all" if which.failed else None,
        }
        detail = {name: value for name, value in asked.items() if value is not None}
        return self.ports.deliveries.replay(
            found.id,
            now=self.ports.clock.now(),
            delivery_id=which.delivery_id,
            from_sequence=which.from_sequence,
            audit=[self._audit(AuditKind.SUBSCRIPTION_REPLAYED, found, **detail)],
        )

    def test(self, *, source: str) -> DeliveryAttempt:
        """Send a test message outside the sequence; its outcome. Raises NotFound.

        It is sent once, to a paused or disabled subscription too.
        """
        found, ports = self.get(), self.ports
        message_id = f"test_{ports.entropy.random_bytes(16).hex()}"
        entry = self.scope if isinstance(self.scope, CatalogEntry) else None
        body = check_body(
            found,
            entry,
            message_id=message_id,
            sent_at=ports.clock.now(),
            head=ports.repository.head(entry.id).hash if entry else None,
            access=ports.access,
            source=source,
        )
        attempt, _ = send_webhook(
            found,
            message_id=message_id,
            body=body,
            event_type=TESTED,
            number=1,
            subscriptions=ports.subscriptions,
            signature=ports.signature,
            sender=ports.sender,
            clock=ports.clock,
            trace=self.subject.trace,
        )
        result = attempt.failure.value if attempt.failure else "accepted"
        audit = self._audit(AuditKind.SUBSCRIPTION_TESTED, found, result=result)
        is_proof = attempt.failure is None and not attempt.is_slow
        ports.subscriptions.note_test(found.id, proven=is_proof, audit=[audit])
        return attempt

    def deliveries(self, *, limit: int) -> list[Delivery]:
        """Its deliveries, newest first. Raises NotFound."""
        return list(self.ports.deliveries.of_subscription(self.get().id, limit=limit))

    def delivery(self, delivery_id: str) -> Delivery:
        """One of its deliveries. Raises NotFound."""
        found = self.ports.deliveries.get(delivery_id)
        if found is None or found.subscription_id != self.get().id:
            raise NotFound("delivery", delivery_id)
        return found

    def attempts(self, delivery_id: str, *, limit: int) -> list[DeliveryAttempt]:
        """The attempts at one of its deliveries that are still kept, newest first.

        Raises NotFound.
        """
        return list(self.ports.deliveries.attempts(self.delivery(delivery_id).id, limit=limit))

    def _set_state(self, found: Subscription, state: SubscriptionState, kind: AuditKind) -> None:
        self.ports.subscriptions.set_state(
            found.id, state, now=self.ports.clock.now(), audit=[self._audit(kind, found)]
        )

    def _audit(self, kind: AuditKind, found: Subscription, **detail: str) -> AuditEntry:
        return subscription_entry(kind, found, self.scope, self.subject, self.ports.clock, **detail)
