"""Saved queries in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odfabric.adapters.memory.people.accounts import hold_account
from odfabric.adapters.memory.store import MemoryStore
from odfabric.errors import AlreadyExists, LimitExceeded, NotFound
from odfabric.model.identity import AccountId
from odfabric.model.people.saved_query import SavedQuery
from odfabric.ports.people.saved_queries import NAME_TAKEN_HINT, taken


class MemorySavedQueries:
    """A SavedQueries."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def create(self, query: SavedQuery, *, maximum: int) -> None:
        """See the port."""
        with self._store.lock:
            hold_account(self._store, query.account)
            self._check_name(query)
            if len(self.of_account(query.account)) >= maximum:
                raise LimitExceeded("too many saved queries", limit="saved_queries_per_account_max", maximum=maximum)
            self._store.saved_queries[query.id] = query

    def get(self, account: AccountId, query_id: str) -> SavedQuery | None:
        """See the port."""
        with self._store.lock:
            found = self._store.saved_queries.get(query_id)
            return found if found is not None and found.account == account else None

    def of_account(self, account: AccountId) -> Sequence[SavedQuery]:
        """See the port."""
        with self._store.lock:
            found = [query for query in self._store.saved_queries.values() if query.account == account]
        return sorted(found, key=lambda query: query.id)

    def change(self, query: SavedQuery) -> None:
        """See the port."""
        with self._store.lock:
            known = self.get(query.account, query.id)
            if known is None:
                raise NotFound("saved query", query.id)
            self._check_name(query)
            changed = replace(known, name=query.name, sql=query.sql, changed_at=query.changed_at)
            self._store.saved_queries[query.id] = changed

    def delete(self, account: AccountId, query_id: str) -> bool:
        """See the port."""
        with self._store.lock:
            if self.get(account, query_id) is None:
                return False
            del self._store.saved_queries[query_id]
            return True

    def _check_name(self, query: SavedQuery) -> None:
        others = [each for each in self.of_account(query.account) if each.id != query.id]
        if any(each.name == query.name for each in others):
            raise AlreadyExists(taken(query.name), hint=NAME_TAKEN_HINT)
