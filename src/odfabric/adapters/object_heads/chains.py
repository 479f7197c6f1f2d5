"""Heads of record in the objects: compare-and-set without a shared database.

For nodes that share a bucket and have databases of their own.

Owns the order of things: an intent in the database, the conditional write of `refs/head`, which is the commit, then the rows. Invariant:
rows say what `refs/head` said at some time, and are brought to what it says now before anybody is informed of it or builds on it; what
this node has committed itself is written with all that only it knows (marks of jobs, sealed keys), by whichever of its processes
comes first. Not here: how rows are written (`local`). Source: ADR 0003; ADR 0021.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from odfabric.adapters.object_heads.following import LocalRows
from odfabric.adapters.object_heads.head_refs import HeadRefs, closing_text
from odfabric.adapters.object_heads.names import SharedNames
from odfabric.domain.chain.references import named_objects
from odfabric.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    Determinate,
    External,
    HeadMoved,
    Indeterminate,
    InvalidRequest,
    NotFound,
)
from odfabric.formats.identifiers.dataset_layout import object_key
from odfabric.model.commit import (
    BlockRow,
    CatalogEntry,
    ChainPage,
    CommitIntent,
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
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_writer import ChainWriter, check_appendable, checked_pages
from odfabric.ports.datasets.commit_intents import CommitIntents
from odfabric.ports.datasets.object_store import ObjectStore

_log = logging.getLogger(__name__)


class ObjectHeadChains:
    """A ChainWriter over `local`, whose rows follow `refs/head`.

    Blocks that are appended must be in `objects` already.
    """

    def __init__(
        self,
        *,
        local: ChainWriter,
        catalog: Catalog,
        intents: CommitIntents,
        objects: ObjectStore,
        block_bytes_max: int,
        blocks_max: int,
    ) -> None:
        """`catalog` is the one of the database."""
        self.heads = HeadRefs(objects)
        self.names = SharedNames(objects, self.heads)
        self._objects = objects
        self._local = local
        self._catalog = catalog
        self._intents = intents
        self._rows = LocalRows(
            local=local,
            catalog=catalog,
            intents=intents,
            objects=objects,
            heads=self.heads,
            names=self.names,
            block_bytes_max=block_bytes_max,
            blocks_max=blocks_max,
        )

    def head(self, dataset: DatasetId) -> Head | None:
        """See the port: what `refs/head` says, with the rows brought there."""
        return self._rows.follow(dataset)

    def contains(self, dataset: DatasetId, block: Multihash) -> bool:
        """See the port."""
        return self.row(dataset, block) is not None

    def row(self, dataset: DatasetId, block: Multihash) -> BlockRow | None:
        """See the port."""
        found = self._local.row(dataset, block)
        if found is None and self.head(dataset) is not None:
            found = self._local.row(dataset, block)
        return found

    def rows_down(
        self, dataset: DatasetId, *, from_sequence: int | None = None, event_types: frozenset[str] | None = None
    ) -> Iterator[BlockRow]:
        """See the port."""
        if self.head(dataset) is None:
            return iter(())
        return self._local.rows_down(dataset, from_sequence=from_sequence, event_types=event_types)

    def idempotency(self, dataset: DatasetId, key_hash: bytes) -> IdempotencyRecord | None:
        """See the port: the chain has sealed the keys that other nodes were given."""
        found = self._local.idempotency(dataset, key_hash)
        if found is None and self.head(dataset) is not None:
            found = self._local.idempotency(dataset, key_hash)
        return found

    def commit_of_job(self, job_id: str) -> Multihash | None:
        """See the port.

        What the job was about to commit when its process died is settled first.
        """
        found = self._local.commit_of_job(job_id)
        if found is None and self._settle_those_of((job_id,)):
            found = self._local.commit_of_job(job_id)
        return found

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
        """See the port.

        The head log follows, since the commit is one object (`usecases.heads`).
        """
        check_appendable(expected=expected, blocks=blocks, message=message, entry=entry, grants=grants)
        self._settle_those_of(job_ids)
        if entry is None:
            self._expect(dataset, expected)
        else:
            self._expect_new(entry)
        self._check_unused(dataset, idempotency, job_ids)
        intent = CommitIntent(
            message=message,
            idempotency=tuple(idempotency),
            job_ids=tuple(job_ids),
            entry=entry,
            ref_before=self.names.claim(entry) if entry is not None else None,
            grants=tuple(grants),
            audit=tuple(audit),
        )
        self._intents.add(intent)
        if any(self._local.commit_of_job(job_id) is not None for job_id in job_ids):
            self._intents.drop(intent.key)  # it had an intent before ours, which has just been carried out
            raise AlreadyExists("a job of this commit has committed already")
        self._carry_out(intent, blocks)

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
        """See the port.

        The pages are held in memory: what is taken back here is what nobody has published yet.
        """
        read = list(checked_pages(pages, expected=expected, head=head, message=message, entry=entry))
        if entry is None:
            self._expect(dataset, expected)
        else:
            self._expect_new(entry)
        before = self.names.claim(entry) if entry is not None else str(expected)
        if not self.heads.move(dataset, before=before, to=head.hash):
            self._raise_lost(dataset, expected)
        with _already_done(), suppress(HeadMoved, AlreadyExists):
            self._local.adopt(dataset, expected=expected, head=head, pages=read, message=message, entry=entry)

    def remove(
        self, dataset: DatasetId, *, expected: Multihash, message: OutboxMessage, audit: Sequence[AuditEntry] = ()
    ) -> None:
        """See the port."""
        self._expect(dataset, expected)
        intent = CommitIntent(message=message, audit=tuple(audit), closing=closing_text())
        if audit:
            self._intents.add(intent)
        if self.heads.close(dataset, before=str(expected), text=intent.closing) is None:
            with suppress(External):
                self._intents.drop(intent.key)
            self._raise_lost(dataset, expected)
        with _already_done():
            try:
                self._rows.forget(dataset, message, audit)
            except (HeadMoved, NotFound):  # another process has followed us, or is still following a commit before
                self.head(dataset)
            if audit:
                self._intents.drop(intent.key)

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
        """See the port: never, since a head that other nodes follow goes forwards."""
        raise InvalidRequest(
            "a node that shares its heads with others cannot replace the history of a dataset",
            hint="delete the dataset, and make or pull it again",
        )

    def rename(self, dataset: DatasetId, *, alias: DatasetAlias, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port: never, other nodes know the dataset by its claimed name."""
        raise InvalidRequest(
            "a node that shares its heads with others cannot rename datasets",
            hint="make a dataset of the new name, and delete this one",
        )

    def settle(self, intent: CommitIntent) -> None:
        """Find out what became of an intent, by trying a commit once more.

        It is carried out now, or it never will be. A removal is not tried again: what was asked for long ago may have become wrong.
        """
        dataset = intent.message.dataset_id
        if intent.closing is not None:
            self.head(dataset)  # takes the rows out, with what the intent says, if it has happened
            self._intents.drop(intent.key)
            return
        try:
            blocks = self._rows.blocks_of(intent)
            missing = self._missing_object(dataset, blocks)
        except Corrupt as error:
            missing = error.object_name
        if missing is not None:
            if not self.contains(dataset, intent.head):
                _log.warning("a commit of dataset %s is given up: object %s is gone", dataset, missing)
            self._intents.drop(intent.key)
            return
        with suppress(Conflict, NotFound):
            self._carry_out(intent, blocks)

    def _settle_those_of(self, job_ids: Sequence[str]) -> bool:
        """Whether there was anything to settle."""
        ours = (
            [intent for intent in self._intents.all() if not set(job_ids).isdisjoint(intent.job_ids)] if job_ids else []
        )
        for intent in ours:
            self.settle(intent)
        return bool(ours)

    def _carry_out(self, intent: CommitIntent, blocks: Sequence[EncodedBlock]) -> None:
        try:
            with _already_done():
                self._move(intent)
        except (Conflict, NotFound):
            with suppress(External):  # it stays lost, no matter who tries it again
                self._intents.drop(intent.key)
            raise
        with _already_done():
            self._rows.write(intent, blocks)

    def _move(self, intent: CommitIntent) -> None:
        """The commit.

        Raises HeadMoved, AlreadyExists or NotFound if it did not happen and never will.
        """
        dataset, expected, entry = intent.message.dataset_id, intent.message.old_head, intent.entry
        before = intent.ref_before if expected is None else str(expected)
        moved = self.heads.move(dataset, before=before, to=intent.head)
        if moved and entry is not None:
            # Two nodes may copy one dataset: the same block is then the first head of both, but only one has named it.
            named = self.names.of(dataset)
            moved = named is not None and named[0] == entry.alias
        # It may have been written long ago, by an attempt of which nobody heard, and have been built upon.
        if not moved and not self.contains(dataset, intent.head):
            self._raise_lost(dataset, expected)

    def _raise_lost(self, dataset: DatasetId, expected: Multihash | None) -> None:
        if expected is None:
            raise AlreadyExists(
                f"another node has made dataset {dataset}, or one of that name", hint="look at it there"
            )
        self._expect(dataset, expected)
        raise Determinate(f"refs/head of {dataset} is written by others all the time")

    def _expect(self, dataset: DatasetId, expected: Multihash | None) -> None:
        head = self.head(dataset)
        if head is None:
            raise NotFound("dataset", str(dataset))
        if head.hash != expected:
            raise HeadMoved(expected=str(expected), actual=str(head.hash))

    def _expect_new(self, entry: CatalogEntry) -> None:
        held = self._catalog.by_alias(entry.alias)
        if held is not None and self.head(held.id) is not None and self._catalog.by_alias(entry.alias) is not None:
            raise AlreadyExists(f"a dataset with the name {entry.alias} exists already", hint="choose another name")
        if self.head(entry.id) is not None:
            raise AlreadyExists(f"dataset {entry.id} exists already", hint="pull it, or delete it first")

    def _check_unused(self, dataset: DatasetId, records: Sequence[IdempotencyRecord], job_ids: Sequence[str]) -> None:
        """Check the keys: rows are those of the expected head, so they know every key.

        The commit is conditional on that head.
        """
        keys = [record.key_hash for record in records]
        if len(set(keys)) < len(keys) or any(self._local.idempotency(dataset, key) is not None for key in keys):
            raise AlreadyExists("an idempotency key of this commit has been committed already")
        if any(self._local.commit_of_job(job_id) is not None for job_id in job_ids):
            raise AlreadyExists("a job of this commit has committed already")

    def _missing_object(self, dataset: DatasetId, blocks: Sequence[EncodedBlock]) -> str | None:
        for encoded in blocks:
            for area, name in named_objects(encoded.block.event):
                if self._objects.stat(object_key(dataset, area, name)) is None:
                    return str(name)
        return None


@contextmanager
def _already_done() -> Iterator[None]:
    """What fails here may have happened, or has: nobody may believe that it has not."""
    try:
        yield
    except Determinate as error:
        raise Indeterminate(
            f"it may be committed, which the next look finds out: {error.message}", hint=error.hint
        ) from error
