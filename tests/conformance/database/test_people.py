"""Accounts, relations, credentials, audit log: memory and SQL keep one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database
from odfabric.errors import Determinate
from odfabric.model.commit import OutboxMessage
from odfabric.model.people.account import DatasetRole, ExternalIdentity, Grant, Membership, OrganisationRole
from odfabric.model.people.audit import AuditKind
from odfabric.model.people.credential import DeviceDecision, TokenKind
from odfabric.testing.conformance.account_examples import (
    PeoplePorts,
    organisation,
    state_of,
    token,
    told,
    user,
    with_organisation,
    with_users,
)
from odfabric.testing.conformance.examples import NOW, GrowingChain, entry_of, new_chain
from odfabric.testing.conformance.people.accounts import (
    AccountsContract,
    AccountsProcessContract,
    AccountsRaceContract,
)
from odfabric.testing.conformance.people.audit import AuditedDatasetsContract, AuditLogContract, append
from odfabric.testing.conformance.people.credentials import (
    DevicesContract,
    InvitationsContract,
    TokensContract,
    device,
    invitation,
)
from odfabric.testing.conformance.people.relations import GrantsContract, MembershipsContract, ViewerContract
from odfabric.testing.conformance.people.saved_queries import SavedQueriesContract
from odfabric.testing.conformance.subscriptions.events import SECRET, subscription_of
from tests.support.chains.object_heads import Sharing
from tests.support.people import in_database, in_memory
from tests.support.waiting import wait_until

TOLD = told(AuditKind.SETTING_CHANGED, "x")


def open_people_of(url: str) -> PeoplePorts:
    return in_database(Database(url, busy_s_max=30))


class InMemory:
    @pytest.fixture
    def people(self) -> PeoplePorts:
        return in_memory(MemoryStore())


class OnSqlite:
    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        return sqlite_url

    @pytest.fixture
    def database(self, database_url: str) -> Iterator[Database]:
        database = Database(database_url, busy_s_max=30)
        yield database
        database.close()

    @pytest.fixture
    def people(self, database: Database) -> PeoplePorts:
        return in_database(database)

    @pytest.fixture
    def open_people(self, database_url: str) -> Callable[[], PeoplePorts]:
        return partial(open_people_of, database_url)


class OnPostgres(OnSqlite):
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url


class InFolder(OnSqlite):
    """Heads of record in a folder of objects."""

    @pytest.fixture
    def people(self, database: Database, tmp_path: Path) -> PeoplePorts:
        return in_database(database, Sharing(database, FolderObjectStore(tmp_path / "objects")).storage)


class OneTransaction(OnSqlite):
    """A change whose audit entry cannot be written does not happen."""

    @pytest.fixture
    def unwritable(self, database: Database) -> Callable[[], AbstractContextManager[None]]:
        """The audit log is not there as long as the context is open."""

        @contextmanager
        def without_log() -> Iterator[None]:
            rename(database, "audit_log", "elsewhere")
            yield
            rename(database, "elsewhere", "audit_log")

        return without_log

    def test_without_its_entry_nothing_happens(
        self, people: PeoplePorts, unwritable: Callable[[], AbstractContextManager[None]]
    ) -> None:
        changes = changes_of(people)
        for name, change in changes.items():
            before, kept = state_of(people), things_of(people)
            with unwritable(), pytest.raises((Determinate, DBAPIError)):
                pytest.fail(f"{name} went through: {change()}")
            assert (state_of(people), things_of(people)) == (before, kept), name
            logged = people.logged()
            change()
            assert len(people.logged()) == len(logged) + 1, f"{name} has one entry"


def rename(database: Database, before: str, after: str) -> None:
    with database.write() as connection:
        connection.execute(text(f"ALTER TABLE {before} RENAME TO {after}"))


def changes_of(people: PeoplePorts) -> dict[str, Callable[[], object]]:
    """Every change that is audited, each possible after those before it."""
    alice, bob, carol = with_users(people, "alice", "bob", "carol", admins=("alice",))
    lab = with_organisation(people, "lab", alice.id)
    chain = new_chain(people.storage.chains)
    for name in ("t1", "t2"):
        people.tokens.create(token(name, bob.id), audit=TOLD)
    for name in ("i1", "i2"):
        people.invitations.create(invitation(name), audit=TOLD)
    for name in ("a", "b"):
        people.devices.create(device(name), waiting_max=9)
    people.devices.decide("A", DeviceDecision.APPROVED, bob.id, now=NOW, audit=TOLD)
    member = Membership(organisation=lab.id, member=bob.id, role=OrganisationRole.MEMBER)
    grant = Grant(dataset=chain.id, grantee=bob.id, role=DatasetRole.READER)
    assert chain.head is not None
    head, subscription = chain.head, subscription_of(chain)
    identity = ExternalIdentity(issuer="https://login.example", subject="b")
    end = OutboxMessage(chain.id, head, None, NOW)
    return {
        "create account": lambda: people.accounts.create(user("dave"), audit=TOLD),
        "create organisation": lambda: people.accounts.create(organisation("club"), audit=TOLD, founder=bob.id),
        "change account": lambda: people.accounts.change(replace(bob, email="b@example.org"), audit=TOLD),
        "delete account": lambda: people.accounts.delete(carol.id, audit=TOLD),
        "set password": lambda: people.accounts.set_password(bob.id, "h", audit=TOLD),
        "link identity": lambda: people.accounts.link_identity(bob.id, identity, audit=TOLD),
        "make member": lambda: people.relations.change_membership(None, member, audit=TOLD),
        "change member": lambda: people.relations.change_membership(member, member, audit=TOLD),
        "remove member": lambda: people.relations.change_membership(replace(member, version=2), None, audit=TOLD),
        "give role": lambda: people.relations.change_grant(None, grant, audit=TOLD),
        "change role": lambda: people.relations.change_grant(grant, grant, audit=TOLD),
        "take role": lambda: people.relations.change_grant(replace(grant, version=2), None, audit=TOLD),
        "create token": lambda: people.tokens.create(token("t3", bob.id), audit=TOLD),
        "revoke token": lambda: people.tokens.revoke("t1", now=NOW, audit=TOLD),
        "revoke tokens": lambda: people.tokens.revoke_all(bob.id, kinds=list(TokenKind), now=NOW, audit=TOLD),
        "invite": lambda: people.invitations.create(invitation("i3"), audit=TOLD),
        "use invitation": lambda: people.invitations.use(invitation("i1"), user("erin"), "h", now=NOW, audit=TOLD),
        "revoke invitation": lambda: people.invitations.revoke("i2", audit=TOLD),
        "decide": lambda: people.devices.decide("B", DeviceDecision.DENIED, bob.id, now=NOW, audit=TOLD),
        "redeem": lambda: people.devices.redeem(device("a").device_code_hash, token("t4", bob.id), audit=TOLD),
        "create dataset": lambda: append(GrowingChain(people.storage.chains, entry_of("other")), audit=[TOLD]),
        "subscribe": lambda: people.storage.subscriptions.create(subscription, secret=SECRET, audit=[TOLD]),
        "unsubscribe": lambda: people.storage.subscriptions.delete(subscription.id, audit=[TOLD]),
        "remove dataset": lambda: people.storage.chains.remove(chain.id, expected=head, message=end, audit=[TOLD]),
    }


def things_of(people: PeoplePorts) -> list[object]:
    """What else those changes change."""
    return [
        [people.tokens.get(f"t{number}") for number in range(5)],
        [people.invitations.get(f"i{number}") for number in range(5)],
        [people.devices.by_user_code(code) for code in "AB"],
        people.storage.catalog.page(limit=9),
        people.storage.subscriptions.get("s1"),
        people.storage.outbox.pending(limit=99),
    ]


class TestSqliteOneTransaction(OneTransaction): ...


class TestPostgresOneTransaction(OnPostgres, OneTransaction): ...


class TestMemoryAccounts(InMemory, AccountsContract): ...


class TestMemoryAccountsAtOnce(InMemory, AccountsRaceContract): ...


class TestMemoryMemberships(InMemory, MembershipsContract): ...


class TestMemoryGrants(InMemory, GrantsContract): ...


class TestMemoryViewer(InMemory, ViewerContract): ...


class TestMemorySavedQueries(InMemory, SavedQueriesContract): ...


class TestMemoryTokens(InMemory, TokensContract): ...


class TestMemoryInvitations(InMemory, InvitationsContract): ...


class TestMemoryDevices(InMemory, DevicesContract): ...


class TestMemoryAuditLog(InMemory, AuditLogContract): ...


class TestMemoryAuditedDatasets(InMemory, AuditedDatasetsContract): ...


class TestSqliteAccounts(OnSqlite, AccountsContract): ...


class TestSqliteAccountsAtOnce(OnSqlite, AccountsRaceContract): ...


class TestSqliteAccountsBetweenProcesses(OnSqlite, AccountsProcessContract): ...


class TestSqliteMemberships(OnSqlite, MembershipsContract): ...


class TestSqliteGrants(OnSqlite, GrantsContract): ...


class TestSqliteViewer(OnSqlite, ViewerContract): ...


class TestSqliteSavedQueries(OnSqlite, SavedQueriesContract): ...


class TestSqliteTokens(OnSqlite, TokensContract): ...


class TestSqliteInvitations(OnSqlite, InvitationsContract): ...


class TestSqliteDevices(OnSqlite, DevicesContract): ...


class TestSqliteAuditLog(OnSqlite, AuditLogContract): ...


class TestSqliteAuditedDatasets(OnSqlite, AuditedDatasetsContract): ...


class TestFolderGrants(InFolder, GrantsContract): ...


class TestFolderAuditedDatasets(InFolder, AuditedDatasetsContract): ...


class TestPostgresAccounts(OnPostgres, AccountsContract): ...


class TestPostgresAccountsAtOnce(OnPostgres, AccountsRaceContract): ...


class TestPostgresAccountsBetweenProcesses(OnPostgres, AccountsProcessContract): ...


class TestPostgresMemberships(OnPostgres, MembershipsContract): ...


class TestPostgresGrants(OnPostgres, GrantsContract): ...


class TestPostgresViewer(OnPostgres, ViewerContract): ...


class TestPostgresSavedQueries(OnPostgres, SavedQueriesContract): ...


class TestPostgresTokens(OnPostgres, TokensContract): ...


class TestPostgresInvitations(OnPostgres, InvitationsContract): ...


class TestPostgresDevices(OnPostgres, DevicesContract): ...


class TestPostgresAuditLog(OnPostgres, AuditLogContract): ...


class TestPostgresOpenTransactions(OnPostgres):
    def test_a_reader_waits_for_entries_below_those_that_are_committed(
        self, people: PeoplePorts, database: Database
    ) -> None:
        with ThreadPoolExecutor(1) as reader:
            with database.write() as writing:
                insert_audit(writing, [told(AuditKind.SIGNED_IN, "first")])
                people.audit.add(told(AuditKind.SIGNED_IN, "second"))
                assert people.logged() == [(AuditKind.SIGNED_IN, "second")]
                found = reader.submit(people.audit.unflushed, counted_before=NOW, limit=9)
                wait_until(lambda: found.done() or somebody_waits(database), deadline_s=30, what="the reader")
            assert [stored.entry.target for stored in found.result(30)] == ["first", "second"]


def somebody_waits(database: Database) -> bool:
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'audit_log'::regclass"
    with database.read() as connection:
        return bool(connection.execute(text(waiting)).scalar_one())


class TestPostgresAuditedDatasets(OnPostgres, AuditedDatasetsContract): ...
