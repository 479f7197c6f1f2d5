"""Saved queries in SQL.

Invariant: the row of the account is held before it is counted how many it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Row, delete, func, literal, select, update

from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.tables.people import accounts, saved_queries
from odfabric.errors import AlreadyExists, LimitExceeded, NotFound
from odfabric.model.identity import AccountId
from odfabric.model.people.saved_query import SavedQuery
from odfabric.ports.people.saved_queries import NAME_TAKEN_HINT, taken


class SqlSavedQueries:
    """A SavedQueries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, query: SavedQuery, *, maximum: int) -> None:
        """See the port."""
        values = {
            "id": query.id,
            "account_id": query.account,
            "name": query.name,
            "sql": query.sql,
            "created_at": query.created_at,
            "changed_at": query.changed_at,
        }
        with self._database.write() as connection:
            _hold_alone(connection, query.account)
            _check_name(connection, query)
            counted = select(func.count()).where(saved_queries.c.account_id == query.account)
            if connection.execute(counted).scalar_one() >= maximum:
                raise LimitExceeded("too many saved queries", limit="saved_queries_per_account_max", maximum=maximum)
            insert_new(connection, saved_queries, values)

    def get(self, account: AccountId, query_id: str) -> SavedQuery | None:
        """See the port."""
        wanted = select(saved_queries).where(saved_queries.c.id == query_id, saved_queries.c.account_id == account)
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
        return _query(found) if found else None

    def of_account(self, account: AccountId) -> Sequence[SavedQuery]:
        """See the port."""
        wanted = select(saved_queries).where(saved_queries.c.account_id == account).order_by(saved_queries.c.id)
        with self._database.read() as connection:
            return [_query(row) for row in connection.execute(wanted)]

    def change(self, query: SavedQuery) -> None:
        """See the port."""
        own = (saved_queries.c.id == query.id) & (saved_queries.c.account_id == query.account)
        with self._database.write() as connection:
            if connection.execute(select(literal(1)).where(own)).one_or_none() is None:
                raise NotFound("saved query", query.id)
            _hold_alone(connection, query.account)
            _check_name(connection, query)
            values = {"name": query.name, "sql": query.sql, "changed_at": query.changed_at}
            connection.execute(update(saved_queries).where(own).values(**values))

    def delete(self, account: AccountId, query_id: str) -> bool:
        """See the port."""
        gone = delete(saved_queries).where(saved_queries.c.id == query_id, saved_queries.c.account_id == account)
        with self._database.write() as connection:
            return connection.execute(gone).rowcount > 0


def _hold_alone(connection: Connection, account: AccountId) -> None:
    """Changes of the queries of one account wait for each other. Raises NotFound."""
    held = select(literal(1)).where(accounts.c.id == account).with_for_update(key_share=True)
    if connection.execute(held).one_or_none() is None:
        raise NotFound("account", str(account))


def _check_name(connection: Connection, query: SavedQuery) -> None:
    same = select(literal(1)).where(
        saved_queries.c.account_id == query.account, saved_queries.c.name == query.name, saved_queries.c.id != query.id
    )
    if connection.execute(same).one_or_none() is not None:
        raise AlreadyExists(taken(query.name), hint=NAME_TAKEN_HINT)


def _query(row: Row[tuple[object, ...]]) -> SavedQuery:
    return SavedQuery(
        id=row.id,
        account=row.account_id,
        name=row.name,
        sql=row.sql,
        created_at=row.created_at,
        changed_at=row.changed_at,
    )
