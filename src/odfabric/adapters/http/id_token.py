"""Verifying ID tokens of OpenID Connect providers, by joserfc.

Owns which keys and algorithms count, and the claims that bind a token to one sign-in. Invariants: the algorithm is one of those that were
configured, never what a token asks for, and all of them are asymmetric; a key is taken from the provider's set only, whatever else
the header names; no message repeats a token. Source: OpenID Connect Core 1.0, section 3.1.3.7; RFC 8725.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc import jwt
from joserfc.errors import ClaimError, InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet
from joserfc.jws import JWSRegistry

from odfabric.errors import WrongCredentials

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519"),
)
"""All that may be configured."""
USUAL_ALGORITHMS = ("RS256", "PS256", "ES256", "Ed25519")
KEY_TYPES = ("RSA", "EC", "OKP")
RSA_BITS_MIN = 2048
KEYS_MAX = 100
SUBJECT_CHARACTERS_MAX = 255

_UNREADABLE = (JoseError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What the library raises for keys and tokens that are not well formed."""


class UnknownKey(Exception):
    """The provider's keys, as they are known, do not have the one that a token names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a token must be for one sign-in."""

    issuer: str
    client_id: str
    nonce: str
    algorithms: Sequence[str]
    now_s: int
    leeway_s: int


def read_keys(document: dict[str, object]) -> KeySet:
    """The keys of a JWK set that may verify signatures; others are passed over.

    Raises ValueError if there is none.
    """
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ValueError("it is no set of keys")
    found = [key for each in listed[:KEYS_MAX] if (key := _read_key(each)) is not None]
    if not found:
        raise ValueError("it has no key that verifies signatures")
    return KeySet(found)


def verified_claims(token: str, keys: KeySet, expected: Expected) -> dict[str, object]:
    """The claims of an ID token that is valid for this sign-in.

    Raises UnknownKey, WrongCredentials.
    """
    if not set(expected.algorithms) <= set(ALGORITHMS) or not expected.algorithms:
        raise ValueError("algorithms are some of ALGORITHMS")
    # Members of a header that nobody knows are ignored, as RFC 7515 wants it; critical ones among them are not.
    registry = JWSRegistry(algorithms=tuple(expected.algorithms), strict_check_header=False)
    try:
        claims: dict[str, object] = jwt.decode(token, keys, registry=registry).claims
    except InvalidKeyIdError:
        raise UnknownKey from None
    except _UNREADABLE as error:
        raise _not_valid(_reason(error)) from None
    _check_claims(claims, expected)
    return claims


def _read_key(each: object) -> Key | None:
    # A symmetric key signs for anyone who verifies, a private one that is published for everybody.
    if not isinstance(each, dict) or each.get("kty") not in KEY_TYPES or each.get("use", "sig") != "sig" or "d" in each:
        return None
    try:
        # Looked at before the library does, which only warns of short keys.
        if each["kty"] == "RSA" and _bits(each["n"]) < RSA_BITS_MIN:
            return None
        return JWKRegistry.import_key(each)
    except _UNREADABLE:
        return None


def _bits(number: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4))).bit_length()


def _check_claims(claims: dict[str, object], expected: Expected) -> None:
    rules = jwt.JWTClaimsRegistry(
        now=expected.now_s,
        leeway=expected.leeway_s,
        iss={"essential": True, "value": expected.issuer},
        aud={"essential": True, "value": expected.client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )
    try:
        rules.validate(claims)
    except ClaimError as error:
        raise _not_valid(f"claim {error.claim}: {error.description}") from None
    party, audience = claims.get("azp"), claims["aud"]
    if party is not None and party != expected.client_id:
        raise _not_valid("claim azp: it was made for another client")
    if party is None and isinstance(audience, list) and len(audience) > 1:
        raise _not_valid("claim azp: it is missing, though the token has several audiences")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode("utf-8", "replace"), expected.nonce.encode()):
        raise _not_valid("claim nonce: it was made for another sign-in")
    if len(str(claims["sub"])) > SUBJECT_CHARACTERS_MAX or not str(claims["sub"]).isprintable():
        raise _not_valid("claim sub: it is too long or not printable")


def _reason(error: Exception) -> str:
    return error.error.replace("_", " ") if isinstance(error, JoseError) and error.error else "it is not well formed"


def _not_valid(reason: str) -> WrongCredentials:
    return WrongCredentials(
        f"the provider's ID token is not valid: {reason}",
        hint="begin to sign in again; if it happens again, tell the operator of this node",
    )
