"""OpenID Connect sign-in with honest, broken and hostile providers on loopback."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.http.oidc_client import OidcLimits, OidcProvider, issuer_url
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, WrongCredentials
from odfabric.model.people.sign_in import VerifiedIdentity
from tests.support.certificates import TestAuthority
from tests.support.loopback_http import LoopbackServer, Seen, reply
from tests.support.sign_in.openid_node import REDIRECT_URI, Connect, Node
from tests.support.sign_in.openid_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    FakeProvider,
    Route,
    ec_key,
    json_reply,
    rsa_key,
    signed,
)

DISCOVERY = "/.well-known/openid-configuration"
QUICK = OidcLimits(request_s_max=0.5, answer_bytes_max=20_000)
CUT_S_MAX = 5.0
"""Far above the limits in QUICK, far below what the hostile servers would take."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def connect(stack: ExitStack) -> Connect:
    """A node of some providers, which live as long as the test."""

    def connected(*providers: FakeProvider, **given: Any) -> Node:
        for provider in providers:
            stack.enter_context(provider.server.serving())
        node = Node(list(providers), **given)
        stack.callback(node.close)
        return node

    return connected


@pytest.fixture
def trap(stack: ExitStack) -> LoopbackServer:
    """A server in the inner network that nobody may reach."""
    return stack.enter_context(LoopbackServer(lambda seen: json_reply({"secret": "inner"})).serving())


# honest providers


def test_an_honest_provider_tells_who_somebody_is(connect: Connect) -> None:
    provider = FakeProvider(claims={"name": "Alice A.", "preferred_username": "alice"})
    who = connect(provider).sign_in()
    assert who == VerifiedIdentity(
        issuer=provider.issuer,
        subject="alice",
        email="alice@example.org",
        email_verified=True,
        name="Alice A.",
        preferred_username="alice",
    )
    assert provider.refusals == []


def test_the_browser_is_asked_for_what_binds_the_answer(connect: Connect) -> None:
    provider = FakeProvider(metadata={"authorization_endpoint": "https://login.example/a?tenant=1"})
    url, pending = connect(provider, scopes=("email", "groups")).begin()
    asked = parse_qs(urlsplit(url).query, strict_parsing=True)
    assert url.startswith("https://login.example/a?tenant=1&")
    assert asked.pop("code_challenge")[0] not in (pending.verifier, "")
    assert asked == {
        "tenant": ["1"],
        "response_type": ["code"],
        "client_id": [CLIENT_ID],
        "redirect_uri": [REDIRECT_URI],
        "scope": ["openid email groups"],
        "state": [pending.state],
        "nonce": [pending.nonce],
        "code_challenge_method": ["S256"],
    }


@pytest.mark.parametrize("in_body", [False, True])
def test_the_client_shows_its_secret_as_the_provider_wants_it(connect: Connect, in_body: bool) -> None:
    provider = FakeProvider(secret_in_body=in_body)
    assert connect(provider).sign_in().subject == "alice"
    assert (CLIENT_SECRET in provider.asked_for("/token")[0].body.decode()) is False


def test_a_client_without_a_secret_is_public(connect: Connect) -> None:
    assert connect(FakeProvider(client_secret=None)).sign_in().subject == "alice"


@pytest.mark.parametrize("path", ["", "/realms/one", "/realms/one/"])
def test_an_issuer_may_have_a_path(connect: Connect, path: str) -> None:
    """An issuer with a final slash is another issuer, with metadata in the same place."""
    assert connect(FakeProvider(path=path)).sign_in().issuer.endswith(path)


def test_keys_of_other_algorithms_count_if_they_are_configured(connect: Connect) -> None:
    provider = FakeProvider(keys=[ec_key()], sign=lambda claims: signed(claims, ec_key(), alg="ES256"))
    node = connect(provider)
    assert node.sign_in().subject == "alice"
    with pytest.raises(WrongCredentials, match="algorithm"):
        node.again(algorithms=("RS256", "PS256")).sign_in()


