"""Repositories in memory."""

from __future__ import annotations

from collections.abc import Sequence

from odfabric.adapters.memory.people.accounts import hold_account
from odfabric.adapters.memory.store import MemoryStore
from odfabric.errors import AlreadyExists, LimitExceeded, NotFound
from odfabric.model.identity import AccountId, DatasetId, Name
from odfabric.model.people.audit import AuditEntry
from odfabric.model.transfer.repository import AliasKind, RemoteAlias, RemoteRepository


class MemoryRepositories:
    """A RemoteRepositories."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def add(self, repository: RemoteRepository, *, maximum: int, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        with self._store.lock:
            if repository.account is not None:
                hold_account(self._store, repository.account)
            known = self.of(repository.account)
            if any(each.name == repository.name for each in known):
                raise AlreadyExists(
                    f"a repository {repository.name} is known already",
                    hint=f"choose another name, or forget it with `odf repo remove {repository.name}`",
                )
            if len(known) >= maximum:
                raise LimitExceeded("too many repositories", limit="repositories_per_account_max", maximum=maximum)
            self._store.repositories[repository.account, repository.name] = repository
            self._store.log(*audit)

    def of(self, account: AccountId | None) -> Sequence[RemoteRepository]:
        """See the port."""
        with self._store.lock:
            found = [each for each in self._store.repositories.values() if each.account == account]
        return sorted(found, key=lambda each: each.name.folded)

    def remove(self, account: AccountId | None, name: Name, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        with self._store.lock:
            if self._store.repositories.pop((account, name), None) is None:
                return False
            self._store.log(*audit)
            return True

    def add_alias(self, alias: RemoteAlias, *, maximum: int) -> None:
        """See the port."""
        with self._store.lock:
            if alias.dataset not in self._store.datasets:
                raise NotFound("dataset", str(alias.dataset))
            known = self.aliases(alias.dataset, alias.kind)
            if alias in known:
                return
            if len(known) >= maximum:
                raise LimitExceeded("too many aliases", limit="repositories_per_account_max", maximum=maximum)
            self._store.remote_aliases.add(alias)

    def aliases(self, dataset: DatasetId, kind: AliasKind) -> Sequence[RemoteAlias]:
        """See the port."""
        with self._store.lock:
            found = [each for each in self._store.remote_aliases if (each.dataset, each.kind) == (dataset, kind)]
        return sorted(found, key=lambda each: each.target)

    def remove_alias(self, alias: RemoteAlias) -> bool:
        """See the port."""
        with self._store.lock:
            if alias not in self._store.remote_aliases:
                return False
            self._store.remote_aliases.remove(alias)
            return True
