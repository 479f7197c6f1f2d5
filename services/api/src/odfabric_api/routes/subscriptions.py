"""Routes of subscriptions: webhooks on a dataset."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field
from starlette.responses import JSONResponse

from odfabric.formats.webhook_signature import parse_secret, secret_text
from odfabric.model.subscription import Delivery, Subscription
from odfabric_api.auth import Caller, FollowableDataset, node_of
from odfabric_api.json_body import JsonModel, json_body, read_json
from odfabric_api.schemas import DeliveryList, SubscriptionList, SubscriptionMade, answers

router = APIRouter(tags=["subscriptions"])

SubscriptionId = Annotated[str, Path(description="As the answer 201 told it")]


class SubscriptionBody(JsonModel):
    """Where to deliver; a secret is made if none is given."""

    url: str = Field(min_length=1, max_length=2048)
    secret: str | None = Field(
        None, max_length=256, description="`whsec_` and the base64 of 24 to 64 random bytes (Standard Webhooks)"
    )


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
    made = await to_thread.run_sync(lambda: node.subscribe(entry, by=caller, url=body.url, secret=secret))
    return JSONResponse({**_value(made.subscription), "secret": secret_text(made.secret)}, status_code=201)


@router.get(
    "/{account}/{dataset}/subscriptions",
    summary="Subscriptions of a dataset",
    responses=answers(SubscriptionList, text="All of them"),
)
def list_subscriptions(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Without their secrets."""
    return JSONResponse(
        {"subscriptions": [_value(found) for found in node_of(request).subscriptions(entry, by=caller)]}
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
    return JSONResponse({"deliveries": [_delivery_value(delivery) for delivery in found]})


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


def _value(subscription: Subscription) -> dict[str, object]:
    return {
        "id": subscription.id,
        "url": subscription.url,
        "createdAt": str(subscription.created_at),
        "createdAtHead": str(subscription.created_at_head),
    }


def _delivery_value(delivery: Delivery) -> dict[str, object]:
    return {
        "id": delivery.id,
        "sequence": delivery.sequence,
        "newHead": str(delivery.new_head) if delivery.new_head else None,
        "status": delivery.status.value,
        "attempts": delivery.attempts,
        "nextAttemptAt": str(delivery.next_attempt_at),
        "lastStatusCode": delivery.last_status_code,
        "lastError": delivery.last_error,
    }
