"""Subscribe a webhook to a dataset: from now on, every move of its head is delivered."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from odfabric.domain.access import Action, Subject
from odfabric.errors import HeadMoved, InvalidRequest, LimitExceeded, NotFound
from odfabric.formats.reference_webhook import signing_key
from odfabric.formats.webhook_signature import secret_text
from odfabric.model.audit import AuditEntry, AuditKind
from odfabric.model.commit import CatalogEntry
from odfabric.model.subscription import Subscription, SubscriptionFormat
from odfabric.ports.clock import Clock, Entropy
from odfabric.ports.egress import WebhookSender
from odfabric.ports.subscriptions import Subscriptions
from odfabric.usecases.access import Access
from odfabric.usecases.job_actor import account_of
from odfabric.usecases.repository import Repository

URL_CHARACTERS_MAX = 2048
ATTEMPTS_MAX = 20


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A subscription just made, and its secret, which nobody but the subscriber is told."""

    subscription: Subscription
    secret: bytes = field(repr=False)

    @property
    def secret_text(self) -> str:
        """The secret as receivers of its format take it."""
        if self.subscription.format is SubscriptionFormat.REFERENCE:
            return signing_key(self.secret).decode("ascii")
        return secret_text(self.secret)


def subscribe(
    entry: CatalogEntry,
    *,
    url: str,
    secret: bytes | None,
    format: SubscriptionFormat = SubscriptionFormat.CLOUD_EVENT,
    only_with_data: bool = False,
    subject: Subject,
    repository: Repository,
    subscriptions: Subscriptions,
    sender: WebhookSender,
    clock: Clock,
    entropy: Entropy,
    per_dataset_max: int,
) -> NewSubscription:
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
            account=account_of(subject),
            url=url,
            created_at=clock.now(),
            created_at_head=repository.head(entry.id).hash,
            format=format,
            only_with_data=only_with_data,
        )
        try:
            subscriptions.create(
                subscription,
                secret=secret,
                audit=[subscription_entry(AuditKind.SUBSCRIPTION_CREATED, subscription, entry, subject, clock)],
            )
        except HeadMoved as error:
            moved = error  # a commit came between: begin at the head that is there now
            continue
        return NewSubscription(subscription, secret)
    raise moved


def unsubscribe(
    entry: CatalogEntry,
    subscription_id: str,
    *,
    subject: Subject,
    access: Access,
    subscriptions: Subscriptions,
    clock: Clock,
) -> None:
    """End a subscription of this dataset. Raises NotFound."""
    found = own_subscription(entry, subscription_id, subject=subject, access=access, subscriptions=subscriptions)
    audit = [subscription_entry(AuditKind.SUBSCRIPTION_DELETED, found, entry, subject, clock)]
    subscriptions.delete(subscription_id, audit=audit)


def own_subscription(
    entry: CatalogEntry, subscription_id: str, *, subject: Subject, access: Access, subscriptions: Subscriptions
) -> Subscription:
    """A subscription of this dataset that the subject may see: its own, or any if it may share the dataset. Raises NotFound."""
    found = subscriptions.get(subscription_id)
    if found is None or found.dataset_id != entry.id or not _may_see(found, entry, subject, access):
        raise NotFound("subscription", subscription_id)
    return found


def seen_subscriptions(
    entry: CatalogEntry, *, subject: Subject, access: Access, subscriptions: Subscriptions, limit: int
) -> list[Subscription]:
    """Those subscriptions of a dataset that the subject may see, oldest first."""
    found = subscriptions.of_dataset(entry.id, limit=limit)
    return [each for each in found if _may_see(each, entry, subject, access)]


def is_of(subscription: Subscription, subject: Subject) -> bool:
    """Whether the subject has made it. Rows of old releases tell the account's name."""
    account = subject.account
    return account is not None and subscription.account in (str(account.id), str(account.name))


def _may_see(subscription: Subscription, entry: CatalogEntry, subject: Subject, access: Access) -> bool:
    return is_of(subscription, subject) or access.allows(subject, Action.SHARE, entry)


def subscription_entry(
    kind: AuditKind,
    subscription: Subscription,
    entry: CatalogEntry,
    subject: Subject,
    clock: Clock,
    **detail: str,
) -> AuditEntry:
    """An entry of the audit about a subscription: its receiver without the path, in which receivers keep secrets."""
    place = urlsplit(subscription.url)
    receiver = f"{place.scheme}://{place.hostname or ''}"
    return AuditEntry(
        kind=kind,
        actor=subject.actor,
        at=clock.now(),
        target=str(entry.alias),
        dataset=entry.id,
        detail={"subscription": subscription.id, "receiver": receiver, **detail},
    )
