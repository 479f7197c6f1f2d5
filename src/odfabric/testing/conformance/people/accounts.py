"""What Accounts promises, as tests.

A subclass gives `people`, new and empty for each test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from odfabric.errors import AlreadyExists, Changed, InUse, LastAdmin, NotFound, OdfError
from odfabric.model.identity import Name, WalletAccountId
from odfabric.model.people.account import (
    Account,
    AccountKind,
    AccountLimits,
    DatasetRole,
    ExternalIdentity,
    OrganisationRole,
)
from odfabric.model.people.audit import AuditKind
from odfabric.model.people.credential import DeviceAuthorisation, DeviceDecision, Invitation, TokenKind
from odfabric.testing.conformance.account_examples import (
    PeoplePorts,
    account_id,
    organisation,
    refused,
    set_grant,
    set_membership,
    token,
    told,
    user,
    with_organisation,
    with_users,
)
from odfabric.testing.conformance.examples import NOW, later, new_chain
from odfabric.testing.conformance.together import THREADS, outcomes_of_processes, outcomes_of_threads

CREATED = told(AuditKind.ACCOUNT_CREATED, "x")
CHANGED = told(AuditKind.ACCOUNT_CHANGED, "x")
DELETED = told(AuditKind.ACCOUNT_DELETED, "x")
IDENTITY = ExternalIdentity(issuer="https://login.example/", subject="0815")
ROUNDS = 10
"""Races are repeated: one round may go well by chance."""


def by_case(name: str) -> list[str]:
    """Spellings of a name."""
    return [name.lower(), name.upper(), name.title(), name.swapcase()]


def names(accounts: Sequence[Account]) -> list[str]:
    """Names as they were written."""
    return [str(account.name) for account in accounts]


class AccountsContract:
    """Accounts by one caller at a time."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    def test_of_an_unknown_account_there_is_nothing(self, people: PeoplePorts) -> None:
        accounts, nobody = people.accounts, account_id("nobody")
        assert accounts.by_id(nobody) is None
        assert accounts.by_name(Name("nobody")) is None
        assert accounts.by_identity(IDENTITY) is None
        assert accounts.identities(nobody) == []
        assert accounts.password_hash(nobody) is None
        assert accounts.page(limit=10) == accounts.admins(limit=10) == []

    @pytest.mark.parametrize(
        "account",
        [
            user("Alice"),
            replace(user("bob"), id=WalletAccountId(namespace="eip155", reference="1", address="0xAb16")),
            user(
                "carol",
                display_name="Carol Ångström 🦉",
                email="c@example.org",
                is_admin=True,
                created_at=later(7),
                suspended_at=later(9),
                limits=AccountLimits(datasets_max=3, stored_bytes_max=2**50, queries_at_once_max=0),
                version=4,
            ),
        ],
        ids=lambda account: str(account.name),
    )
    def test_what_was_created_is_read(self, people: PeoplePorts, account: Account) -> None:
        people.accounts.create(account, audit=CREATED)
        for found in (
            people.accounts.by_id(account.id),
            people.accounts.by_name(account.name),
            *people.accounts.page(limit=10),
        ):
            assert found == account
            assert found is not None
            assert str(found.name) == str(account.name)
        assert [stored.entry for stored in people.audit.page(limit=10)] == [CREATED]

    def test_names_compare_without_case_and_are_kept(self, people: PeoplePorts) -> None:
        with_users(people, "Alice")
        for name in by_case("alice"):
            found = people.accounts.by_name(Name(name))
            assert found is not None
            assert str(found.name) == "Alice"

    @pytest.mark.parametrize("name", by_case("alice"))
    def test_a_name_is_taken_once_whatever_its_case(self, people: PeoplePorts, name: str) -> None:
        with_users(people, "Alice")
        with refused(people, AlreadyExists) as raised:
            people.accounts.create(replace(user("other"), name=Name(name)), audit=CREATED)
        assert raised.value.hint == "choose another name"

    def test_an_identity_of_an_account_is_taken_once(self, people: PeoplePorts) -> None:
        with_users(people, "alice")
        with refused(people, AlreadyExists):
            people.accounts.create(replace(user("other"), id=account_id("alice")), audit=CREATED)

    def test_pages_are_in_order_of_names(self, people: PeoplePorts) -> None:
        (first, *_) = with_users(people, "bob", "Alice", "a-1", "A.b", "zoe", "B-2")
        with_organisation(people, "Lab", first.id)
        ordered = ["a-1", "A.b", "Alice", "B-2", "bob", "Lab", "zoe"]
        assert names(people.accounts.page(limit=10)) == ordered
        assert names(people.accounts.page(limit=2)) == ordered[:2]
        assert names(people.accounts.page(after=Name("ALICE"), limit=2)) == ordered[3:5]
        assert names(people.accounts.page(after=Name("c"), limit=9)) == ordered[5:]
        assert names(people.accounts.page(kind=AccountKind.ORGANISATION, limit=9)) == ["Lab"]
        assert names(people.accounts.page(kind=AccountKind.USER, after=Name("b"), limit=9)) == ["B-2", "bob", "zoe"]

    def test_pages_of_what_was_searched(self, people: PeoplePorts) -> None:
        with_users(people, "bob", "Alice", "a-1")
        people.accounts.create(user("zoe", email="Zoe_Z@Liverpool.example"), audit=CREATED)
        assert names(people.accounts.page(containing="LI", limit=9)) == ["Alice", "zoe"]
        assert names(people.accounts.page(containing="li", after=Name("alice"), limit=9)) == ["zoe"]
        assert names(people.accounts.page(containing="_z@", limit=9)) == ["zoe"]
        for text in ("%", "a_1", "ali%", "\\", "nobody", "'\0"):
            assert people.accounts.page(containing=text, limit=9) == []
        assert people.accounts.page(containing="li", kind=AccountKind.ORGANISATION, limit=9) == []

    def test_admins_are_those_who_are_not_suspended(self, people: PeoplePorts) -> None:
        _, bob, _ = with_users(people, "zoe", "Bob", "alice", admins=("zoe", "Bob"))
        assert names(people.accounts.admins(limit=10)) == ["Bob", "zoe"]
        assert names(people.accounts.admins(limit=1)) == ["Bob"]
        people.accounts.change(replace(bob, suspended_at=NOW), audit=CHANGED)
        assert names(people.accounts.admins(limit=10)) == ["zoe"]

    def test_an_organisation_begins_with_its_founder_as_admin(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        lab = with_organisation(people, "lab", alice.id)
        (member,) = people.relations.members(lab.id, limit=10)
        assert (member.member, member.role, member.version) == (alice.id, OrganisationRole.ADMIN, 1)
        assert people.relations.memberships(alice.id) == [member]

    @pytest.mark.parametrize("founder", ["nobody", "lab"])
    def test_a_founder_is_a_user_who_is_there(self, people: PeoplePorts, founder: str) -> None:
        (alice,) = with_users(people, "alice")
        with_organisation(people, "lab", alice.id)
        with refused(people, NotFound):
            people.accounts.create(organisation("other"), audit=CREATED, founder=account_id(founder))

    def test_organisations_and_nobody_else_have_founders(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        with pytest.raises(ValueError, match="founder"):
            people.accounts.create(organisation("lab"), audit=CREATED)
        with pytest.raises(ValueError, match="founder"):
            people.accounts.create(user("bob"), audit=CREATED, founder=alice.id)
        assert names(people.accounts.page(limit=10)) == ["alice"]

    def test_a_change_is_stored_with_the_next_version(self, people: PeoplePorts) -> None:
        (alice, _) = with_users(people, "Alice", "bob")
        wanted = replace(
            alice,
            display_name="A",
            email="a@example.org",
            is_admin=True,
            suspended_at=later(5),
            limits=AccountLimits(pushes_per_minute_max=1),
        )
        changed = people.accounts.change(wanted, audit=CHANGED)
        assert changed == replace(wanted, version=2) == people.accounts.by_id(alice.id)
        back = people.accounts.change(replace(alice, version=2), audit=CHANGED)
        assert back == replace(alice, version=3) == people.accounts.by_id(alice.id)
        assert people.logged()[2:] == [(AuditKind.ACCOUNT_CHANGED, "x")] * 2

    def test_name_kind_and_time_of_creation_stay(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "Alice")
        other = replace(alice, name=Name("other"), kind=AccountKind.ORGANISATION, created_at=later(9), email="e")
        changed = people.accounts.change(other, audit=CHANGED)
        assert changed == replace(alice, email="e", version=2) == people.accounts.by_id(alice.id)
        assert str(changed.name) == "Alice"

    def test_a_change_of_another_version_is_refused(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.accounts.change(replace(alice, display_name="A"), audit=CHANGED)
        for version in (1, 3):
            with refused(people, Changed) as raised:
                people.accounts.change(replace(alice, display_name="B", version=version), audit=CHANGED)
            assert "read it again" in (raised.value.hint or "")
        with refused(people, NotFound):
            people.accounts.change(user("nobody"), audit=CHANGED)

    @pytest.mark.parametrize("what", ["demoted", "suspended", "deleted"])
    def test_the_last_admin_of_the_node_stays(self, people: PeoplePorts, what: str) -> None:
        alice, bob, _ = with_users(people, "alice", "bob", "carol", admins=("alice", "bob"))
        people.accounts.change(replace(bob, suspended_at=NOW), audit=CHANGED)
        leave = leaving(people, what)
        with refused(people, LastAdmin) as raised:
            leave(alice)
        assert "another" in (raised.value.hint or "")
        people.accounts.change(replace(bob, version=2), audit=CHANGED)
        leave(alice)
        assert names(people.accounts.admins(limit=9)) == ["bob"]

    def test_a_node_without_admins_lets_others_change(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        people.accounts.change(replace(alice, email="e"), audit=CHANGED)
        people.accounts.delete(bob.id, audit=DELETED)
        assert people.accounts.by_id(bob.id) is None

    def test_a_deleted_account_leaves_nothing(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        lab, club = with_organisation(people, "lab", bob.id), with_organisation(people, "club", bob.id)
        for of in (lab, club):
            set_membership(people, of.id, alice.id, OrganisationRole.ADMIN)
        chain = new_chain(people.storage.chains, account="lab")
        set_grant(people, chain.id, alice.id, DatasetRole.READER)
        kept = set_grant(people, chain.id, bob.id, DatasetRole.OWNER)
        people.accounts.link_identity(alice.id, IDENTITY, audit=CHANGED)
        give_credentials(people, alice)
        people.accounts.delete(alice.id, audit=DELETED)
        assert people.accounts.by_id(alice.id) is people.accounts.by_name(alice.name) is None
        assert people.accounts.by_identity(IDENTITY) is None
        assert people.relations.memberships(alice.id) == []
        assert [member.member for member in people.relations.members(lab.id, limit=9)] == [bob.id]
        assert people.relations.grants(chain.id, limit=9) == [kept]
        assert people.tokens.get("t1") is None
        assert people.invitations.get("reset") is None
        assert people.devices.by_user_code("ABCD") is None
        assert people.logged()[-1] == (AuditKind.ACCOUNT_DELETED, "x")
        people.accounts.delete(club.id, audit=DELETED)
        assert [each.organisation for each in people.relations.memberships(bob.id)] == [lab.id]
        with_users(people, "ALICE")
        assert people.relations.memberships(alice.id) == []
        assert people.accounts.password_hash(alice.id) is None

    def test_who_cannot_be_deleted(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "Alice", "bob")
        with refused(people, NotFound):
            people.accounts.delete(account_id("nobody"), audit=DELETED)
        lab = with_organisation(people, "lab", alice.id)
        set_membership(people, lab.id, bob.id, OrganisationRole.MEMBER)
        with refused(people, LastAdmin) as raised:
            people.accounts.delete(alice.id, audit=DELETED)
        assert "lab" in raised.value.message
        people.accounts.delete(bob.id, audit=DELETED)
        people.accounts.delete(lab.id, audit=DELETED)
        chains = [new_chain(people.storage.chains, f"d{number:02}", account="ALICE") for number in range(12)]
        with refused(people, InUse) as in_use:
            people.accounts.delete(alice.id, audit=DELETED)
        assert isinstance(in_use.value, InUse)
        assert in_use.value.users == tuple(f"ALICE/d{number:02}" for number in range(10))
        for chain in chains:
            chain.remove()
        people.accounts.delete(alice.id, audit=DELETED)
        assert people.accounts.page(limit=9) == []

    def test_a_password_replaces_the_one_before_and_ends_sessions(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        assert people.accounts.password_hash(alice.id) is None
        for owner, name, kind in (
            (alice, "s1", TokenKind.SESSION),
            (alice, "p1", TokenKind.PERSONAL),
            (bob, "s2", TokenKind.SESSION),
        ):
            people.tokens.create(token(name, owner.id, kind=kind), audit=CREATED)
        changed = told(AuditKind.PASSWORD_CHANGED, "alice", at=later(3))
        people.accounts.set_password(alice.id, "$argon2id$1", audit=changed)
        people.accounts.set_password(alice.id, "$argon2id$2", audit=changed)
        assert people.accounts.password_hash(alice.id) == "$argon2id$2"
        assert people.accounts.password_hash(bob.id) is None
        ends = {name: found.revoked_at for name in ("s1", "p1", "s2") if (found := people.tokens.get(name))}
        assert ends == {"s1": later(3), "p1": None, "s2": None}
        assert people.accounts.by_id(alice.id) == alice
        assert people.logged()[-2:] == [(AuditKind.PASSWORD_CHANGED, "alice")] * 2
        with refused(people, NotFound):
            people.accounts.set_password(account_id("nobody"), "h", audit=changed)

    def test_an_external_identity_is_one_accounts(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        linked = told(AuditKind.IDENTITY_LINKED, "alice")
        others = [ExternalIdentity(issuer="https://b.example", subject=text) for text in ("b", "B", "ä")]
        for identity in (IDENTITY, *others):
            people.accounts.link_identity(alice.id, identity, audit=linked)
            assert people.accounts.by_identity(identity) == alice
        assert people.accounts.identities(alice.id) == [others[1], others[0], others[2], IDENTITY]
        assert people.accounts.identities(bob.id) == []
        logged = people.logged()
        people.accounts.link_identity(alice.id, IDENTITY, audit=linked)
        assert people.logged() == logged
        with refused(people, AlreadyExists):
            people.accounts.link_identity(bob.id, IDENTITY, audit=linked)
        with refused(people, NotFound):
            people.accounts.link_identity(account_id("nobody"), IDENTITY, audit=linked)


class AccountsRaceContract:
    """Accounts by many callers at once."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    def test_of_racing_creations_of_a_name_one_succeeds(self, people: PeoplePorts) -> None:
        spellings = by_case("alice")

        def create(number: int) -> str:
            spelled = Name(spellings[number % len(spellings)])
            people.accounts.create(replace(user(f"user-{number}"), name=spelled), audit=CREATED)
            return "created"

        assert sorted(map(outcome, outcomes_of_threads(create))) == ["AlreadyExists"] * (THREADS - 1) + ["created"]
        assert len(people.accounts.page(limit=99)) == len(people.logged()) == 1

    def test_of_racing_changes_one_succeeds(self, people: PeoplePorts) -> None:
        alice, _ = with_users(people, "alice", "bob", admins=("alice", "bob"))
        for version in range(1, ROUNDS + 1):
            wanted = [
                replace(alice, version=version, is_admin=number % 2 == 0, email=f"{number}") for number in range(8)
            ]
            done = outcomes_of_threads(lambda number: people.accounts.change(wanted[number], audit=CHANGED), count=8)  # noqa: B023
            (won,) = [each for each in done if isinstance(each, Account)]
            assert [outcome(each) for each in done if each is not won] == ["Changed"] * 7
            assert won == people.accounts.by_id(alice.id) == replace(wanted[int(won.email or "")], version=version + 1)
        assert len(people.logged()) == 2 + ROUNDS

    @pytest.mark.parametrize("what", ["demoted", "suspended", "deleted"])
    def test_of_all_admins_who_leave_at_once_one_stays(self, people: PeoplePorts, what: str) -> None:
        leave = leaving(people, what)
        for number in range(ROUNDS):
            admins = [f"a{number}-{each}" for each in range(4)]
            made = with_users(people, *admins, admins=admins)
            for old in people.accounts.admins(limit=99):
                if old not in made:
                    leave(old)
            done = outcomes_of_threads(lambda each: leave(made[each]), count=len(made))  # noqa: B023
            assert sorted(map(outcome, done)) == ["LastAdmin", "left", "left", "left"]
            assert len(people.accounts.admins(limit=99)) == 1

    def test_an_account_and_what_is_given_to_it_go_together(self, people: PeoplePorts) -> None:
        """What is given to an account during its deletion is refused, or goes with it."""
        (bob,) = with_users(people, "bob")
        lab = with_organisation(people, "lab", bob.id)
        chain = new_chain(people.storage.chains, account="lab")
        for number in range(ROUNDS):
            (doomed,) = with_users(people, f"u{number}")
            give: list[Callable[[], object]] = [
                lambda: people.accounts.delete(doomed.id, audit=DELETED),  # noqa: B023
                lambda: set_membership(people, lab.id, doomed.id, OrganisationRole.MEMBER),  # noqa: B023
                lambda: set_grant(people, chain.id, doomed.id, DatasetRole.READER),  # noqa: B023
                lambda: people.tokens.create(token(f"t{number}", doomed.id), audit=CREATED),  # noqa: B023
                lambda: people.accounts.set_password(doomed.id, "h", audit=CHANGED),  # noqa: B023
                lambda: people.accounts.link_identity(doomed.id, IDENTITY, audit=CHANGED),  # noqa: B023
            ]
            done = outcomes_of_threads(lambda each: give[each]() and None, count=len(give))  # noqa: B023
            assert {outcome(each) for each in done} <= {"None", "NotFound"}
            assert people.accounts.by_id(doomed.id) is None
            assert people.relations.memberships(doomed.id) == []
            assert people.relations.grants(chain.id, limit=9) == []
            assert people.tokens.get(f"t{number}") is None
            assert people.accounts.by_identity(IDENTITY) is None


class AccountsProcessContract:
    """The same between processes; `open_people` opens the storage in another one."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    @pytest.fixture
    def open_people(self) -> Callable[[], PeoplePorts]:
        raise NotImplementedError

    def test_of_racing_processes_one_has_the_name(
        self, people: PeoplePorts, open_people: Callable[[], PeoplePorts]
    ) -> None:
        assert outcomes_of_processes(open_people, _create_alice) == ["AlreadyExists"] * 3 + ["created"]
        assert len(people.accounts.page(limit=99)) == len(people.logged()) == 1

    def test_of_admins_who_leave_by_racing_processes_one_stays(
        self, people: PeoplePorts, open_people: Callable[[], PeoplePorts]
    ) -> None:
        with_users(people, "a0", "a1", "a2", "a3", admins=("a0", "a1", "a2", "a3"))
        assert outcomes_of_processes(open_people, _leave) == ["LastAdmin", "left", "left", "left"]
        assert len(people.accounts.admins(limit=99)) == 1


def leaving(people: PeoplePorts, what: str) -> Callable[[Account], str]:
    """How an admin leaves."""

    def leave(account: Account) -> str:
        match what:
            case "demoted":
                people.accounts.change(replace(account, is_admin=False), audit=CHANGED)
            case "suspended":
                people.accounts.change(replace(account, suspended_at=NOW), audit=CHANGED)
            case _:
                people.accounts.delete(account.id, audit=DELETED)
        return "left"

    return leave


def give_credentials(people: PeoplePorts, account: Account) -> None:
    """A password, a token, an invitation and a device of an account."""
    people.accounts.set_password(account.id, "h", audit=CHANGED)
    people.tokens.create(token("t1", account.id), audit=CREATED)
    reset = Invitation(
        id="reset", code_hash=b"c" * 32, created_at=NOW, created_by=None, expires_at=later(9), account=account.id
    )
    people.invitations.create(reset, audit=CREATED)
    device = DeviceAuthorisation(
        device_code_hash=b"d" * 32, user_code="ABCD", client="odf", created_at=NOW, expires_at=later(9), interval_s=5
    )
    people.devices.create(device, waiting_max=9)
    people.devices.decide("ABCD", DeviceDecision.APPROVED, account.id, now=NOW, audit=CHANGED)


def outcome(found: object) -> str:
    """What came out of a race, as a text; an error by its name."""
    return type(found).__name__ if isinstance(found, OdfError) else str(found)


def _create_alice(people: PeoplePorts, number: int) -> str:
    spelled = Name(by_case("alice")[number])
    people.accounts.create(replace(user(f"user-{number}"), name=spelled), audit=CREATED)
    return "created"


def _leave(people: PeoplePorts, number: int) -> str:
    account = people.accounts.by_id(account_id(f"a{number}"))
    assert account is not None
    return leaving(people, "demoted" if number % 2 else "deleted")(account)
