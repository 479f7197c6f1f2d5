"""A copy of the state in memory is whole and goes its own way."""

from __future__ import annotations

from odfabric.adapters.memory.store import MemoryStore
from odfabric.model.people.account import DatasetRole
from odfabric.model.people.audit import AuditKind
from odfabric.testing.conformance.account_examples import (
    set_grant,
    state_of,
    token,
    told,
    with_organisation,
    with_users,
)
from odfabric.testing.conformance.examples import new_chain
from tests.support.people import in_memory


def test_a_backup_has_everything_and_changes_no_more() -> None:
    store = MemoryStore()
    people = in_memory(store)
    (alice,) = with_users(people, "alice")
    with_organisation(people, "lab", alice.id)
    chain = new_chain(people.storage.chains)
    set_grant(people, chain.id, alice.id, DatasetRole.READER)
    people.tokens.create(token("t1", alice.id), audit=told(AuditKind.TOKEN_CREATED))
    kept = in_memory(store.backup())
    before = state_of(people)
    assert state_of(kept) == before
    people.accounts.set_password(alice.id, "h", audit=told(AuditKind.PASSWORD_CHANGED))
    set_grant(people, chain.id, alice.id, DatasetRole.OWNER)
    people.audit.flushed(99)
    chain.remove()
    assert state_of(kept) == before
    assert len(kept.audit.unflushed(counted_before=told(AuditKind.SIGNED_IN).at, limit=99)) == len(kept.logged())
