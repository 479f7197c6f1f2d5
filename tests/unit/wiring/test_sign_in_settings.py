"""Sign-in settings reach the adapters; errors are placed."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict, fields
from typing import get_args

import pytest
from pydantic import SecretStr, ValidationError

from odfabric.adapters.http.egress import EgressLimits
from odfabric.adapters.http.id_token import ALGORITHMS, USUAL_ALGORITHMS
from odfabric.adapters.http.oidc_client import OidcLimits, OidcProvider
from odfabric.adapters.memory.people.rate_limits import MemoryRateLimits
from odfabric.adapters.redis.rate_limits import RedisRateLimits
from odfabric.adapters.system.clock import SystemClock, SystemEntropy
from odfabric.domain.people.passwords import PasswordRules
from odfabric.errors import InvalidRequest
from odfabric.ports.people.identity_provider import IdentityProviders
from odfabric.settings import IdTokenAlgorithm, Settings, read_settings
from odfabric.wiring.people.sign_in import (
    oidc_limits,
    oidc_providers,
    open_identity_providers,
    open_passwords,
    open_rate_limits,
    password_rules,
)

LEAST = {"issuer": "https://accounts.example", "client_id": "node"}
WHOLE = {
    **LEAST,
    "client_secret": "a secret",
    "scopes": ["openid", "email"],
    "label": "Accounts",
    "allow_sign_up": True,
    "allowed_domains": ["work.example"],
    "algorithms": ["ES384"],
}


def with_provider(provider: dict[str, object], name: str = "main") -> Settings:
    return read_settings(public_url="https://node.example", oidc_providers={name: provider})


def opened_providers(settings: Settings, closing: ExitStack) -> IdentityProviders:
    return open_identity_providers(
        settings, egress=EgressLimits(), clock=SystemClock(), entropy=SystemEntropy(), closing=closing
    )


def test_defaults_of_adapters_are_those_of_settings() -> None:
    assert password_rules(Settings()) == PasswordRules()
    assert oidc_limits(Settings()) == OidcLimits()
    assert oidc_providers(with_provider(LEAST)) == [
        OidcProvider(name="main", issuer="https://accounts.example", client_id="node")
    ]
    assert get_args(IdTokenAlgorithm) == ALGORITHMS
    assert OidcProvider(name="", issuer="", client_id="").algorithms == USUAL_ALGORITHMS


def test_every_limit_reaches_its_adapter() -> None:
    others = {each.name: getattr(OidcLimits(), each.name) + 1 for each in fields(OidcLimits)}
    changed = Settings.model_validate({f"oidc_{name}": value for name, value in others.items()})
    assert asdict(oidc_limits(changed)) == others
    rules = password_rules(Settings(password_characters_min=20, password_bytes_max=200))
    assert rules == PasswordRules(characters_min=20, bytes_max=200)
    passwords = open_passwords(Settings(password_memory_mib=19, password_passes=2))
    assert "$m=19456,t=2,p=1$" in passwords.hash("any password")


def test_a_provider_reaches_its_adapter() -> None:
    (provider,) = oidc_providers(with_provider(WHOLE))
    assert asdict(provider) == {
        "name": "main",
        **{name: tuple(value) if isinstance(value, list) else value for name, value in WHOLE.items()},
    }


def test_providers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_PUBLIC_URL", "https://node.example")
    monkeypatch.setenv("ODF_OIDC_PROVIDERS", json.dumps({"main": WHOLE}))
    settings = read_settings()
    assert settings.oidc_providers["main"].client_secret == SecretStr("a secret")
    assert "a secret" not in repr(settings)
    with ExitStack() as closing:
        opened = opened_providers(settings, closing)
        assert [(each.name, each.label) for each in opened.providers()] == [("main", "Accounts")]


def test_counting_is_shared_where_redis_is() -> None:
    with ExitStack() as closing:
        alone = open_rate_limits(Settings(), secret=b"x", closing=closing)
        shared = open_rate_limits(Settings(redis_url="redis://127.0.0.1:1/0"), secret=b"x", closing=closing)
    assert isinstance(alone, MemoryRateLimits)
    assert isinstance(shared, RedisRateLimits)


@pytest.mark.parametrize(
    ("setting", "least"),
    [
        ("password_characters_min", 8),
        ("password_bytes_max", 64),
        ("password_memory_mib", 19),
        ("password_passes", 2),
        ("password_hashes_at_once_max", 1),
        ("password_hashes_waiting_max", 0),
        ("rate_limit_keys_max", 1),
        ("oidc_answer_bytes_max", 1024),
        ("oidc_clock_leeway_s", 0),
    ],
)
def test_limits_are_not_lower_than_is_safe(setting: str, least: int) -> None:
    assert getattr(Settings.model_validate({setting: least}), setting) == least
    with pytest.raises(ValidationError, match=setting):
        Settings.model_validate({setting: least - 1})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"issuer": "accounts.example"}, "main.issuer"),
        ({"issuer": "https://a.example/?x"}, "main.issuer"),
        ({"issuer": None}, "main.issuer"),
        ({"client_id": ""}, "main.client_id"),
        ({"clientsecret": "hidden-value"}, "main.clientsecret"),
        ({"algorithms": []}, "main.algorithms"),
        ({"algorithms": ["HS256"]}, "main.algorithms"),
        ({"algorithms": ["none"]}, "main.algorithms"),
        ({"scopes": ["openid email"]}, "main.scopes"),
        ({"allowed_domains": ["@work.example"]}, "main.allowed_domains"),
        ({"allow_sign_up": "perhaps"}, "main.allow_sign_up"),
    ],
)
def test_what_is_wrong_with_a_provider_is_told(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        with_provider({**WHOLE, **changes})
    assert said in refused.value.message
    assert refused.value.place.field == "ODF_OIDC_PROVIDERS"
    assert "hidden-value" not in str(refused.value)


@pytest.mark.parametrize("name", ["", "Main", "a b", "../x", "x" * 32])
def test_names_of_providers_fit_an_address(name: str) -> None:
    with pytest.raises(InvalidRequest):
        with_provider(LEAST, name)


def test_providers_need_an_address_to_come_back_to() -> None:
    with pytest.raises(InvalidRequest, match="ODF_PUBLIC_URL"):
        read_settings(oidc_providers={"main": LEAST})


def test_an_issuer_without_tls_is_refused_when_the_node_starts() -> None:
    settings = with_provider({**LEAST, "issuer": "http://accounts.example"})
    with ExitStack() as closing, pytest.raises(InvalidRequest, match="TLS") as refused:
        opened_providers(settings, closing)
    assert refused.value.place.field == "ODF_OIDC_PROVIDERS"
