"""A node from first link to logout, by command line and browser.

Real processes, forms as they are on the pages.
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.browser import Browser
from tests.support.node_process import (
    COMMAND_S_MAX,
    NDJSON,
    ODF,
    NodeProcess,
    Odf,
    clean_environment,
    ndjson,
    node_process,
)
from tests.support.process_tree import end_at_last
from tests.support.stories import reading, root
from tests.support.waiting import wait_until

PASSWORD = "correct horse battery staple"
SHOWN = re.compile(r"^Open (\S+)\nand approve the code ([B-Z]{4}-[B-Z]{4})$", re.MULTILINE)


@dataclass(frozen=True)
class Person:
    """Somebody with a browser, and a command with logins of its own."""

    browser: Browser
    credentials: Path
    url: str

    @property
    def odf(self) -> Odf:
        """The command on the node."""
        return Odf(options=("--node", self.url), environment=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        return {"ODF_CREDENTIALS": str(self.credentials)}

    @contextmanager
    def logging_in(self, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
        """`odf login` that waits: its process, the address and the code that it shows."""
        shown = self.credentials.with_suffix(".err")
        with shown.open("wb") as err:
            process = subprocess.Popen(
                [str(ODF), "login", self.url, "-o", "json", *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                env=clean_environment(**self.environment, **environment),
            )
        try:
            found = wait_until(lambda: SHOWN.search(shown.read_text()), deadline_s=COMMAND_S_MAX, what="the code")
            assert found is not None
            yield process, found[1], found[2]
        finally:
            end_at_last(process)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("login") / "workspace"


@pytest.fixture(scope="module")
def node(place: Path, engine_cache: Path) -> Iterator[NodeProcess]:
    with node_process(place, ODF_DEVICE_INTERVAL_S="1", ODF_ENGINE_CACHE=str(engine_cache)) as running:
        yield running


def person(node: NodeProcess, folder: Path, name: str) -> Person:
    return Person(Browser(), folder / f"{name}.json", node.url)


def ready_file(place: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(place.with_name(f"{place.name}.ready").read_text())
    return found


def test_from_the_first_link_to_a_logout(node: NodeProcess, place: Path, tmp_path: Path) -> None:
    ruth, bob = person(node, tmp_path, "ruth"), person(node, tmp_path, "bob")
    with closing(ruth.browser), closing(bob.browser):
        first_admin_comes(node, place, ruth)
        logs_in_by_browser(ruth)
        invites(ruth, bob)
        says_no_then_yes(bob)
        service_pushes_and_nothing_else(node, ruth, tmp_path)
        shares(ruth, bob)
        logs_out(ruth)


def first_admin_comes(node: NodeProcess, place: Path, admin: Person) -> None:
    link = ready_file(place)["setup"]
    assert link.startswith(f"{node.url}/setup?code=")
    assert link in node.log.read_text()
    admin.browser.open(link)
    assert admin.browser.send(name="ruth", displayName="Ruth", password="too short").status_code == 400
    welcome = admin.browser.send(name="ruth", displayName="Ruth", password=PASSWORD)
    assert (welcome.status_code, f"odf login {node.url}" in welcome.text) == (200, True)
    assert admin.browser.open(link).status_code == 404, "it works once"


def logs_in_by_browser(admin: Person) -> None:
    """A browser that is signed in already: one click in the command's page."""
    opened = admin.credentials.with_suffix(".opened")
    program = admin.credentials.with_suffix(".browser")
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    program.chmod(0o700)
    with admin.logging_in("--open", BROWSER=str(program)) as (process, address, code):
        assert wait_until(lambda: opened.exists() and opened.read_text(), what="the browser") == address
        page = admin.browser.open(address)
        assert code in page.text
        assert "asks to act as you" in page.text
        assert "Approved" in admin.browser.send(decision="approve").text
        out, _ = process.communicate(timeout=COMMAND_S_MAX)
    assert (process.returncode, json.loads(out)) == (0, {"url": admin.url, "account": "ruth"})
    assert stat.S_IMODE(admin.credentials.stat().st_mode) == 0o600
    assert admin.odf.json("login", "--check")["account"] == "ruth"
    assert "admin" in admin.odf.json("whoami")["scopes"]


