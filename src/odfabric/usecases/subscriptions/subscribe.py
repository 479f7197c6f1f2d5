"""Subscribe a webhook to a dataset, an account or the node.

From now on, every event of the wanted types is delivered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.people.access import Subject
from odfabric.domain.subscriptions.events import NEEDED_ACTIONS
from odfabric.errors import HeadMoved, InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.formats.webhooks.reference_webhook import signing_key
from odfabric.formats.webhooks.webhook_signature import secret_text
from odfabric.model.commit import CatalogEntry
from odfabric.model.people.account import Account
from odfabric.model.people.audit import AuditEntry, AuditKind
from odfabric.model.subscriptions.event import HEAD_MOVES, WIDE_ONLY, EventType
from odfabric.model.subscriptions.subscription import ALL_MOVES, MoveOptions, Subscription, SubscriptionFormat
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.sources.egress import WebhookSender
from odfabric.ports.subscriptions.subscriptions import Subscriptions
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.jobs.job_actor import account_of
from odfabric.usecases.rights.access import Access
from odfabric.usecases.subscriptions.subscription_scope import (
    Scope,
    WholeNode,
    default_events,
    is_of_scope,
    may_manage,
    of_scope,
    scope_columns,
    scope_name,
)

URL_CHARACTERS_MAX = 2048
ATTEMPTS_MAX = 20
COLUMNS_MAX = 100
COLUMNS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A new subscription and its secret, which only the subscriber gets."""

    subscription: Subscription
    secret: bytes = field(repr=False)

    @property
    def secret_text(self) -> str:
        """The secret as receivers of its format take it."""
        if self.subscription.format is SubscriptionFormat.REFERENCE:
            return signing_key(self.secret).decode("ascii")
        return secret_text(self.secret)


def subscribe(
    scope: Scope,
    *,
    url: str,
    secret: bytes | None,
    format: SubscriptionFormat = SubscriptionFormat.CLOUD_EVENT,
    moves: MoveOptions = ALL_MOVES,
    subject: Subject,
    repository: Repository,
    subscriptions: Subscriptions,
    sender: WebhookSender,
    clock: Clock,
    entropy: Entropy,
    access: Access,
    per_dataset_max: int,
    events: frozenset[EventType] | None = None,
) -> NewSubscription:
    """Create a subscription.

    Without a secret (as `parse_secret` gives it) it gets a fresh one, without `events` the default of its scope.

    Raises InvalidRequest, AccessDenied for a URL that no attempt could reach, LimitExceeded, HeadMoved on a very busy dataset.
    """
    if len(url) > URL_CHARACTERS_MAX:
        raise InvalidRequest(f"the url of a webhook has at most {URL_CHARACTERS_MAX} characters")
    wanted = default_events(scope) if events is None else events
    _check_events(scope, wanted, format, subject, access)
    _check_moves(scope, wanted, format, moves, repository)
    sender.check(url)
    existing = of_scope(scope, subscriptions, limit=per_dataset_max)
    if len(existing) >= per_dataset_max:
        what = {CatalogEntry: "dataset", Account: "account", WholeNode: "node"}[type(scope)]
        raise LimitExceeded(
            f"the {what} has too many subscriptions", limit="subscriptions_per_dataset_max", maximum=per_dataset_max
        )
    subscription_id, secret = entropy.random_bytes(16).hex(), secret or entropy.random_bytes(32)
    dataset, account = scope_columns(scope)
    for _ in range(ATTEMPTS_MAX):
        subscription = Subscription(
            id=subscription_id,
            dataset_id=dataset,
            account=account_of(subject),
            url=url,
            created_at=clock.now(),
            created_at_head=repository.head(dataset).hash if dataset else None,
            format=format,
            scope_account=account,
            events=wanted,
            moves=moves,
        )
        try:
            subscriptions.create(
                subscription,
                secret=secret,
                audit=[subscription_entry(AuditKind.SUBSCRIPTION_CREATED, subscription, scope, subject, clock)],
            )
        except HeadMoved as error:
            moved = error  # a commit came between: begin at the head that is there now
            continue
        return NewSubscription(subscription, secret)
    raise moved


def _check_events(
    scope: Scope, wanted: frozenset[EventType], format: SubscriptionFormat, subject: Subject, access: Access
) -> None:
    place = Place(field="events")
    if not wanted:
        raise InvalidRequest("a subscription receives one type of events at least", place=place)
    is_of_dataset = isinstance(scope, CatalogEntry)
    if format is SubscriptionFormat.REFERENCE and (not is_of_dataset or wanted != HEAD_MOVES):
        raise InvalidRequest(
            "the format `kamu` has head moves of a dataset only",
            place=place,
            hint=f"leave `events` out, or use the format `{SubscriptionFormat.CLOUD_EVENT.value}`",
        )
    foreign = sorted(each.value for each in wanted & WIDE_ONLY)
    if is_of_dataset and foreign:
        raise InvalidRequest(
            f"a subscription of one dataset does not receive {', '.join(foreign)}",
            place=place,
            hint="subscribe to the account of the dataset",
        )
    if isinstance(scope, CatalogEntry):
        for action in sorted({NEEDED_ACTIONS[each] for each in wanted}, key=lambda each: each.value):
            access.require(subject, action, scope)


