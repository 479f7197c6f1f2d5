"""Sign-in over HTTP: sessions, cookies, plain pages, device flow, providers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from odfabric.adapters.http.oidc import OidcIdentityProviders
from odfabric.adapters.http.oidc_client import OidcProvider
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.people.invitations import accept, invite
from odfabric.wiring import Node
from tests.services.api.serving import Served, serving
from tests.support.servers.oidc import OidcServer, oidc_server

PASSWORD = "correct horse battery staple"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.fixture(scope="module")
def ann(memory: MemoryNode) -> str:
    """A user with a password."""
    people, operator = memory.node.people, memory.node.operator
    issued = invite(name="ann", email=None, is_admin=False, subject=operator, ports=people)
    accept(issued.code, name=None, display_name=None, password=PASSWORD, address=None, ports=people)
    return "ann"


@pytest.fixture
def browser(served: Served) -> Iterator[httpx.Client]:
    """Keeps cookies."""
    with served.client(None) as found:
        yield found


def sign_in(browser: httpx.Client, name: str = "ann", password: str = PASSWORD) -> dict[str, str]:
    """Headers of requests that change something."""
    answer = browser.post("/session", json={"login": name, "password": password})
    assert answer.status_code == 200, answer.text
    return {"x-csrf-token": answer.json()["csrfToken"]}


@pytest.mark.usefixtures("ann")
def test_a_session_is_a_cookie_that_scripts_do_not_see(browser: httpx.Client) -> None:
    answer = browser.post("/session", json={"login": "Ann", "password": PASSWORD})
    cookie = answer.headers["set-cookie"]
    assert re.match(r"odf-session=odf_ses_\w+; ", cookie)
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    assert "Secure" not in cookie  # plain HTTP on the loopback
    assert answer.json()["account"]["name"] == "ann"
    assert "odf_ses_" not in answer.text
    assert browser.get("/accounts/me").json()["accountName"] == "ann"


@pytest.mark.usefixtures("ann")
def test_a_change_by_cookie_proves_that_it_comes_from_the_node_s_own_page(
    browser: httpx.Client, served: Served
) -> None:
    proof = sign_in(browser)
    body = {"displayName": "Ann"}
    for headers in (
        {},
        {"x-csrf-token": "wrong"},
        {**proof, "origin": "https://evil.example"},
        {**proof, "origin": "null"},
    ):
        answer = browser.patch("/accounts/ann", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "access-denied"), headers
    for headers in (proof, {**proof, "origin": served.url}):
        assert browser.patch("/accounts/ann", json=body, headers=headers).status_code == 200


@pytest.mark.usefixtures("ann")
def test_signing_out_ends_the_session_everywhere(browser: httpx.Client, served: Served) -> None:
    proof = sign_in(browser)
    with served.client(None) as copy:
        copy.cookies.update(browser.cookies)
        assert copy.get("/session").status_code == 200
        assert browser.delete("/session", headers=proof).status_code == 204
        assert not browser.cookies
        assert (copy.get("/session").status_code, copy.get("/session").json()["code"]) == (401, "token-revoked")


@pytest.mark.usefixtures("ann")
def test_every_sign_in_is_a_new_session(browser: httpx.Client) -> None:
    sign_in(browser)
    first = dict(browser.cookies)
    sign_in(browser)
    assert dict(browser.cookies) != first


def test_behind_https_the_cookie_is_bound_to_the_host(memory: MemoryNode, ann: str) -> None:
    settings = memory.settings.model_copy(update={"public_url": "https://odf.example.org"})
    node = Node(memory.node.ports, settings)
    with serving(node) as found, found.client(None) as browser:
        answer = browser.post("/session", json={"login": ann, "password": PASSWORD})
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-odf-session=")
        assert {"Secure", "Path=/", "HttpOnly"} <= set(cookie.split("; "))
        assert "Domain" not in cookie


def test_without_https_no_cookie_travels_over_a_network(memory: MemoryNode, ann: str) -> None:
    settings = memory.settings.model_copy(update={"public_url": "http://odf.example.org"})
    with serving(Node(memory.node.ports, settings)) as found, found.client(None) as browser:
        answer = browser.post("/session", json={"login": ann, "password": PASSWORD})
        assert (answer.status_code, "set-cookie" in answer.headers) == (400, False)
        assert "ODF_PUBLIC_URL" in answer.json()["hint"]


@pytest.mark.usefixtures("ann")
def test_wrong_credentials_get_one_answer(browser: httpx.Client) -> None:
    seen = set()
    for name in ("ann", "nobody", "no--name"):
        answer = browser.post("/session", json={"login": name, "password": "wrong"})
        headers = {key: value for key, value in answer.headers.items() if key not in ("date", "x-request-id")}
        seen.add((answer.status_code, str(headers), answer.text))
    assert len(seen) == 1
    assert answer.json()["code"] == "wrong-credentials"


@pytest.mark.usefixtures("ann")
def test_too_many_attempts_wait(memory: MemoryNode) -> None:
    settings = memory.settings.model_copy(update={"sign_ins_per_account_max": 2})
    with serving(Node(memory.node.ports, settings)) as found, found.client(None) as browser:
        for _ in range(2):
            browser.post("/session", json={"login": "someone", "password": "wrong"})
        answer = browser.post("/session", json={"login": "someone", "password": "wrong"})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        assert answer.json()["limit"] == "sign_ins_per_account_max"


@pytest.mark.usefixtures("ann")
def test_the_login_command_of_the_reference_finds_what_it_needs(browser: httpx.Client, served: Served) -> None:
    assert browser.get("/assets/runtime-config.json").json() == {"apiServerHttpUrl": served.url}
    credentials = json.dumps({"login": "ann", "password": PASSWORD})
    body = {"loginMethod": "password", "loginCredentialsJson": credentials}
    token = browser.post("/platform/login", json=body).json()["accessToken"]
    with served.client(token) as client:
        assert client.get("/platform/token/validate").status_code == 200
        me = client.get("/accounts/me").json()
        assert (me["accountName"], me["id"][:8]) == ("ann", "did:odf:")
    assert browser.get("/platform/token/validate").status_code == 400
    assert browser.get("/platform/token/validate", headers={"authorization": "Bearer x"}).status_code == 400
    wrong = {**body, "loginCredentialsJson": json.dumps({"login": "ann", "password": "wrong"})}
    assert browser.post("/platform/login", json=wrong).status_code == 401
    for broken in ({**body, "loginMethod": "smoke"}, {**body, "loginCredentialsJson": "[]"}):
        assert browser.post("/platform/login", json=broken).status_code == 400


def hidden(page: str) -> dict[str, str]:
    """The hidden fields of a form."""
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))


@pytest.mark.usefixtures("ann")
def test_a_device_is_approved_on_the_page(browser: httpx.Client, memory: MemoryNode, served: Served) -> None:
    started = browser.post("/platform/token/device/authorization", data={"client_id": "odf <b>"}).json()
    assert started["verification_uri_complete"] == f"{served.url}/device?code={started['user_code']}"
    form = {"client_id": "odf", "device_code": started["device_code"], "grant_type": GRANT}

    def ask() -> httpx.Response:
        memory.clock.advance(60_000)
        return browser.post("/platform/token/device", data=form)

    assert (ask().status_code, ask().json()["message"]) == (400, "authorization_pending")
    path = urlsplit(started["verification_uri_complete"])
    page = browser.get(f"{path.path}?{path.query}")
    then = hidden(page.text)["then"]
    assert then == f"/device?code={started['user_code']}"
    signed = browser.post("/login", data={"login": "ann", "password": PASSWORD, "then": then})
    assert (signed.status_code, signed.headers["location"]) == (303, then)
    page = browser.get(then)
    assert "odf &lt;b&gt;" in page.text
    fields = hidden(page.text)
    assert browser.post("/device", data={**fields, "csrf": "x", "decision": "approve"}).status_code == 403
    assert ask().json()["error"] == "authorization_pending"
    assert "Approved" in browser.post("/device", data={**fields, "decision": "approve"}).text
    token = ask().json()
    assert (token["token_type"], token["refresh_token"], token["score"]) == ("Bearer", None, None)
    with served.client(token["access_token"]) as client:
        assert client.get("/accounts/me").json()["accountName"] == "ann"
    assert ask().json()["message"] == "invalid_grant"


@pytest.mark.usefixtures("ann")
def test_a_device_that_is_denied_gets_nothing(browser: httpx.Client, memory: MemoryNode) -> None:
    started = browser.post("/platform/token/device/authorization", data={"client_id": "odf"}).json()
    sign_in(browser)
    fields = hidden(browser.get(f"/device?code={started['user_code']}").text)
    assert "Denied" in browser.post("/device", data={**fields, "decision": "deny"}).text
    memory.clock.advance(60_000)
    form = {"client_id": "odf", "device_code": started["device_code"], "grant_type": GRANT}
    assert browser.post("/platform/token/device", data=form).json()["message"] == "access_denied"
    assert browser.post("/platform/token/device", data={**form, "grant_type": "x"}).json()["message"] == (
        "unsupported_grant_type"
    )


def test_an_invitation_is_accepted_on_its_page(client: httpx.Client, browser: httpx.Client) -> None:
    made = client.post("/admin/invitations", json={"name": "carol"}).json()
    code = parse_qs(urlsplit(made["url"]).query)["code"][0]
    page = browser.get("/setup", params={"code": code})
    assert "<strong>carol</strong>" in page.text
    weak = browser.post("/setup", data={"code": code, "password": "carol"})
    assert (weak.status_code, "15" in weak.text, "set-cookie" in weak.headers) == (400, True, False)
    assert browser.post("/setup", data={"code": code, "password": PASSWORD}).status_code == 200
    assert browser.get("/accounts/me").json()["accountName"] == "carol"
    assert browser.get("/setup", params={"code": code}).status_code == 404
    assert browser.post("/setup", data={"code": code, "password": PASSWORD}).status_code == 404


@pytest.mark.parametrize("payload", ['"><script>alert(1)</script>', "<img src=x onerror=alert(1)>", "'onload='x"])
def test_texts_of_strangers_are_shown_literally(browser: httpx.Client, payload: str) -> None:
    for answer in (
        browser.get("/login", params={"then": payload}),
        browser.get("/setup", params={"code": payload}),
        browser.get("/device", params={"code": payload[:50]}),
        browser.post("/login", data={"login": payload, "password": payload, "then": payload}),
    ):
        assert payload not in answer.text
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert "form-action 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("then", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/a b", "/\n"])
def test_nobody_is_sent_elsewhere_after_signing_in(browser: httpx.Client, ann: str, then: str) -> None:
    answer = browser.post("/login", data={"login": ann, "password": PASSWORD, "then": then})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize("path", ["/login", "/setup", "/session"])
def test_forms_of_other_pages_sign_nobody_in(browser: httpx.Client, ann: str, path: str) -> None:
    """Else they would sign their visitor in as somebody else."""
    given = {"login": ann, "password": PASSWORD}
    headers = {"origin": "https://evil.example"}
    answer = (
        browser.post(path, json=given, headers=headers)
        if path == "/session"
        else browser.post(path, data=given, headers=headers)
    )
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


@pytest.mark.parametrize("body", ["a=1&a=2", "x=1", "%ff=1", "login=%ff", "&".join(f"a{n}=1" for n in range(30))])
def test_what_is_no_form_is_refused(browser: httpx.Client, body: str) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert browser.post("/login", content=body, headers=headers).status_code == 400
    assert browser.post("/login", json={}).status_code == 415


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcServer]:
    with oidc_server() as found:
        yield found


@pytest.fixture(scope="module")
def with_provider(memory: MemoryNode, provider: OidcServer) -> Iterator[Served]:
    """The node with a real identity provider beside it."""
    identities = OidcIdentityProviders(
        [
            OidcProvider(
                name="corp",
                label="Corp <b>",
                issuer=provider.issuer,
                client_id="odf",
                client_secret="secret",
                allow_sign_up=True,
            ),
            OidcProvider(name="closed", issuer=provider.issuer, client_id="odf", client_secret="secret"),
        ],
        clock=memory.clock,
        entropy=memory.node.ports.entropy,
    )
    node = Node(replace(memory.node.ports, identities=identities), memory.settings)
    with serving(node) as found:
        yield found
    identities.close()


@pytest.fixture
def visitor(with_provider: Served, memory: MemoryNode) -> Iterator[httpx.Client]:
    from odfabric.adapters.system.clock import SystemClock

    memory.clock.set(SystemClock().now())  # the provider has a clock of its own
    with with_provider.client(None) as found:
        yield found


def go(visitor: httpx.Client, provider: OidcServer, subject: str, *, path: str = "/oidc/corp/start") -> httpx.Response:
    """What a browser does: out to the provider, and back."""
    out = visitor.get(path)
    assert out.status_code == 303, out.text
    parameters = provider.sign_in(out.headers["location"], subject)
    return visitor.get(f"{urlsplit(path).path.removesuffix('/start')}/callback?{urlencode(parameters)}")


def test_a_provider_brings_a_new_person_in_and_knows_them_again(visitor: httpx.Client, provider: OidcServer) -> None:
    provider.set_user(
        "4711", {"preferred_username": "dora", "name": "Dora", "email": "d@x.org", "email_verified": True}
    )
    page = visitor.get("/login", params={"then": "/docs"})
    assert "Sign in with Corp &lt;b&gt;" in page.text
    back = go(visitor, provider, "4711", path="/oidc/corp/start?then=/device")
    assert (back.status_code, back.headers["location"]) == (303, "/device")
    me = visitor.get("/accounts/me").json()["account"]
    assert (me["name"], me["displayName"], me["email"]) == ("dora", "Dora", "d@x.org")
    visitor.cookies.clear()
    go(visitor, provider, "4711")
    assert visitor.get("/accounts/me").json()["account"]["id"] == me["id"]


def test_a_provider_that_may_not_bring_people_in_lets_linked_ones_in(
    visitor: httpx.Client, provider: OidcServer, ann: str
) -> None:
    refused = go(visitor, provider, "9", path="/oidc/closed/start")
    assert (
        refused.status_code,
        "set-cookie" not in refused.headers or "odf-session" not in refused.headers["set-cookie"],
    ) == (403, True)
    out = visitor.get("/oidc/closed/start?link=true")
    assert out.status_code == 401
    sign_in(visitor, ann)
    assert "Linked" in go(visitor, provider, "9", path=confirmed(visitor, "/oidc/closed/start?link=true")).text
    visitor.cookies.clear()
    go(visitor, provider, "9", path="/oidc/closed/start")
    assert visitor.get("/accounts/me").json()["accountName"] == ann


def confirmed(visitor: httpx.Client, path: str) -> str:
    """Where the page leads that asks whether the identity is to be linked."""
    page = visitor.get(path)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    found = re.search(r'<a class="button main" href="([^"]+)">Link it</a>', page.text)
    assert found is not None
    return unescape(found[1])


def test_no_page_elsewhere_links_its_own_identity_to_its_visitor(
    visitor: httpx.Client, provider: OidcServer, ann: str
) -> None:
    """No foreign page links its own identity to a visitor.

    Who has signed the visitor's browser in at the provider, as somebody else, could sign in as the visitor from then
    on.
    """
    proof = sign_in(visitor, ann)["x-csrf-token"]
    for path in (
        "/oidc/corp/start?link=true",
        f"/oidc/corp/start?link=true&csrf={proof[:-1]}",
        "/oidc/corp/start?link=1&csrf=",
    ):
        out = visitor.get(path)
        assert (out.status_code, "location" in out.headers, "odf-sign-in" in out.headers.get("set-cookie", "")) == (
            200,
            False,
            False,
        )
        assert "Corp &lt;b&gt;" in out.text
        assert ann in out.text
    assert visitor.get(confirmed(visitor, "/oidc/corp/start?link=true")).status_code == 303


def test_an_answer_counts_in_the_browser_that_asked_and_for_its_provider(
    visitor: httpx.Client, provider: OidcServer, with_provider: Served
) -> None:
    out = visitor.get("/oidc/corp/start")
    parameters = provider.sign_in(out.headers["location"], "4711")
    with with_provider.client(None) as other:
        stolen = other.get(f"/oidc/corp/callback?{urlencode(parameters)}")
        assert (stolen.status_code, "odf-session" in str(stolen.headers)) == (400, False)
    twice = f"{urlencode(parameters)}&code=x"
    for path in (f"/oidc/closed/callback?{urlencode(parameters)}", f"/oidc/corp/callback?{twice}"):
        assert visitor.get(path).status_code == 400


def test_somebody_who_refuses_is_not_signed_in(visitor: httpx.Client, provider: OidcServer) -> None:
    out = visitor.get("/oidc/corp/start")
    back = visitor.get(f"/oidc/corp/callback?{urlencode(provider.deny(out.headers['location']))}")
    assert back.status_code == 401
    assert visitor.get("/accounts/me").status_code == 401
    assert visitor.get("/oidc/nobody/start").status_code == 404


@pytest.mark.usefixtures("ann")
def test_a_refused_form_keeps_what_was_typed_but_no_password(browser: httpx.Client, client: httpx.Client) -> None:
    refused = browser.post("/login", data={"login": "ann", "password": "wrong one", "then": "/-/sql"})
    assert (refused.status_code, 'role="alert"' in refused.text) == (401, True)
    assert 'value="ann"' in refused.text
    assert hidden(refused.text)["then"] == "/-/sql"
    assert "wrong one" not in refused.text
    code = parse_qs(urlsplit(client.post("/admin/invitations", json={}).json()["url"]).query)["code"][0]
    typed = {"code": code, "name": "ann", "displayName": "Another Ann", "password": PASSWORD}
    refused = browser.post("/setup", data=typed)
    assert (refused.status_code, "is taken" in refused.text, 'value="Another Ann"' in refused.text) == (409, True, True)
    assert PASSWORD not in refused.text