def invites(admin: Person, guest: Person) -> None:
    made = admin.odf.json("admin", "invite", "bob")
    guest.browser.open(made["url"])
    assert guest.browser.send(password=PASSWORD).status_code == 200
    assert admin.odf.json("admin", "invitations") == []


def says_no_then_yes(guest: Person) -> None:
    """A denied login ends with exit code 1.

    Another one is approved from a browser that has to sign in first.
    """
    with guest.logging_in() as (process, address, _):
        guest.browser.open(address)
        assert "gets no access" in guest.browser.send(decision="deny").text
        out, _ = process.communicate(timeout=COMMAND_S_MAX)
    assert (process.returncode, json.loads(out)["error"]["code"]) == (1, "access-denied")
    assert not guest.credentials.exists()
    with guest.logging_in() as (process, address, code), closing(Browser()) as elsewhere:
        assert "Password" in elsewhere.open(address).text
        elsewhere.send(login="bob", password="wrong")
        page = elsewhere.send(login="bob", password=PASSWORD)
        assert code in page.text
        elsewhere.send(decision="approve")
        process.communicate(timeout=COMMAND_S_MAX)
    assert process.returncode == 0
    assert guest.odf.json("whoami")["accountName"] == "bob"
    assert guest.odf.refused("admin", "invite")["code"] == "not-found"


def service_pushes_and_nothing_else(node: NodeProcess, admin: Person, tmp_path: Path) -> None:
    for name in ("levels", "other"):
        (tmp_path / f"{name}.yaml").write_text(root(name))
        assert admin.odf.json("add", str(tmp_path / f"{name}.yaml"))[0]["alias"] == f"ruth/{name}"
    made = admin.odf.json(
        "token", "create", "gauge", "--kind", "service", "--scope", "push", "--dataset", "levels", "--expires", "30d"
    )
    rows = ndjson([reading(0)])
    pushed = httpx.post(
        f"{node.url}/ruth/levels/ingest",
        content=rows,
        headers={"authorization": f"Bearer {made['token']}", "content-type": NDJSON},
        timeout=COMMAND_S_MAX,
        trust_env=False,
    )
    assert (pushed.status_code, pushed.json()["rows"]) == (200, 1), pushed.text
    gauge = Odf(options=("--node", node.url), environment={"ODF_TOKEN": made["token"]})
    narrow = ("--media-type", NDJSON, "-")
    assert gauge.json("ingest", "levels", *narrow, stdin=ndjson([reading(1)]))["rows"] == 1
    assert "scope `read`" in gauge.refused("tail", "levels")["hint"]
    assert gauge.refused("ingest", "other", *narrow, stdin=rows)["code"] == "not-found"
    assert gauge.refused("token", "create", "more")["code"] == "access-denied"
    admin.odf.json("token", "revoke", made["id"])
    refused = gauge.refused("ingest", "levels", *narrow, stdin=rows)
    assert (refused["code"], refused["hint"]) == ("token-revoked", f"`odf login {node.url}` signs you in")


def shares(admin: Person, guest: Person) -> None:
    assert guest.odf.refused("tail", "ruth/levels")["code"] == "not-found"
    assert admin.odf.json("share", "levels", "bob", "reader")["role"] == "reader"
    assert len(guest.odf.json("tail", "ruth/levels")) == 2
    refused = guest.odf.refused("ingest", "ruth/levels", "--media-type", NDJSON, "-", stdin=ndjson([reading(2)]))
    assert "contributor" in refused["hint"]
    assert admin.odf.json("admin", "explain", "levels", "bob")["role"] == "reader"
    admin.odf.json("share", "levels", "--remove", "bob")
    assert guest.odf.refused("tail", "ruth/levels")["code"] == "not-found"
    assert guest.odf.refused("share", "ruth/levels", "bob", "owner")["code"] == "not-found"


def logs_out(admin: Person) -> None:
    token = json.loads(admin.credentials.read_text())["origins"][admin.url]["token"]
    assert admin.odf.json("logout")["revoked"] is True
    assert admin.odf.refused("login", "--check")["code"] == "unauthenticated"
    answer = httpx.get(f"{admin.url}/accounts/me", headers={"authorization": f"Bearer {token}"}, trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (401, "token-revoked")
