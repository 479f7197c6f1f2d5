"""Identity providers in this process only, and the person who signs in there."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

from odfabric.domain.people.sign_in import check_domain
from odfabric.errors import InvalidRequest, NotFound, Place, WrongCredentials
from odfabric.model.instant import NANOS_PER_SECOND
from odfabric.model.people.sign_in import PendingSignIn, VerifiedIdentity
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.people.identity_provider import IdentityProviderInfo

_AGAIN = "begin to sign in again"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryIdentityProvider:
    """One of them. Its issuer is `https://NAME.test`."""

    name: str
    label: str = ""
    allow_sign_up: bool = False
    allowed_domains: tuple[str, ...] = ()

    @property
    def issuer(self) -> str:
        """As it names itself."""
        return f"https://{self.name}.test"


class MemoryIdentityProviders:
    """An IdentityProviders.

    `agree` and `refuse` are what a person does in the browser.
    """

    def __init__(
        self,
        providers: Sequence[MemoryIdentityProvider],
        *,
        clock: Clock,
        entropy: Entropy,
        sign_in_s_max: float = 600.0,
    ) -> None:
        self._providers = {each.name: each for each in providers}
        self._clock = clock
        self._entropy = entropy
        self._sign_in_s_max = sign_in_s_max
        self._codes: dict[str, tuple[str, VerifiedIdentity]] = {}

    def providers(self) -> Sequence[IdentityProviderInfo]:
        """See the port."""
        return [
            IdentityProviderInfo(name=each.name, label=each.label or each.name, allow_sign_up=each.allow_sign_up)
            for _, each in sorted(self._providers.items())
        ]

    def begin(self, provider: str, redirect_uri: str, *, context: str = "") -> tuple[str, PendingSignIn]:
        """See the port."""
        pending = PendingSignIn(
            provider=provider,
            redirect_uri=redirect_uri,
            begun_at=self._clock.now(),
            state=self._entropy.random_bytes(16).hex(),
            nonce=self._entropy.random_bytes(16).hex(),
            verifier=self._entropy.random_bytes(32).hex(),
            context=context,
        )
        asked = {"state": pending.state, "nonce": pending.nonce, "redirect_uri": redirect_uri}
        return f"{self._provider(provider).issuer}/authorize?{urlencode(asked)}", pending

    def agree(self, url: str, subject: str, **claims: str | bool | None) -> dict[str, str]:
        """Sign in where `begin` has sent the browser.

        The parameters with which it comes back. `claims` are those of VerifiedIdentity.
        """
        asked = parse_qs(urlsplit(url).query)
        issuer = url.partition("/authorize")[0]
        code = self._entropy.random_bytes(16).hex()
        identity = VerifiedIdentity(issuer=issuer, subject=subject, **claims)  # type: ignore[arg-type]
        self._codes[code] = (asked["nonce"][0], identity)
        return {"code": code, "state": asked["state"][0]}

    def refuse(self, url: str) -> dict[str, str]:
        """The same by somebody who does not agree."""
        return {"error": "access_denied", "state": parse_qs(urlsplit(url).query)["state"][0]}

    def finish(self, pending: PendingSignIn, parameters: Mapping[str, str]) -> VerifiedIdentity:
        """See the port."""
        provider = self._provider(pending.provider)
        if self._clock.now().epoch_ns - pending.begun_at.epoch_ns > self._sign_in_s_max * NANOS_PER_SECOND:
            raise WrongCredentials("signing in took too long", hint=_AGAIN)
        state = parameters.get("state", "").encode("utf-8", "replace")
        if not hmac.compare_digest(state, pending.state.encode()):
            raise WrongCredentials("the answer does not belong to the sign-in that this browser began", hint=_AGAIN)
        if "error" in parameters:
            raise WrongCredentials("signing in was refused", hint=_AGAIN)
        if not parameters.get("code"):
            raise InvalidRequest("the answer has neither a code nor an error", place=Place(field="code"), hint=_AGAIN)
        nonce, identity = self._codes.pop(parameters["code"], ("", None))
        if identity is None or nonce != pending.nonce or identity.issuer != provider.issuer:
            raise WrongCredentials("the provider does not take this answer", hint=_AGAIN)
        check_domain(identity, provider.allowed_domains)
        return identity

    def _provider(self, name: str) -> MemoryIdentityProvider:
        provider = self._providers.get(name)
        if provider is None:
            raise NotFound("identity provider", name, hint="choose one that the sign-in page shows")
        return provider
