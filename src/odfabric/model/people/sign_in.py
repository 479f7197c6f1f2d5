"""OpenID Connect sign-in: the state kept meanwhile, and the resulting identity.

Owns the values only. Not here: the text in a cookie (`formats.secrets.pending_sign_in`), who is let in (`domain.people.sign_in`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSignIn:
    """Browser state from leaving for the provider until the return.

    So that the answer can be recognised as its own.

    `state` binds the answer to this browser, `nonce` the ID token to this sign-in, `verifier` the code to the one who asked for it (PKCE).
    `context` is the caller's: where to go afterwards, which invitation is used.
    """

    provider: str
    redirect_uri: str
    begun_at: Instant
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedIdentity:
    """Who a provider says somebody is.

    Only `issuer` and `subject` together identify: an e-mail address may change its owner.

    Texts are those of the provider, without control characters and of bounded length; nobody has checked what they say.
    `email_verified` is the provider's word that the address belongs to the person.
    """

    issuer: str
    subject: str
    email: str | None = None
    email_verified: bool = False
    name: str | None = None
    preferred_username: str | None = None
