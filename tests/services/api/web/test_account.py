"""Screens of one's own account and of organisations, by a browser's forms."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from odfabric.model.people.account import OrganisationRole
from odfabric.model.people.credential import Scope, TokenKind
from odfabric.usecases.people.organisations import set_member
from odfabric.usecases.people.sign_in import open_session
from odfabric_api.sessions import PLAIN_COOKIE
from tests.services.api.browsing import HOSTILE, Browsers, alert_of, browsing, field, text_of
from tests.services.api.people import PASSWORD, People

NEW_PASSWORD = "another horse, another staple"


@pytest.fixture(scope="module")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    people.add("ann", "cities")
    with browsing(people) as found:
        yield found


@pytest.fixture
def ann(browsers: Browsers) -> Iterator[httpx.Client]:
    with browsers.open("ann") as found:
        yield found


def test_strangers_sign_in_first(browsers: Browsers) -> None:
    with browsers.open(None) as stranger:
        for path in ("", "/sessions", "/tokens", "/organisations"):
            answer = stranger.get(f"/-/account{path}")
            assert (answer.status_code, answer.headers["location"]) == (303, f"/login?then=/-/account{path}")


def test_the_profile_is_changed_and_texts_stay_texts(ann: httpx.Client, browsers: Browsers) -> None:
    before = ann.get("/-/account")
    form = {"display_name": HOSTILE, "email": "ann@example.com", "version": field(before, "version")}
    done = ann.post("/-/account", data=form)
    assert (done.status_code, done.headers["location"]) == (303, "/-/account?done=saved")
    after = ann.get(done.headers["location"])
    assert "Your profile is saved." in text_of(after)
    assert "<script>alert" not in after.text
    assert (field(after, "display_name"), field(after, "email")) == (HOSTILE, "ann@example.com")
    assert browsers.people.account("ann").display_name == HOSTILE


def test_a_refused_profile_keeps_what_was_typed(ann: httpx.Client, browsers: Browsers) -> None:
    known = browsers.people.account("ann")
    form = {"display_name": "Ann Other", "email": "nowhere", "version": str(known.version)}
    refused = ann.post("/-/account", data=form)
    assert (refused.status_code, alert_of(refused)) == (400, "not an e-mail address for example ann@example.org")
    assert (field(refused, "display_name"), field(refused, "email")) == ("Ann Other", "nowhere")
    stale = ann.post("/-/account", data={**form, "email": "", "version": str(known.version - 1)})
    assert (stale.status_code, "was changed meanwhile" in alert_of(stale)) == (409, True)
    assert browsers.people.account("ann") == known


def test_a_new_password_ends_all_other_sessions(browsers: Browsers) -> None:
    with browsers.open("rita") as here, browsers.open("rita") as there:
        wrong = here.post("/-/account/password", data={"old": "wrong", "new": NEW_PASSWORD})
        assert (wrong.status_code, alert_of(wrong)) == (401, "the old password is wrong")
        easy = here.post("/-/account/password", data={"old": PASSWORD, "new": "rita"})
        assert easy.status_code == 400
        assert NEW_PASSWORD not in wrong.text
        cookie = here.cookies[PLAIN_COOKIE]
        done = here.post("/-/account/password", data={"old": PASSWORD, "new": NEW_PASSWORD})
        assert (done.status_code, done.headers["location"]) == (303, "/-/account?done=password")
        # The jar holds cookies of tests without a domain; the new one replaces it as in a browser.
        fresh = re.search(rf"{PLAIN_COOKIE}=(\w+)", done.headers["set-cookie"])
        assert fresh is not None
        assert fresh[1] != cookie
        here.cookies.clear()
        here.cookies.set(PLAIN_COOKIE, fresh[1])
        assert "All other sessions have ended." in text_of(here.get("/-/account?done=password"))
        assert there.get("/-/account").status_code == 303
        assert here.post("/login", data={"login": "rita", "password": NEW_PASSWORD}).status_code == 303


def test_a_token_gets_no_session_for_a_new_password(browsers: Browsers) -> None:
    headers = browsers.people.bearer("carl", scopes=frozenset({Scope.MANAGE}))
    with browsers.open(None) as program:
        program.cookies.set(PLAIN_COOKIE, "anything")
        done = program.post("/-/account/password", data={"old": PASSWORD, "new": NEW_PASSWORD}, headers=headers)
        assert (done.status_code, "set-cookie" in done.headers) == (303, False)


def test_sessions_tell_device_and_address_and_can_be_ended(browsers: Browsers) -> None:
    people = browsers.people
    with browsers.open("mats") as here, browsers.open("mats") as there:
        agent = f"Mozilla/5.0 (iPhone) Safari/600 {HOSTILE}"
        open_session(people.account("mats"), how="password", device=agent, address="192.0.2.7", ports=people.ports)
        page = here.get("/-/account/sessions")
        text = text_of(page)
        assert "this one" in text
        assert "Safari on iPhone 192.0.2.7" in text
        assert "not known any more" in text
        assert "<script>alert" not in page.text
        first = re.findall(r'name="id" value="(\w+)"', page.text)
        assert len(first) == 2
        assert here.post("/-/account/sessions", data={"id": first[0]}).headers["location"].endswith("?done=ended")
        again = here.post("/-/account/sessions", data={"id": first[0]})
        assert (again.status_code, "not found" in alert_of(again)) == (404, True)
        assert here.post("/-/account/sessions").status_code == 303
        assert there.get("/-/account/sessions").status_code == 303
        left = here.get("/-/account/sessions")
        assert (left.status_code, "this one" in text_of(left), 'name="id"' in left.text) == (200, True, False)


def test_sessions_of_others_cannot_be_ended(browsers: Browsers, ann: httpx.Client) -> None:
    token, text = browsers.people.issue("pia", kind=TokenKind.SESSION)
    refused = ann.post("/-/account/sessions", data={"id": token.id})
    assert refused.status_code == 404
    with browsers.open(None) as pia:
        pia.cookies.set(PLAIN_COOKIE, text)
        assert pia.get("/-/account").status_code == 200


def test_signing_out_ends_the_session_and_forgets_the_cookie(browsers: Browsers) -> None:
    with browsers.open("pia") as pia, browsers.open(None) as copy:
        copy.cookies.set(PLAIN_COOKIE, pia.cookies[PLAIN_COOKIE])
        elsewhere = pia.post("/-/sign-out", headers={"origin": "https://elsewhere.example"})
        assert elsewhere.status_code == 403
        done = pia.post("/-/sign-out")
        assert (done.status_code, done.headers["location"]) == (303, "/")
        assert re.match(rf'{PLAIN_COOKIE}="?"?;', done.headers["set-cookie"])
        assert copy.get("/-/account").status_code == 303
        # A session that ended is signed out of as well.
        assert copy.post("/-/sign-out").status_code == 303


def test_a_token_is_shown_once_and_works(browsers: Browsers, ann: httpx.Client) -> None:
    form = {"name": HOSTILE, "read": "on", "datasets": "ann/cities", "days": "7"}
    made = ann.post("/-/account/tokens", data=form)
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    assert "<script>alert" not in made.text
    secret = re.search(r"odf_pat_\w+", text_of(made))
    assert secret is not None
    with browsers.served.client(secret[0]) as program:
        assert program.get("/ann/cities/metadata").status_code == 200
    listed = ann.get("/-/account/tokens")
    assert secret[0] not in listed.text
    text = text_of(listed)
    assert "read ann/cities" in text
    assert "in 6 days" in text
    assert "just now" in text
    (token_id,) = re.findall(r'name="id" value="(\w+)"', listed.text)
    done = ann.post("/-/account/tokens/revoke", data={"account": "", "id": token_id})
    assert done.headers["location"] == "/-/account/tokens?done=revoked"
    assert "No token yet." in text_of(ann.get(done.headers["location"]))
    with browsers.served.client(secret[0]) as program:
        assert program.get("/accounts/me").status_code == 401


@pytest.mark.parametrize(
    ("form", "status", "says"),
    [
        ({"name": "x"}, 400, "a token has a scope"),
        ({"name": "x", "read": "on", "days": "8"}, 400, "not a time to live"),
        ({"name": "x", "read": "on", "datasets": "ann/nothing"}, 404, "dataset not found: ann/nothing"),
        ({"name": "x", "admin": "on"}, 400, "is no admin of the node"),
        ({"name": "", "read": "on"}, 400, "a name that tells what it is for"),
    ],
)
def test_a_refused_token_keeps_what_was_typed(ann: httpx.Client, form: dict[str, str], status: int, says: str) -> None:
    refused = ann.post("/-/account/tokens", data={**form, "push": "on"} if "read" in form else form)
    assert (refused.status_code, says in alert_of(refused)) == (status, True)
    assert field(refused, "name") == form["name"]
    assert ('name="push" checked' in refused.text) == ("read" in form)
    assert form.get("datasets", "") in refused.text
    assert "odf_pat_" not in refused.text


def test_organisations_have_service_tokens_by_their_admins(browsers: Browsers) -> None:
    with browsers.open("ada") as ada, browsers.open("max") as member:
        made = ada.post("/-/account/tokens", data={"account": "acme", "name": "robot", "push": "on"})
        assert made.status_code == 201
        assert "odf_svc_" in text_of(made)
        assert "robot" in text_of(ada.get("/-/account/tokens?account=acme"))
        assert member.get("/-/account/tokens?account=acme").status_code == 403


def test_an_organisation_is_made_with_members_and_roles(browsers: Browsers, ann: httpx.Client) -> None:
    taken = ann.post("/-/account/organisations", data={"name": "acme", "display_name": "Typed"})
    assert (taken.status_code, field(taken, "display_name")) == (409, "Typed")
    assert "the name acme is taken" in alert_of(taken)
    made = ann.post("/-/account/organisations", data={"name": "lab", "display_name": HOSTILE, "email": ""})
    assert (made.status_code, made.headers["location"]) == (303, "/-/orgs/lab?done=made")
    page = ann.get(made.headers["location"])
    assert "<script>alert" not in page.text
    assert ann.post("/-/orgs/lab/members", data={"member": "pia", "role": "member", "version": "0"}).status_code == 303
    with browsers.open("pia") as pia:
        text = text_of(pia.get("/-/orgs/lab"))
        assert "ann" in text
        assert "Add somebody" not in text
        assert "lab member Show" in text_of(pia.get("/-/account/organisations"))
        refused = pia.post("/-/orgs/lab/members", data={"member": "rita", "role": "member"})
        assert refused.status_code == 403
        left = pia.post("/-/orgs/lab/members", data={"member": "pia", "role": "none"})
        assert left.headers["location"] == "/-/account/organisations?done=left"
        assert pia.get("/-/orgs/lab").status_code == 404
    last = ann.post("/-/orgs/lab/members", data={"member": "ann", "role": "none"})
    assert (last.status_code, "would have no admin" in alert_of(last)) == (409, True)
    assert ann.post("/-/orgs/lab/delete", data={"confirm": "labb"}).status_code == 400
    assert ann.post("/-/orgs/lab/delete", data={"confirm": "lab"}).headers["location"].endswith("?done=deleted")
    assert ann.get("/-/orgs/lab").status_code == 404


def test_the_second_of_two_admins_is_told_what_changed(browsers: Browsers) -> None:
    people = browsers.people
    with browsers.open("ada") as ada:
        seen = {"member": "max", "role": "admin", "seen": "member", "version": "1"}
        set_member("acme", "max", OrganisationRole.ADMIN, subject=people.subject("ada"), ports=people.ports)
        refused = ada.post("/-/orgs/acme/members", data=seen)
        assert refused.status_code == 409
        assert "max was member when you opened the page, and is admin now." in text_of(refused)


def test_hidden_organisations_look_like_absent_ones(ann: httpx.Client) -> None:
    hidden, absent = ann.get("/-/orgs/acme"), ann.get("/-/orgs/none")
    assert hidden.status_code == absent.status_code == 404
    assert hidden.text.replace("acme", "NAME") == absent.text.replace("none", "NAME")
