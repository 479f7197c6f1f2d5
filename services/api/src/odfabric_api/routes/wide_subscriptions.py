"""Routes of subscriptions of a whole account and of the whole node: those of a dataset, under two other paths."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response, params
from pydantic import Field

from odfabric.formats.webhook_signature import parse_secret
from odfabric.usecases.change_subscription import Replay
from odfabric.usecases.subscription_scope import Scope, WholeNode
from odfabric_api.auth import OF_ADMINS, OF_MEMBERS, Caller, ManagedAccount, node_of
from odfabric_api.json_answer import JsonAnswer
from odfabric_api.json_body import json_body, read_json
from odfabric_api.routes.subscriptions import (
    EVENTS,
    DeliveryId,
    EventName,
    MovesBody,
    NoMembers,
    ReplayBody,
    RotationBody,
    SubscriptionId,
    attempt_value,
    delivery_value,
    event_types,
    read_nothing,
    subscription_value,
)
from odfabric_api.schemas import (
    AttemptView,
    DeliveryList,
    DeliveryWithAttempts,
    ReplayCount,
    SubscriptionList,
    SubscriptionListed,
    SubscriptionMade,
    answers,
)

router = APIRouter(tags=["subscriptions"])

Place = Literal["account", "node"]


class WideSubscriptionBody(MovesBody):
    """Where to deliver, and which types of events; a secret is made if none is given."""

    url: str = Field(min_length=1, max_length=2048)
    secret: str | None = Field(
        None, max_length=256, description="`whsec_` and the base64 of 24 to 64 random bytes (Standard Webhooks)"
    )
    events: list[EventName] | None = Field(None, min_length=1, max_length=EVENTS, description="Default: all types")


def find_account(request: Request, account: ManagedAccount) -> None:
    """The account of the path, for those who may manage it."""
    request.state.scope = account


def find_node(request: Request) -> None:
    """All of the node."""
    request.state.scope = WholeNode()


def scope_of(request: Request) -> Scope:
    """What the dependency of the route has found."""
    scope: Scope = request.state.scope
    return scope


async def subscribe(request: Request, caller: Caller) -> Response:
    """Events of all datasets that the caller may see, later ones too. The secret is shown in this answer and never again."""
    node = node_of(request)
    body = await read_json(request, WideSubscriptionBody, bytes_max=node.settings.json_body_bytes_max)
    secret = parse_secret(body.secret) if body.secret is not None else None
    made = await to_thread.run_sync(
        lambda: node.webhooks.subscribe(
            scope_of(request),
            by=caller,
            url=body.url,
            secret=secret,
            events=event_types(body.events),
            moves=body.moves,
        )
    )
    return JsonAnswer({**subscription_value(made.subscription), "secret": made.secret_text}, status_code=201)


def list_subscriptions(request: Request, caller: Caller) -> Response:
    """Without their secrets."""
    found = node_of(request).webhooks.seen(scope_of(request), by=caller)
    return JsonAnswer({"subscriptions": [subscription_value(each) for each in found]})


def get_subscription(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Without its secret."""
    return JsonAnswer(subscription_value(node_of(request).webhooks.get(scope_of(request), subscription_id, by=caller)))


