"""Concurrent changes of rights, remaining admins, taken and reserved names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from odfabric.domain.people.names import RESERVED_ACCOUNT_NAMES
from odfabric.model.people.account import DatasetRole, OrganisationRole
from odfabric.usecases.people.accounts import set_admin, set_suspended
from odfabric.usecases.people.organisations import set_member
from odfabric.wiring import Node
from odfabric.wiring.node_ports import intercepted
from tests.services.api.documented import check_documented
from tests.services.api.intercepting import Around
from tests.services.api.people import People
from tests.services.api.serving import Served, serving


@dataclass(frozen=True, slots=True)
class World:
    """A node, and what happens around the calls of its ports."""

    people: People
    served: Served
    around: Around

    def meanwhile(self, call: str, act: Callable[[], object]) -> None:
        """Let `act` happen once, directly before a call."""

        def once() -> None:
            self.around.before.pop(call)
            act()

        self.around.before[call] = once


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    people, around = People(tmp_path), Around()
    with serving(Node(intercepted(people.node.ports, around), people.memory.settings)) as served:
        yield World(people, served, around)


@pytest.fixture
def client(world: World) -> Iterator[httpx.Client]:
    with world.served.client(None) as found:
        found.event_hooks = {"response": [check_documented(world.served.app)]}
        yield found


def as_(world: World, name: str) -> dict[str, str]:
    return world.people.bearer(name)


@pytest.mark.parametrize(("condition", "status"), [({}, 409), ({"if-match": '"v1"'}, 412)])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_of_two_who_change_a_role_at_once_one_is_told(
    world: World, client: httpx.Client, method: str, condition: dict[str, str], status: int
) -> None:
    """Even if nobody said which version they had seen: neither overwrites the other."""
    people = world.people
    entry = people.add("ann", "shared")
    people.grant(entry, "carl", DatasetRole.READER)
    world.meanwhile("relation.change_grant", lambda: people.grant(entry, "carl", DatasetRole.EDITOR))
    body = {"json": {"role": "owner"}} if method == "PUT" else {}
    headers = {**as_(world, "ann"), **condition}
    answer = client.request(method, "/ann/shared/collaborators/carl", headers=headers, **body)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (status, "changed")
    (found,) = client.get("/ann/shared/collaborators", headers=as_(world, "ann")).json()["collaborators"]
    assert (found["account"]["name"], found["role"]) == ("carl", "editor")


@pytest.mark.parametrize(("condition", "status"), [({}, 409), ({"if-match": '"v1"'}, 412)])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_of_two_admins_who_change_a_member_at_once_one_is_told(
    world: World, client: httpx.Client, method: str, condition: dict[str, str], status: int
) -> None:
    people = world.people

    def promote() -> None:
        set_member("acme", "max", OrganisationRole.ADMIN, subject=people.subject("ada"), ports=people.ports)

    world.meanwhile("relation.change_membership", promote)
    body = {"json": {"role": "admin"}} if method == "PUT" else {}
    headers = {**as_(world, "ada"), **condition}
    answer = client.request(method, "/orgs/acme/members/max", headers=headers, **body)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (status, "changed")
    members = client.get("/orgs/acme/members", headers=as_(world, "ada")).json()["members"]
    assert {each["account"]["name"]: each["role"] for each in members} == {"ada": "admin", "max": "admin"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/admin/accounts/pia", {"isAdmin": True}),
        ("/admin/accounts/pia", {"isSuspended": True}),
        ("/accounts/pia", {"displayName": "Another"}),
    ],
)
@pytest.mark.parametrize(("condition", "status"), [({}, 409), ({"if-match": "SEEN"}, 412)])
def test_of_two_admins_who_change_an_account_at_once_one_is_told(
    world: World, client: httpx.Client, path: str, body: dict[str, Any], condition: dict[str, str], status: int
) -> None:
    people = world.people
    seen = {name: f'"v{people.account("pia").version}"' for name in condition}

    def suspend() -> None:
        set_suspended("pia", True, subject=people.subject("root"), ports=people.ports)
        set_suspended("pia", False, subject=people.subject("root"), ports=people.ports)

    world.meanwhile("account.change", suspend)
    answer = client.patch(path, headers={**as_(world, "root"), **seen}, json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, "changed")
    assert people.account("pia").is_admin is False
    again = client.patch(path, headers={**as_(world, "root"), **seen}, json=body)
    assert again.status_code == (412 if condition else 200)


def test_the_version_that_was_read_is_the_one_that_is_changed(world: World, client: httpx.Client) -> None:
    people, ann = world.people, as_(world, "ann")
    people.add("ann", "shared")
    path = "/ann/shared/collaborators/carl"
    made = client.put(path, headers={**ann, "if-match": '"v0"'}, json={"role": "reader"})
    assert made.status_code == 200
    assert client.put(path, headers={**ann, "if-match": '"v0"'}, json={"role": "owner"}).status_code == 412
    seen = {**ann, "if-match": made.headers["etag"]}
    changed = client.put(path, headers=seen, json={"role": "editor"})
    assert changed.status_code == 200
    assert client.delete(path, headers=seen).status_code == 412
    assert client.delete(path, headers={**ann, "if-match": changed.headers["etag"]}).status_code == 204


LAST = [
    ("PATCH", "/admin/accounts/root", {"isAdmin": False}),
    ("PATCH", "/admin/accounts/root", {"isSuspended": True}),
    ("DELETE", "/accounts/root", None),
]


@pytest.mark.parametrize(("method", "path", "body"), LAST)
def test_the_last_admin_of_the_node_stays(
    world: World, client: httpx.Client, method: str, path: str, body: dict[str, Any] | None
) -> None:
    people = world.people
    set_admin("local", False, subject=people.subject("root"), ports=people.ports)
    answer = client.request(method, path, headers=as_(world, "root"), json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "last-admin")
    assert client.get("/admin/accounts", headers=as_(world, "root")).status_code == 200


@pytest.mark.parametrize(("method", "path", "body"), LAST)
def test_two_admins_do_not_remove_each_other(
    world: World, client: httpx.Client, method: str, path: str, body: dict[str, Any] | None
) -> None:
    people = world.people

    def demote_the_other() -> None:
        set_admin("local", False, subject=people.subject("root"), ports=people.ports)

    world.meanwhile("account.delete" if method == "DELETE" else "account.change", demote_the_other)
    answer = client.request(method, path, headers=as_(world, "local"), json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "last-admin")
    assert people.account("root").is_admin


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/orgs/acme/members/ada", {"role": "member"}),
        ("DELETE", "/orgs/acme/members/ada", None),
        ("DELETE", "/accounts/ada", None),
    ],
)
@pytest.mark.parametrize("by", ["ada", "root"])
def test_the_last_admin_of_an_organisation_stays(
    world: World, client: httpx.Client, method: str, path: str, body: dict[str, Any] | None, by: str
) -> None:
    answer = client.request(method, path, headers=as_(world, by), json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "last-admin")
    assert len(client.get("/orgs/acme/members", headers=as_(world, "ada")).json()["members"]) == 2


def doors(name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every way to an account of that name, as path, whose token, body."""
    yield "/admin/accounts", "root", {"name": name}
    yield "/admin/invitations", "root", {"name": name}
    yield "/orgs", "pia", {"name": name}


