"""What SavedQueries promises, as tests.

A subclass gives `people`, new and empty for each test.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from odfabric.errors import AlreadyExists, LimitExceeded, NotFound
from odfabric.model.people.audit import AuditKind
from odfabric.model.people.saved_query import SavedQuery
from odfabric.testing.conformance.account_examples import PeoplePorts, account_id, told, with_users
from odfabric.testing.conformance.examples import NOW, later

MANY = 100


def query(query_id: str, name: str = "late flights", *, of: str = "alice", **others: Any) -> SavedQuery:
    """A query that is not kept yet."""
    kept = {"sql": "SELECT 1", "created_at": NOW, "changed_at": NOW, **others}
    return SavedQuery(id=query_id, account=account_id(of), name=name, **kept)


class SavedQueriesContract:
    """Queries of accounts."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    def test_a_query_is_of_its_account_alone(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        text = "SELECT 'ä\n\\' -- \U0001f600"
        first, second = query("q2", sql=text, changed_at=later(5)), query("q1", "Late flights")
        for each in (first, second, query("q3", of="bob")):
            people.saved_queries.create(each, maximum=MANY)
        assert list(people.saved_queries.of_account(alice.id)) == [second, first]
        assert people.saved_queries.get(alice.id, "q2") == first
        assert people.saved_queries.get(bob.id, "q2") is None
        assert people.saved_queries.get(alice.id, "q9") is None
        with pytest.raises(NotFound):
            people.saved_queries.create(query("q4", of="nobody"), maximum=MANY)

    def test_names_are_unique_in_an_account(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.saved_queries.create(query("q1", "a"), maximum=MANY)
        people.saved_queries.create(query("q2", "b"), maximum=MANY)
        with pytest.raises(AlreadyExists):
            people.saved_queries.create(query("q3", "a"), maximum=MANY)
        with pytest.raises(AlreadyExists):
            people.saved_queries.change(query("q2", "a"))
        assert [each.name for each in people.saved_queries.of_account(alice.id)] == ["a", "b"]

    def test_an_account_keeps_so_many(self, people: PeoplePorts) -> None:
        (alice, _) = with_users(people, "alice", "bob")
        for number in range(2):
            people.saved_queries.create(query(f"q{number}", f"{number}"), maximum=2)
        with pytest.raises(LimitExceeded):
            people.saved_queries.create(query("q2", "2"), maximum=2)
        people.saved_queries.create(query("q3", of="bob"), maximum=2)
        assert people.saved_queries.delete(alice.id, "q0")
        people.saved_queries.create(query("q2", "2"), maximum=2)

    def test_name_and_text_are_changed(self, people: PeoplePorts) -> None:
        (alice, _) = with_users(people, "alice", "bob")
        known = query("q1")
        people.saved_queries.create(known, maximum=MANY)
        changed = replace(known, name="early flights", sql="SELECT 2", changed_at=later(7))
        people.saved_queries.change(replace(changed, created_at=later(9)))
        assert people.saved_queries.get(alice.id, "q1") == changed
        for other in (query("q9"), query("q1", of="bob")):
            with pytest.raises(NotFound):
                people.saved_queries.change(other)

    def test_only_the_account_deletes(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        people.saved_queries.create(query("q1"), maximum=MANY)
        assert not people.saved_queries.delete(bob.id, "q1")
        assert people.saved_queries.delete(alice.id, "q1")
        assert not people.saved_queries.delete(alice.id, "q1")

    def test_queries_go_with_their_account(self, people: PeoplePorts) -> None:
        _, bob = with_users(people, "alice", "bob", admins=("alice",))
        people.saved_queries.create(query("q1", of="bob"), maximum=MANY)
        people.accounts.delete(bob.id, audit=told(AuditKind.ACCOUNT_DELETED, "bob"))
        assert people.saved_queries.get(bob.id, "q1") is None
