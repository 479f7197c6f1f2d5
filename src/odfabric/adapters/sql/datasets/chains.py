"""Heads, block index and marks of commits in SQL: the compare-and-set.

Owns the statements behind `ports.datasets.chain_writer`. Invariant: the head row is changed by one UPDATE (or DELETE) with the expected
hash in its condition, before anything else of the transaction; on PostgreSQL that row lock orders the commits of a dataset, so
ids of its outbox messages grow in the order of its commits. One protocol owns these tables: a second way to move heads beside
old processes would need new tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database, insert_all_new, insert_new
from odfabric.adapters.sql.datasets.catalog import alias_values, entry_values
from odfabric.adapters.sql.datasets.head_logs import add_moves
from odfabric.adapters.sql.datasets.removed_datasets import mark_removed, unmark_removed
from odfabric.adapters.sql.jobs.jobs import hold_uncancelled
from odfabric.adapters.sql.outbox import send
from odfabric.adapters.sql.people.account_rows import hold_name
from odfabric.adapters.sql.people.relations import insert_grants, remove_relations_of_dataset
from odfabric.adapters.sql.subscriptions.deliveries import drop_subscriptions
from odfabric.adapters.sql.tables.datasets import (
    blocks,
    datasets,
    heads,
    idempotency,
    search_documents,
    search_inputs,
    search_keywords,
)
from odfabric.adapters.sql.tables.jobs import job_commits
from odfabric.domain.chain.stored_bytes import stored_bytes
from odfabric.errors import AlreadyExists, HeadMoved, NotFound
from odfabric.model.commit import (
    BlockRow,
    CatalogEntry,
    ChainPage,
    EncodedBlock,
    Head,
    IdempotencyRecord,
    OutboxMessage,
)
from odfabric.model.heads.head_log import SignedMove
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Grant
from odfabric.model.people.audit import AuditEntry
from odfabric.ports.datasets.chain_writer import check_appendable, check_replacement, checked_pages

PAGE_ROWS = 500
FIRST_PAGE_ROWS = 4
"""Many who read down want the first row alone; pages grow from so many rows."""
_GROWTH = 5


class SqlChains:
    """A ChainWriter."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self, dataset: DatasetId) -> Head | None:
        """See the port."""
        with self._database.read() as connection:
            return _head(connection, dataset)

    def contains(self, dataset: DatasetId, block: Multihash) -> bool:
        """See the port."""
        return self.row(dataset, block) is not None

    def row(self, dataset: DatasetId, block: Multihash) -> BlockRow | None:
        """See the port."""
        wanted = select(blocks).where(blocks.c.dataset_id == dataset, blocks.c.hash == block)
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
        return _block_row(found) if found else None

    def rows_down(
        self, dataset: DatasetId, *, from_sequence: int | None = None, event_types: frozenset[str] | None = None
    ) -> Iterator[BlockRow]:
        """See the port."""
        top = self.head(dataset)
        if top is None:
            return iter(())
        start = top.sequence_number if from_sequence is None else min(from_sequence, top.sequence_number)
        return self._pages_down(dataset, top, start, event_types)

    def idempotency(self, dataset: DatasetId, key_hash: bytes) -> IdempotencyRecord | None:
        """See the port."""
        wanted = select(idempotency).where(idempotency.c.dataset_id == dataset, idempotency.c.key_hash == key_hash)
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
        return IdempotencyRecord(found.key_hash, found.body_digest, found.block_hash) if found else None

    def commit_of_job(self, job_id: str) -> Multihash | None:
        """See the port."""
        wanted = select(job_commits.c.block_hash).where(job_commits.c.job_id == job_id)
        with self._database.read() as connection:
            return connection.execute(wanted).scalar_one_or_none()

    def append(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash | None,
        blocks: Sequence[EncodedBlock],
        message: OutboxMessage,
        idempotency: Sequence[IdempotencyRecord] = (),
        job_ids: Sequence[str] = (),
        entry: CatalogEntry | None = None,
        grants: Sequence[Grant] = (),
        audit: Sequence[AuditEntry] = (),
        moves: Sequence[SignedMove] = (),
    ) -> None:
        """See the port."""
        check_appendable(expected=expected, blocks=blocks, message=message, entry=entry, grants=grants)
        rows = [BlockRow.of(block) for block in blocks]
        head = Head(rows[-1].hash, rows[-1].sequence_number, rows[-1].system_time)
        with self._database.write() as connection:
            if entry is not None:
                _create(connection, dataset, entry, head, size=stored_bytes(blocks))
            else:
                _move(connection, dataset, expected=expected, to=head, added=stored_bytes(blocks))
            _index(connection, dataset, rows)
            _record(connection, dataset, idempotency, job_ids, rows[-1].hash)
            add_moves(connection, dataset, moves)
            insert_grants(connection, grants)
            send(connection, message)
            insert_audit(connection, audit)

    def adopt(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash | None,
        head: Head,
        pages: Iterable[ChainPage],
        message: OutboxMessage,
        entry: CatalogEntry | None = None,
    ) -> None:
        """See the port."""
        with self._database.write() as connection:
            if entry is not None:
                _create(connection, dataset, entry, head, size=None)
            else:
                _move(connection, dataset, expected=expected, to=head, added=None)
            for page in checked_pages(pages, expected=expected, head=head, message=message, entry=entry):
                _index(connection, dataset, [BlockRow.of(block) for block in page.blocks])
                for record in page.idempotency:
                    insert_new(connection, idempotency, _record_values(dataset, record))
            send(connection, message)

    def replace(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash,
        onto: Multihash | None,
        blocks: Sequence[EncodedBlock],
        message: OutboxMessage,
        idempotency: Sequence[IdempotencyRecord] = (),
        audit: Sequence[AuditEntry] = (),
        moves: Sequence[SignedMove] = (),
    ) -> None:
        """See the port."""
        check_replacement(onto=onto, blocks=blocks, message=message)
        rows = [BlockRow.of(block) for block in blocks]
        with self._database.write() as connection:
            _hold_head(connection, dataset, expected)
            kept = _kept(connection, dataset, onto)
            top = rows[-1] if rows else kept
            if top is None or (onto is not None and kept is None):
                raise NotFound("block", str(onto))
            head = Head(top.hash, top.sequence_number, top.system_time)
            _move(connection, dataset, expected=expected, to=head, added=None)
            _drop_above(connection, dataset, -1 if kept is None else kept.sequence_number)
            if rows:
                _index(connection, dataset, rows)
                _record(connection, dataset, idempotency, (), top.hash)
            add_moves(connection, dataset, moves)
            send(connection, message)
            insert_audit(connection, audit)

    def remove(
        self, dataset: DatasetId, *, expected: Multihash, message: OutboxMessage, audit: Sequence[AuditEntry] = ()
    ) -> None:
        """See the port."""
        wanted = delete(heads).where(heads.c.dataset_id == dataset, heads.c.hash == expected)
        with self._database.write() as connection:
            if connection.execute(wanted).rowcount == 0:
                raise _refusal(connection, dataset, expected)
            drop_subscriptions(connection, dataset)
            connection.execute(delete(datasets).where(datasets.c.id == dataset))
            remove_relations_of_dataset(connection, dataset)
            mark_removed(connection, dataset, message.occurred_at)
            send(connection, message)
            insert_audit(connection, audit)

    def rename(self, dataset: DatasetId, *, alias: DatasetAlias, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        renamed = update(datasets).where(datasets.c.id == dataset).values(**alias_values(alias))
        try:
            with self._database.write() as connection:
                if connection.execute(renamed).rowcount == 0:
                    raise NotFound("dataset", str(dataset))
                connection.execute(delete(search_documents).where(search_documents.c.dataset_id == dataset))
                connection.execute(delete(search_keywords).where(search_keywords.c.dataset_id == dataset))
                connection.execute(delete(search_inputs).where(search_inputs.c.dataset_id == dataset))
                insert_audit(connection, audit)
        except IntegrityError:
            raise AlreadyExists(f"a dataset named {alias} exists", hint="choose another name") from None

    def _pages_down(
        self, dataset: DatasetId, top: Head, start: int, event_types: frozenset[str] | None
    ) -> Iterator[BlockRow]:
        # Pages, not one long read: a reader that is slow must not hold back the log of the database.
        present = select(blocks.c.hash).where(
            blocks.c.dataset_id == dataset, blocks.c.sequence_number == top.sequence_number, blocks.c.hash == top.hash
        )
        wanted = select(blocks).where(blocks.c.dataset_id == dataset)
        if event_types is not None:
            wanted = wanted.where(blocks.c.event_type.in_(event_types))
        wanted = wanted.order_by(blocks.c.sequence_number.desc())
        rows = min(FIRST_PAGE_ROWS, PAGE_ROWS)
        while start >= 0:
            with self._database.read() as connection:
                if connection.execute(present).one_or_none() is None:
                    raise NotFound("dataset", str(dataset), hint="it was removed meanwhile")
                page = connection.execute(wanted.where(blocks.c.sequence_number <= start).limit(rows)).all()
            yield from map(_block_row, page)
            if len(page) < rows:
                return
            start, rows = page[-1].sequence_number - 1, min(rows * _GROWTH, PAGE_ROWS)


def _head(connection: Connection, dataset: DatasetId) -> Head | None:
    found = connection.execute(select(heads).where(heads.c.dataset_id == dataset)).one_or_none()
    return Head(found.hash, found.sequence_number, found.system_time) if found else None


def _head_values(head: Head) -> dict[str, object]:
    return {"hash": head.hash, "sequence_number": head.sequence_number, "system_time": head.system_time}


def _block_row(found: Row[tuple[object, ...]]) -> BlockRow:
    return BlockRow(
        hash=found.hash,
        prev=found.prev,
        sequence_number=found.sequence_number,
        system_time=found.system_time,
        event_type=found.event_type,
    )


def _move(
    connection: Connection, dataset: DatasetId, *, expected: Multihash | None, to: Head, added: int | None
) -> None:
    """Add `added` bytes to the dataset's; None (unknown) makes those unknown too."""
    size = None if added is None else heads.c.stored_bytes + added
    values = {**_head_values(to), "stored_bytes": size}
    moved = update(heads).where(heads.c.dataset_id == dataset, heads.c.hash == expected).values(values)
    if connection.execute(moved).rowcount == 0:
        raise _refusal(connection, dataset, expected)


def _hold_head(connection: Connection, dataset: DatasetId, expected: Multihash) -> None:
    """Anyone who moves this head waits from here on. Raises NotFound, HeadMoved."""
    held = update(heads).where(heads.c.dataset_id == dataset, heads.c.hash == expected).values(hash=expected)
    if connection.execute(held).rowcount == 0:
        raise _refusal(connection, dataset, expected)


def _kept(connection: Connection, dataset: DatasetId, onto: Multihash | None) -> BlockRow | None:
    if onto is None:
        return None
    found = connection.execute(
        select(blocks).where(blocks.c.dataset_id == dataset, blocks.c.hash == onto)
    ).one_or_none()
    return _block_row(found) if found else None


def _drop_above(connection: Connection, dataset: DatasetId, number: int) -> None:
    """Delete blocks above a sequence number, and the records of keys they sealed."""
    gone = (blocks.c.dataset_id == dataset) & (blocks.c.sequence_number > number)
    sealed = idempotency.c.block_hash.in_(select(blocks.c.hash).where(gone))
    connection.execute(delete(idempotency).where(idempotency.c.dataset_id == dataset, sealed))
    connection.execute(delete(blocks).where(gone))


def _refusal(connection: Connection, dataset: DatasetId, expected: Multihash | None) -> NotFound | HeadMoved:
    actual = _head(connection, dataset)
    if actual is None:
        return NotFound("dataset", str(dataset))
    return HeadMoved(expected=str(expected), actual=str(actual.hash))


def _create(connection: Connection, dataset: DatasetId, entry: CatalogEntry, head: Head, *, size: int | None) -> None:
    if entry.alias.account is not None:
        hold_name(connection, entry.alias.account)
    if not insert_new(connection, datasets, entry_values(entry)):
        raise AlreadyExists(
            f"a dataset with the name {entry.alias} or the id {dataset} exists already", hint="choose another name"
        )
    connection.execute(insert(heads).values(dataset_id=dataset, stored_bytes=size, **_head_values(head)))
    unmark_removed(connection, dataset)


def _record(
    connection: Connection,
    dataset: DatasetId,
    records: Sequence[IdempotencyRecord],
    job_ids: Sequence[str],
    head: Multihash,
) -> None:
    hold_uncancelled(connection, job_ids)
    keys = [_record_values(dataset, record) for record in records]
    if not insert_all_new(connection, idempotency, keys):
        raise AlreadyExists("an idempotency key of this commit has been committed already")
    marks = [{"job_id": job_id, "dataset_id": dataset, "block_hash": head} for job_id in job_ids]
    if not insert_all_new(connection, job_commits, marks):
        raise AlreadyExists("a job of this commit has committed already")


def _record_values(dataset: DatasetId, record: IdempotencyRecord) -> dict[str, object]:
    return {
        "dataset_id": dataset,
        "key_hash": record.key_hash,
        "body_digest": record.body_digest,
        "block_hash": record.block_hash,
    }


def _index(connection: Connection, dataset: DatasetId, rows: Sequence[BlockRow]) -> None:
    values = [
        {
            "dataset_id": dataset,
            "sequence_number": row.sequence_number,
            "hash": row.hash,
            "prev": row.prev,
            "system_time": row.system_time,
            "event_type": row.event_type,
        }
        for row in rows
    ]
    connection.execute(insert(blocks), values)