# what is remembered


def test_metadata_and_keys_are_remembered_for_their_time(connect: Connect) -> None:
    provider = FakeProvider()
    node = connect(provider)
    for now, fetched in ((0.0, 1), (3599.0, 1), (3600.0, 2), (7199.0, 2)):
        node.seconds.now = now
        node.sign_in()
        assert (len(provider.asked_for(DISCOVERY)), len(provider.asked_for("/jwks"))) == (fetched, fetched)


def test_a_new_key_is_fetched_once(connect: Connect) -> None:
    provider = FakeProvider()
    node = connect(provider)
    node.sign_in()
    provider.keys = [rsa_key(), rsa_key("rsa-2")]
    provider.sign = lambda claims: signed(claims, rsa_key("rsa-2"))
    for _ in range(3):
        assert node.sign_in().subject == "alice"
    assert len(provider.asked_for("/jwks")) == 2


def test_a_key_that_is_never_published_costs_one_request_a_sign_in(connect: Connect) -> None:
    provider = FakeProvider(sign=lambda claims: signed(claims, rsa_key("elsewhere")))
    node = connect(provider)
    for sign_ins in (1, 2, 3):
        with pytest.raises(WrongCredentials, match="does not publish"):
            node.sign_in()
        assert len(provider.asked_for("/jwks")) == 1 + sign_ins


def test_a_failure_is_not_remembered(connect: Connect) -> None:
    provider = FakeProvider(routes={DISCOVERY: lambda seen: reply(503)})
    node = connect(provider)
    with pytest.raises(Determinate, match="status 503"):
        node.begin()
    provider.routes.clear()
    assert node.sign_in().subject == "alice"


# discovery


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"issuer": "https://accounts.example"}, "another issuer"),
        ({"issuer": None}, "another issuer"),
        ({"issuer": ["x"]}, "another issuer"),
        ({"authorization_endpoint": None}, "no authorization_endpoint"),
        ({"token_endpoint": None}, "no token_endpoint"),
        ({"jwks_uri": None}, "no jwks_uri"),
        ({"jwks_uri": 7}, "no jwks_uri"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "refused"),
        ({"authorization_endpoint": "data:text/html,x"}, "refused"),
        ({"token_endpoint": "file:///etc/passwd"}, "refused"),
        ({"jwks_uri": "http://user:password@127.0.0.1/"}, "refused"),
        ({"jwks_uri": "http://169.254.169.254/latest/meta-data/"}, "not a public address"),
        ({"token_endpoint": "http://10.0.0.1/token"}, "not a public address"),
        ({"userinfo_endpoint": "http://[::1]/"}, "not a public address"),
        ({"userinfo_endpoint": None, "jwks_uri": "http://0x7f.1/"}, "refused"),
    ],
)
def test_metadata_that_are_wrong_sign_nobody_in(connect: Connect, changes: dict[str, object], said: str) -> None:
    with pytest.raises(Determinate, match=said) as refused:
        connect(FakeProvider(metadata=changes)).begin()
    assert "Provider 0" in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b'"text"', b"{", b"\xff\xfe", b"[" * 9_000 + b"]" * 9_000, b'{"issuer": 1e999}'],
)
@pytest.mark.parametrize("path", [DISCOVERY, "/jwks", "/token"])
def test_answers_that_are_no_objects_sign_nobody_in(connect: Connect, path: str, body: bytes) -> None:
    with pytest.raises(Determinate, match="not possible"):
        connect(FakeProvider(routes={path: lambda seen: reply(200, body)})).sign_in()


