"""The body of what is sent to a subscription, in its format.

Invariant: the same event gives the same bytes at every attempt. Not here: the forms themselves (`formats.webhooks.cloud_event`,
`formats.webhooks.reference_webhook`).
"""

from __future__ import annotations

from odfabric.errors import NotFound
from odfabric.formats.webhooks import reference_webhook
from odfabric.formats.webhooks.cloud_event import check_event, head_move_event, other_event, wide_check_event
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import AccountId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.subscriptions.subscription import (
    Delivery,
    HeadMoveFacts,
    MovedRows,
    Subscription,
    SubscriptionFormat,
)
from odfabric.usecases.rights.access import Access


def event_body(delivery: Delivery, *, source: str) -> bytes:
    """The body of an event that is no head move.

    Raises NotFound for a head move whose dataset is gone.
    """
    if delivery.event is None:
        raise NotFound("dataset", str(delivery.dataset_id))
    return other_event(delivery, delivery.event, source=source)


def delivery_body(
    delivery: Delivery,
    subscription: Subscription,
    entry: CatalogEntry,
    *,
    facts: HeadMoveFacts | None,
    rows: MovedRows | None,
    access: Access,
    source: str,
    base: str,
) -> bytes:
    """The body of a head move; without `facts` the move does not go forwards.

    Raises NotFound if the dataset's account is gone.
    """
    if subscription.format is SubscriptionFormat.CLOUD_EVENT:
        return head_move_event(delivery, alias=entry.alias, source=source, base=base, facts=facts, rows=rows)
    return reference_webhook.head_move_body(
        entry.id,
        _owner(entry, access),
        old_head=delivery.old_head,
        new_head=delivery.new_head,
        is_breaking_change=facts is None,
    )


def check_body(
    subscription: Subscription,
    entry: CatalogEntry | None,
    *,
    message_id: str,
    sent_at: Instant,
    head: Multihash | None,
    access: Access,
    source: str,
) -> bytes:
    """The body of a message that tries a receiver.

    Without `entry` and `head` the subscription is of no single dataset.

    Raises NotFound if the dataset's account is gone.
    """
    if entry is None or head is None:
        return wide_check_event(subscription, message_id=message_id, sent_at=sent_at, source=source)
    if subscription.format is SubscriptionFormat.CLOUD_EVENT:
        return check_event(
            subscription, message_id=message_id, sent_at=sent_at, head=head, alias=entry.alias, source=source
        )
    return reference_webhook.head_move_body(
        entry.id, _owner(entry, access), old_head=head, new_head=head, is_breaking_change=False
    )


def _owner(entry: CatalogEntry, access: Access) -> AccountId:
    account = access.owner(entry)
    if account is None:
        raise NotFound("account", str(entry.alias.account))
    return account.id
