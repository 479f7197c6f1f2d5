"""Heads and block index in memory.

Owns the compare-and-set of `ports.datasets.chain_writer` over `MemoryStore`. Invariant: all checks come before the first change, so a
refused call has written nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from odfabric.adapters.memory.datasets.head_logs import check_follows
from odfabric.adapters.memory.sources.variables import drop_variables
from odfabric.adapters.memory.store import MemoryStore, StoredDataset, StoredMessage
from odfabric.adapters.memory.subscriptions.deliveries import drop_subscriptions
from odfabric.domain.chain.stored_bytes import stored_bytes
from odfabric.errors import AlreadyExists, HeadMoved, LeaseLost, NotFound
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
from odfabric.model.people.account import EVERYONE, Grant
from odfabric.model.people.audit import AuditEntry
from odfabric.ports.datasets.chain_writer import check_appendable, check_replacement, checked_pages


class MemoryChains:
    """A ChainWriter."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def head(self, dataset: DatasetId) -> Head | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.datasets.get(dataset)
            return stored.head if stored else None

    def contains(self, dataset: DatasetId, block: Multihash) -> bool:
        """See the port."""
        return self.row(dataset, block) is not None

    def row(self, dataset: DatasetId, block: Multihash) -> BlockRow | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.datasets.get(dataset)
            return stored.by_hash.get(block) if stored else None

    def rows_down(
        self, dataset: DatasetId, *, from_sequence: int | None = None, event_types: frozenset[str] | None = None
    ) -> Iterator[BlockRow]:
        """See the port."""
        with self._store.lock:
            stored = self._store.datasets.get(dataset)
            rows = list(stored.rows) if stored else []
        return (
            row
            for row in reversed(rows)
            if (from_sequence is None or row.sequence_number <= from_sequence)
            and (event_types is None or row.event_type in event_types)
        )

    def idempotency(self, dataset: DatasetId, key_hash: bytes) -> IdempotencyRecord | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.datasets.get(dataset)
            return stored.records.get(key_hash) if stored else None

    def commit_of_job(self, job_id: str) -> Multihash | None:
        """See the port."""
        with self._store.lock:
            return self._store.job_commits.get(job_id)

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
        with self._store.lock:
            stored = self._expect(dataset, expected) if entry is None else self._new_dataset(dataset, entry)
            self._check_unused(stored, idempotency, job_ids)
            if not self._store.cancelled_jobs.isdisjoint(job_ids):
                raise LeaseLost("a job of this commit was cancelled")
            if entry is not None:
                self._store.head_logs.pop(dataset, None)
            check_follows(self._store, dataset, moves)
            self._store.head_logs.setdefault(dataset, []).extend(moves)
            self._store.datasets[dataset] = stored
            self._store.removed.pop(dataset, None)
            _index(stored, blocks)
            if stored.stored_bytes is not None:
                stored.stored_bytes += stored_bytes(blocks)
            stored.records.update((record.key_hash, record) for record in idempotency)
            self._store.job_commits.update(dict.fromkeys(job_ids, blocks[-1].hash))
            self._store.outbox.append(StoredMessage(message))
            self._give(grants)
            self._store.log(*audit)

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
        read = list(checked_pages(pages, expected=expected, head=head, message=message, entry=entry))
        with self._store.lock:
            stored = self._expect(dataset, expected) if entry is None else self._new_dataset(dataset, entry)
            self._store.datasets[dataset] = stored
            self._store.removed.pop(dataset, None)
            stored.stored_bytes = None
            for page in read:
                _index(stored, page.blocks)
                for record in page.idempotency:
                    stored.records.setdefault(record.key_hash, record)
            self._store.outbox.append(StoredMessage(message))

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
        with self._store.lock:
            stored = self._expect(dataset, expected)
            if onto is not None and onto not in stored.by_hash:
                raise NotFound("block", str(onto))
            check_follows(self._store, dataset, moves)
            self._store.head_logs.setdefault(dataset, []).extend(moves)
            count = 0 if onto is None else stored.by_hash[onto].sequence_number + 1
            gone = {row.hash for row in stored.rows[count:]}
            del stored.rows[count:]
            stored.by_hash = {row.hash: row for row in stored.rows}
            stored.records = {key: each for key, each in stored.records.items() if each.block_hash not in gone}
            _index(stored, blocks)
            stored.records.update({record.key_hash: record for record in idempotency})
            stored.stored_bytes = None
            self._store.outbox.append(StoredMessage(message))
            self._store.log(*audit)

    def remove(
        self, dataset: DatasetId, *, expected: Multihash, message: OutboxMessage, audit: Sequence[AuditEntry] = ()
    ) -> None:
        """See the port."""
        with self._store.lock:
            self._expect(dataset, expected)
            drop_subscriptions(self._store, dataset)
            drop_variables(self._store, dataset)
            self._store.head_logs.pop(dataset, None)
            self._store.drop_aliases(dataset)
            del self._store.datasets[dataset]
            for grant in self._store.granted(dataset):
                del self._store.grants[dataset, grant.grantee]
            self._store.removed[dataset] = message.occurred_at
            self._store.outbox.append(StoredMessage(message))
            self._store.log(*audit)

    def rename(self, dataset: DatasetId, *, alias: DatasetAlias, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        with self._store.lock:
            stored = self._store.datasets.get(dataset)
            if stored is None:
                raise NotFound("dataset", str(dataset))
            there = self._store.by_alias(alias)
            if there is not None and there is not stored:
                raise AlreadyExists(f"a dataset named {there.entry.alias} exists", hint="choose another name")
            stored.entry = replace(stored.entry, alias=alias)
            stored.document = None
            self._store.log(*audit)

    def _give(self, grants: Sequence[Grant]) -> None:
        for grant in grants:
            if grant.grantee == EVERYONE or grant.grantee in self._store.accounts:
                self._store.grants[grant.dataset, grant.grantee] = replace(grant, version=1)

    def _new_dataset(self, dataset: DatasetId, entry: CatalogEntry) -> StoredDataset:
        if dataset in self._store.datasets:
            raise AlreadyExists(f"dataset {dataset} exists already")
        if self._store.by_alias(entry.alias) is not None:
            raise AlreadyExists(f"dataset {entry.alias} exists already", hint="choose another name")
        return StoredDataset(entry)

    def _expect(self, dataset: DatasetId, expected: Multihash | None) -> StoredDataset:
        stored = self._store.datasets.get(dataset)
        if stored is None:
            raise NotFound("dataset", str(dataset))
        if stored.head.hash != expected:
            raise HeadMoved(expected=str(expected), actual=str(stored.head.hash))
        return stored

    def _check_unused(
        self, stored: StoredDataset, records: Sequence[IdempotencyRecord], job_ids: Sequence[str]
    ) -> None:
        keys = [record.key_hash for record in records]
        if len(set(keys)) < len(keys) or any(key in stored.records for key in keys):
            raise AlreadyExists("an idempotency key of this commit has been committed already")
        if any(job_id in self._store.job_commits for job_id in job_ids):
            raise AlreadyExists("a job of this commit has committed already")


def _index(stored: StoredDataset, blocks: Sequence[EncodedBlock]) -> None:
    for block in blocks:
        row = BlockRow.of(block)
        stored.rows.append(row)
        stored.by_hash[row.hash] = row
