"""Subscriptions of a dataset: webhooks, their deliveries, and how to end one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, OdfError, Place
from odfabric.formats.webhook_signature import parse_secret
from odfabric.model.commit import CatalogEntry
from odfabric.model.event import HEAD_MOVES, WIDE_ONLY, EventType
from odfabric.model.instant import Instant
from odfabric.model.subscription import (
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    MoveOptions,
    Subscription,
    SubscriptionFormat,
)
from odfabric.usecases.change_subscription import Replay
from odfabric.usecases.subscribe import NewSubscription, is_of
from odfabric_api.auth import Caller, FollowableDataset, Subject, node_of
from odfabric_api.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.pages import dataset_path, page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SubscriptionId = Annotated[str, Path(max_length=100)]
DeliveryId = Annotated[str, Path(max_length=100)]

_OFFERED = tuple(each.value for each in EventType if each not in WIDE_ONLY)
"""Types that a form offers, each as a field of its own name."""


@router.get("/{account}/{dataset}/-/subscriptions")
def get_subscriptions(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Those that the visitor may see, with how their deliveries go."""
    return _listed(request, entry, caller, {})


@router.post("/{account}/{dataset}/-/subscriptions")
async def post_subscription(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Make one. The answer shows its secret, and nothing else ever does."""
    node = node_of(request)
    form = await read_form(
        request, frozenset({"url", "secret", "format", "only_with_data", "columns", "rows", *_OFFERED})
    )

    def act() -> Response:
        secret = parse_secret(form["secret"]) if form.get("secret") else None
        url, format = form.get("url", "").strip(), _format(form.get("format", ""))
        events = frozenset(EventType(name) for name in _OFFERED if name in form) or None
        made = node.webhooks.subscribe(
            entry,
            by=caller,
            url=url,
            secret=secret,
            format=format,
            moves=_moves(form),
            events=events,
        )
        return _listed(request, entry, caller, {}, made=made)

    return await submitted(
        request, act, lambda error, status: _listed(request, entry, caller, form, error=error, status=status)
    )


@router.get("/{account}/{dataset}/-/subscriptions/{subscription_id}")
def get_subscription(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """The state and the delivery log of one, newest first."""
    return _one(request, entry, caller, subscription_id)


@router.post("/{account}/{dataset}/-/subscriptions/{subscription_id}/state")
async def post_state(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """Pause it, or resume it."""
    form = await read_form(request, frozenset({"state"}))
    webhooks = node_of(request).webhooks
    is_pause = form.get("state") == "paused"
    act = webhooks.pause if is_pause else webhooks.resume
    await to_thread.run_sync(partial(act, entry, subscription_id, by=caller))
    path = dataset_path(entry, "subscriptions", subscription_id)
    return see_other(path, notice="paused" if is_pause else "resumed")


@router.post("/{account}/{dataset}/-/subscriptions/{subscription_id}/secret")
async def post_secret(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """Change the secret. The answer shows the new one, and nothing else ever does."""
    webhooks = node_of(request).webhooks
    form = await read_form(request, frozenset({"secret", "overlap_hours"}))

    def act() -> Response:
        secret = parse_secret(form["secret"]) if form.get("secret") else None
        made = webhooks.rotate_secret(
            entry, subscription_id, by=caller, secret=secret, overlap_s=_overlap_s(form.get("overlap_hours", ""))
        )
        return _one(request, entry, caller, subscription_id, secret=made.secret_text)

    return await submitted(
        request,
        act,
        lambda error, status: _one(request, entry, caller, subscription_id, error=error, status=status, form=form),
    )


@router.post("/{account}/{dataset}/-/subscriptions/{subscription_id}/test")
async def post_test(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """Try the receiver, and show what it answered."""
    await read_form(request, frozenset())

    def act() -> Response:
        tried = node_of(request).webhooks.test(entry, subscription_id, by=caller)
        return _one(request, entry, caller, subscription_id, tried=tried)

    return await submitted(
        request, act, lambda error, status: _one(request, entry, caller, subscription_id, error=error, status=status)
    )


@router.post("/{account}/{dataset}/-/subscriptions/{subscription_id}/replay")
async def post_replay(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """Deliver again: all that failed, or all from a number on."""
    form = await read_form(request, frozenset({"which", "from_sequence"}))
    webhooks = node_of(request).webhooks

    def act() -> Response:
        is_failed = form.get("which") == "failed"
        first = None if is_failed else _sequence(form.get("from_sequence", ""))
        webhooks.replay(entry, subscription_id, Replay(from_sequence=first, failed=is_failed), by=caller)
        return see_other(dataset_path(entry, "subscriptions", subscription_id), notice="replayed")

    return await submitted(
        request,
        act,
        lambda error, status: _one(request, entry, caller, subscription_id, error=error, status=status, form=form),
    )


@router.get("/{account}/{dataset}/-/subscriptions/{subscription_id}/{delivery_id}")
def get_delivery(
    request: Request,
    entry: FollowableDataset,
    caller: Caller,
    subscription_id: SubscriptionId,
    delivery_id: DeliveryId,
) -> Response:
    """One delivery: what was sent, and what came of each attempt."""
    webhooks = node_of(request).webhooks
    delivery = webhooks.delivery(entry, subscription_id, delivery_id, by=caller)
    values = {
        "subscription": webhooks.get(entry, subscription_id, by=caller),
        "delivery": delivery,
        "attempts": [_shown(each) for each in webhooks.attempts(entry, subscription_id, delivery_id, by=caller)],
        "tab": "subscriptions",
    }
    return page(request, "publish/delivery.html", {**dataset_frame(request, entry, caller), **values})


@router.post("/{account}/{dataset}/-/subscriptions/{subscription_id}/{delivery_id}/replay")
async def post_delivery_replay(
    request: Request,
    entry: FollowableDataset,
    caller: Caller,
    subscription_id: SubscriptionId,
    delivery_id: DeliveryId,
) -> Response:
    """Deliver one event again."""
    await read_form(request, frozenset())
    which = Replay(delivery_id=delivery_id)
    await to_thread.run_sync(partial(node_of(request).webhooks.replay, entry, subscription_id, which, by=caller))
    return see_other(dataset_path(entry, "subscriptions", subscription_id, delivery_id), notice="replayed")


@router.post("/{account}/{dataset}/-/subscriptions/{subscription_id}/remove")
async def post_removal(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """End it; what is not delivered yet is dropped."""
    await read_form(request, frozenset())
    await to_thread.run_sync(partial(node_of(request).unsubscribe, entry, subscription_id, by=caller))
    return see_other(dataset_path(entry, "subscriptions"), notice="unsubscribed")


def _one(
    request: Request,
    entry: CatalogEntry,
    caller: Subject,
    subscription_id: str,
    *,
    form: dict[str, str] | None = None,
    error: OdfError | None = None,
    secret: str | None = None,
    tried: DeliveryAttempt | None = None,
    status: int = 200,
) -> Response:
    webhooks = node_of(request).webhooks
    subscription = webhooks.get(entry, subscription_id, by=caller)
    values = {
        "subscription": subscription,
        "deliveries": webhooks.deliveries(entry, subscription_id, by=caller),
        "is_own": is_of(subscription, caller),
        "old_secret_signs": _is_later(subscription.old_secret_until, request),
        "overlap_hours": (form or {}).get("overlap_hours", "24"),
        "from_sequence": (form or {}).get("from_sequence", ""),
        "secret": secret,
        "tried": _shown(tried) if tried else None,
        "problems": places_of(error),
        "tab": "subscriptions",
    }
    frame = dataset_frame(request, entry, caller)
    return page(request, "publish/subscription.html", {**frame, **values}, status=status)


def _is_later(until: Instant | None, request: Request) -> bool:
    return until is not None and until > node_of(request).ports.clock.now()


def _shown(attempt: DeliveryAttempt) -> dict[str, Any]:
    """An attempt with its texts as they are shown."""
    return {"attempt": attempt, "body": attempt.request_body.decode("utf-8", "replace")}


def _overlap_s(hours: str) -> float | None:
    if not hours:
        return None
    if not (hours.isascii() and hours.isdigit() and len(hours) < 10):
        raise InvalidRequest("not a number of hours", place=Place(field="overlap_hours"))
    return float(hours) * 3600


def _format(text: str) -> SubscriptionFormat:
    try:
        return SubscriptionFormat(text) if text else SubscriptionFormat.CLOUD_EVENT
    except ValueError:
        raise InvalidRequest("not a format", place=Place(field="format")) from None


def _sequence(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidRequest("not the number of a delivery", place=Place(field="from_sequence"))
    return int(text)


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
        "format": form.get("format", ""),
        "offered": _OFFERED,
        "chosen": [name for name in _OFFERED if name in form] or [each.value for each in HEAD_MOVES],
        **{name: form.get(name, "") for name in ("only_with_data", "columns", "rows")},
        "problems": places_of(error),
        "made": made.subscription if made else None,
        "secret": made.secret_text if made else None,
        "tab": "subscriptions",
    }
    frame = dataset_frame(request, entry, caller)
    return page(request, "publish/subscriptions.html", {**frame, **values}, status=status)


def _moves(form: Mapping[str, str]) -> MoveOptions:
    names = (each.strip() for each in form.get("columns", "").split(","))
    return MoveOptions(
        only_with_data=bool(form.get("only_with_data")),
        columns=frozenset(name for name in names if name),
        with_rows=bool(form.get("rows")),
    )


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
