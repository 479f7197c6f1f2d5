"""Routes of subscriptions: webhooks on a dataset."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from odfabric.domain.access import Action
from odfabric.formats.webhook_signature import parse_secret, secret_text
from odfabric.model.subscription import Delivery, Subscription
from odfabric_api.auth import dataset_of, node_of
from odfabric_api.json_body import JsonModel, read_json

router = APIRouter(tags=["subscriptions"])


class SubscriptionBody(JsonModel):
    """Where to deliver; a secret is made if none is given."""

    url: str
    secret: str | None = None


@router.post("/{account}/{dataset}/subscriptions", status_code=201, summary="Subscribe a webhook")
async def create(request: Request, account: str, dataset: str) -> Response:
    """Every later move of the head is delivered. The secret is shown in this answer and never again."""
    node = node_of(request)
    body = await read_json(request, SubscriptionBody, bytes_max=node.settings.json_body_bytes_max)
    secret = parse_secret(body.secret) if body.secret is not None else None

    def subscribe() -> Subscription:
        entry = dataset_of(request, account, dataset, Action.WRITE)
        return node.subscribe(entry, url=body.url, secret=secret)

    made = await to_thread.run_sync(subscribe)
    return JSONResponse({**_value(made), "secret": secret_text(made.secret)}, status_code=201)


@router.get("/{account}/{dataset}/subscriptions", summary="Subscriptions of a dataset")
def list_subscriptions(request: Request, account: str, dataset: str) -> Response:
    """Without their secrets."""
    entry = dataset_of(request, account, dataset, Action.WRITE)
    return JSONResponse({"subscriptions": [_value(found) for found in node_of(request).subscriptions(entry)]})


@router.get("/{account}/{dataset}/subscriptions/{subscription_id}/deliveries", summary="The delivery log")
def deliveries(request: Request, account: str, dataset: str, subscription_id: str) -> Response:
    """Newest first."""
    entry = dataset_of(request, account, dataset, Action.WRITE)
    found = node_of(request).deliveries(entry, subscription_id)
    return JSONResponse({"deliveries": [_delivery_value(delivery) for delivery in found]})


@router.delete("/{account}/{dataset}/subscriptions/{subscription_id}", status_code=204, summary="Unsubscribe")
def delete(request: Request, account: str, dataset: str, subscription_id: str) -> Response:
    """Pending deliveries are dropped."""
    entry = dataset_of(request, account, dataset, Action.WRITE)
    node_of(request).unsubscribe(entry, subscription_id)
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
