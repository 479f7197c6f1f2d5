"""The text of a sign-in that is under way, as a cookie carries it.

Owns payload and MAC: base64url of JSON, a full stop, base64url of HMAC-SHA-256 over a label and the former. Invariants: only a text that
was sealed under the same key is read, and it has no other form; it fits a cookie. It is not encrypted: the browser may see what belongs
to its own sign-in. Not here: how long it counts (`ports.people.identity_provider`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

from odfabric.errors import InvalidRequest, Place
from odfabric.model.instant import Instant
from odfabric.model.people.sign_in import PendingSignIn

KEY_BYTES_MIN = 32
TEXT_CHARACTERS_MAX = 3800
"""Browsers drop cookies over 4096 bytes, name and attributes included."""

_LABEL = b"odfabric pending sign-in 1\0"


def seal(pending: PendingSignIn, key: bytes) -> str:
    """The text for a cookie.

    Raises InvalidRequest if redirect URI and context are too long for one, ValueError for a short key.
    """
    members = [
        pending.provider,
        pending.redirect_uri,
        pending.begun_at.epoch_ns,
        pending.state,
        pending.nonce,
        pending.verifier,
        pending.context,
    ]
    payload = _to_text(json.dumps(members, separators=(",", ":")).encode("ascii"))
    text = f"{payload}.{_mac(payload, key)}"
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidRequest(
            f"the place to go to after signing in is too long: {len(pending.context)} characters",
            place=Place(field="context"),
            hint="give a shorter one",
        )
    return text


def unseal(text: str, key: bytes) -> PendingSignIn:
    """The sign-in of a text that `seal` made under this key.

    Raises InvalidRequest, ValueError for a short key.
    """
    payload, _, mac = text.partition(".")
    known = _mac(payload, key) if len(text) <= TEXT_CHARACTERS_MAX and text.isascii() else ""
    if not known or not hmac.compare_digest(mac, known):
        raise InvalidRequest(
            "this browser has not begun to sign in, or its cookie was changed",
            hint="begin to sign in again, with cookies allowed, in one browser from beginning to end",
        )
    data = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    provider, redirect_uri, begun_ns, state, nonce, verifier, context = json.loads(data)
    return PendingSignIn(
        provider=provider,
        redirect_uri=redirect_uri,
        begun_at=Instant(begun_ns),
        state=state,
        nonce=nonce,
        verifier=verifier,
        context=context,
    )


def _mac(payload: str, key: bytes) -> str:
    if len(key) < KEY_BYTES_MIN:
        raise ValueError(f"a key has at least {KEY_BYTES_MIN} bytes")
    return _to_text(hmac.digest(key, _LABEL + payload.encode("ascii"), hashlib.sha256))


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
