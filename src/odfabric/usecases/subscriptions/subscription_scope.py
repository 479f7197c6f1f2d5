"""Scopes of subscriptions, and who may see their events.

A dataset, an account with all its datasets, or the node.

Invariant: rights are looked up when they are asked for. Not here: the rules (`domain.people.access`), which right a type needs
(`domain.subscriptions.events`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from odfabric.domain.people.access import Action, Subject, Verdict
from odfabric.domain.subscriptions.events import NEEDED_ACTIONS
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import AccountId, DatasetId
from odfabric.model.people.account import Account
from odfabric.model.subscriptions.event import ALL_EVENTS, HEAD_MOVES, EventType
from odfabric.model.subscriptions.subscription import Delivery, Subscription
from odfabric.ports.subscriptions.subscriptions import Subscriptions
from odfabric.usecases.rights.access import Access


@dataclass(frozen=True, slots=True)
class WholeNode:
    """Every dataset of the node."""


Scope: TypeAlias = CatalogEntry | Account | WholeNode


def scope_columns(scope: Scope) -> tuple[DatasetId | None, AccountId | None]:
    """`dataset_id` and `scope_account` of a subscription."""
    match scope:
        case CatalogEntry():
            return scope.id, None
        case Account():
            return None, scope.id
        case WholeNode():
            return None, None


def is_of_scope(subscription: Subscription, scope: Scope) -> bool:
    """Whether it is a subscription of exactly this."""
    return (subscription.dataset_id, subscription.scope_account) == scope_columns(scope)


def scope_name(scope: Scope) -> str | None:
    """As the audit names it."""
    match scope:
        case CatalogEntry():
            return str(scope.alias)
        case Account():
            return str(scope.name)
        case WholeNode():
            return None


def default_events(scope: Scope) -> frozenset[EventType]:
    """What is received by a subscription that asks for nothing else."""
    return HEAD_MOVES if isinstance(scope, CatalogEntry) else ALL_EVENTS


def may_manage(scope: Scope, subject: Subject, access: Access) -> bool:
    """Whether the subject may see and change all subscriptions of the scope."""
    match scope:
        case CatalogEntry():
            return access.allows(subject, Action.SHARE, scope)
        case Account():
            return access.policy.decide_here(subject, Action.MANAGE, under=scope.name) is Verdict.ALLOWED
        case WholeNode():
            return access.policy.decide_here(subject, Action.ADMINISTER) is Verdict.ALLOWED


def of_scope(scope: Scope, subscriptions: Subscriptions, *, limit: int) -> Sequence[Subscription]:
    """Its subscriptions, oldest first."""
    match scope:
        case CatalogEntry():
            return subscriptions.of_dataset(scope.id, limit=limit)
        case Account():
            return subscriptions.of_account(scope.id, limit=limit)
        case WholeNode():
            return subscriptions.of_node(limit=limit)


def may_receive(delivery: Delivery, subject: Subject, entry: CatalogEntry | None, access: Access) -> bool:
    """Whether the subject may see this event now.

    `entry` is None if the dataset is gone.
    """
    type = delivery.event.type if delivery.event else EventType.HEAD_MOVED
    if type is EventType.DATASET_DELETED and delivery.event is not None:
        owner = delivery.event.alias.account
        return access.policy.decide_here(subject, Action.MANAGE, under=owner) is Verdict.ALLOWED
    return entry is not None and access.allows(subject, NEEDED_ACTIONS[type], entry)