def unsubscribe(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Pending deliveries are dropped."""
    node_of(request).webhooks.unsubscribe(scope_of(request), subscription_id, by=caller)
    return Response(status_code=204)


async def pause(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """What is to be delivered waits; it goes out in order when the subscription is resumed."""
    await read_nothing(request)
    verb = partial(node_of(request).webhooks.pause, scope_of(request), subscription_id, by=caller)
    return JsonAnswer(subscription_value(await to_thread.run_sync(verb)))


async def resume(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """One that was paused, or disabled by the node after days of failure."""
    await read_nothing(request)
    verb = partial(node_of(request).webhooks.resume, scope_of(request), subscription_id, by=caller)
    return JsonAnswer(subscription_value(await to_thread.run_sync(verb)))


async def rotate_secret(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Both secrets sign until the overlap ends. Only who has made the subscription may do that."""
    node = node_of(request)
    body = await read_json(request, RotationBody, bytes_max=node.settings.json_body_bytes_max)
    secret = parse_secret(body.secret) if body.secret is not None else None
    made = await to_thread.run_sync(
        lambda: node.webhooks.rotate_secret(
            scope_of(request), subscription_id, by=caller, secret=secret, overlap_s=body.overlap_seconds
        )
    )
    return JsonAnswer({**subscription_value(made.subscription), "secret": made.secret_text})


async def try_receiver(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Sends an event of the type `dev.odfabric.subscription.test` once, outside the sequence, and waits for the answer."""
    await read_nothing(request)
    verb = partial(node_of(request).webhooks.test, scope_of(request), subscription_id, by=caller)
    return JsonAnswer(attempt_value(await to_thread.run_sync(verb)))


async def replay(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """All from a sequence on, or all that were given up: in order, with the same event ids, signed with the present secret."""
    node = node_of(request)
    body = await read_json(request, ReplayBody, bytes_max=node.settings.json_body_bytes_max)
    which = Replay(from_sequence=body.from_sequence, failed=body.failed)
    verb = partial(node.webhooks.replay, scope_of(request), subscription_id, which, by=caller)
    return JsonAnswer({"replayed": await to_thread.run_sync(verb)})


def list_deliveries(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Newest first."""
    found = node_of(request).webhooks.deliveries(scope_of(request), subscription_id, by=caller)
    return JsonAnswer({"deliveries": [delivery_value(each) for each in found]})


def get_delivery(
    request: Request, caller: Caller, subscription_id: SubscriptionId, delivery_id: DeliveryId
) -> Response:
    """Of the attempts of a subscription the newest are kept."""
    webhooks, scope = node_of(request).webhooks, scope_of(request)
    found = webhooks.delivery(scope, subscription_id, delivery_id, by=caller)
    attempts = webhooks.attempts(scope, subscription_id, delivery_id, by=caller)
    return JsonAnswer({**delivery_value(found), "attemptLog": [attempt_value(each) for each in attempts]})


async def replay_delivery(
    request: Request, caller: Caller, subscription_id: SubscriptionId, delivery_id: DeliveryId
) -> Response:
    """With the same event id, signed with the present secret. One that waits for its next attempt is sent now."""
    await read_nothing(request)
    which = Replay(delivery_id=delivery_id)
    verb = partial(node_of(request).webhooks.replay, scope_of(request), subscription_id, which, by=caller)
    return JsonAnswer({"replayed": await to_thread.run_sync(verb)})


def _add_routes(prefix: str, place: Place, policy: params.Depends, find: Callable[..., None]) -> None:
    one = f"{prefix}/{{subscription_id}}"

    def add(method: str, path: str, verb: Callable[..., Any], summary: str, **options: Any) -> None:
        router.add_api_route(
            path,
            verb,
            methods=[method],
            name=f"{verb.__name__}_of_{place}",
            summary=f"{summary} of {'an account' if place == 'account' else 'the node'}",
            dependencies=[policy, Depends(find)],
            **options,
        )

    nothing = json_body(NoMembers, required=False)
    made = answers(SubscriptionMade, status=201, text="The subscription with its secret")
    rotated = answers(SubscriptionMade, text="The subscription with its new secret")
    listed = answers(SubscriptionListed, text="As it is now")
    counted = answers(ReplayCount, text="How many")
    body = json_body(WideSubscriptionBody, required=True)
    add("POST", prefix, subscribe, "Subscribe a webhook to events", status_code=201, responses=made, openapi_extra=body)
    add("GET", prefix, list_subscriptions, "Subscriptions", responses=answers(SubscriptionList, text="All of them"))
    add("GET", one, get_subscription, "A subscription", responses=listed)
    add("DELETE", one, unsubscribe, "End a subscription", status_code=204, responses=answers(None, status=204))
    add("POST", f"{one}/pause", pause, "Pause a subscription", responses=listed, openapi_extra=nothing)
    add("POST", f"{one}/resume", resume, "Resume a subscription", responses=listed, openapi_extra=nothing)
    rotation = json_body(RotationBody, required=True)
    add(
        "POST",
        f"{one}/rotate-secret",
        rotate_secret,
        "Change the secret of a subscription",
        responses=rotated,
        openapi_extra=rotation,
    )
    answer = answers(AttemptView, text="What the receiver answered")
    add(
        "POST",
        f"{one}/test",
        try_receiver,
        "Try the receiver of a subscription",
        responses=answer,
        openapi_extra=nothing,
    )
    which = json_body(ReplayBody, required=True)
    add("POST", f"{one}/replay", replay, "Deliver again for a subscription", responses=counted, openapi_extra=which)
    add(
        "GET",
        f"{one}/deliveries",
        list_deliveries,
        "The delivery log of a subscription",
        responses=answers(DeliveryList, text="The newest"),
    )
    delivery = f"{one}/deliveries/{{delivery_id}}"
    add(
        "GET",
        delivery,
        get_delivery,
        "A delivery of a subscription",
        responses=answers(DeliveryWithAttempts, text="With its attempts"),
    )
    add(
        "POST",
        f"{delivery}/replay",
        replay_delivery,
        "Deliver one event again for a subscription",
        responses=counted,
        openapi_extra=nothing,
    )


_add_routes("/accounts/{account}/subscriptions", "account", OF_MEMBERS, find_account)
_add_routes("/subscriptions", "node", OF_ADMINS, find_node)
