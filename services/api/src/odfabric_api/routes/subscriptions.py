"""Routes of subscriptions: webhooks on a dataset, an account or the node.

The handlers are the same for all three; `_add_routes` gives each place its paths, its policy and its names in the document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request, Response, params

from odfabric.formats.webhooks.webhook_signature import parse_secret
from odfabric.model.commit import CatalogEntry
from odfabric.usecases.subscriptions.change_subscription import Replay
from odfabric.usecases.subscriptions.subscription_scope import Scope, WholeNode
from odfabric_api.auth import OF_ADMINS, OF_MEMBERS, Caller, FollowableDataset, ManagedAccount, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import json_body, read_json
from odfabric_api.bodies.schemas import (
    AttemptView,
    DeliveryList,
    DeliveryWithAttempts,
    ReplayCount,
    SubscriptionList,
    SubscriptionListed,
    SubscriptionMade,
    answers,
)
from odfabric_api.bodies.subscription_values import (
    NoMembers,
    ReplayBody,
    RotationBody,
    SubscriptionBody,
    WideSubscriptionBody,
    attempt_value,
    delivery_value,
    event_types,
    subscription_value,
)

router = APIRouter(tags=["subscriptions"])

SubscriptionId = Annotated[str, Path(description="As the answer 201 told it")]
DeliveryId = Annotated[str, Path(description="The id of the event")]
Place = Literal["dataset", "account", "node"]


def find_dataset(request: Request, entry: FollowableDataset) -> None:
    """The dataset of the path, for those who may follow it."""
    request.state.scope = entry


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
    """Subscribe a webhook. The secret is shown in this answer and never again."""
    node, scope = node_of(request), scope_of(request)
    model = SubscriptionBody if isinstance(scope, CatalogEntry) else WideSubscriptionBody
    body: SubscriptionBody | WideSubscriptionBody = await read_json(
        request, model, bytes_max=node.settings.json_body_bytes_max
    )
    secret = parse_secret(body.secret) if body.secret is not None else None
    made = await to_thread.run_sync(
        lambda: node.webhooks.subscribe(
            scope,
            by=caller,
            url=body.url,
            secret=secret,
            format=body.sent_format,
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


async def pause_subscription(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """What is to be delivered waits.

    It goes out in order when the subscription is resumed.
    """
    await _read_nothing(request)
    verb = partial(node_of(request).webhooks.pause, scope_of(request), subscription_id, by=caller)
    return JsonAnswer(subscription_value(await to_thread.run_sync(verb)))


async def resume_subscription(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """One that was paused, or disabled by the node after days of failure."""
    await _read_nothing(request)
    verb = partial(node_of(request).webhooks.resume, scope_of(request), subscription_id, by=caller)
    return JsonAnswer(subscription_value(await to_thread.run_sync(verb)))


async def rotate_secret(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Both secrets sign until the overlap ends.

    Only who has made the subscription may do that; the secret is shown in this answer alone.
    """
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
    """Send one test event outside the sequence, and wait for the answer.

    Its type is `dev.odfabric.subscription.test`.
    """
    await _read_nothing(request)
    verb = partial(node_of(request).webhooks.test, scope_of(request), subscription_id, by=caller)
    return JsonAnswer(attempt_value(await to_thread.run_sync(verb)))


async def replay_deliveries(request: Request, caller: Caller, subscription_id: SubscriptionId) -> Response:
    """Replay all from a sequence on, or all that were given up.

    In order, with the same event ids, signed with the present secret.
    """
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
    """With the same event id, signed with the present secret.

    One that waits for its next attempt is sent now.
    """
    await _read_nothing(request)
    which = Replay(delivery_id=delivery_id)
    verb = partial(node_of(request).webhooks.replay, scope_of(request), subscription_id, which, by=caller)
    return JsonAnswer({"replayed": await to_thread.run_sync(verb)})


async def _read_nothing(request: Request) -> None:
    """Read the body of a route that asks for nothing. Raises InvalidRequest."""
    await read_json(request, NoMembers, bytes_max=node_of(request).settings.json_body_bytes_max)


