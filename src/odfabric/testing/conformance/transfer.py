"""What repositories and stores elsewhere promise, as tests.

Subclasses give the fixtures, new and empty for each test.
"""

from __future__ import annotations

import pytest

from odfabric.errors import AlreadyExists, LimitExceeded, NotFound
from odfabric.model.identity import AccountId, Name
from odfabric.model.people.audit import THE_NODE, AuditEntry, AuditKind
from odfabric.model.transfer.repository import AliasKind, RemoteAlias, RemoteRepository
from odfabric.ports.transfer.repositories import RemoteRepositories
from odfabric.testing.conformance.account_examples import PeoplePorts, with_users
from odfabric.testing.conformance.examples import NOW, entry_of, new_chain

MANY = 100


def repository(name: str, *, account: AccountId | None = None, url: str = "https://node.example/") -> RemoteRepository:
    """A repository; of the node if no account has it."""
    return RemoteRepository(name=Name(name), url=url, account=account, created_at=NOW)


class RepositoriesContract:
    """Repositories and aliases.

    A subclass gives `people` and `repositories` of one store, new and empty for each test.
    """

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    @pytest.fixture
    def repositories(self) -> RemoteRepositories:
        raise NotImplementedError

    def test_what_is_added_is_listed_by_name(self, people: PeoplePorts, repositories: RemoteRepositories) -> None:
        owners = [*(each.id for each in with_users(people, "alice", "bob")), None]
        for account in owners:
            for name in ("shelf", "Attic"):
                repositories.add(repository(name, account=account), maximum=MANY)
        for account in owners:
            found = repositories.of(account)
            assert [str(each.name) for each in found] == ["Attic", "shelf"]
            assert {each.account for each in found} == {account}
            assert found[1] == repository("shelf", account=account)

    def test_a_name_is_taken_once_whatever_its_case(
        self, people: PeoplePorts, repositories: RemoteRepositories
    ) -> None:
        (alice,) = with_users(people, "alice")
        before = people.logged()
        for account in (alice.id, None):
            repositories.add(repository("shelf", account=account), maximum=MANY)
            with pytest.raises(AlreadyExists, match="SHELF"):
                repositories.add(repository("SHELF", account=account, url="s3://b/"), maximum=MANY, audit=[_entry()])
            assert [each.url for each in repositories.of(account)] == ["https://node.example/"]
        assert people.logged() == before

    def test_there_are_not_too_many(self, people: PeoplePorts, repositories: RemoteRepositories) -> None:
        (alice,) = with_users(people, "alice")
        for account in (alice.id, None):
            for name in ("a", "b"):
                repositories.add(repository(name, account=account), maximum=2)
            with pytest.raises(LimitExceeded):
                repositories.add(repository("c", account=account), maximum=2)
            assert repositories.remove(account, Name("A"))
            repositories.add(repository("c", account=account), maximum=2)

    def test_removal_says_whether_there_was_one(self, people: PeoplePorts, repositories: RemoteRepositories) -> None:
        alice, bob = with_users(people, "alice", "bob")
        before = len(people.logged())
        repositories.add(repository("shelf", account=alice.id), maximum=MANY, audit=[_entry()])
        assert not repositories.remove(bob.id, Name("shelf"), audit=[_entry()])
        assert not repositories.remove(None, Name("shelf"), audit=[_entry()])
        assert repositories.remove(alice.id, Name("SHELF"), audit=[_entry()])
        assert list(repositories.of(alice.id)) == []
        assert len(people.logged()) == before + 2

    def test_they_go_with_their_account(self, people: PeoplePorts, repositories: RemoteRepositories) -> None:
        (alice,) = with_users(people, "alice")
        repositories.add(repository("shelf", account=alice.id), maximum=MANY)
        people.accounts.delete(alice.id, audit=_entry())
        assert list(repositories.of(alice.id)) == []
        with pytest.raises(NotFound):
            repositories.add(repository("shelf", account=alice.id), maximum=MANY)

    def test_aliases_are_kept_by_dataset_and_kind(self, people: PeoplePorts, repositories: RemoteRepositories) -> None:
        dataset = new_chain(people.storage.chains).id
        made = [RemoteAlias(dataset=dataset, kind=kind, target=text) for kind in AliasKind for text in ("b/x", "a/x")]
        for alias in [*made, *made]:
            repositories.add_alias(alias, maximum=2)
        for kind in AliasKind:
            assert [each.target for each in repositories.aliases(dataset, kind)] == ["a/x", "b/x"]
            with pytest.raises(LimitExceeded):
                repositories.add_alias(RemoteAlias(dataset=dataset, kind=kind, target="c/x"), maximum=2)
        assert repositories.remove_alias(made[0])
        assert not repositories.remove_alias(made[0])
        assert [each.target for each in repositories.aliases(dataset, made[0].kind)] == ["a/x"]

    def test_a_target_of_any_length_is_kept(self, people: PeoplePorts, repositories: RemoteRepositories) -> None:
        dataset = new_chain(people.storage.chains).id
        alias = RemoteAlias(dataset=dataset, kind=AliasKind.PUSH, target="https://node.example/" + "x" * 1900)
        repositories.add_alias(alias, maximum=2)
        assert list(repositories.aliases(dataset, AliasKind.PUSH)) == [alias]

    def test_aliases_go_with_their_dataset(self, people: PeoplePorts, repositories: RemoteRepositories) -> None:
        chain = new_chain(people.storage.chains)
        repositories.add_alias(RemoteAlias(dataset=chain.id, kind=AliasKind.PUSH, target="a/x"), maximum=2)
        chain.remove()
        assert list(repositories.aliases(chain.id, AliasKind.PUSH)) == []
        gone = RemoteAlias(dataset=entry_of("gone").id, kind=AliasKind.PUSH, target="a/x")
        with pytest.raises(NotFound):
            repositories.add_alias(gone, maximum=2)


def _entry() -> AuditEntry:
    return AuditEntry(kind=AuditKind.REPOSITORY_ADDED, actor=THE_NODE, at=NOW)
