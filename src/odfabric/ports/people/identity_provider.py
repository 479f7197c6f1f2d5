"""Sign-in at OpenID Connect providers that the operator named.

Authorization code with PKCE, state and nonce.

The caller keeps the PendingSignIn in a cookie (`formats.secrets.pending_sign_in`) between `begin` and `finish`, and deletes it with the answer.
It gives each provider a redirect URI of its own, so that the answer of one is never taken for that of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from odfabric.model.people.sign_in import PendingSignIn, VerifiedIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityProviderInfo:
    """What a page of sign-in shows of a provider.

    `allow_sign_up`: somebody who has no account may make one by it.
    """

    name: str
    label: str
    allow_sign_up: bool


class IdentityProviders(Protocol):
    """Waits for the network: never call it on an event loop.

    Both methods raise NotFound for a provider that is not configured, and Determinate while it is away, answers nonsense or does not
    know this node: nobody was signed in, and the same may work later.
    """

    def providers(self) -> Sequence[IdentityProviderInfo]:
        """Those that are configured, by name."""

    def begin(self, provider: str, redirect_uri: str, *, context: str = "") -> tuple[str, PendingSignIn]:
        """Where to send the browser, and what to remember of it.

        Every call has a state, nonce and verifier of its own.
        """

    def finish(self, pending: PendingSignIn, parameters: Mapping[str, str]) -> VerifiedIdentity:
        """Who has signed in, by the parameters with which the browser came back.

        A code works once. Raises WrongCredentials if the answer does not belong to `pending`, took too long, was refused by the person
        or the provider, or has an ID token that is not valid for this sign-in; AccessDenied for an address of a domain that may not;
        InvalidRequest for parameters that no provider sends.
        """
