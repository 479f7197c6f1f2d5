"""Deliver due webhooks: sign, send, record the attempt.

Invariant: at least once, in sequence order within a subscription; the event id is the same in every attempt. A delivery whose
dataset or subscription is gone is dropped; rights are looked up at each attempt, and a subscription without them ends. Not here: the schedule of attempts (`domain.delivery`), which deliveries there are
(`usecases.relay_outbox`). Source: Standard Webhooks 1.0; security property S3.3.
"""

from __future__ import annotations

import logging

from odfabric.domain.access import Action
from odfabric.domain.delivery import Delivered, GiveUp, RetryAt, next_attempt
from odfabric.errors import AccessDenied, AccountSuspended, Corrupt, NotFound, OdfError
from odfabric.formats.cloud_event import CONTENT_TYPE, head_move_event
from odfabric.formats.webhook_signature import sign
from odfabric.model.audit import THE_NODE, AuditEntry, AuditKind
from odfabric.model.commit import CatalogEntry
from odfabric.model.subscription import Delivery, DeliveryStatus, Subscription, WebhookResponse
from odfabric.ports.clock import Clock, Entropy
from odfabric.ports.egress import WebhookSender
from odfabric.ports.subscriptions import Deliveries, Subscriptions
from odfabric.usecases.access import Access
from odfabric.usecases.repository import Repository

_log = logging.getLogger(__name__)

# Shared by all who lease deliveries: longer than any attempt may take.
DELIVERY_LEASE_MS = 60_000


def deliver(
    delivery: Delivery,
    *,
    access: Access,
    repository: Repository,
    subscriptions: Subscriptions,
    deliveries: Deliveries,
    sender: WebhookSender,
    clock: Clock,
    entropy: Entropy,
    source: str,
) -> None:
    """Make one attempt at a leased delivery and record how it ended. `source` is the URI of this node.

    A receiver that answers 410 wants no events any more: its subscription ends. Never raises for what the receiver did; a crash
    before the record repeats the attempt with the same event id.
    """
    subscription = subscriptions.get(delivery.subscription_id)
    entry = repository.find(delivery.dataset_id)
    if subscription is None or entry is None:
        _record(delivery, None, "the subscription or its dataset is gone", deliveries=deliveries, clock=clock)
        return
    if not _may_follow(subscription, entry, access):
        _log.warning("subscription %s ends: its account may not read the dataset any more", subscription.id)
        subscriptions.delete(subscription.id, audit=[_ended(subscription, entry, clock)])
        return
    body = head_move_event(delivery, alias=entry.alias, source=source)
    response, failure = _attempt(delivery, subscription, body, subscriptions=subscriptions, sender=sender, clock=clock)
    jitter = int.from_bytes(entropy.random_bytes(4), "big") / 2**32
    match next_attempt(attempts=delivery.attempts, response=response, now=clock.now(), jitter=jitter):
        case Delivered():
            code = response.status if response else 0
            deliveries.record_success(delivery.id, now=clock.now(), status_code=code)
        case RetryAt(at=at):
            deliveries.record_failure(
                delivery.id,
                now=clock.now(),
                status_code=response.status if response else None,
                error=failure,
                next_attempt_at=at,
            )
        case GiveUp(status=status, reason=reason):
            if status is DeliveryStatus.DROPPED:
                subscriptions.delete(subscription.id)
                return
            _record(delivery, response, f"{failure}; {reason}", deliveries=deliveries, clock=clock)


def _attempt(
    delivery: Delivery,
    subscription: Subscription,
    body: bytes,
    *,
    subscriptions: Subscriptions,
    sender: WebhookSender,
    clock: Clock,
) -> tuple[WebhookResponse | None, str]:
    """What the receiver answered, None if it was not reached, and what that is called if it is a failure."""
    try:
        secret = subscriptions.secret(subscription.id)
    except (AccessDenied, Corrupt) as error:
        # Tried again by the schedule: the operator of the node may give it the right key file meanwhile.
        _log.error("subscription %s: %s", subscription.id, error)
        return None, "the node cannot open the secret of this subscription"
    if secret is None:
        return None, "the subscription is gone"
    headers = {"content-type": CONTENT_TYPE}
    headers |= sign(message_id=delivery.id, sent_at=clock.now(), body=body, secrets=[secret])
    try:
        response = sender.post(subscription.url, headers=headers, body=body)
    except OdfError as error:
        # Refused addresses too are tried again by the schedule: a name may resolve wrongly for an hour.
        return None, error.message
    return response, f"the receiver answered {response.status}"


def _may_follow(subscription: Subscription, entry: CatalogEntry, access: Access) -> bool:
    try:
        return access.allows(access.subject_later(subscription.account), Action.FOLLOW, entry)
    except (NotFound, AccountSuspended):
        return False


def _ended(subscription: Subscription, entry: CatalogEntry, clock: Clock) -> AuditEntry:
    return AuditEntry(
        kind=AuditKind.SUBSCRIPTION_DELETED,
        actor=THE_NODE,
        at=clock.now(),
        target=str(entry.alias),
        dataset=entry.id,
        detail={"subscription": subscription.id, "reason": "its account may not read the dataset any more"},
    )


def _record(
    delivery: Delivery, response: WebhookResponse | None, error: str, *, deliveries: Deliveries, clock: Clock
) -> None:
    _log.warning("delivery %s to subscription %s given up: %s", delivery.id, delivery.subscription_id, error)
    deliveries.record_failure(
        delivery.id,
        now=clock.now(),
        status_code=response.status if response else None,
        error=error,
        next_attempt_at=None,
    )
