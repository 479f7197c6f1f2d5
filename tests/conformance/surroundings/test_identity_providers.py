"""Identity providers: memory and a real OpenID Connect one keep one contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from odfabric.adapters.http.oidc import OidcIdentityProviders
from odfabric.adapters.http.oidc_client import OidcLimits, OidcProvider
from odfabric.adapters.memory.node.clock import SeededEntropy, SettableClock
from odfabric.adapters.memory.people.identity_providers import MemoryIdentityProvider, MemoryIdentityProviders
from odfabric.adapters.system.clock import SystemClock, SystemEntropy
from odfabric.errors import Determinate
from odfabric.model.instant import Instant
from odfabric.ports.people.identity_provider import IdentityProviders
from odfabric.testing.conformance.people.identity_providers import (
    REDIRECT_URI,
    SIGN_IN_S_MAX,
    IdentityProvidersContract,
    Site,
)
from tests.support.servers.oidc import OidcServer, oidc_server
from tests.support.waiting import wait_until

SECRET = "a secret: with%signs+"


class TestMemoryIdentityProviders(IdentityProvidersContract):
    @pytest.fixture
    def site(self) -> Site:
        clock = SettableClock(Instant.parse("2026-01-01T00:00:00Z"))
        main = MemoryIdentityProvider(name="main", label="Main", allow_sign_up=True)
        work = MemoryIdentityProvider(name="work", allowed_domains=("work.example",))
        found = MemoryIdentityProviders(
            [work, main], clock=clock, entropy=SeededEntropy(1), sign_in_s_max=SIGN_IN_S_MAX
        )

        @dataclass
        class MemorySite:
            identity_providers: IdentityProviders
            clock: SettableClock

            def agree(self, url: str, subject: str, email: str) -> dict[str, str]:
                return found.agree(url, subject, email=email, email_verified=True)

            def refuse(self, url: str) -> dict[str, str]:
                return found.refuse(url)

        return MemorySite(found, clock)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[OidcServer, OidcServer]]:
    with oidc_server() as main, oidc_server() as work:
        yield main, work


class TestOidcIdentityProviders(IdentityProvidersContract):
    @pytest.fixture
    def site(self, servers: tuple[OidcServer, OidcServer]) -> Iterator[Site]:
        main, work = servers
        clock = SettableClock(SystemClock().now())
        found = OidcIdentityProviders(
            [
                OidcProvider(
                    name="work",
                    issuer=work.issuer,
                    client_id="node",
                    client_secret=SECRET,
                    allowed_domains=("work.example",),
                ),
                OidcProvider(
                    name="main",
                    issuer=main.issuer,
                    client_id="node",
                    client_secret=SECRET,
                    label="Main",
                    allow_sign_up=True,
                ),
            ],
            clock=clock,
            entropy=SystemEntropy(),
            limits=OidcLimits(sign_in_s_max=SIGN_IN_S_MAX),
        )

        @dataclass
        class OidcSite:
            identity_providers: IdentityProviders
            clock: SettableClock

            def agree(self, url: str, subject: str, email: str) -> dict[str, str]:
                server = next(server for server in servers if url.startswith(server.issuer))
                server.set_user(subject, {"email": email, "email_verified": True})
                return server.sign_in(url, subject)

            def refuse(self, url: str) -> dict[str, str]:
                return next(server for server in servers if url.startswith(server.issuer)).deny(url)

        yield OidcSite(found, clock)
        found.close()


def test_a_provider_that_is_away_is_told_as_such_and_found_again() -> None:
    with oidc_server() as server:
        provider = OidcProvider(name="main", issuer=server.issuer, client_id="node", client_secret=SECRET, label="Main")
        found = OidcIdentityProviders([provider], clock=SystemClock(), entropy=SystemEntropy())
        server.process.kill()
        with pytest.raises(Determinate, match="signing in by Main is not possible"):
            found.begin("main", REDIRECT_URI)
        server.process.start()

        def is_back() -> bool:
            url, pending = found.begin("main", REDIRECT_URI)
            return found.finish(pending, server.sign_in(url, "alice")).subject == "alice"

        wait_until(is_back, what="signing in after the provider came back")
        found.close()