def _check_moves(
    scope: Scope, wanted: frozenset[EventType], format: SubscriptionFormat, moves: MoveOptions, repository: Repository
) -> None:
    if moves == ALL_MOVES:
        return
    if EventType.HEAD_MOVED not in wanted:
        raise InvalidRequest(
            "rows and filters are of head moves, which this subscription does not receive",
            place=Place(field="events"),
            hint=f"add `{EventType.HEAD_MOVED.value}` to `events`",
        )
    if moves.with_rows and format is SubscriptionFormat.REFERENCE:
        raise InvalidRequest(
            "the format `kamu` has no rows",
            place=Place(field="rows"),
            hint=f"use the format `{SubscriptionFormat.CLOUD_EVENT.value}`",
        )
    if moves.columns:
        _check_columns(scope, moves.columns, repository)


def _check_columns(scope: Scope, columns: frozenset[str], repository: Repository) -> None:
    place = Place(field="columns")
    if not isinstance(scope, CatalogEntry):
        raise InvalidRequest("columns are of one dataset", place=place, hint="subscribe to the dataset itself")
    if len(columns) > COLUMNS_MAX:
        raise LimitExceeded("too many columns", limit="columns", maximum=COLUMNS_MAX)
    _, state = repository.current(scope.id)
    schema = current_schema(state)
    if schema is None:
        raise InvalidRequest(
            "the dataset has no columns yet", place=place, hint="push its first records, or leave `columns` out"
        )
    own = {state.vocabulary.offset, state.vocabulary.operation_type, state.vocabulary.system_time}
    known = [field.name for field in schema.fields if field.name not in own]
    unknown = sorted(columns - set(known))
    if unknown:
        shown = ", ".join(known[:COLUMNS_SHOWN])
        raise InvalidRequest(f"the dataset has no column `{unknown[0]}`", place=place, hint=f"it has {shown}")


def unsubscribe(
    scope: Scope,
    subscription_id: str,
    *,
    subject: Subject,
    access: Access,
    subscriptions: Subscriptions,
    clock: Clock,
) -> None:
    """End a subscription of this scope. Raises NotFound."""
    found = own_subscription(scope, subscription_id, subject=subject, access=access, subscriptions=subscriptions)
    audit = [subscription_entry(AuditKind.SUBSCRIPTION_DELETED, found, scope, subject, clock)]
    subscriptions.delete(subscription_id, audit=audit)


def own_subscription(
    scope: Scope, subscription_id: str, *, subject: Subject, access: Access, subscriptions: Subscriptions
) -> Subscription:
    """A subscription of this scope that the subject may see. Raises NotFound.

    Its own, or any if it may manage the scope.
    """
    found = subscriptions.get(subscription_id)
    if found is None or not is_of_scope(found, scope) or not _may_see(found, scope, subject, access):
        raise NotFound("subscription", subscription_id)
    return found


def seen_subscriptions(
    scope: Scope, *, subject: Subject, access: Access, subscriptions: Subscriptions, limit: int
) -> list[Subscription]:
    """Those subscriptions of a scope that the subject may see, oldest first."""
    found = of_scope(scope, subscriptions, limit=limit)
    return [each for each in found if _may_see(each, scope, subject, access)]


def is_of(subscription: Subscription, subject: Subject) -> bool:
    """Whether the subject has made it. Rows of old releases tell the account's name."""
    account = subject.account
    return account is not None and subscription.account in (str(account.id), str(account.name))


def _may_see(subscription: Subscription, scope: Scope, subject: Subject, access: Access) -> bool:
    return is_of(subscription, subject) or may_manage(scope, subject, access)


def subscription_entry(
    kind: AuditKind,
    subscription: Subscription,
    scope: Scope,
    subject: Subject,
    clock: Clock,
    **detail: str,
) -> AuditEntry:
    """An audit entry of a subscription; its receiver's path is left out as secret."""
    place = urlsplit(subscription.url)
    receiver = f"{place.scheme}://{place.hostname or ''}"
    return AuditEntry(
        kind=kind,
        actor=subject.actor,
        at=clock.now(),
        target=scope_name(scope),
        dataset=subscription.dataset_id,
        detail={"subscription": subscription.id, "receiver": receiver, **detail},
    )
