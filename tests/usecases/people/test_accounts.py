"""Accounts: names, standing, limits, deletion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.people.names import RESERVED_ACCOUNT_NAMES
from odfabric.errors import (
    AccessDenied,
    AccountSuspended,
    AlreadyExists,
    Changed,
    InUse,
    InvalidName,
    InvalidRequest,
    LastAdmin,
    NotFound,
    Unauthenticated,
)
from odfabric.model.people.account import AccountLimits
from odfabric.usecases.people.accounts import (
    change_account,
    checked_display_name,
    checked_email,
    create_account,
    delete_account,
    find_account,
    list_accounts,
    set_admin,
    set_limits,
    set_suspended,
)
from tests.usecases.people.conftest import People


def create(people: People, name: str) -> None:
    create_account(name, display_name=None, email=None, subject=people.operator, ports=people.ports)


def test_an_account_has_an_identity_and_a_letter(people: People) -> None:
    ann = people.account("ANN")
    assert str(ann.id).startswith("did:odf:fed01")
    assert (str(ann.name), ann.display_name, ann.avatar_letter) == ("ann", "ann", "A")
    assert people.account("acme").avatar_letter == "A"
    assert people.account("bob").id != ann.id


@pytest.mark.parametrize("name", ["ann", "Ann", "ACME", "local", "Bob"])
def test_a_name_is_taken_in_any_case_of_letters(people: People, name: str) -> None:
    with pytest.raises(AlreadyExists):
        create(people, name)


@pytest.mark.parametrize("name", [*sorted(RESERVED_ACCOUNT_NAMES), "System", "a b", "a_b", "-a", "", "ä", "a" * 101])
def test_names_are_those_of_the_grammar_and_not_reserved(people: People, name: str) -> None:
    with pytest.raises(InvalidName):
        create(people, name)


def test_only_admins_of_the_node_make_and_list_accounts(people: People) -> None:
    for name in ("ann", "bob"):
        with pytest.raises(AccessDenied):
            create_account("new", display_name=None, email=None, subject=people.subject(name), ports=people.ports)
        with pytest.raises(AccessDenied):
            list_accounts(subject=people.subject(name), kind=None, after=None, limit=10, ports=people.ports)
    with pytest.raises(Unauthenticated):
        find_account("ann", subject=people.stranger, ports=people.ports)
    found = list_accounts(subject=people.operator, kind=None, after="acme", limit=2, ports=people.ports)
    assert [str(account.name) for account in found] == ["ann", "bob"]


def test_people_change_what_they_say_of_themselves(people: People) -> None:
    ann = people.subject("ann")
    changed = change_account("ann", display_name=" Ann A. ", email="ann@example.org", subject=ann, ports=people.ports)
    assert (changed.display_name, changed.email, changed.version) == ("Ann A.", "ann@example.org", 2)
    assert change_account("ann", email="", subject=ann, ports=people.ports).email is None
    with pytest.raises(AccessDenied):
        change_account("bob", display_name="x", subject=ann, ports=people.ports)
    with pytest.raises(AccessDenied):  # whether there is such an account or not
        change_account("nobody", display_name="x", subject=ann, ports=people.ports)


def test_a_change_that_was_decided_on_an_older_version_is_refused(people: People) -> None:
    first = people.account("ann").version
    change_account("ann", display_name="one", version=first, subject=people.operator, ports=people.ports)
    with pytest.raises(Changed):
        change_account("ann", display_name="two", version=first, subject=people.operator, ports=people.ports)
    assert people.account("ann").display_name == "one"


def test_a_suspended_account_may_do_nothing_until_it_is_let_in_again(people: People) -> None:
    set_suspended("ann", True, subject=people.operator, ports=people.ports)
    with pytest.raises(AccountSuspended):
        people.subject("ann")
    set_suspended("ann", False, subject=people.operator, ports=people.ports)
    assert people.subject("ann").account is not None
    assert people.kinds()[-2:] == ["account.suspended", "account.resumed"]


def test_the_node_keeps_an_admin(people: People) -> None:
    for refused in (
        lambda: set_admin("local", False, subject=people.operator, ports=people.ports),
        lambda: set_suspended("local", True, subject=people.operator, ports=people.ports),
        lambda: delete_account("local", subject=people.operator, ports=people.ports),
    ):
        with pytest.raises(LastAdmin):
            refused()
    before = people.kinds()
    set_admin("ann", True, subject=people.operator, ports=people.ports)
    set_admin("local", False, subject=people.subject("ann"), ports=people.ports)
    with pytest.raises(AccessDenied):
        set_admin("bob", True, subject=people.operator, ports=people.ports)
    assert people.kinds()[len(before) :] == ["admin.granted", "admin.revoked"]


def test_organisations_and_the_node_s_own_account_are_no_admins(people: People) -> None:
    for name in ("acme", "system"):
        with pytest.raises(InvalidRequest):
            set_admin(name, True, subject=people.operator, ports=people.ports)


def test_an_account_with_datasets_is_not_deleted(people: People) -> None:
    entry = people.add("bob")
    with pytest.raises(InUse):
        delete_account("bob", subject=people.subject("bob"), ports=people.ports)
    people.memory.node.datasets.delete(entry, by=people.subject("bob"))
    delete_account("bob", subject=people.subject("bob"), ports=people.ports)


def test_the_last_admin_of_an_organisation_is_not_deleted_before_it(people: People) -> None:
    with pytest.raises(LastAdmin):
        delete_account("ann", subject=people.subject("ann"), ports=people.ports)
    delete_account("acme", subject=people.subject("ann"), ports=people.ports)
    delete_account("ann", subject=people.subject("ann"), ports=people.ports)
    with pytest.raises(NotFound):
        find_account("ann", subject=people.operator, ports=people.ports)


def test_admins_set_limits(people: People) -> None:
    limits = AccountLimits(datasets_max=1)
    with pytest.raises(AccessDenied):
        set_limits("ann", limits, subject=people.subject("ann"), ports=people.ports)
    assert set_limits("ann", limits, subject=people.operator, ports=people.ports).limits == limits
    assert people.account("ann").limits == limits


@given(st.text(max_size=300))
def test_a_display_name_is_printable_and_bounded(text: str) -> None:
    try:
        shown = checked_display_name(text)
    except InvalidRequest:
        return
    assert shown.isprintable()
    assert 1 <= len(shown) <= 200


@pytest.mark.parametrize("text", ["ann", "ann@", "@example.org", "a b@example.org", "a@b", "a" * 250 + "@x.org"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        checked_email(text)
