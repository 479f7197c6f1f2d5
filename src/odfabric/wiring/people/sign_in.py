"""What sign-in needs, from settings: passwords, rate limits, providers."""

from __future__ import annotations

from contextlib import ExitStack

from odfabric.adapters.argon2.passwords import Argon2Passwords
from odfabric.adapters.http.egress import EgressLimits
from odfabric.adapters.http.oidc import OidcIdentityProviders
from odfabric.adapters.http.oidc_client import OidcLimits, OidcProvider
from odfabric.adapters.memory.people.rate_limits import MemoryRateLimits
from odfabric.domain.people.passwords import PasswordRules
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.people.rate_limits import RateLimits
from odfabric.settings import Settings


def password_rules(settings: Settings) -> PasswordRules:
    """Limits of passwords."""
    return PasswordRules(characters_min=settings.password_characters_min, bytes_max=settings.password_bytes_max)


def open_passwords(settings: Settings) -> Argon2Passwords:
    """Hashing of passwords."""
    return Argon2Passwords(
        memory_mib=settings.password_memory_mib,
        passes=settings.password_passes,
        hashes_at_once_max=settings.password_hashes_at_once_max,
        hashes_waiting_max=settings.password_hashes_waiting_max,
        bytes_max=settings.password_bytes_max,
    )


def open_rate_limits(settings: Settings, *, secret: bytes, closing: ExitStack) -> RateLimits:
    """Counting in Redis where there is one, else in this process.

    `secret` is the same in all processes of the node.
    """
    local = MemoryRateLimits(keys_max=settings.rate_limit_keys_max)
    if settings.redis_url is None:
        return local
    from odfabric.adapters.redis.rate_limits import (
        RedisRateLimits,
    )  # no command without Redis waits for its client to load

    shared = RedisRateLimits(settings.redis_url, name=settings.redis_name, secret=secret, local=local)
    closing.callback(shared.close)
    return shared


def open_identity_providers(
    settings: Settings, *, egress: EgressLimits, clock: Clock, entropy: Entropy, closing: ExitStack
) -> OidcIdentityProviders:
    """The OpenID Connect providers; `egress` are the limits of all requests.

    Raises InvalidRequest for an issuer that cannot be one.
    """
    opened = OidcIdentityProviders(
        oidc_providers(settings),
        clock=clock,
        entropy=entropy,
        limits=oidc_limits(settings),
        egress_limits=egress,
        egress_allow=settings.egress_allow,
    )
    closing.callback(opened.close)
    return opened


def oidc_providers(settings: Settings) -> list[OidcProvider]:
    """The providers that the operator named."""
    return [
        OidcProvider(
            name=name,
            issuer=each.issuer,
            client_id=each.client_id,
            client_secret=each.client_secret.get_secret_value() if each.client_secret else None,
            scopes=each.scopes,
            label=each.label,
            allow_sign_up=each.allow_sign_up,
            allowed_domains=each.allowed_domains,
            algorithms=each.algorithms,
        )
        for name, each in settings.oidc_providers.items()
    ]


def oidc_limits(settings: Settings) -> OidcLimits:
    """Limits of requests to them."""
    return OidcLimits(
        request_s_max=settings.oidc_request_s_max,
        answer_bytes_max=settings.oidc_answer_bytes_max,
        metadata_s=settings.oidc_metadata_s,
        clock_leeway_s=settings.oidc_clock_leeway_s,
        sign_in_s_max=settings.oidc_sign_in_s_max,
    )
