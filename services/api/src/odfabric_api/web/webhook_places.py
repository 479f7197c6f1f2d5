"""Where webhooks are set up: a dataset, an account or the node.

Its address, and the frame of its pages.

Each `find_*` is the dependency that declares the policy of its place and leaves it for the handlers, which are the same for all three.
Not here: the policies (`auth`), what a subscription of each scope may receive (`usecases.subscriptions.subscribe`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import Request

from odfabric.errors import NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.people.account import Account
from odfabric.model.subscriptions.event import WIDE_ONLY, EventType
from odfabric.model.subscriptions.subscription import Delivery
from odfabric.usecases.subscriptions.subscription_scope import Scope, WholeNode, default_events
from odfabric_api.auth import Caller, FollowableDataset, ManagedAccount, Subject, manages, node_of, owner_account
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.pages import dataset_path

NODE_PATH = "/-/admin/webhooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPlace:
    """A scope of webhooks as pages show it.

    `base` is the address of its list, `frame` the values of the template around it.

    `frame` asks the node when it is called, so that a page shows what a form has just changed.
    """

    scope: Scope
    base: str
    frame: Callable[[], dict[str, Any]]

    @property
    def is_wide(self) -> bool:
        """Whether it is of more than one dataset."""
        return not isinstance(self.scope, CatalogEntry)

    @property
    def offered(self) -> tuple[str, ...]:
        """Types of events that its form offers, each as a field of that name."""
        return tuple(each.value for each in EventType if self.is_wide or each not in WIDE_ONLY)

    @property
    def default(self) -> tuple[str, ...]:
        """Types that are chosen in an empty form."""
        return tuple(each.value for each in EventType if each in default_events(self.scope))

    def path(self, *parts: str) -> str:
        """The address of a page below the list."""
        return "/".join([self.base, *(quote(part, safe="") for part in parts)])

    def values(self) -> dict[str, Any]:
        """What the templates of webhooks are given: the frame, and where they are."""
        return {"entry": None, "of_account": None, "webhooks_path": self.base, **self.frame()}


def find_dataset(request: Request, entry: FollowableDataset, caller: Caller) -> None:
    """A dataset, for those who may follow it."""

    def frame() -> dict[str, Any]:
        owner = owner_account(request, entry)
        is_managed = owner is not None and manages(request, caller, owner)
        wider = {"owner_webhooks": account_webhooks(owner) if owner and is_managed else None}
        return {"frame": "dataset.html", "tab": "subscriptions", **dataset_frame(request, entry, caller), **wider}

    _leave(request, WebhookPlace(scope=entry, base=dataset_path(entry, "subscriptions"), frame=frame))


def find_account(request: Request, account: ManagedAccount) -> None:
    """An account with all its datasets, for those who manage it."""
    values = {"frame": "account/frame.html", "tab": "webhooks", "of_account": account}
    _leave(request, WebhookPlace(scope=account, base=account_webhooks(account), frame=lambda: values))


def find_node(request: Request) -> None:
    """All datasets of the node."""
    values = {"frame": "admin/frame.html", "tab": "webhooks"}
    _leave(request, WebhookPlace(scope=WholeNode(), base=NODE_PATH, frame=lambda: values))


def place_of(request: Request) -> WebhookPlace:
    """What the dependency of the route has found."""
    place: WebhookPlace = request.state.webhooks
    return place


def account_webhooks(account: Account) -> str:
    """The address of the webhooks of an account."""
    return f"/-/accounts/{quote(str(account.name), safe='')}/webhooks"


def named_datasets(
    request: Request, place: WebhookPlace, deliveries: Sequence[Delivery], caller: Subject
) -> dict[DatasetId, CatalogEntry]:
    """Those datasets of deliveries that the caller may read; no others are named."""
    if isinstance(place.scope, CatalogEntry):
        return {place.scope.id: place.scope}
    repository, found = node_of(request).seen_by(caller), {}
    for dataset in {each.dataset_id for each in deliveries}:
        try:
            found[dataset] = repository.resolve(dataset)
        except NotFound:
            continue
    return found


def _leave(request: Request, place: WebhookPlace) -> None:
    request.state.webhooks = place
