"""Subscriptions of a dataset: webhooks, their deliveries, and how to end one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.formats.webhook_signature import parse_secret, secret_text
from odfabric.model.commit import CatalogEntry
from odfabric.model.subscription import Delivery, DeliveryStatus, Subscription
from odfabric.usecases.subscribe import NewSubscription
from odfabric_api.auth import Caller, FollowableDataset, Subject, node_of
from odfabric_api.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.pages import dataset_path, page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SubscriptionId = Annotated[str, Path(max_length=100)]


@router.get("/{account}/{dataset}/-/subscriptions")
def get_subscriptions(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Those that the visitor may see, with how their deliveries go."""
    return _listed(request, entry, caller, {})


@router.post("/{account}/{dataset}/-/subscriptions")
async def post_subscription(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Make one. The answer shows its secret, and nothing else ever does."""
    node = node_of(request)
    form = await read_form(request, frozenset({"url", "secret"}))

    def act() -> Response:
        secret = parse_secret(form["secret"]) if form.get("secret") else None
        made = node.subscribe(entry, by=caller, url=form.get("url", "").strip(), secret=secret)
        return _listed(request, entry, caller, {}, made=made)

    return await submitted(
        request, act, lambda error, status: _listed(request, entry, caller, form, error=error, status=status)
    )


@router.get("/{account}/{dataset}/-/subscriptions/{subscription_id}")
def get_subscription(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """The delivery log of one, newest first."""
    node = node_of(request)
    deliveries = node.deliveries(entry, subscription_id, by=caller)
    subscription = next(each for each in node.subscriptions(entry, by=caller) if each.id == subscription_id)
    values = {"subscription": subscription, "deliveries": deliveries, "tab": "subscriptions"}
    return page(request, "publish/subscription.html", {**dataset_frame(request, entry, caller), **values})


@router.post("/{account}/{dataset}/-/subscriptions/{subscription_id}/remove")
async def post_removal(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """End it; what is not delivered yet is dropped."""
    await read_form(request, frozenset())
    await to_thread.run_sync(partial(node_of(request).unsubscribe, entry, subscription_id, by=caller))
    return see_other(dataset_path(entry, "subscriptions"), notice="unsubscribed")


def _listed(
    request: Request,
    entry: CatalogEntry,
    caller: Subject,
    form: dict[str, str],
    *,
    error: OdfError | None = None,
    made: NewSubscription | None = None,
    status: int = 200,
) -> Response:
    node = node_of(request)
    subscriptions = node.subscriptions(entry, by=caller)
    values = {
        "subscriptions": [_state(each, node.deliveries(entry, each.id, by=caller)) for each in subscriptions],
        "url": form.get("url", ""),
        "problems": places_of(error),
        "made": made.subscription if made else None,
        "secret": secret_text(made.secret) if made else None,
        "tab": "subscriptions",
    }
    frame = dataset_frame(request, entry, caller)
    return page(request, "publish/subscriptions.html", {**frame, **values}, status=status)


def _state(subscription: Subscription, deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """How a subscription does, by its last deliveries."""
    counts = {status.value: sum(each.status is status for each in deliveries) for status in DeliveryStatus}
    waiting = [each for each in deliveries if each.status is DeliveryStatus.PENDING]
    return {
        "subscription": subscription,
        "counts": counts,
        "last": deliveries[0] if deliveries else None,
        "retrying": min(
            (each for each in waiting if each.attempts), key=lambda each: each.next_attempt_at, default=None
        ),
    }
