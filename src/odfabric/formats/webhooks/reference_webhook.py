"""Webhooks in the reference node's form, for receivers written for it.

Owns body and headers. Invariant: members and base of the signature are those of the reference, where they differ from RFC 9421 too: names
of components that begin with `@` stand without quotes, and the parameters on a line of their own. Not here: the headers of Standard Webhooks,
which are sent beside these. Source: docs/openapi.json.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from dataclasses import dataclass
from urllib.parse import urlsplit

from odfabric.formats.webhooks.message_signature import content_digest
from odfabric.model.identity import AccountId, DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.multihash import Multihash

CONTENT_TYPE = "application/json"
HEAD_MOVED = "DATASET.REF.UPDATED"
TESTED = "TEST"

_COMPONENTS = '(@method @path @authority "x-webhook-timestamp" "content-digest")'


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceMessage:
    """What is sent: `id` is that of the event, `attempt` counts from 1."""

    id: str
    subscription_id: str
    event_type: str
    attempt: int
    url: str
    sent_at: Instant
    body: bytes


def head_move_body(
    dataset: DatasetId,
    owner: AccountId,
    *,
    old_head: Multihash | None,
    new_head: Multihash | None,
    is_breaking_change: bool,
) -> bytes:
    """The body of an event; without an old head it has no such member."""
    members = {
        "block_ref": "head",
        "dataset_id": str(dataset),
        "is_breaking_change": is_breaking_change,
        "new_hash": str(new_head) if new_head else None,
        "old_hash": str(old_head) if old_head else None,
        "owner_account_id": str(owner),
        "version": 2,
    }
    present = {name: value for name, value in members.items() if value is not None}
    return json.dumps(present, separators=(",", ":"), sort_keys=True).encode("ascii")


def signing_key(secret: bytes) -> bytes:
    """The key for receivers of this form: the secret's hexadecimal digits themselves."""
    return secret.hex().encode("ascii")


def headers(message: ReferenceMessage, *, key: bytes) -> dict[str, str]:
    """The headers of one attempt."""
    created = message.sent_at.epoch_ns // NANOS_PER_SECOND
    digest = content_digest(message.body)
    place = urlsplit(message.url)
    parameters = f';keyid="default";alg="hmac-sha256";created={created}'
    base = "\n".join(
        [
            "@method: POST",
            f"@path: {place.path or '/'}",
            f"@authority: {place.netloc.lower()}",
            f'"x-webhook-timestamp": {created}',
            f'"content-digest": {digest}',
            f'"@signature-params": {_COMPONENTS}',
            parameters,
        ]
    )
    return {
        "content-type": CONTENT_TYPE,
        "content-digest": digest,
        "signature": f"sig1=:{base64.b64encode(hmac.digest(key, base.encode(), 'sha256')).decode('ascii')}:",
        "signature-input": f"sig1={_COMPONENTS}{parameters}",
        "x-webhook-timestamp": str(created),
        "x-webhook-delivery-id": _uuid(message.id),
        "x-webhook-subscription-id": message.subscription_id,
        "x-webhook-event-type": message.event_type,
        "x-webhook-delivery-attempt": str(message.attempt),
    }


def _uuid(event_id: str) -> str:
    """The same for all attempts at an event."""
    return str(uuid.UUID(bytes=hashlib.sha256(event_id.encode()).digest()[:16], version=4))
