"""Webhooks of a dataset, an account or the node.

The list, one with its deliveries, and the actions on it.

The handlers are the same for all three places; `_add_routes` gives each place its paths and its policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request, params
from starlette.responses import Response

from odfabric.errors import InvalidRequest, OdfError, Place
from odfabric.formats.webhooks.webhook_signature import parse_secret
from odfabric.model.instant import Instant
from odfabric.model.subscriptions.event import EventType
from odfabric.model.subscriptions.subscription import (
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    MoveOptions,
    Subscription,
    SubscriptionFormat,
)
from odfabric.usecases.subscriptions.change_subscription import Replay
from odfabric.usecases.subscriptions.subscribe import NewSubscription, is_of
from odfabric_api.auth import OF_ADMINS, OF_MEMBERS, Caller, Subject, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import submitted
from odfabric_api.web.webhook_places import (
    NODE_PATH,
    WebhookPlace,
    find_account,
    find_dataset,
    find_node,
    named_datasets,
    place_of,
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SubscriptionId = Annotated[str, Path(max_length=100)]
DeliveryId = Annotated[str, Path(max_length=100)]

_FIELDS = frozenset({"url", "secret", "only_with_data", "rows"})
_FIELDS_OF_DATASET = frozenset({"format", "columns"})
"""Only one dataset has columns, and head moves alone have the other format."""


def get_subscriptions(request: Request, caller: Caller) -> Response:
    """Those that the visitor may see, with how their deliveries go."""
    return _listed(request, caller, {})


async def post_subscription(request: Request, caller: Caller) -> Response:
    """Make one. The answer shows its secret, and nothing else ever does."""
    place = place_of(request)
    fields = _FIELDS.union(place.offered) | (frozenset() if place.is_wide else _FIELDS_OF_DATASET)
    form = await read_form(request, fields)

    def act() -> Response:
        made = node_of(request).webhooks.subscribe(
            place.scope,
            by=caller,
            url=form.get("url", "").strip(),
            secret=parse_secret(form["secret"]) if form.get("secret") else None,
            format=_format(form.get("format", "")),
            moves=_moves(form),
            events=_events(place, form),
        )
        return _listed(request, caller, {}, made=made)

    return await submitted(
        request, act, lambda error, status: _listed(request, caller, form, error=error, status=status)
    )


def get_subscription(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """The state and the delivery log of one, newest first."""
    return _one(request, caller, subscription_id)


async def post_state(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Pause it, or resume it."""
    form = await read_form(request, frozenset({"state"}))
    place, webhooks = place_of(request), node_of(request).webhooks
    is_pause = form.get("state") == "paused"
    act = webhooks.pause if is_pause else webhooks.resume
    await to_thread.run_sync(partial(act, place.scope, subscription_id, by=caller))
    return see_other(place.path(subscription_id), notice="paused" if is_pause else "resumed")


