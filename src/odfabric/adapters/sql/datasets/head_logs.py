"""Head logs in SQL.

Invariant: entries of a dataset are numbered from 0 without gaps, and a row is never changed; two that add the same number meet at the
primary key.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, select, update

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database, insert_all_new, insert_new
from odfabric.adapters.sql.tables.datasets import datasets
from odfabric.adapters.sql.tables.head_logs import head_log, heads_seen
from odfabric.errors import Changed, NotFound
from odfabric.model.heads.head_log import HANDED_OVER, SeenHead, SignedMove
from odfabric.model.identity import DatasetId
from odfabric.model.people.audit import AuditEntry

_HAND_OVER = f'"kind":"{HANDED_OVER}"'.encode()
"""As canonical lines spell it; no other member can hold quotes."""


class SqlHeadLogs:
    """A HeadLogs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def last(self, dataset: DatasetId) -> bytes | None:
        """See the port."""
        newest = head_log.c.sequence_number.desc()
        wanted = select(head_log.c.line).where(head_log.c.dataset_id == dataset).order_by(newest).limit(1)
        with self._database.read() as connection:
            return connection.execute(wanted).scalar_one_or_none()

    def lines(self, dataset: DatasetId, *, first: int, limit: int) -> Sequence[bytes]:
        """See the port."""
        wanted = select(head_log.c.line).where(head_log.c.dataset_id == dataset, head_log.c.sequence_number >= first)
        with self._database.read() as connection:
            return connection.execute(wanted.order_by(head_log.c.sequence_number).limit(limit)).scalars().all()

    def handovers(self, dataset: DatasetId, *, limit: int) -> Sequence[bytes]:
        """See the port. The database looks through the lines, and hands over only those."""
        newest = head_log.c.sequence_number.desc()
        wanted = select(head_log.c.line).where(head_log.c.dataset_id == dataset).order_by(newest).limit(limit)
        with self._database.read() as connection:
            if connection.dialect.name == "sqlite":
                wanted = wanted.where(func.instr(head_log.c.line, _HAND_OVER) > 0)
            else:
                wanted = wanted.where(head_log.c.line.bool_op("LIKE")(b"%" + _HAND_OVER + b"%"))
            return connection.execute(wanted).scalars().all()[::-1]

    def add(self, dataset: DatasetId, moves: Sequence[SignedMove]) -> None:
        """See the port."""
        with self._database.write() as connection:
            _hold_dataset(connection, dataset)
            add_moves(connection, dataset, moves)

    def replace(self, dataset: DatasetId, moves: Sequence[SignedMove], *, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        with self._database.write() as connection:
            _hold_dataset(connection, dataset)
            connection.execute(delete(head_log).where(head_log.c.dataset_id == dataset))
            connection.execute(delete(heads_seen).where(heads_seen.c.dataset_id == dataset))
            add_moves(connection, dataset, moves)
            insert_audit(connection, audit)

    def hand_over(
        self,
        dataset: DatasetId,
        moves: Sequence[SignedMove],
        *,
        sealed_key: bytes | None,
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        """See the port."""
        with self._database.write() as connection:
            _hold_dataset(connection, dataset)
            add_moves(connection, dataset, moves)
            connection.execute(update(datasets).where(datasets.c.id == dataset).values(sealed_key=sealed_key))
            insert_audit(connection, audit)

    def seen(self, dataset: DatasetId) -> SeenHead | None:
        """See the port."""
        with self._database.read() as connection:
            found = connection.execute(select(heads_seen).where(heads_seen.c.dataset_id == dataset)).one_or_none()
        if found is None:
            return None
        return SeenHead(
            dataset=dataset,
            sequence=found.sequence_number,
            head=found.head,
            log=found.log,
            signer=found.signer,
            signed_at=found.signed_at,
            seen_at=found.seen_at,
            place=found.place,
            line=found.line,
        )

    def note_seen(self, seen: SeenHead, *, forced: bool = False) -> None:
        """See the port."""
        values = {
            "sequence_number": seen.sequence,
            "head": seen.head,
            "log": seen.log,
            "signer": seen.signer,
            "signed_at": seen.signed_at,
            "seen_at": seen.seen_at,
            "place": seen.place,
            "line": seen.line,
        }
        older = (heads_seen.c.sequence_number < seen.sequence) | (
            (heads_seen.c.sequence_number == seen.sequence) & (heads_seen.c.signed_at <= seen.signed_at)
        )
        change = update(heads_seen).where(heads_seen.c.dataset_id == seen.dataset).values(values)
        with self._database.write() as connection:
            if not insert_new(connection, heads_seen, {"dataset_id": seen.dataset, **values}):
                connection.execute(change if forced else change.where(older))


def add_moves(connection: Connection, dataset: DatasetId, moves: Sequence[SignedMove]) -> None:
    """Add entries in the transaction of the head's move.

    Raises Changed if they do not follow the newest one.
    """
    if not moves:
        return
    newest = head_log.c.sequence_number.desc()
    wanted = select(head_log.c.sequence_number, head_log.c.hash).where(head_log.c.dataset_id == dataset)
    last = connection.execute(wanted.order_by(newest).limit(1)).one_or_none()
    found = (0, None) if last is None else (last.sequence_number + 1, last.hash)
    rows = [
        {"dataset_id": dataset, "sequence_number": each.move.sequence, "hash": each.hash, "line": each.line}
        for each in moves
    ]
    follows = found == (moves[0].move.sequence, moves[0].move.previous)
    if not follows or not insert_all_new(connection, head_log, rows):
        raise Changed("the head log has gone on meanwhile", hint="do it again")


def _hold_dataset(connection: Connection, dataset: DatasetId) -> None:
    held = update(datasets).where(datasets.c.id == dataset).values(id=dataset)
    if connection.execute(held).rowcount == 0:
        raise NotFound("dataset", str(dataset))
