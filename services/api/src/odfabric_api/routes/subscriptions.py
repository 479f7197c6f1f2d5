"""Routes of subscriptions: webhooks on a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from odfabric.formats.webhook_signature import parse_secret
from odfabric.model.event import EventType
from odfabric.model.subscription import Delivery, DeliveryAttempt, MoveOptions, Subscription, SubscriptionFormat
from odfabric.usecases.change_subscription import OVERLAP_S_MAX, Replay
from odfabric.usecases.subscribe import COLUMNS_MAX
from odfabric_api.auth import Caller, FollowableDataset, node_of
from odfabric_api.json_answer import JsonAnswer
from odfabric_api.json_body import JsonModel, json_body, read_json
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

EventName = Literal[
    "dataset.created",
    "dataset.deleted",
    "dataset.renamed",
    "dataset.head-moved",
    "dataset.schema-changed",
    "dataset.watermark-advanced",
    "dataset.source-changed",
    "dataset.query-changed",
    "dataset.info-changed",
    "flow.failed",
    "flow.stopped",
    "verification.failed",
    "access.granted",
    "access.revoked",
]
EVENTS = len(EventType)
SubscriptionId = Annotated[str, Path(description="As the answer 201 told it")]
DeliveryId = Annotated[str, Path(description="The id of the event")]

_ONE = "/{account}/{dataset}/subscriptions/{subscription_id}"


class MovesBody(JsonModel):
    """What is wanted of head moves."""

    only_with_data: bool = Field(
        False,
        alias="onlyWithData",
        description="No event for changes that bring no records; the interval of the next event covers them",
    )
    rows: bool = Field(
        False, description="Events carry the changed records (`changes`), as many as fit; the rest begins at `next`"
    )

    @property
    def moves(self) -> MoveOptions:
        """As the subscription keeps it."""
        return MoveOptions(only_with_data=self.only_with_data, with_rows=self.rows)


class SubscriptionBody(MovesBody):
    """Where to deliver; a secret is made if none is given."""

    url: str = Field(min_length=1, max_length=2048)
    secret: str | None = Field(
        None, max_length=256, description="`whsec_` and the base64 of 24 to 64 random bytes (Standard Webhooks)"
    )
    format: Literal["cloudevents", "kamu"] = Field(
        "cloudevents",
        description="`kamu`: body and headers of the reference node, and a secret of hexadecimal digits, beside the headers of Standard "
        "Webhooks",
    )
    events: list[EventName] | None = Field(
        None, min_length=1, max_length=EVENTS, description="Types of events; default: head moves"
    )
    columns: list[str] = Field(
        [],
        max_length=COLUMNS_MAX,
        description="Events only of changes that bring or take away records, or change a value in one of these columns",
    )

    @property
    def moves(self) -> MoveOptions:
        """As the subscription keeps it."""
        return replace(super().moves, columns=frozenset(self.columns))


class NoMembers(JsonModel):
    """Nothing is asked for; the body may be left out."""


class RotationBody(JsonModel):
    """The secret that signs from now on, and how long the old one signs beside it."""

    secret: str | None = Field(
        None, max_length=256, description="`whsec_` and the base64 of 24 to 64 random bytes; default: one is made"
    )
    overlap_seconds: int | None = Field(
        None, alias="overlapSeconds", ge=0, le=int(OVERLAP_S_MAX), description="Default: what the node has set"
    )


class ReplayBody(JsonModel):
    """Which deliveries go out again: exactly one of the two."""

    from_sequence: int | None = Field(
        None, alias="fromSequence", ge=1, le=2**63 - 1, description="This one and all later ones"
    )
    failed: bool = Field(False, description="All that were given up")


@router.post(
    "/{account}/{dataset}/subscriptions",
    status_code=201,
    summary="Subscribe a webhook",
    responses=answers(SubscriptionMade, status=201, text="The subscription with its secret"),
    openapi_extra=json_body(SubscriptionBody, required=True),
)
async def subscribe(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Every later move of the head is delivered. The secret is shown in this answer and never again."""
    node = node_of(request)
    body = await read_json(request, SubscriptionBody, bytes_max=node.settings.json_body_bytes_max)
    secret = parse_secret(body.secret) if body.secret is not None else None
    made = await to_thread.run_sync(
        lambda: node.webhooks.subscribe(
            entry,
            by=caller,
            url=body.url,
            secret=secret,
            format=SubscriptionFormat(body.format),
            events=event_types(body.events),
            moves=body.moves,
        )
    )
    return JsonAnswer({**subscription_value(made.subscription), "secret": made.secret_text}, status_code=201)