async def post_secret(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Change the secret. The answer shows the new one, and nothing else ever does."""
    form = await read_form(request, frozenset({"secret", "overlap_hours"}))

    def act() -> Response:
        made = node_of(request).webhooks.rotate_secret(
            place_of(request).scope,
            subscription_id,
            by=caller,
            secret=parse_secret(form["secret"]) if form.get("secret") else None,
            overlap_s=_overlap_s(form.get("overlap_hours", "")),
        )
        return _one(request, caller, subscription_id, secret=made.secret_text)

    return await submitted(
        request,
        act,
        lambda error, status: _one(request, caller, subscription_id, error=error, status=status, form=form),
    )


async def post_test(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Try the receiver, and show what it answered."""
    await read_form(request, frozenset())

    def act() -> Response:
        tried = node_of(request).webhooks.test(place_of(request).scope, subscription_id, by=caller)
        return _one(request, caller, subscription_id, tried=tried)

    return await submitted(
        request, act, lambda error, status: _one(request, caller, subscription_id, error=error, status=status)
    )


async def post_replay(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Deliver again: all that failed, or all from a number on."""
    form = await read_form(request, frozenset({"which", "from_sequence"}))
    place, webhooks = place_of(request), node_of(request).webhooks

    def act() -> Response:
        is_failed = form.get("which") == "failed"
        first = None if is_failed else _sequence(form.get("from_sequence", ""))
        webhooks.replay(place.scope, subscription_id, Replay(from_sequence=first, failed=is_failed), by=caller)
        return see_other(place.path(subscription_id), notice="replayed")

    return await submitted(
        request,
        act,
        lambda error, status: _one(request, caller, subscription_id, error=error, status=status, form=form),
    )


def get_delivery(
    request: Request, caller: Caller, subscription_id: SubscriptionId, delivery_id: DeliveryId
) -> Response:
    """One delivery, for those who may receive its event themselves.

    What was sent, and the outcome of each attempt.
    """
    place, webhooks = place_of(request), node_of(request).webhooks
    delivery = webhooks.delivery(place.scope, subscription_id, delivery_id, by=caller)
    attempts = webhooks.attempts(place.scope, subscription_id, delivery_id, by=caller)
    values = {
        "subscription": webhooks.get(place.scope, subscription_id, by=caller),
        "delivery": delivery,
        "dataset": named_datasets(request, place, [delivery], caller).get(delivery.dataset_id),
        "is_hidden": place.is_wide and not webhooks.may_receive(delivery, by=caller),
        "attempts": [_shown(each) for each in attempts],
    }
    return page(request, "webhooks/delivery.html", {**place.values(), **values})


async def post_delivery_replay(
    request: Request, caller: Caller, subscription_id: SubscriptionId, delivery_id: DeliveryId
) -> Response:
    """Deliver one event again."""
    await read_form(request, frozenset())
    place, which = place_of(request), Replay(delivery_id=delivery_id)
    await to_thread.run_sync(partial(node_of(request).webhooks.replay, place.scope, subscription_id, which, by=caller))
    return see_other(place.path(subscription_id, delivery_id), notice="replayed")


async def post_removal(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """End it; what is not delivered yet is dropped."""
    await read_form(request, frozenset())
    place = place_of(request)
    await to_thread.run_sync(partial(node_of(request).webhooks.unsubscribe, place.scope, subscription_id, by=caller))
    return see_other(place.base, notice="unsubscribed")


def _one(
    request: Request,
    caller: Subject,
    subscription_id: str,
    *,
    form: dict[str, str] | None = None,
    error: OdfError | None = None,
    secret: str | None = None,
    tried: DeliveryAttempt | None = None,
    status: int = 200,
) -> Response:
    place, webhooks = place_of(request), node_of(request).webhooks
    subscription = webhooks.get(place.scope, subscription_id, by=caller)
    deliveries = webhooks.deliveries(place.scope, subscription_id, by=caller)
    values = {
        "subscription": subscription,
        "deliveries": deliveries,
        "datasets": named_datasets(request, place, deliveries, caller),
        "events": [each.value for each in EventType if each in subscription.events],
        "has_all_events": len(subscription.events) == len(EventType),
        "is_own": is_of(subscription, caller),
        "old_secret_signs": _is_later(subscription.old_secret_until, request),
        "overlap_hours": (form or {}).get("overlap_hours", "24"),
        "from_sequence": (form or {}).get("from_sequence", ""),
        "secret": secret,
        "tried": _shown(tried) if tried else None,
        "problems": places_of(error),
    }
    return page(request, "webhooks/one.html", {**place.values(), **values}, status=status)


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


def _events(place: WebhookPlace, form: Mapping[str, str]) -> frozenset[EventType] | None:
    """The types that are ticked.

    A form of a dataset without any asks for the default; a wide one would get all, and is refused.
    """
    ticked = frozenset(EventType(name) for name in place.offered if name in form)
    return ticked if ticked or place.is_wide else None


def _sequence(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidRequest("not the number of a delivery", place=Place(field="from_sequence"))
    return int(text)


def _listed(
    request: Request,
    caller: Subject,
    form: dict[str, str],
    *,
    error: OdfError | None = None,
    made: NewSubscription | None = None,
    status: int = 200,
) -> Response:
    place, webhooks = place_of(request), node_of(request).webhooks
    subscriptions = webhooks.seen(place.scope, by=caller)
    typed = [name for name in place.offered if name in form]
    values = {
        "subscriptions": [_state(each, webhooks.deliveries(place.scope, each.id, by=caller)) for each in subscriptions],
        "offered": place.offered,
        "chosen": typed if typed or (form and place.is_wide) else place.default,
        **{name: form.get(name, "") for name in ("url", "format", "only_with_data", "columns", "rows")},
        "problems": places_of(error),
        "made": made.subscription if made else None,
        "secret": made.secret_text if made else None,
    }
    return page(request, "webhooks/list.html", {**place.values(), **values}, status=status)


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


def _add_routes(base: str, find: Callable[..., None], *policy: params.Depends) -> None:
    one = f"{base}/{{subscription_id}}"
    delivery = f"{one}/{{delivery_id}}"
    routes: tuple[tuple[str, str, Callable[..., Any]], ...] = (
        ("GET", base, get_subscriptions),
        ("POST", base, post_subscription),
        ("GET", one, get_subscription),
        ("POST", f"{one}/state", post_state),
        ("POST", f"{one}/secret", post_secret),
        ("POST", f"{one}/test", post_test),
        ("POST", f"{one}/replay", post_replay),
        ("POST", f"{one}/remove", post_removal),
        ("GET", delivery, get_delivery),
        ("POST", f"{delivery}/replay", post_delivery_replay),
    )
    for method, path, verb in routes:
        router.add_api_route(path, verb, methods=[method], dependencies=[*policy, Depends(find)], response_model=None)


_add_routes(NODE_PATH, find_node, OF_ADMINS)
_add_routes("/-/accounts/{account}/webhooks", find_account, OF_MEMBERS)
_add_routes("/{account}/{dataset}/-/subscriptions", find_dataset)
