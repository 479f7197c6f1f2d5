"""Signatures of webhooks: Standard Webhooks 1.0, symmetric scheme `v1`.

As senders make and receivers check them.

Owns secrets as text (`whsec_` and base64), the three headers and the comparison. Invariant: what is signed is exactly
`id.timestamp.body`, so an id has no full stop. Several secrets give several signatures, which lets a receiver change its
secret without losing an event. Not here: when to send (`domain.subscriptions.delivery`). Source: Standard Webhooks 1.0, "Signature scheme".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence

from odfabric.errors import InvalidRequest, Place, Unauthenticated
from odfabric.model.instant import NANOS_PER_SECOND, Instant

ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"

SECRET_BYTES_MIN = 24
SECRET_BYTES_MAX = 64
SIGNATURES_MAX = 20
"""Signatures of one message that a receiver looks at."""
TOLERANCE_S = 300
"""How far a message's timestamp may be from the receiver's clock."""

_PREFIX = "whsec_"
_SCHEME = "v1"
_ID = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)
_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)


def secret_text(secret: bytes) -> str:
    """The secret as it is shown to a subscriber.

    Raises ValueError for one that is too short or too long.
    """
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise ValueError(f"a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes")
    return _PREFIX + base64.b64encode(secret).decode("ascii")


def parse_secret(text: str) -> bytes:
    """The secret of a `whsec_...` text.

    Raises InvalidRequest; the text itself is not repeated.
    """
    try:
        secret = base64.b64decode(text.removeprefix(_PREFIX).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        secret = b""
    if not text.startswith(_PREFIX) or not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise InvalidRequest(
            "not a webhook secret",
            place=Place(field="secret"),
            hint=f"{_PREFIX} and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} random bytes",
        )
    return secret


def sign(*, message_id: str, sent_at: Instant, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """The three headers of an attempt, one signature per secret.

    Raises ValueError for an id that cannot be signed.
    """
    if _ID.fullmatch(message_id) is None:
        raise ValueError("the id of a message has letters, digits, '_' and '-' only")
    timestamp = str(sent_at.epoch_ns // NANOS_PER_SECOND)
    return {
        ID_HEADER: message_id,
        TIMESTAMP_HEADER: timestamp,
        SIGNATURE_HEADER: " ".join(_signature(message_id, timestamp, body, secret) for secret in secrets),
    }


def verify(headers: Mapping[str, str], body: bytes, *, secrets: Sequence[bytes], now: Instant) -> str:
    """Check a received message and return its id; `headers` has lower-case names.

    Raises InvalidRequest for missing or malformed headers, Unauthenticated for a wrong signature or a timestamp further
    than `TOLERANCE_S` from `now`.
    """
    message_id = _matching(headers, ID_HEADER, _ID)
    timestamp = _matching(headers, TIMESTAMP_HEADER, _TIMESTAMP)
    if abs(int(timestamp) - now.epoch_ns // NANOS_PER_SECOND) > TOLERANCE_S:
        raise Unauthenticated("the message is too old, or from the future", hint="compare the clocks of both sides")
    given = headers.get(SIGNATURE_HEADER, "").split()[:SIGNATURES_MAX]
    expected = [_signature(message_id, timestamp, body, secret).encode() for secret in secrets]
    # Every pair is compared, in constant time each, so that timing says nothing about a signature.
    fits = [hmac.compare_digest(one.encode(), other) for one in given for other in expected]
    if not any(fits):
        raise Unauthenticated("no signature of the message fits")
    return message_id


def _signature(message_id: str, timestamp: str, body: bytes, secret: bytes) -> str:
    digest = hmac.digest(secret, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"{_SCHEME},{base64.b64encode(digest).decode('ascii')}"


def _matching(headers: Mapping[str, str], name: str, form: re.Pattern[str]) -> str:
    value = headers.get(name, "")
    if form.fullmatch(value) is None:
        raise InvalidRequest("a webhook header is missing or malformed", place=Place(field=name))
    return value