@dataclass(frozen=True, slots=True)
class _Verb:
    """A handler below the path of a place.

    `summary` is of a dataset; `wide_summary` and `wide_name` get the place at their end.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    summary: str
    wide_summary: str
    wide_name: str
    options: Mapping[str, Any]


_ONE = "/{subscription_id}"
_DELIVERY = f"{_ONE}/deliveries/{{delivery_id}}"
_NO_BODY = {"openapi_extra": json_body(NoMembers, required=False)}
_MADE = {
    "status_code": 201,
    "responses": answers(SubscriptionMade, status=201, text="The subscription with its secret"),
}
_ALL = {"responses": answers(SubscriptionList, text="All of them")}
_LISTED = {"responses": answers(SubscriptionListed, text="As it is now")}
_CHANGED = {**_LISTED, **_NO_BODY}
_ENDED = {"status_code": 204, "responses": answers(None, status=204)}
_ROTATED = {
    "responses": answers(SubscriptionMade, text="The subscription with its new secret"),
    "openapi_extra": json_body(RotationBody, required=True),
}
_TRIED = {"responses": answers(AttemptView, text="What the receiver answered"), **_NO_BODY}
_REPLAYED = {"responses": answers(ReplayCount, text="How many"), "openapi_extra": json_body(ReplayBody, required=True)}
_LOG = {"responses": answers(DeliveryList, text="The newest")}
_SENT = {"responses": answers(DeliveryWithAttempts, text="With its attempts")}
_REPLAYED_ONE = {"responses": answers(ReplayCount, text="1, or 0 if it is being sent"), **_NO_BODY}

_VERBS = (
    _Verb("POST", "", subscribe, "Subscribe a webhook", "Subscribe a webhook to events", "subscribe", _MADE),
    _Verb("GET", "", list_subscriptions, "Subscriptions of a dataset", "Subscriptions", "list_subscriptions", _ALL),
    _Verb("GET", _ONE, get_subscription, "A subscription", "A subscription", "get_subscription", _LISTED),
    _Verb("DELETE", _ONE, unsubscribe, "Unsubscribe", "End a subscription", "unsubscribe", _ENDED),
    _Verb(
        "POST", f"{_ONE}/pause", pause_subscription, "Pause a subscription", "Pause a subscription", "pause", _CHANGED
    ),
    _Verb(
        "POST",
        f"{_ONE}/resume",
        resume_subscription,
        "Resume a subscription",
        "Resume a subscription",
        "resume",
        _CHANGED,
    ),
    _Verb(
        "POST",
        f"{_ONE}/rotate-secret",
        rotate_secret,
        "Change the secret",
        "Change the secret of a subscription",
        "rotate_secret",
        _ROTATED,
    ),
    _Verb(
        "POST",
        f"{_ONE}/test",
        try_receiver,
        "Try the receiver",
        "Try the receiver of a subscription",
        "try_receiver",
        _TRIED,
    ),
    _Verb(
        "POST",
        f"{_ONE}/replay",
        replay_deliveries,
        "Deliver again",
        "Deliver again for a subscription",
        "replay",
        _REPLAYED,
    ),
    _Verb(
        "GET",
        f"{_ONE}/deliveries",
        list_deliveries,
        "The delivery log",
        "The delivery log of a subscription",
        "list_deliveries",
        _LOG,
    ),
    _Verb("GET", _DELIVERY, get_delivery, "A delivery", "A delivery of a subscription", "get_delivery", _SENT),
    _Verb(
        "POST",
        f"{_DELIVERY}/replay",
        replay_delivery,
        "Deliver one event again",
        "Deliver one event again for a subscription",
        "replay_delivery",
        _REPLAYED_ONE,
    ),
)


def _options(verb: _Verb, place: Place) -> dict[str, Any]:
    """What a route says of a verb at a place."""
    is_dataset = place == "dataset"
    options = dict(verb.options)
    if verb.handler is subscribe:
        wanted = SubscriptionBody if is_dataset else WideSubscriptionBody
        followed = (
            "Every later move of the head is delivered."
            if is_dataset
            else "Events of all datasets that the caller may see, later ones too."
        )
        options["openapi_extra"] = json_body(wanted, required=True)
        options["description"] = f"{followed} The secret is shown in this answer and never again."
    if is_dataset:
        return {**options, "name": verb.handler.__name__, "summary": verb.summary}
    what = "an account" if place == "account" else "the node"
    return {**options, "name": f"{verb.wide_name}_of_{place}", "summary": f"{verb.wide_summary} of {what}"}


def _add_routes(prefix: str, place: Place, find: Callable[..., None], *policy: params.Depends) -> None:
    for verb in _VERBS:
        router.add_api_route(
            f"{prefix}{verb.path}",
            verb.handler,
            methods=[verb.method],
            dependencies=[*policy, Depends(find)],
            **_options(verb, place),
        )


_add_routes("/accounts/{account}/subscriptions", "account", find_account, OF_MEMBERS)
_add_routes("/subscriptions", "node", find_node, OF_ADMINS)
_add_routes("/{account}/{dataset}/subscriptions", "dataset", find_dataset)
