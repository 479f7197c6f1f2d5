"""Signing in at OpenID Connect providers: authorization code with PKCE.

Owns the two steps and what binds them: state, nonce, verifier, time, issuer. Not here: requests (`oidc_client`), ID tokens (`id_token`),
cookies (`formats.secrets.pending_sign_in`). Source: OpenID Connect Core 1.0, section 3.1; RFC 7636; RFC 9207; RFC 9700.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ssl import SSLContext
from time import monotonic
from urllib.parse import urlencode

from odfabric.adapters.http.egress import Egress, EgressLimits
from odfabric.adapters.http.id_token import Expected, UnknownKey, verified_claims
from odfabric.adapters.http.oidc_client import Metadata, OidcClient, OidcLimits, OidcProvider, error_code, issuer_url
from odfabric.domain.people.sign_in import check_domain
from odfabric.errors import Determinate, InvalidRequest, NotFound, Place, WrongCredentials
from odfabric.model.instant import NANOS_PER_SECOND
from odfabric.model.people.sign_in import PendingSignIn, VerifiedIdentity
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.people.identity_provider import IdentityProviderInfo

CODE_CHARACTERS_MAX = 4096
NAME_CHARACTERS_MAX = 200
EMAIL_CHARACTERS_MAX = 254

_SECRET_BYTES = 32
_AGAIN = "begin to sign in again, in one browser from beginning to end"
_BY_PERSON = frozenset(
    {"access_denied", "account_selection_required", "consent_required", "interaction_required", "login_required"}
)


class OidcIdentityProviders:
    """An IdentityProviders. Safe for use by many threads; close it when done."""

    def __init__(
        self,
        providers: Sequence[OidcProvider],
        *,
        clock: Clock,
        entropy: Entropy,
        limits: OidcLimits | None = None,
        egress_limits: EgressLimits | None = None,
        egress_allow: Sequence[str] = (),
        ssl_context: SSLContext | None = None,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        """`egress_allow` are the exceptions for all requests of the node.

        `ssl_context` trusts other authorities than the usual ones.

        Raises InvalidRequest for an issuer that cannot be one.
        """
        self._clock = clock
        self._entropy = entropy
        self._limits = limits or OidcLimits()
        # One guarded client each: an issuer in the inner network opens its own place, and for its own provider only. No connection
        # is kept, because one that its server has just closed would fail the exchange of a code, which is not tried twice.
        quick = replace(
            egress_limits or EgressLimits(),
            total_s_max=self._limits.request_s_max,
            answer_s_max=self._limits.request_s_max,
            redirects_max=0,
            idle_connections_max=0,
        )
        self._clients: dict[str, OidcClient] = {}
        for provider in providers:
            url = issuer_url(provider.issuer)
            place = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
            self._clients[provider.name] = OidcClient(
                replace(provider, label=provider.label or provider.name),
                Egress(limits=quick, allow=[*egress_allow, place], ssl_context=ssl_context),
                self._limits,
                seconds=seconds,
            )

    def close(self) -> None:
        """Close connections."""
        for client in self._clients.values():
            client.close()

    def providers(self) -> Sequence[IdentityProviderInfo]:
        """See the port."""
        found = (client.provider for _, client in sorted(self._clients.items()))
        return [
            IdentityProviderInfo(name=each.name, label=each.label, allow_sign_up=each.allow_sign_up) for each in found
        ]

    def begin(self, provider: str, redirect_uri: str, *, context: str = "") -> tuple[str, PendingSignIn]:
        """See the port."""
        client = self._client(provider)
        endpoint = client.metadata().authorization_endpoint
        pending = PendingSignIn(
            provider=provider,
            redirect_uri=redirect_uri,
            begun_at=self._clock.now(),
            state=self._secret(),
            nonce=self._secret(),
            verifier=self._secret(),
            context=context,
        )
        asked = {
            "response_type": "code",
            "client_id": client.provider.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *client.provider.scopes))),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": _base64url(hashlib.sha256(pending.verifier.encode("ascii")).digest()),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}", pending

    def finish(self, pending: PendingSignIn, parameters: Mapping[str, str]) -> VerifiedIdentity:
        """See the port."""
        client = self._client(pending.provider)
        now = self._clock.now()
        if now.epoch_ns - pending.begun_at.epoch_ns > self._limits.sign_in_s_max * NANOS_PER_SECOND:
            raise WrongCredentials("signing in took too long", hint=_AGAIN)
        code = _code(client, client.metadata(), pending, parameters)
        tokens = client.redeem(code, verifier=pending.verifier, redirect_uri=pending.redirect_uri)
        expected = Expected(
            issuer=client.provider.issuer,
            client_id=client.provider.client_id,
            nonce=pending.nonce,
            algorithms=client.provider.algorithms,
            now_s=now.epoch_ns // NANOS_PER_SECOND,
            leeway_s=self._limits.clock_leeway_s,
        )
        claims = _claims(client, tokens.id_token, expected)
        if claims.get("email") is None and "email" in client.provider.scopes and tokens.access_token is not None:
            claims = _completed(client, claims, tokens.access_token)
        identity = _identity(client.provider, claims)
        check_domain(identity, client.provider.allowed_domains)
        return identity

    def _client(self, name: str) -> OidcClient:
        client = self._clients.get(name)
        if client is None:
            raise NotFound("identity provider", name, hint="choose one that the sign-in page shows")
        return client

    def _secret(self) -> str:
        return _base64url(self._entropy.random_bytes(_SECRET_BYTES))


def _code(client: OidcClient, metadata: Metadata, pending: PendingSignIn, parameters: Mapping[str, str]) -> str:
    """The code of an answer that belongs to the sign-in.

    Whose answer it is comes before what it says.
    """
    if not _equal(parameters.get("state", ""), pending.state):
        raise WrongCredentials("the answer does not belong to the sign-in that this browser began", hint=_AGAIN)
    issuer = parameters.get("iss")
    if (issuer is None and metadata.names_issuer) or (issuer is not None and issuer != client.provider.issuer):
        raise WrongCredentials("the answer comes from another provider than was asked", hint=_AGAIN)
    if "error" in parameters:
        raise _refused(client, error_code(parameters["error"]))
    code = parameters.get("code", "")
    if not 0 < len(code) <= CODE_CHARACTERS_MAX or not code.isascii() or not code.isprintable():
        raise InvalidRequest("the answer has neither a code nor an error", place=Place(field="code"), hint=_AGAIN)
    return code


def _refused(client: OidcClient, reason: str) -> WrongCredentials | Determinate:
    label = client.provider.label
    if reason in _BY_PERSON:
        return WrongCredentials(f"signing in was refused at {label}: {reason}", hint="begin again and agree there")
    return Determinate(
        f"{label} cannot sign anybody in for this node: {reason}",
        hint="try again in a while; the operator of this node has to compare client_id, scopes and redirect URI with those there",
    )


def _claims(client: OidcClient, id_token: str, expected: Expected) -> dict[str, object]:
    try:
        return verified_claims(id_token, client.keys(), expected)
    except UnknownKey:
        pass  # a provider that changes its keys signs with one that we have not seen
    try:
        return verified_claims(id_token, client.keys(fresh=True), expected)
    except UnknownKey:
        label = client.provider.label
        raise WrongCredentials(f"the ID token is signed by a key that {label} does not publish", hint=_AGAIN) from None


def _completed(client: OidcClient, claims: dict[str, object], access_token: str) -> dict[str, object]:
    """With what the token does not say.

    Whether an address is verified is said by the one who says the address.
    """
    more = client.userinfo(access_token)
    if more and more.get("sub") != claims["sub"]:
        raise WrongCredentials(f"{client.provider.label} gives claims of somebody else", hint=_AGAIN)
    return {**more, **{name: value for name, value in claims.items() if name not in ("email", "email_verified")}}


def _identity(provider: OidcProvider, claims: Mapping[str, object]) -> VerifiedIdentity:
    email = _text(claims.get("email"), EMAIL_CHARACTERS_MAX)
    if email is not None and (email.count("@") != 1 or email.strip("@") != email or " " in email):
        email = None
    verified = claims.get("email_verified")
    return VerifiedIdentity(
        issuer=provider.issuer,
        subject=str(claims["sub"]),
        email=email,
        # Some providers write booleans as text.
        email_verified=email is not None and (verified is True or verified == "true"),
        name=_text(claims.get("name"), NAME_CHARACTERS_MAX),
        preferred_username=_text(claims.get("preferred_username"), NAME_CHARACTERS_MAX),
    )


def _text(value: object, characters_max: int) -> str | None:
    """A claim as text that can be stored and shown.

    None for what is too long, empty or no text.
    """
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value.strip()) <= characters_max:
        return None
    return value.strip()


def _equal(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode("utf-8", "replace"))


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