@pytest.mark.parametrize(
    ("names", "status", "code"),
    [
        (("ann", "ANN", "Acme", "aCME", "LOCAL", "Spare"), 409, "already-exists"),
        (
            tuple(spelt for name in sorted(RESERVED_ACCOUNT_NAMES) for spelt in (name, name.upper())),
            400,
            "invalid-name",
        ),
        (("no--name", "with space", "*", ""), 400, "invalid-name"),
    ],
    ids=["taken in any case of letters", "reserved", "no names"],
)
def test_names_that_nobody_can_have(
    world: World, client: httpx.Client, names: tuple[str, ...], status: int, code: str
) -> None:
    for name in names:
        for path, who, body in doors(name):
            answer = client.post(path, headers=as_(world, who), json=body)
            assert (answer.status_code, answer.json()["code"]) == (status, code), (name, path)
    for name in names:
        assert invited(world, client, name) == status, name


def test_a_free_name_is_had_by_every_door(world: World, client: httpx.Client) -> None:
    for number, (path, who, _) in enumerate(doors("")):
        answer = client.post(path, headers=as_(world, who), json={"name": f"newcomer-{number}"})
        assert answer.status_code == 201, path
    assert invited(world, client, "guest") == 200


def invited(world: World, client: httpx.Client, name: str) -> int:
    """Who chooses that name on the page of an invitation: the status of the answer."""
    made = client.post("/admin/invitations", headers=as_(world, "root"), json={})
    code = made.json()["url"].partition("code=")[2]
    hooks, client.event_hooks = client.event_hooks, {}
    form = {"code": code, "name": name, "password": "correct horse battery staple"}
    status = client.post("/setup", data=form).status_code
    client.event_hooks = hooks
    client.cookies.clear()
    return status
