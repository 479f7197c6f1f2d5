"""Deliver due webhooks: sign, send, record the attempt.

Invariant: at least once, in sequence order within a subscription; the event id is the same in every attempt. A delivery whose
subscription is gone is dropped. Rights are looked up at each attempt: a subscription of a dataset that may not be read any more ends; of
one of an account or of the node, or where only the type needs more, the number goes out without its event. One that has only failed for
days is disabled, and its deliveries stay pending. Not here: the schedule of attempts (`domain.subscriptions.delivery`), which deliveries there are
(`usecases.events.relay_outbox`). Source: Standard Webhooks 1.0; docs/threat-model.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject
from odfabric.domain.subscriptions.delivery import Delivered, GiveUp, RetryAt, fails_too_long, next_attempt
from odfabric.errors import AccountSuspended, Corrupt, External, InvalidBlock, LimitExceeded, NotFound
from odfabric.formats.operations.trace_context import TraceContext
from odfabric.formats.webhooks.cloud_event import withheld_event
from odfabric.formats.webhooks.reference_webhook import HEAD_MOVED
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.people.audit import THE_NODE, AuditEntry, AuditKind
from odfabric.model.subscriptions.subscription import (
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    FailureKind,
    HeadMoveFacts,
    MovedRows,
    Subscription,
    SubscriptionState,
    WebhookResponse,
)
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.sources.egress import WebhookSender
from odfabric.ports.subscriptions.subscriptions import Deliveries, Subscriptions
from odfabric.usecases.chain.head_move import HeadMoves
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.reading.move_rows import MoveRows
from odfabric.usecases.rights.access import Access
from odfabric.usecases.subscriptions.event_body import delivery_body, event_body
from odfabric.usecases.subscriptions.node_signature import NodeSignature
from odfabric.usecases.subscriptions.send_webhook import send_webhook
from odfabric.usecases.subscriptions.subscription_scope import may_receive

_log = logging.getLogger(__name__)

# Shared by all who lease deliveries: longer than any attempt may take.
DELIVERY_LEASE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPorts:
    """What a delivery needs.

    `trace` gives the trace of the attempt that is made now, None if it has none.
    """

    access: Access
    repository: Repository
    moves: HeadMoves
    rows: MoveRows
    subscriptions: Subscriptions
    deliveries: Deliveries
    signature: NodeSignature
    sender: WebhookSender
    clock: Clock
    entropy: Entropy
    trace: Callable[[], TraceContext | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRules:
    """`source` is this node's URI, `base` its URL in links, empty if unknown."""

    source: str
    base: str
    attempts_kept: int
    failing_days_max: float


def deliver(delivery: Delivery, *, ports: DeliveryPorts, rules: DeliveryRules) -> bool:
    """Make one attempt at a leased delivery and record how it ended.

    Whether the receiver accepted it.

    A receiver that answers 410 wants no events any more: its subscription ends. Never raises for what the receiver did; a crash
    before the record repeats the attempt with the same event id.
    """
    subscription = ports.subscriptions.get(delivery.subscription_id)
    entry = ports.repository.find(delivery.dataset_id)
    if subscription is None or (entry is None and subscription.dataset_id is not None):
        _drop(delivery, ports)
        return False
    subject = _subject(subscription, ports.access)
    if subject is None or not _may_follow(subscription, subject, entry, ports.access):
        _log.warning("subscription %s ends: its account may not read the dataset any more", subscription.id)
        audit = _entry(AuditKind.SUBSCRIPTION_DELETED, subscription, entry, _NO_RIGHT, ports.clock)
        ports.subscriptions.delete(subscription.id, audit=[audit])
        return False
    is_withheld = not may_receive(delivery, subject, entry, ports.access)
    attempt, response = _attempt(delivery, subscription, entry, is_withheld=is_withheld, ports=ports, rules=rules)
    jitter = int.from_bytes(ports.entropy.random_bytes(4), "big") / 2**32
    now = ports.clock.now()
    match next_attempt(attempts=delivery.attempts, response=response, now=now, jitter=jitter):
        case Delivered():
            code = response.status if response else 0
            ports.deliveries.record_success(
                delivery.id, now=now, status_code=code, attempt=attempt, attempts_kept=rules.attempts_kept
            )
            return True
        case GiveUp(status=DeliveryStatus.DROPPED):
            ports.subscriptions.delete(subscription.id)
        case RetryAt() | GiveUp() as decision:
            is_disabled = fails_too_long(subscription.failing_since, now=now, days_max=rules.failing_days_max)
            # The deliveries of a disabled subscription stay pending, however often it was tried.
            again = decision.at if isinstance(decision, RetryAt) else now if is_disabled else None
            _record_failure(delivery, attempt, again, now=now, ports=ports, rules=rules)
            if is_disabled:
                _disable(subscription, entry, attempt, ports)
    return False