@pytest.mark.parametrize("path", [DISCOVERY, "/jwks", "/token"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(connect: Connect, trap: LoopbackServer, path: str, status: int) -> None:
    for location in (trap.url("/"), "/elsewhere"):
        provider = FakeProvider(routes={path: lambda seen, to=location: reply(status, b"{}", {"Location": to})})  # type: ignore[misc]
        with pytest.raises(Determinate):
            connect(provider, egress_allow=[trap.place]).sign_in()
        assert provider.asked_for("/elsewhere") == []
    assert trap.connections == 0


@pytest.mark.parametrize("path", [DISCOVERY, "/jwks", "/token"])
def test_answers_without_an_end_are_cut(connect: Connect, path: str) -> None:
    def endless(seen: Seen) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        yield from provider.server.every(b'{"x": "' + b"x" * 5_000, pause_s=0.0, count=100_000)

    provider = FakeProvider(routes={path: endless})
    begun = time.monotonic()
    with pytest.raises(Determinate):
        connect(provider, limits=QUICK).sign_in()
    assert time.monotonic() - begun < CUT_S_MAX


@pytest.mark.parametrize("path", [DISCOVERY, "/jwks", "/token"])
def test_answers_that_dawdle_are_cut(connect: Connect, path: str) -> None:
    def slow(seen: Seen) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        yield from provider.server.every(b" ", pause_s=0.05, count=10_000)

    provider = FakeProvider(routes={path: slow})
    begun = time.monotonic()
    with pytest.raises(Determinate):
        connect(provider, limits=QUICK).sign_in()
    assert time.monotonic() - begun < CUT_S_MAX


def test_an_answer_at_the_limit_of_bytes_is_read(connect: Connect) -> None:
    provider = FakeProvider()
    node = connect(provider, limits=QUICK)
    whole = json_reply(provider.honest_metadata())
    provider.routes[DISCOVERY] = lambda seen: _padded(whole, QUICK.answer_bytes_max)
    assert node.sign_in().subject == "alice"
    provider.routes[DISCOVERY] = lambda seen: _padded(whole, QUICK.answer_bytes_max + 1)
    with pytest.raises(Determinate, match="too large"):
        node.again(limits=QUICK).begin()


def _padded(answer: bytes, size: int) -> bytes:
    body = answer.partition(b"\r\n\r\n")[2]
    return reply(200, body + b" " * (size - len(body)))


# where requests go


@pytest.mark.parametrize("endpoint", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
def test_a_provider_cannot_lead_the_node_to_inner_places(connect: Connect, trap: LoopbackServer, endpoint: str) -> None:
    """Its own place is open because the operator named it; no other one is."""
    provider = FakeProvider(metadata={endpoint: trap.url("/")}, claims={"email": None})
    with pytest.raises(Determinate, match="not a public address"):
        connect(provider).sign_in()
    assert trap.connections == 0


def test_the_place_of_one_provider_is_closed_to_another(connect: Connect) -> None:
    victim = FakeProvider()
    thief = FakeProvider(metadata={"token_endpoint": "?"})
    node = connect(thief, victim)
    thief.metadata["token_endpoint"] = f"{victim.issuer}/token"
    with pytest.raises(Determinate, match="not a public address"):
        node.begin()
    assert victim.server.connections == 0


def test_the_place_of_a_provider_is_closed_to_users(connect: Connect) -> None:
    provider = FakeProvider()
    connect(provider).sign_in()
    connections = provider.server.connections
    with Egress() as egress, pytest.raises(AccessDenied):
        egress.check(provider.issuer)
    assert provider.server.connections == connections


def test_the_operator_may_open_further_places(connect: Connect, stack: ExitStack) -> None:
    provider = FakeProvider()
    keys = LoopbackServer(lambda seen: json_reply({"keys": [rsa_key().as_dict(private=False)]}))
    stack.enter_context(keys.serving())
    provider.metadata["jwks_uri"] = keys.url("/keys")
    assert connect(provider, egress_allow=[keys.place]).sign_in().subject == "alice"


@pytest.mark.parametrize("endpoint", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"])
def test_tls_is_not_left(connect: Connect, endpoint: str, tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    provider = FakeProvider(host="localhost")
    provider.server.ssl_context = authority.server_context("localhost")
    node = connect(provider, ssl_context=authority.client_context())
    assert node.sign_in().subject == "alice"
    provider.metadata[endpoint] = provider.server.url(f"/{endpoint}").replace("https://", "http://")
    with pytest.raises(Determinate, match=f"{endpoint} is without TLS"):
        node.again(ssl_context=authority.client_context()).begin()


@pytest.mark.parametrize(
    "issuer", ["https://a.example", "http://127.0.0.1:8080", "http://localhost/x", "http://[::1]:1"]
)
def test_issuers_have_tls_or_are_on_this_machine(issuer: str) -> None:
    assert str(issuer_url(issuer)).startswith(issuer)


@pytest.mark.parametrize(
    "issuer",
    [
        "http://a.example",
        "http://10.0.0.1",
        "http://127.0.0.1.example",
        "ftp://a.example",
        "https://user@a.example",
        "https://a.example/?x=1",
        "https://a.example/#x",
        "a.example",
        "",
    ],
)
def test_other_issuers_are_refused_when_the_node_starts(issuer: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        issuer_url(issuer)
    assert refused.value.place.field == "ODF_OIDC_PROVIDERS"


# answers of the browser


def test_the_issuer_of_an_answer_is_the_one_that_was_asked(connect: Connect) -> None:
    """A hostile provider that passes on the code of an honest one (RFC 9207)."""
    provider = FakeProvider()
    node = connect(provider)
    assert node.sign_in(iss=provider.issuer).subject == "alice"
    with pytest.raises(WrongCredentials, match="another provider"):
        node.sign_in(iss="https://honest.example")
    provider.metadata["authorization_response_iss_parameter_supported"] = True
    announced = node.again()
    assert announced.sign_in(iss=provider.issuer).subject == "alice"
    with pytest.raises(WrongCredentials, match="another provider"):
        announced.sign_in()
    assert len(provider.asked_for("/token")) == 2


def test_a_code_of_another_provider_is_worth_nothing(connect: Connect) -> None:
    """The browser was sent to one provider and comes back with the code of another."""
    asked, other = FakeProvider(), FakeProvider()
    node = connect(asked, other)
    url, pending = node.begin()
    stolen = other.sign_in(url, "mallory")
    with pytest.raises(WrongCredentials):
        node.identity_providers.finish(pending, stolen)
    assert other.asked_for("/token") == []


def test_a_code_is_bound_to_whoever_asked_for_it(connect: Connect) -> None:
    provider = FakeProvider()
    node = connect(provider)
    url, pending = node.begin()
    answer = provider.sign_in(url)
    with pytest.raises(WrongCredentials, match="any more"):
        node.identity_providers.finish(replace(pending, verifier="x" * 43), answer)
    url, pending = node.begin()
    answer = provider.sign_in(url)
    with pytest.raises(WrongCredentials, match="any more"):
        node.identity_providers.finish(replace(pending, redirect_uri=f"{REDIRECT_URI}2"), answer)


def test_an_answer_of_somebody_else_is_not_even_looked_at(connect: Connect) -> None:
    provider = FakeProvider()
    node = connect(provider)
    _, pending = node.begin()
    for parameters in ({"error": "server_error"}, {"code": "x"}, {"code": "x", "state": "y"}, {}):
        with pytest.raises(WrongCredentials, match="does not belong"):
            node.identity_providers.finish(pending, parameters)
    assert provider.asked_for("/token") == []


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ("access_denied", WrongCredentials),
        ("login_required", WrongCredentials),
        ("server_error", Determinate),
        ("temporarily_unavailable", Determinate),
        ("invalid_scope", Determinate),
        ("unauthorized_client", Determinate),
        ("<script>alert(1)</script>", Determinate),
        ("", Determinate),
        ("x" * 100_000, Determinate),
    ],
)
def test_refusals_of_the_provider_are_told_in_its_words_if_they_are_words(
    connect: Connect, error: str, raised: type[Exception]
) -> None:
    node = connect(FakeProvider())
    _, pending = node.begin()
    with pytest.raises(raised) as refused:
        node.identity_providers.finish(
            pending, {"state": pending.state, "error": error, "error_description": "<b>hostile</b>"}
        )
    assert "<" not in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("code", ["", "x" * 4097, "\u00e9", "a\nb", "a\x00"])
def test_codes_that_no_provider_gives_are_refused(connect: Connect, code: str) -> None:
    provider = FakeProvider()
    node = connect(provider)
    _, pending = node.begin()
    with pytest.raises(InvalidRequest):
        node.identity_providers.finish(pending, {"state": pending.state, "code": code})
    assert provider.asked_for("/token") == []


def test_the_longest_code_is_sent_as_it_is(connect: Connect) -> None:
    provider = FakeProvider()
    node = connect(provider)
    _, pending = node.begin()
    with pytest.raises(WrongCredentials, match="any more"):
        node.identity_providers.finish(pending, {"state": pending.state, "code": "&=+% " + "x" * 4091})
    assert b"code=%26%3D%2B%25+xxx" in provider.asked_for("/token")[0].body


# the token endpoint


@pytest.mark.parametrize(
    ("status", "answer", "raised"),
    [
        (400, {"error": "invalid_grant"}, WrongCredentials),
        (400, {"error": "invalid_client"}, Determinate),
        (401, {"error": "invalid_client"}, Determinate),
        (400, {"error": "<b>"}, Determinate),
        (400, {}, Determinate),
        (400, {"error": {"code": "invalid_grant"}}, Determinate),
        (500, {"error": "server_error"}, Determinate),
        (429, {}, Determinate),
        (200, {}, Determinate),
        (200, {"id_token": 5}, Determinate),
        (200, {"id_token": "x" * 20_000}, Determinate),
        (200, {"access_token": "x"}, Determinate),
        (201, {"id_token": "x"}, Determinate),
    ],
)
def test_refusals_of_a_code(connect: Connect, status: int, answer: dict[str, object], raised: type[Exception]) -> None:
    provider = FakeProvider(routes={"/token": lambda seen: json_reply(answer, status)})
    with pytest.raises(raised) as refused:
        connect(provider).sign_in()
    assert "<" not in str(refused.value)


def test_a_wrong_secret_is_the_operators(connect: Connect) -> None:
    provider = FakeProvider()
    node = connect(provider, client_secret="another")
    with pytest.raises(Determinate, match="invalid_client") as refused:
        node.sign_in()
    assert "operator" in (refused.value.hint or "")


def test_a_connection_that_breaks_signs_nobody_in(connect: Connect) -> None:
    provider = FakeProvider(routes={"/token": lambda seen: iter([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"])})
    with pytest.raises(Determinate):
        connect(provider).sign_in()


# claims


def test_claims_that_are_not_in_the_token_are_asked_for(connect: Connect) -> None:
    provider = FakeProvider(claims={"email": None, "email_verified": None, "name": "From the token"})
    provider.userinfo = {"sub": "alice", "email": "a@b.example", "email_verified": True, "name": "From elsewhere"}
    who = connect(provider).sign_in()
    assert (who.email, who.email_verified, who.name) == ("a@b.example", True, "From the token")


def test_who_tells_an_address_tells_whether_it_is_verified(connect: Connect) -> None:
    provider = FakeProvider(claims={"email": None, "email_verified": True})
    provider.userinfo = {"sub": "alice", "email": "a@b.example", "email_verified": False}
    assert connect(provider).sign_in().email_verified is False


def test_no_connection_is_kept_that_may_be_closed_when_a_code_is_exchanged(connect: Connect) -> None:
    provider = FakeProvider()
    node = connect(provider)
    for _ in range(3):
        node.sign_in()
    assert provider.server.connections == len(provider.server.seen) == 2 + 3


def test_claims_of_somebody_else_are_refused(connect: Connect) -> None:
    for answer in ({"sub": "bob", "email": "bob@example.org"}, {"email": "bob@example.org"}):
        provider = FakeProvider(claims={"email": None}, userinfo=answer)
        with pytest.raises(WrongCredentials, match="somebody else"):
            connect(provider).sign_in()


def test_no_more_is_asked_for_than_is_needed(connect: Connect) -> None:
    provider = FakeProvider()
    connect(provider).sign_in()
    assert provider.asked_for("/userinfo") == []
    quiet = FakeProvider(claims={"email": None}, userinfo={"sub": "alice", "email": "a@b.example"})
    assert connect(quiet, scopes=("openid",)).sign_in().email is None
    assert quiet.asked_for("/userinfo") == []
    silent = FakeProvider(claims={"email": None}, metadata={"userinfo_endpoint": None})
    assert connect(silent).sign_in().email is None


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"email": "a@b.example", "email_verified": "true"}, ("a@b.example", True, None)),
        ({"email": "a@b.example", "email_verified": "false"}, ("a@b.example", False, None)),
        ({"email": "a@b.example", "email_verified": 1}, ("a@b.example", False, None)),
        ({"email": "a@b.example", "email_verified": None}, ("a@b.example", False, None)),
        ({"email": "a@b@c", "email_verified": True}, (None, False, None)),
        ({"email": "@b.example", "email_verified": True}, (None, False, None)),
        ({"email": "a b@c.example", "email_verified": True}, (None, False, None)),
        ({"email": "a@" + "b" * 252 + ".x"}, (None, False, None)),
        ({"email": ["a@b.example"]}, (None, False, None)),
        ({"email": "a@b.example\r\nX: y"}, (None, False, None)),
        ({"name": "  Alice  "}, ("alice@example.org", True, "Alice")),
        ({"name": "x" * 200}, ("alice@example.org", True, "x" * 200)),
        ({"name": "x" * 201}, ("alice@example.org", True, None)),
        ({"name": "\u202ealice"}, ("alice@example.org", True, None)),
        ({"name": "a\x1b[31m"}, ("alice@example.org", True, None)),
        ({"name": {"first": "A"}}, ("alice@example.org", True, None)),
    ],
)
def test_claims_are_text_that_can_be_stored(
    connect: Connect, claims: dict[str, object], told: tuple[str | None, bool, str | None]
) -> None:
    who = connect(FakeProvider(claims=claims)).sign_in()
    assert (who.email, who.email_verified, who.name) == told


def test_domains_are_looked_at_when_the_address_is_verified(connect: Connect) -> None:
    provider = FakeProvider()
    node = connect(provider, allowed_domains=("Example.org",))
    assert node.sign_in().email == "alice@example.org"
    provider.claims = {"email_verified": False}
    with pytest.raises(AccessDenied, match="verified"):
        node.sign_in()


# secrets


def test_no_secret_is_in_an_error_or_log(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tokens: list[str] = []

    def of_another_client(claims: dict[str, object]) -> str:
        tokens.append(signed({**claims, "aud": "other"}, rsa_key()))
        return tokens[-1]

    provider = FakeProvider(sign=of_another_client)
    node = connect(provider)
    shown = [
        repr(node.begin()[1]),
        repr(OidcProvider(name="x", issuer="x", client_id="x", client_secret=CLIENT_SECRET)),
    ]
    repeating: list[Route] = [
        lambda seen: json_reply({"error": seen.body.decode()}, 400),
        lambda seen: reply(200, seen.body),
    ]
    for routes in ({}, *({"/token": route} for route in repeating)):
        provider.routes = routes
        with pytest.raises((WrongCredentials, Determinate)) as refused:
            node.sign_in()
        shown.append(str(refused.value))
    shown += [record.getMessage() for record in caplog.records]
    forms = [parse_qs(seen.body.decode()) for seen in provider.asked_for("/token")]
    secrets = [CLIENT_SECRET, *tokens, *(form[name][0] for form in forms for name in ("code", "code_verifier"))]
    assert len(secrets) == 1 + 1 + 3 * 2
    for secret in secrets:
        assert not any(secret in text for text in shown), secret
