"""Screens of accounts and admins in a real browser: accessibility, forms.

Both themes, a phone, and the ways through their forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from odfabric.model.people.account import DatasetRole
from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import PASSWORD, People
from tests.services.api.serving import Served, serving

SCREENS = {
    "profile": "/-/account",
    "sessions": "/-/account/sessions",
    "tokens": "/-/account/tokens",
    "organisations": "/-/account/organisations",
    "organisation": "/-/orgs/acme",
    "sharing": "/ann/cities/-/sharing",
    "admin": "/-/admin",
    "accounts": "/-/admin/accounts",
    "an-account": "/-/admin/accounts/ann",
    "rights": "/-/admin/rights?account=rita&dataset=ann/cities",
    "found-token": "/-/admin/tokens",
    "audit": "/-/admin/audit",
    "settings": "/-/admin/settings",
    "storage": "/-/admin/storage?look=true",
    "login": "/login",
    "device": "/device",
    "no-link": "/setup?code=none",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, Served]]:
    people = People(tmp_path_factory.mktemp("node"))
    people.grant(people.add("ann", "cities"), "rita", DatasetRole.READER)
    people.issue("root")
    people.session("root")
    with serving(people.node) as served:
        with served.client() as client:
            assert client.post("/admin/invitations", json={"name": "dora"}).status_code == 201
        yield people, served


@pytest.fixture
def world(node: tuple[People, Served], pages: Pages) -> World:
    return World(*node, pages)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_keeps_the_rules_of_accessibility(world: World, scheme: Any) -> None:
    page = world.page("root", color_scheme=scheme, viewport={"width": 1200, "height": 800})
    world.pages.expect("404")
    found = {}
    for name, path in SCREENS.items():
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)
        keep(page, f"{name}-{scheme}")
        found[name] = world.pages.axe(page)
    assert {name: broken for name, broken in found.items() if broken} == {}


def test_every_screen_fits_a_phone(world: World) -> None:
    page = world.page("root", viewport={"width": 320, "height": 640})
    world.pages.expect("404")
    too_wide = {}
    for name, path in SCREENS.items():
        page.goto(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        keep(page, f"{name}-phone")
        if width > 320:
            too_wide[name] = width
    assert too_wide == {}


@pytest.mark.parametrize("with_scripts", [True, False])
def test_somebody_signs_in_makes_a_token_and_signs_out(world: World, with_scripts: bool) -> None:
    page = world.page(None, java_script_enabled=with_scripts)
    world.pages.expect("401|404")
    page.goto("/-/account/tokens")
    page.get_by_label("Account").fill("ann")
    page.get_by_label("Password").fill("a wrong password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("name or password is wrong")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/-/account/tokens")
    page.get_by_label("What it is for").fill(f"nightly {with_scripts}")
    page.get_by_label("Push rows").check()
    page.get_by_label("Lives").select_option("7 days")
    page.get_by_role("button", name="Make the token").click()
    made = page.get_by_role("status").filter(has_text="Copy it now")
    expect(made.locator("code.secret")).to_contain_text("odf_pat_")
    if with_scripts:
        assert world.pages.axe(page) == []
        expect(made.get_by_role("button", name="Copy the token")).to_be_visible()
    page.get_by_role("button", name=f"Revoke nightly {with_scripts}").click()
    expect(page.get_by_role("status")).to_contain_text("The token is revoked")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("banner").get_by_role("link", name="Sign in")).to_be_visible()


def test_an_admin_invites_somebody_who_comes_in(world: World) -> None:
    page = world.page("root")
    world.pages.expect("400")
    page.goto("/-/admin/accounts")
    page.get_by_label("Account name (empty: they choose)").fill("nina")
    page.get_by_role("button", name="Make the link").click()
    link = page.locator("code.secret").inner_text()
    assert world.pages.axe(page) == []
    nina = world.page(None)
    nina.goto(link)
    nina.get_by_label("Password").fill(PASSWORD)
    nina.get_by_role("button", name="Make my account").click()
    expect(nina.get_by_role("heading", name="Welcome")).to_be_visible()
    nina.get_by_role("link", name="Go to the datasets").click()
    expect(nina.get_by_role("button", name="Sign out")).to_be_visible()
    page.goto("/-/admin/accounts/nina")
    page.get_by_label("Type nina to confirm").fill("nin")
    page.get_by_role("button", name="Delete it").click()
    page.get_by_label("Type nina to confirm").fill("nina")
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("status")).to_have_text("The account is deleted.")


def test_a_role_is_given_and_taken(world: World) -> None:
    page = world.page("ann")
    page.goto("/ann/cities")
    page.get_by_role("link", name="Sharing").click()
    page.get_by_label("User or organisation").fill("pia")
    page.get_by_role("combobox", name="Role").last.select_option("editor")
    page.get_by_role("button", name="Give", exact=True).click()
    expect(page.get_by_role("combobox", name="Role of pia")).to_have_value("editor")
    page.get_by_role("button", name="Take the role of pia").click()
    expect(page.get_by_role("rowheader", name="pia")).to_have_count(0)