def _attempt(
    delivery: Delivery,
    subscription: Subscription,
    entry: CatalogEntry | None,
    *,
    is_withheld: bool,
    ports: DeliveryPorts,
    rules: DeliveryRules,
) -> tuple[DeliveryAttempt, WebhookResponse | None]:
    try:
        if is_withheld:
            body = withheld_event(delivery, source=rules.source)
        elif delivery.event is not None or entry is None:
            body = event_body(delivery, source=rules.source)
        else:
            body = _move_body(delivery, subscription, entry, ports=ports, rules=rules)
    except (NotFound, Corrupt, InvalidBlock, LimitExceeded, External) as error:
        _log.error("delivery %s: %s", delivery.id, error)
        return _not_sent(delivery, ports.clock), None
    return send_webhook(
        subscription,
        message_id=delivery.id,
        body=body,
        event_type=HEAD_MOVED,
        number=delivery.attempts,
        subscriptions=ports.subscriptions,
        signature=ports.signature,
        sender=ports.sender,
        clock=ports.clock,
        trace=ports.trace(),
    )


def _move_body(
    delivery: Delivery, subscription: Subscription, entry: CatalogEntry, *, ports: DeliveryPorts, rules: DeliveryRules
) -> bytes:
    facts: HeadMoveFacts | None = None
    rows: MovedRows | None = None
    if delivery.new_head is not None:
        facts = ports.moves.facts(delivery.dataset_id, delivery.old_head, delivery.new_head)
        if subscription.moves.with_rows and facts is not None:
            rows = ports.rows.of_move(delivery.dataset_id, delivery.old_head, delivery.new_head)
    return delivery_body(
        delivery,
        subscription,
        entry,
        facts=facts,
        rows=rows,
        access=ports.access,
        source=rules.source,
        base=rules.base,
    )


def _not_sent(delivery: Delivery, clock: Clock) -> DeliveryAttempt:
    return DeliveryAttempt(
        number=delivery.attempts,
        at=clock.now(),
        duration_ms=0,
        status_code=None,
        failure=FailureKind.NODE,
        error="the node cannot read the blocks that this event is about",
        request_headers={},
        request_body=b"",
        response="",
    )


def _record_failure(
    delivery: Delivery,
    attempt: DeliveryAttempt,
    again: Instant | None,
    *,
    now: Instant,
    ports: DeliveryPorts,
    rules: DeliveryRules,
) -> None:
    error = attempt.error or ""
    if again is None:
        error = f"{error}; no success in {delivery.attempts} attempts"
        _log.warning("delivery %s to subscription %s given up: %s", delivery.id, delivery.subscription_id, error)
    ports.deliveries.record_failure(
        delivery.id,
        now=now,
        status_code=attempt.status_code,
        error=error,
        next_attempt_at=again,
        attempt=attempt,
        attempts_kept=rules.attempts_kept,
    )


def _disable(
    subscription: Subscription, entry: CatalogEntry | None, attempt: DeliveryAttempt, ports: DeliveryPorts
) -> None:
    reason = f"every attempt since {subscription.failing_since} failed, the last one: {attempt.error}"
    _log.warning("subscription %s is disabled: %s", subscription.id, reason)
    audit = _entry(AuditKind.SUBSCRIPTION_DISABLED, subscription, entry, reason, ports.clock)
    ports.subscriptions.set_state(
        subscription.id, SubscriptionState.DISABLED, now=ports.clock.now(), reason=reason, audit=[audit]
    )


def _subject(subscription: Subscription, access: Access) -> Subject | None:
    """Whose rights count; None if the account is gone or suspended."""
    try:
        return access.subject_later(subscription.account)
    except (NotFound, AccountSuspended):
        return None


def _may_follow(subscription: Subscription, subject: Subject, entry: CatalogEntry | None, access: Access) -> bool:
    """Whether the subscription goes on.

    One of an account or of the node does: its events are judged one by one.
    """
    return subscription.dataset_id is None or (entry is not None and access.allows(subject, Action.FOLLOW, entry))


_NO_RIGHT = "its account may not read the dataset any more"


def _entry(
    kind: AuditKind, subscription: Subscription, entry: CatalogEntry | None, reason: str, clock: Clock
) -> AuditEntry:
    is_of_dataset = entry is not None and subscription.dataset_id is not None
    return AuditEntry(
        kind=kind,
        actor=THE_NODE,
        at=clock.now(),
        target=str(entry.alias) if entry is not None and is_of_dataset else None,
        dataset=subscription.dataset_id,
        detail={"subscription": subscription.id, "reason": reason},
    )


def _drop(delivery: Delivery, ports: DeliveryPorts) -> None:
    error = "the subscription or its dataset is gone"
    _log.warning("delivery %s to subscription %s given up: %s", delivery.id, delivery.subscription_id, error)
    ports.deliveries.record_failure(
        delivery.id, now=ports.clock.now(), status_code=None, error=error, next_attempt_at=None
    )
