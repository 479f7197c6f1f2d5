"""Roles on a dataset, and whether everybody may read it."""

from __future__ import annotations

import pytest

from odfabric.domain.people.access import Action
from odfabric.errors import AccessDenied, Changed, InvalidRequest, NotFound, Unauthenticated
from odfabric.model.people.account import DatasetRole, Visibility
from odfabric.usecases.people.explain import explain
from odfabric.usecases.people.sharing import list_collaborators, set_role, set_visibility, visibility_of
from tests.usecases.people.conftest import People

READER, CONTRIBUTOR, EDITOR, MAINTAINER, OWNER = DatasetRole


def test_a_role_is_given_used_and_taken_back(people: People) -> None:
    entry, access = people.add("ann"), people.memory.node.access
    ann, ports = people.subject("ann"), people.ports
    given = set_role(entry, "bob", CONTRIBUTOR, subject=ann, ports=ports)
    assert given is not None
    access.require(people.subject("bob"), Action.PUSH, entry)
    with pytest.raises(AccessDenied):
        access.require(people.subject("bob"), Action.WRITE, entry)
    assert [
        (str(each.account.name), each.grant.role) for each in list_collaborators(entry, subject=ann, ports=ports)
    ] == [("bob", CONTRIBUTOR)]
    set_role(entry, "bob", None, subject=ann, ports=ports)
    with pytest.raises(NotFound):
        access.require(people.subject("bob"), Action.READ, entry)
    assert people.kinds()[-2:] == ["role.granted", "role.revoked"]


def test_a_role_of_an_organisation_is_that_of_its_members(people: People) -> None:
    entry = people.add("bob")
    set_role(entry, "acme", READER, subject=people.subject("bob"), ports=people.ports)
    people.memory.node.access.require(people.subject("ann"), Action.FOLLOW, entry)
    reasons = explain(entry, "ann", subject=people.operator, ports=people.ports)
    assert (reasons.role, reasons.reasons) == (READER, ("the organisation acme was given the role reader",))
    assert reasons.allowed == ("read", "follow")


def test_nobody_gives_or_takes_more_than_they_have(people: People) -> None:
    entry, ports = people.add("ann"), people.ports
    set_role(entry, "bob", MAINTAINER, subject=people.subject("ann"), ports=ports)
    bob = people.subject("bob")
    with pytest.raises(AccessDenied):
        set_role(entry, "acme", OWNER, subject=bob, ports=ports)
    set_role(entry, "acme", MAINTAINER, subject=bob, ports=ports)
    set_role(entry, "acme", OWNER, subject=people.subject("ann"), ports=ports)
    with pytest.raises(AccessDenied):
        set_role(entry, "acme", None, subject=bob, ports=ports)
    for role in (READER, CONTRIBUTOR, EDITOR):
        set_role(entry, "bob", role, subject=people.subject("ann"), ports=ports)
        with pytest.raises(AccessDenied):
            set_role(entry, "acme", READER, subject=people.subject("bob"), ports=ports)


def test_a_role_may_be_given_back(people: People) -> None:
    entry, ports = people.add("ann"), people.ports
    set_role(entry, "bob", READER, subject=people.subject("ann"), ports=ports)
    with pytest.raises(AccessDenied):
        set_role(entry, "ann", None, subject=people.subject("bob"), ports=ports)
    set_role(entry, "BOB", None, subject=people.subject("bob"), ports=ports)
    with pytest.raises(NotFound):
        set_role(entry, "bob", None, subject=people.subject("bob"), ports=ports)


def test_owners_need_no_role_and_only_accounts_get_one(people: People) -> None:
    entry, ann = people.add("ann"), people.subject("ann")
    with pytest.raises(InvalidRequest):
        set_role(entry, "ann", READER, subject=ann, ports=people.ports)
    with pytest.raises(NotFound):
        set_role(entry, "nobody", READER, subject=ann, ports=people.ports)
    with pytest.raises(NotFound):
        set_role(entry, "bob", None, subject=ann, ports=people.ports)


def test_of_two_who_decided_on_the_same_role_one_is_told(people: People) -> None:
    entry, ann = people.add("ann"), people.subject("ann")
    set_role(entry, "bob", READER, version=0, subject=ann, ports=people.ports)
    with pytest.raises(Changed):
        set_role(entry, "bob", EDITOR, version=0, subject=ann, ports=people.ports)
    set_role(entry, "bob", EDITOR, version=1, subject=ann, ports=people.ports)


def test_a_public_dataset_is_everybody_s_to_read_and_nobody_s_to_follow_without_an_account(people: People) -> None:
    entry, access, ports = people.add("ann"), people.memory.node.access, people.ports
    for subject in (people.stranger, people.subject("bob")):
        with pytest.raises(NotFound):
            access.require(subject, Action.READ, entry)
    set_visibility(entry, Visibility.PUBLIC, subject=people.subject("ann"), ports=ports)
    access.require(people.stranger, Action.READ, entry)
    with pytest.raises(Unauthenticated):
        access.require(people.stranger, Action.FOLLOW, entry)
    access.require(people.subject("bob"), Action.FOLLOW, entry)
    with pytest.raises(AccessDenied):
        access.require(people.subject("bob"), Action.PUSH, entry)
    assert visibility_of(entry, ports=ports) is Visibility.PUBLIC
    assert list_collaborators(entry, subject=people.subject("ann"), ports=ports) == []
    set_visibility(entry, Visibility.PRIVATE, subject=people.subject("ann"), ports=ports)
    with pytest.raises(NotFound):
        access.require(people.stranger, Action.READ, entry)


def test_roles_go_with_their_dataset(people: People) -> None:
    entry, ann = people.add("ann"), people.subject("ann")
    set_role(entry, "bob", OWNER, subject=ann, ports=people.ports)
    people.memory.node.datasets.delete(entry, by=people.subject("bob"))
    assert people.ports.relations.grants(entry.id, limit=10) == []