@router.get(
    "/{account}/{dataset}/subscriptions",
    summary="Subscriptions of a dataset",
    responses=answers(SubscriptionList, text="All of them"),
)
def list_subscriptions(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Without their secrets."""
    return JsonAnswer(
        {"subscriptions": [subscription_value(found) for found in node_of(request).subscriptions(entry, by=caller)]}
    )


@router.get(
    "/{account}/{dataset}/subscriptions/{subscription_id}/deliveries",
    summary="The delivery log",
    responses=answers(DeliveryList, text="The newest"),
)
def list_deliveries(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """Newest first."""
    found = node_of(request).deliveries(entry, subscription_id, by=caller)
    return JsonAnswer({"deliveries": [delivery_value(delivery) for delivery in found]})


@router.delete(
    "/{account}/{dataset}/subscriptions/{subscription_id}",
    status_code=204,
    summary="Unsubscribe",
    responses=answers(None, status=204),
)
def unsubscribe(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """Pending deliveries are dropped."""
    node_of(request).unsubscribe(entry, subscription_id, by=caller)
    return Response(status_code=204)


@router.get(_ONE, summary="A subscription", responses=answers(SubscriptionListed, text="As it is now"))
def get_subscription(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """Without its secret."""
    return JsonAnswer(subscription_value(node_of(request).webhooks.get(entry, subscription_id, by=caller)))


@router.post(
    f"{_ONE}/pause",
    summary="Pause a subscription",
    responses=answers(SubscriptionListed, text="As it is now"),
    openapi_extra=json_body(NoMembers, required=False),
)
async def pause_subscription(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """What is to be delivered waits; it goes out in order when the subscription is resumed."""
    await read_nothing(request)
    verb = partial(node_of(request).webhooks.pause, entry, subscription_id, by=caller)
    return JsonAnswer(subscription_value(await to_thread.run_sync(verb)))


@router.post(
    f"{_ONE}/resume",
    summary="Resume a subscription",
    responses=answers(SubscriptionListed, text="As it is now"),
    openapi_extra=json_body(NoMembers, required=False),
)
async def resume_subscription(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """One that was paused, or disabled by the node after days of failure."""
    await read_nothing(request)
    verb = partial(node_of(request).webhooks.resume, entry, subscription_id, by=caller)
    return JsonAnswer(subscription_value(await to_thread.run_sync(verb)))


@router.post(
    f"{_ONE}/rotate-secret",
    summary="Change the secret",
    responses=answers(SubscriptionMade, text="The subscription with its new secret"),
    openapi_extra=json_body(RotationBody, required=True),
)
async def rotate_secret(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """Both secrets sign until the overlap ends. Only who has made the subscription may do that; the secret is shown in this answer alone."""
    node = node_of(request)
    body = await read_json(request, RotationBody, bytes_max=node.settings.json_body_bytes_max)
    secret = parse_secret(body.secret) if body.secret is not None else None
    made = await to_thread.run_sync(
        lambda: node.webhooks.rotate_secret(
            entry, subscription_id, by=caller, secret=secret, overlap_s=body.overlap_seconds
        )
    )
    return JsonAnswer({**subscription_value(made.subscription), "secret": made.secret_text})


@router.post(
    f"{_ONE}/test",
    summary="Try the receiver",
    responses=answers(AttemptView, text="What the receiver answered"),
    openapi_extra=json_body(NoMembers, required=False),
)
async def try_receiver(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """Sends an event of the type `dev.odfabric.subscription.test` once, outside the sequence, and waits for the answer."""
    await read_nothing(request)
    verb = partial(node_of(request).webhooks.test, entry, subscription_id, by=caller)
    return JsonAnswer(attempt_value(await to_thread.run_sync(verb)))


@router.post(
    f"{_ONE}/replay",
    summary="Deliver again",
    responses=answers(ReplayCount, text="How many"),
    openapi_extra=json_body(ReplayBody, required=True),
)
async def replay_deliveries(
    request: Request, entry: FollowableDataset, caller: Caller, subscription_id: SubscriptionId
) -> Response:
    """All from a sequence on, or all that were given up: in order, with the same event ids, signed with the present secret."""
    node = node_of(request)
    body = await read_json(request, ReplayBody, bytes_max=node.settings.json_body_bytes_max)
    which = Replay(from_sequence=body.from_sequence, failed=body.failed)
    count = await to_thread.run_sync(lambda: node.webhooks.replay(entry, subscription_id, which, by=caller))
    return JsonAnswer({"replayed": count})


@router.get(
    f"{_ONE}/deliveries/{{delivery_id}}",
    summary="A delivery",
    responses=answers(DeliveryWithAttempts, text="With its attempts"),
)
def get_delivery(
    request: Request,
    entry: FollowableDataset,
    caller: Caller,
    subscription_id: SubscriptionId,
    delivery_id: DeliveryId,
) -> Response:
    """Of the attempts of a subscription the newest are kept."""
    webhooks = node_of(request).webhooks
    found = webhooks.delivery(entry, subscription_id, delivery_id, by=caller)
    attempts = webhooks.attempts(entry, subscription_id, delivery_id, by=caller)
    return JsonAnswer({**delivery_value(found), "attemptLog": [attempt_value(each) for each in attempts]})


@router.post(
    f"{_ONE}/deliveries/{{delivery_id}}/replay",
    summary="Deliver one event again",
    responses=answers(ReplayCount, text="1, or 0 if it is being sent"),
    openapi_extra=json_body(NoMembers, required=False),
)
async def replay_delivery(
    request: Request,
    entry: FollowableDataset,
    caller: Caller,
    subscription_id: SubscriptionId,
    delivery_id: DeliveryId,
) -> Response:
    """With the same event id, signed with the present secret. One that waits for its next attempt is sent now."""
    await read_nothing(request)
    which = Replay(delivery_id=delivery_id)
    verb = partial(node_of(request).webhooks.replay, entry, subscription_id, which, by=caller)
    return JsonAnswer({"replayed": await to_thread.run_sync(verb)})


def event_types(names: Sequence[str] | None) -> frozenset[EventType] | None:
    """The types of a body."""
    return None if names is None else frozenset(map(EventType, names))


async def read_nothing(request: Request) -> None:
    """Read the body of a route that asks for nothing. Raises InvalidRequest."""
    await read_json(request, NoMembers, bytes_max=node_of(request).settings.json_body_bytes_max)


def subscription_value(subscription: Subscription) -> dict[str, object]:
    """As answers show it, without its secret."""
    return {
        "id": subscription.id,
        "url": subscription.url,
        "createdAt": str(subscription.created_at),
        "createdAtHead": str(subscription.created_at_head) if subscription.created_at_head else None,
        "events": sorted(each.value for each in subscription.events),
        "format": subscription.format.value,
        "onlyWithData": subscription.moves.only_with_data,
        "columns": sorted(subscription.moves.columns),
        "rows": subscription.moves.with_rows,
        "state": subscription.state.value,
        "stateReason": subscription.state_reason,
        "failingSince": str(subscription.failing_since) if subscription.failing_since else None,
        "oldSecretUntil": str(subscription.old_secret_until) if subscription.old_secret_until else None,
    }


def delivery_value(delivery: Delivery) -> dict[str, object]:
    """As answers show it."""
    return {
        "id": delivery.id,
        "sequence": delivery.sequence,
        "type": (delivery.event.type if delivery.event else EventType.HEAD_MOVED).value,
        "datasetId": str(delivery.dataset_id),
        "oldHead": str(delivery.old_head) if delivery.old_head else None,
        "newHead": str(delivery.new_head) if delivery.new_head else None,
        "occurredAt": str(delivery.occurred_at),
        "status": delivery.status.value,
        "attempts": delivery.attempts,
        "nextAttemptAt": str(delivery.next_attempt_at),
        "lastStatusCode": delivery.last_status_code,
        "lastError": delivery.last_error,
    }


def attempt_value(attempt: DeliveryAttempt) -> dict[str, object]:
    """As answers show it."""
    return {
        "number": attempt.number,
        "at": str(attempt.at),
        "durationMs": attempt.duration_ms,
        "statusCode": attempt.status_code,
        "failure": attempt.failure.value if attempt.failure else None,
        "error": attempt.error,
        "requestHeaders": dict(attempt.request_headers),
        "requestBody": attempt.request_body.decode("utf-8", "replace"),
        "response": attempt.response,
    }
