"""How much accounts use, in SQL.

A column of the row that each commit writes anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select, update

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.tables.datasets import datasets, heads
from odfabric.model.identity import AccountName, DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.people.usage import AccountUsage


class SqlUsage:
    """A Usage."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_account(self, account: AccountName) -> AccountUsage:
        """See the port."""
        joined = datasets.join(heads, datasets.c.id == heads.c.dataset_id)
        wanted = (
            select(func.count(), func.coalesce(func.sum(heads.c.stored_bytes), 0))
            .select_from(joined)
            .where(datasets.c.account_folded == account.folded)
        )
        with self._database.read() as connection:
            count, size = connection.execute(wanted).one()
        return AccountUsage(int(count), int(size))

    def unmeasured(self, *, limit: int) -> Sequence[DatasetId]:
        """See the port."""
        wanted = select(heads.c.dataset_id).where(heads.c.stored_bytes.is_(None)).limit(limit)
        with self._database.read() as connection:
            return list(connection.execute(wanted).scalars())

    def measured(self, dataset: DatasetId, head: Multihash, stored_bytes: int) -> bool:
        """See the port."""
        unknown = (heads.c.dataset_id == dataset, heads.c.hash == head, heads.c.stored_bytes.is_(None))
        with self._database.write() as connection:
            return connection.execute(update(heads).where(*unknown).values(stored_bytes=stored_bytes)).rowcount > 0
