"""Signing keys in SQL.

Invariant: a row has a private half exactly as long as it is not retired.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Row, delete, select, update

from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.tables.node import signing_keys
from odfabric.errors import AlreadyExists
from odfabric.model.instant import Instant
from odfabric.model.people.signing_key import SigningKey


class SqlSigningKeys:
    """A SigningKeys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, key: SigningKey, *, private: bytes) -> None:
        """See the port."""
        retire = update(signing_keys).where(signing_keys.c.private_key.is_not(None))
        values = {"id": key.id, "public_key": key.public, "private_key": private, "made_at": key.made_at}
        with self._database.write() as connection:
            connection.execute(retire.values(retired_at=key.made_at, private_key=None))
            if not insert_new(connection, signing_keys, values):
                raise AlreadyExists(f"signing key {key.id} exists already")

    def current(self) -> tuple[SigningKey, bytes] | None:
        """See the port."""
        # On PostgreSQL two processes that both made the first key leave two that sign; either is published, the newer one is used.
        wanted = select(signing_keys).where(signing_keys.c.private_key.is_not(None))
        with self._database.read() as connection:
            found = connection.execute(wanted.order_by(signing_keys.c.position.desc()).limit(1)).one_or_none()
        return (_key(found), found.private_key) if found else None

    def all(self) -> Sequence[SigningKey]:
        """See the port."""
        with self._database.read() as connection:
            rows = connection.execute(select(signing_keys).order_by(signing_keys.c.position.desc())).all()
        return [_key(row) for row in rows]

    def forget_retired(self, *, before: Instant) -> int:
        """See the port."""
        over = signing_keys.c.retired_at < before
        with self._database.read() as connection:
            if connection.execute(select(signing_keys.c.id).where(over).limit(1)).one_or_none() is None:
                return 0
        with self._database.write() as connection:
            return connection.execute(delete(signing_keys).where(over)).rowcount


def _key(row: Row[tuple[object, ...]]) -> SigningKey:
    return SigningKey(id=row.id, public=row.public_key, made_at=row.made_at, retired_at=row.retired_at)
