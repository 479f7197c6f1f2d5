"""Send one message to a receiver: sign it, post it, say how it went.

Invariant: every valid secret of the subscription signs, and so does the key of the node; what is kept of an attempt has neither secret nor
signature. Not here: what is sent when (`usecases.subscriptions.deliver`, `usecases.subscriptions.change_subscription`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from odfabric.errors import AccessDenied, Corrupt, External, InvalidRequest, NotFound, OdfError
from odfabric.formats.operations.trace_context import HEADER as TRACE_HEADER
from odfabric.formats.operations.trace_context import TraceContext
from odfabric.formats.webhooks.cloud_event import CONTENT_TYPE
from odfabric.formats.webhooks.message_signature import SIGNATURE_HEADER as NODE_SIGNATURE_HEADER
from odfabric.formats.webhooks.reference_webhook import ReferenceMessage, signing_key
from odfabric.formats.webhooks.reference_webhook import headers as reference_headers
from odfabric.formats.webhooks.webhook_signature import SIGNATURE_HEADER, sign
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.subscriptions.subscription import (
    REQUEST_BYTES_KEPT,
    DeliveryAttempt,
    FailureKind,
    Subscription,
    SubscriptionFormat,
    WebhookResponse,
)
from odfabric.ports.node.clock import Clock
from odfabric.ports.sources.egress import WebhookSender
from odfabric.ports.subscriptions.subscriptions import Subscriptions
from odfabric.usecases.subscriptions.node_signature import NodeSignature

_log = logging.getLogger(__name__)

_STAGES = {
    "dns": FailureKind.DNS,
    "connect": FailureKind.CONNECT,
    "tls": FailureKind.TLS,
    "time": FailureKind.TIME,
}


def send_webhook(
    subscription: Subscription,
    *,
    message_id: str,
    body: bytes,
    event_type: str,
    number: int,
    subscriptions: Subscriptions,
    signature: NodeSignature,
    sender: WebhookSender,
    clock: Clock,
    trace: TraceContext | None = None,
) -> tuple[DeliveryAttempt, WebhookResponse | None]:
    """Make attempt `number` at a message, as a part of `trace`.

    The answer is None if the receiver was not reached. Never raises for what the receiver did.
    """
    started = clock.now()
    headers: dict[str, str] = {}
    response: WebhookResponse | None = None
    failure: FailureKind | None
    try:
        secrets = subscriptions.secrets(subscription.id, now=started)
        if not secrets:
            raise NotFound("subscription", subscription.id)
        headers |= _own_headers(subscription, message_id, event_type, number, started, body, secrets[0])
        headers |= sign(message_id=message_id, sent_at=started, body=body, secrets=secrets)
        if trace is not None:
            headers[TRACE_HEADER] = str(trace)
        target = sender.target_uri(subscription.url)
        headers = signature.sign(headers, target_uri=target, body=body, at=started)
    except InvalidRequest as error:
        failure, problem = FailureKind.REFUSED, error.message
    except NotFound:
        failure, problem = FailureKind.NODE, "the subscription is gone"
    except (AccessDenied, Corrupt) as error:
        # Tried again by the schedule: the operator of the node may give it the right key file meanwhile.
        _log.error("subscription %s: %s", subscription.id, error)
        failure, problem = FailureKind.NODE, "the node cannot open the secret of this subscription, or its own key"
    else:
        try:
            response = sender.post(subscription.url, headers=headers, body=body)
        except OdfError as error:
            # Refused addresses too are tried again by the schedule: a name may resolve wrongly for an hour.
            failure, problem = _kind(error), error.message
        else:
            is_accepted = 200 <= response.status <= 299
            failure = None if is_accepted else FailureKind.STATUS
            problem = f"the receiver answered {response.status}"
    attempt = DeliveryAttempt(
        number=number,
        at=started,
        duration_ms=max(0, clock.now().epoch_ns - started.epoch_ns) // NANOS_PER_MILLI,
        status_code=response.status if response else None,
        failure=failure,
        error=problem if failure else None,
        request_headers=_shown(headers),
        request_body=body[:REQUEST_BYTES_KEPT],
        response=response.excerpt if response else "",
    )
    return attempt, response


def _own_headers(
    subscription: Subscription,
    message_id: str,
    event_type: str,
    number: int,
    sent_at: Instant,
    body: bytes,
    secret: bytes,
) -> dict[str, str]:
    """Headers of the subscription's format, beside those of Standard Webhooks."""
    if subscription.format is SubscriptionFormat.CLOUD_EVENT:
        return {"content-type": CONTENT_TYPE}
    message = ReferenceMessage(
        id=message_id,
        subscription_id=subscription.id,
        event_type=event_type,
        attempt=number,
        url=subscription.url,
        sent_at=sent_at,
        body=body,
    )
    return reference_headers(message, key=signing_key(secret))


def _kind(error: OdfError) -> FailureKind:
    if isinstance(error, AccessDenied | InvalidRequest):
        return FailureKind.REFUSED
    stage = error.stage if isinstance(error, External) else None
    return _STAGES.get(stage or "", FailureKind.BROKEN)


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as they may be shown later: of each signature only its scheme."""
    shown = dict(headers)
    if NODE_SIGNATURE_HEADER in shown:
        shown[NODE_SIGNATURE_HEADER] = re.sub(r":[^:]*:", "...", shown[NODE_SIGNATURE_HEADER])
    if SIGNATURE_HEADER in shown:
        shown[SIGNATURE_HEADER] = " ".join(f"{each.partition(',')[0]},..." for each in shown[SIGNATURE_HEADER].split())
    return shown
