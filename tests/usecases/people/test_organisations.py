"""Organisations: who belongs to them, and what that gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.domain.people.access import Action
from odfabric.errors import AccessDenied, Changed, InvalidRequest, LastAdmin, NotFound
from odfabric.model.people.account import OrganisationRole
from odfabric.model.people.credential import Scope, TokenKind
from odfabric.usecases.people.accounts import find_account
from odfabric.usecases.people.organisations import create_organisation, list_members, set_member
from odfabric.usecases.people.tokens import NewToken, create_token
from tests.usecases.people.conftest import People

MEMBER, ADMIN = OrganisationRole.MEMBER, OrganisationRole.ADMIN


def join(
    people: People, name: str, role: OrganisationRole | None, *, by: str = "ann", version: int | None = None
) -> None:
    set_member("acme", name, role, version=version, subject=people.subject(by), ports=people.ports)


def test_whoever_makes_an_organisation_is_its_first_admin(people: People) -> None:
    (found,) = list_members("acme", subject=people.subject("ann"), ports=people.ports)
    assert (str(found[0].name), found[1].role) == ("ann", ADMIN)


def test_members_edit_its_datasets_and_admins_own_them(people: People) -> None:
    entry, access = people.add("acme"), people.memory.node.access
    with pytest.raises(NotFound):
        access.require(people.subject("bob"), Action.READ, entry)
    join(people, "bob", MEMBER)
    access.require(people.subject("bob"), Action.WRITE, entry)
    access.require_here(people.subject("bob"), Action.CREATE, under=people.account("acme").name, shown="acme/x")
    with pytest.raises(AccessDenied):
        access.require(people.subject("bob"), Action.SHARE, entry)
    join(people, "bob", ADMIN)
    access.require(people.subject("bob"), Action.DELETE, entry)
    join(people, "bob", None)
    with pytest.raises(NotFound):
        access.require(people.subject("bob"), Action.READ, entry)


def test_only_members_and_admins_of_the_node_know_who_belongs_to_it(people: People) -> None:
    with pytest.raises(NotFound):
        list_members("acme", subject=people.subject("bob"), ports=people.ports)
    assert len(list_members("acme", subject=people.operator, ports=people.ports)) == 1
    for name in ("nobody", "ann", "system"):
        with pytest.raises(NotFound):
            list_members(name, subject=people.operator, ports=people.ports)


def test_members_leave_by_themselves_and_change_nobody_else(people: People) -> None:
    join(people, "bob", MEMBER)
    with pytest.raises(AccessDenied):
        join(people, "ann", None, by="bob")
    with pytest.raises(AccessDenied):
        join(people, "bob", ADMIN, by="bob")
    join(people, "bob", None, by="bob")
    assert people.subject("bob").organisations == ()


def test_a_token_that_only_reads_leaves_nothing(people: People) -> None:
    join(people, "bob", MEMBER)
    for bounds in ({"scopes": frozenset({Scope.READ})}, {"datasets": frozenset({people.add("bob").id})}):
        narrow = replace(people.subject("bob"), **bounds)
        with pytest.raises(AccessDenied):
            set_member("acme", "bob", None, subject=narrow, ports=people.ports)
    assert people.subject("bob").organisations != ()


def test_people_are_named_to_tokens_that_read(people: People) -> None:
    """A token without read scope learns nothing of accounts and members.

    One that pushes rows from a field station gives its finder nothing.
    """
    for bounds in ({"scopes": frozenset({Scope.PUSH})}, {"datasets": frozenset({people.add("ann").id})}):
        narrow = replace(people.subject("ann"), **bounds)
        with pytest.raises(AccessDenied):
            list_members("acme", subject=narrow, ports=people.ports)
        with pytest.raises(AccessDenied):
            find_account("bob", subject=narrow, ports=people.ports)
    reads = replace(people.subject("ann"), scopes=frozenset({Scope.READ}))
    assert len(list_members("acme", subject=reads, ports=people.ports)) == 1
    assert find_account("bob", subject=reads, ports=people.ports) == people.account("bob")


def test_the_last_admin_stays(people: People) -> None:
    for role in (None, MEMBER):
        with pytest.raises(LastAdmin):
            join(people, "ann", role)
    join(people, "bob", ADMIN)
    join(people, "ann", None)
    assert [str(account.name) for account, _ in list_members("acme", subject=people.operator, ports=people.ports)] == [
        "bob"
    ]


def test_of_two_admins_who_decided_on_the_same_state_one_is_told(people: People) -> None:
    join(people, "bob", MEMBER, version=0)
    with pytest.raises(Changed):
        join(people, "bob", ADMIN, version=0)
    join(people, "bob", ADMIN, version=1)


def test_organisations_are_made_by_users_and_have_users(people: People) -> None:
    with pytest.raises(InvalidRequest):
        join(people, "acme", MEMBER)
    service = NewToken(name="service", kind=TokenKind.SERVICE)
    create_token(service, of="acme", subject=people.subject("ann"), ports=people.ports)
    with pytest.raises(InvalidRequest):
        create_organisation("other", display_name=None, email=None, subject=people.subject("acme"), ports=people.ports)
