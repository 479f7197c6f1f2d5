"""Locks by name for all processes that share a PostgreSQL database.

Owns the mapping of names to numbers of advisory locks. Invariant: a lock belongs to a transaction of its own, so the server frees it
with the connection of a process that dies. Two names of one number only wait for each other. On SQLite, files do this
(`local_fs.folder_locks`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy import text

from odfabric.adapters.sql.database import Database
from odfabric.errors import Determinate

_log = logging.getLogger(__name__)

_TAKE = text("SELECT pg_advisory_xact_lock(:number)")
_NUMBER_BYTES = 8


class SqlLocks:
    """Locks in a database of their own handle.

    A holder needs other connections for what it guards.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Hold the lock of `name` while the context is open.

        Raises Determinate if it is not had in time.

        Whether it was lost meanwhile, with its connection, is not reported: what was done under it was done, and must be right by
        its own conditions.
        """
        digest = hashlib.sha3_256(name.encode()).digest()
        number = int.from_bytes(digest[:_NUMBER_BYTES], "big", signed=True)
        with ExitStack() as held:
            connection = held.enter_context(self._database.read())
            connection.execute(_TAKE, {"number": number})
            try:
                yield
            finally:
                try:
                    held.close()
                except Determinate as error:
                    _log.warning("the lock of %s was lost while it was held: %s", name, error)
