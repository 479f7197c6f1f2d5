"""Sessions and tokens over HTTP: cookies, information on tokens, sign-in."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from odfabric.model.people.credential import Scope
from odfabric.wiring import Node
from odfabric.wiring.node_ports import intercepted
from odfabric_api.sessions import PLAIN_COOKIE, csrf_token
from tests.services.api.documented import check_documented
from tests.services.api.intercepting import Calls
from tests.services.api.people import PASSWORD, People
from tests.services.api.serving import Served, serving


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    return People(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def calls() -> Calls:
    return Calls()


@pytest.fixture(scope="module")
def served(people: People, calls: Calls) -> Iterator[Served]:
    with serving(Node(intercepted(people.node.ports, calls), people.memory.settings)) as found:
        yield found


@pytest.fixture
def anybody(served: Served) -> Iterator[httpx.Client]:
    """Sends what a test gives it, and keeps no cookies."""
    with served.client(None) as client:
        client.event_hooks = {"response": [check_documented(served.app)]}
        yield client


def cookie(text: str) -> dict[str, str]:
    return {"cookie": f"{PLAIN_COOKIE}={text}", "x-csrf-token": csrf_token(text)}


def test_a_cookie_holds_a_session_and_no_other_token(anybody: httpx.Client, people: People) -> None:
    """A cookie holds only a session: pages assume all rights of its person.

    A narrower token would approve a device that has them.
    """
    for scopes in ({Scope.MANAGE}, {Scope.READ}):
        _, text = people.issue("root", scopes=frozenset(scopes))
        answer = anybody.get("/accounts/me", headers=cookie(text))
        assert (answer.status_code, answer.json()["code"]) == (401, "token-malformed")
        anybody.event_hooks = {}
        assert "Approve" not in anybody.get("/device", headers=cookie(text)).text
        form = {"code": "BCDF-GHJK", "csrf": csrf_token(text), "decision": "approve"}
        assert "Signed in" not in anybody.post("/device", headers=cookie(text), data=form).text
    session = people.session("root")
    assert anybody.get("/accounts/me", headers=cookie(session)).json()["accountName"] == "root"


def test_a_token_that_is_looked_at_is_not_the_caller_s_credential(anybody: httpx.Client, people: People) -> None:
    """401 would say that the caller's own token does not count."""
    caller = people.bearer("pia")
    token, text = people.issue("pia")
    found = anybody.post("/tokens/inspect", headers=caller, json={"token": text})
    assert (found.status_code, found.json()["id"]) == (200, token.id)
    for other, status in (
        (people.issue("ann")[1], 404),
        (text[:-1], 400),
        (text[:-1] + ("0" if text[-1] != "0" else "1"), 400),
        ("", 400),
    ):
        answer = anybody.post("/tokens/inspect", headers=caller, json={"token": other})
        assert answer.status_code == status
        assert len(other) < 20 or other not in answer.text


def test_a_wrong_password_and_an_unknown_name_are_one_answer_and_one_work(
    anybody: httpx.Client, people: People, calls: Calls
) -> None:
    """Equal password hashes and look-ups by every door, for any possible name."""
    passwords = people.ports.passwords
    for door in ("session", "login", "platform"):
        seen, looked_up = set(), set()
        for number, name in enumerate(("ann", "ANN", "nobody", "acme", "system", "no--name", "spare")):
            before = passwords.hashes  # type: ignore[attr-defined]
            calls.seen.clear()
            given = {"login": name, "password": f"wrong password {number}"}
            if door == "session":
                answer = anybody.post("/session", json=given)
            elif door == "login":
                anybody.event_hooks = {}
                answer = anybody.post("/login", data=given)
            else:
                credentials = f'{{"login": "{name}", "password": "wrong password {number}"}}'
                answer = anybody.post(
                    "/platform/login", json={"loginMethod": "password", "loginCredentialsJson": credentials}
                )
            # The form keeps the name that was typed.
            told = answer.text.replace(f'name="login" value="{name}"', "")
            varying = ("date", "content-length", "x-request-id")
            headers = {key: value for key, value in answer.headers.items() if key not in varying}
            work = passwords.hashes - before  # type: ignore[attr-defined]
            seen.add((answer.status_code, str(headers), told, work))
            if name != "no--name":
                looked_up.add(tuple(calls.seen))
        assert (len(seen), len(looked_up)) == (1, 1), looked_up


def test_whoever_signs_in_gets_a_session_that_its_pages_can_use(anybody: httpx.Client, people: People) -> None:
    answer = anybody.post("/session", json={"login": "Pia", "password": PASSWORD})
    assert answer.status_code == 200
    attributes = answer.headers["set-cookie"]
    assert "HttpOnly" in attributes
    assert "SameSite=lax" in attributes
    session = attributes.partition("=")[2].partition(";")[0]
    assert answer.json()["csrfToken"] == csrf_token(session)
    anybody.cookies.clear()
    assert anybody.delete("/session", headers={"cookie": f"{PLAIN_COOKIE}={session}"}).status_code == 403
    assert anybody.delete("/session", headers=cookie(session)).status_code == 204
    anybody.cookies.clear()
    assert anybody.get("/session", headers=cookie(session)).json()["code"] == "token-revoked"


@pytest.mark.parametrize("door", ["/session", "/login", "/setup"])
def test_no_page_elsewhere_signs_its_visitor_in(anybody: httpx.Client, door: str) -> None:
    given = {"login": "pia", "password": PASSWORD}
    for origin in ("https://elsewhere.example", "null", ""):
        headers = {"origin": origin}
        answer = (
            anybody.post(door, json=given, headers=headers)
            if door == "/session"
            else anybody.post(door, data=given, headers=headers)
        )
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
