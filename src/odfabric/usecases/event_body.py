"""The body of what is sent to a subscription, in its format.

Invariant: the same event gives the same bytes at every attempt. Not here: the forms themselves (`formats.cloud_event`,
`formats.reference_webhook`).
"""

from __future__ import annotations

from odfabric.errors import NotFound
from odfabric.formats import reference_webhook
from odfabric.formats.cloud_event import check_event, head_move_event
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import AccountId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.subscription import Delivery, HeadMoveFacts, Subscription, SubscriptionFormat
from odfabric.usecases.access import Access


def delivery_body(
    delivery: Delivery,
    subscription: Subscription,
    entry: CatalogEntry,
    *,
    facts: HeadMoveFacts | None,
    access: Access,
    source: str,
    base: str,
) -> bytes:
    """The body of a delivery; without `facts` the move does not go forwards. Raises NotFound if the dataset's account is gone."""
    if subscription.format is SubscriptionFormat.CLOUD_EVENT:
        return head_move_event(delivery, alias=entry.alias, source=source, base=base, facts=facts)
    return reference_webhook.head_move_body(
        entry.id,
        _owner(entry, access),
        old_head=delivery.old_head,
        new_head=delivery.new_head,
        is_breaking_change=facts is None,
    )


def check_body(
    subscription: Subscription,
    entry: CatalogEntry,
    *,
    message_id: str,
    sent_at: Instant,
    head: Multihash,
    access: Access,
    source: str,
) -> bytes:
    """The body of a message that tries a receiver. Raises NotFound if the dataset's account is gone."""
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
