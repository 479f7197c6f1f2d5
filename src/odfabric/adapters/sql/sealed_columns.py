"""The list of columns with sealed secrets, which rotations of the key walk.

Owns the list and the statements for a column. A new kind of secret is a line in `sealed_stores`; what seals it when it is stored is in
`adapters.sealed`. Not here: how they are sealed (`ports.node.sealing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Column, LargeBinary, String, func, select, type_coerce, update

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.commit_intents import SqlIntentKeys
from odfabric.adapters.sql.tables.datasets import datasets
from odfabric.adapters.sql.tables.node import signing_keys
from odfabric.adapters.sql.tables.subscriptions import subscriptions
from odfabric.adapters.sql.tables.variables import variables
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.ports.node.sealing import (
    SealedRow,
    SealedStore,
    dataset_key_context,
    is_plain_webhook_secret,
    signing_key_context,
    variable_context,
    webhook_secret_context,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSealedColumn:
    """A SealedStore over a column of bytes.

    The text column `key` identifies a row; `context` maps that text to the context of the secret.
    """

    database: Database
    name: str
    key: Column[object]
    column: Column[bytes]
    context: Callable[[str], bytes]
    plain: Callable[[bytes], bool] | None = None

    @property
    def may_be_plain(self) -> bool:
        """See the port."""
        return self.plain is not None

    def is_plain(self, data: bytes) -> bool:
        """See the port."""
        return self.plain is not None and self.plain(data)

    def rows(self, *, unlike: bytes, after: str | None, limit: int) -> Sequence[SealedRow]:
        """See the port."""
        key = type_coerce(self.key, String)
        wanted = select(key, self.column).where(
            self.column.is_not(None), func.substr(self.column, 1, len(unlike), type_=LargeBinary) != unlike
        )
        if after is not None:
            wanted = wanted.where(key > after)
        with self.database.read() as connection:
            found = connection.execute(wanted.order_by(key).limit(limit)).all()
        return [SealedRow(name, self.context(name), data) for name, data in found]

    def replace(self, changes: Sequence[tuple[SealedRow, bytes]]) -> int:
        """See the port."""
        key, table, replaced = type_coerce(self.key, String), self.key.table, 0
        if changes:
            with self.database.write() as connection:
                for row, data in changes:
                    change = update(table).where(key == row.key, self.column == row.data)
                    replaced += connection.execute(change.values({self.column: data})).rowcount
        return replaced


def sealed_stores(database: Database) -> tuple[SealedStore, ...]:
    """Everything in the database that is sealed with the node's key."""
    return (
        SqlSealedColumn(
            database=database,
            name="dataset keys",
            key=datasets.c.id,
            column=datasets.c.sealed_key,
            context=lambda name: dataset_key_context(parse_dataset_id(f"did:odf:{name}")),
        ),
        SqlSealedColumn(
            database=database,
            name="webhook secrets",
            key=subscriptions.c.id,
            column=subscriptions.c.secret,
            context=webhook_secret_context,
            plain=is_plain_webhook_secret,
        ),
        SqlSealedColumn(
            database=database,
            name="old webhook secrets",
            key=subscriptions.c.id,
            column=subscriptions.c.old_secret,
            context=webhook_secret_context,
            plain=is_plain_webhook_secret,
        ),
        SqlIntentKeys(database),
        SqlSealedColumn(
            database=database,
            name="signing keys",
            key=signing_keys.c.id,
            column=signing_keys.c.private_key,
            context=signing_key_context,
        ),
        SqlSealedColumn(
            database=database,
            name="secrets of sources",
            key=variables.c.id,
            column=variables.c.sealed,
            context=variable_context,
        ),
    )
