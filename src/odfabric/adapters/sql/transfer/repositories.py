"""Repositories and aliases in SQL.

Invariant: anyone who counts rows holds the row that they belong to, of the node none: its limit is soft.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Row, delete, func, literal, select

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.tables.datasets import datasets
from odfabric.adapters.sql.tables.people import accounts
from odfabric.adapters.sql.tables.repositories import remote_aliases, repositories
from odfabric.errors import AlreadyExists, LimitExceeded, NotFound
from odfabric.model.identity import AccountId, DatasetId, Name
from odfabric.model.people.audit import AuditEntry
from odfabric.model.transfer.repository import AliasKind, RemoteAlias, RemoteRepository


class SqlRepositories:
    """A RemoteRepositories."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, repository: RemoteRepository, *, maximum: int, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        values = {
            "id": _key(repository.account, repository.name),
            "account_id": repository.account,
            "name": str(repository.name),
            "url": repository.url,
            "created_at": repository.created_at,
        }
        with self._database.write() as connection:
            if repository.account is not None:
                _hold_account(connection, repository.account)
            counted = select(func.count()).where(_of(repository.account))
            known = select(literal(1)).where(repositories.c.id == values["id"])
            if connection.execute(known).one_or_none() is None and connection.execute(counted).scalar_one() >= maximum:
                raise LimitExceeded("too many repositories", limit="repositories_per_account_max", maximum=maximum)
            if not insert_new(connection, repositories, values):
                raise AlreadyExists(
                    f"a repository {repository.name} is known already",
                    hint=f"choose another name, or forget it with `odf repo remove {repository.name}`",
                )
            insert_audit(connection, audit)

    def of(self, account: AccountId | None) -> Sequence[RemoteRepository]:
        """See the port."""
        with self._database.read() as connection:
            found = [_repository(row) for row in connection.execute(select(repositories).where(_of(account)))]
        return sorted(found, key=lambda each: each.name.folded)

    def remove(self, account: AccountId | None, name: Name, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        gone = delete(repositories).where(repositories.c.id == _key(account, name))
        with self._database.write() as connection:
            if not connection.execute(gone).rowcount:
                return False
            insert_audit(connection, audit)
            return True

    def add_alias(self, alias: RemoteAlias, *, maximum: int) -> None:
        """See the port."""
        held = select(literal(1)).where(datasets.c.id == alias.dataset).with_for_update(key_share=True)
        known = select(literal(1)).where(remote_aliases.c.id == _alias_key(alias))
        counted = select(func.count()).where(
            remote_aliases.c.dataset_id == alias.dataset, remote_aliases.c.kind == alias.kind.value
        )
        values = {
            "id": _alias_key(alias),
            "dataset_id": alias.dataset,
            "kind": alias.kind.value,
            "target": alias.target,
        }
        with self._database.write() as connection:
            if connection.execute(held).one_or_none() is None:
                raise NotFound("dataset", str(alias.dataset))
            if connection.execute(known).one_or_none() is not None:
                return
            if connection.execute(counted).scalar_one() >= maximum:
                raise LimitExceeded("too many aliases", limit="repositories_per_account_max", maximum=maximum)
            insert_new(connection, remote_aliases, values)

    def aliases(self, dataset: DatasetId, kind: AliasKind) -> Sequence[RemoteAlias]:
        """See the port."""
        wanted = select(remote_aliases).where(
            remote_aliases.c.dataset_id == dataset, remote_aliases.c.kind == kind.value
        )
        with self._database.read() as connection:
            found = [
                RemoteAlias(dataset=row.dataset_id, kind=AliasKind(row.kind), target=row.target)
                for row in connection.execute(wanted)
            ]
        return sorted(found, key=lambda each: each.target)

    def remove_alias(self, alias: RemoteAlias) -> bool:
        """See the port."""
        gone = delete(remote_aliases).where(remote_aliases.c.id == _alias_key(alias))
        with self._database.write() as connection:
            return connection.execute(gone).rowcount > 0


def _hold_account(connection: Connection, account: AccountId) -> None:
    """Changes of the repositories of one account wait for each other. Raises NotFound."""
    held = select(literal(1)).where(accounts.c.id == account).with_for_update(key_share=True)
    if connection.execute(held).one_or_none() is None:
        raise NotFound("account", str(account))


def _of(account: AccountId | None) -> ColumnElement[bool]:
    return repositories.c.account_id.is_(None) if account is None else repositories.c.account_id == account


def _key(account: AccountId | None, name: Name) -> str:
    return f"{account or ''}/{name.folded}"


def _alias_key(alias: RemoteAlias) -> str:
    return hashlib.sha3_256(f"{alias.dataset} {alias.kind.value} {alias.target}".encode()).hexdigest()


def _repository(row: Row[tuple[object, ...]]) -> RemoteRepository:
    return RemoteRepository(name=Name(row.name), url=row.url, account=row.account_id, created_at=row.created_at)
