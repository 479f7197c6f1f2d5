"""A node that signs people in at fake OpenID Connect providers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odfabric.adapters.http.oidc import OidcIdentityProviders
from odfabric.adapters.http.oidc_client import OidcLimits, OidcProvider
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.people.sign_in import PendingSignIn, VerifiedIdentity
from tests.support.sign_in.openid_provider import CLIENT_ID, NOW_S, FakeProvider

REDIRECT_URI = "https://node.example/sign-in/main"


class Seconds:
    """A clock for what is remembered."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A node with providers p0, p1, ...; p0 is the default."""

    def __init__(self, providers: list[FakeProvider], **given: Any) -> None:
        self.fakes = providers
        self.others: list[Node] = []
        self.clock = SettableClock(Instant(NOW_S * NANOS_PER_SECOND))
        self.seconds = Seconds()
        limits = given.pop("limits", OidcLimits())
        options = {name: given.pop(name) for name in ("egress_allow", "ssl_context") if name in given}
        configured = [
            OidcProvider(
                **{
                    "name": f"p{number}",
                    "issuer": fake.issuer,
                    "client_id": CLIENT_ID,
                    "client_secret": fake.client_secret,
                    "label": f"Provider {number}",
                    **given,
                }
            )
            for number, fake in enumerate(providers)
        ]
        self.identity_providers = OidcIdentityProviders(
            configured, clock=self.clock, entropy=SystemEntropy(), limits=limits, seconds=self.seconds, **options
        )

    def again(self, **given: Any) -> Node:
        """Another node of the same providers."""
        self.others.append(Node(self.fakes, **given))
        return self.others[-1]

    def close(self) -> None:
        self.identity_providers.close()
        for other in self.others:
            other.close()

    def begin(self, name: str = "p0") -> tuple[str, PendingSignIn]:
        return self.identity_providers.begin(name, REDIRECT_URI)

    def sign_in(self, subject: str = "alice", **parameters: str) -> VerifiedIdentity:
        """From beginning to end."""
        url, pending = self.begin()
        return self.identity_providers.finish(pending, self.fakes[0].sign_in(url, subject, **parameters))


Connect = Callable[..., Node]
