"""Subscribe a webhook to a dataset: from now on, every move of its head is delivered."""

from __future__ import annotations

from odfabric.errors import HeadMoved, InvalidRequest, LimitExceeded, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.subscription import Subscription
from odfabric.ports.clock import Clock, Entropy
from odfabric.ports.egress import WebhookSender
from odfabric.ports.subscriptions import Subscriptions
from odfabric.usecases.repository import Repository

URL_CHARACTERS_MAX = 2048
ATTEMPTS_MAX = 20


def subscribe(
    entry: CatalogEntry,
    *,
    url: str,
    secret: bytes | None,
    account: str,
    repository: Repository,
    subscriptions: Subscriptions,
    sender: WebhookSender,
    clock: Clock,
    entropy: Entropy,
    per_dataset_max: int,
) -> Subscription:
    """Create a subscription; without a secret (as `parse_secret` gives it) it gets a fresh one.

    Raises InvalidRequest, AccessDenied for a URL that no attempt could reach, LimitExceeded, HeadMoved on a very busy dataset.
    """
    if len(url) > URL_CHARACTERS_MAX:
        raise InvalidRequest(f"the url of a webhook has at most {URL_CHARACTERS_MAX} characters")
    sender.check(url)
    existing = subscriptions.of_dataset(entry.id, limit=per_dataset_max)
    if len(existing) >= per_dataset_max:
        raise LimitExceeded(
            "the dataset has too many subscriptions", limit="subscriptions_per_dataset_max", maximum=per_dataset_max
        )
    subscription_id, secret = entropy.random_bytes(16).hex(), secret or entropy.random_bytes(32)
    for _ in range(ATTEMPTS_MAX):
        subscription = Subscription(
            id=subscription_id,
            dataset_id=entry.id,
            account=account,
            url=url,
            secret=secret,
            created_at=clock.now(),
            created_at_head=repository.head(entry.id).hash,
        )
        try:
            subscriptions.create(subscription)
        except HeadMoved as error:
            moved = error  # a commit came between: begin at the head that is there now
            continue
        return subscription
    raise moved


def unsubscribe(entry: CatalogEntry, subscription_id: str, *, subscriptions: Subscriptions) -> None:
    """End a subscription of this dataset. Raises NotFound."""
    found = subscriptions.get(subscription_id)
    if found is None or found.dataset_id != entry.id:
        raise NotFound("subscription", subscription_id)
    subscriptions.delete(subscription_id)
