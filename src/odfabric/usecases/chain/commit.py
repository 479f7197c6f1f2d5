"""The commit seam: the only code that moves a head and holds a ChainWriter.

Invariant: a head moves by compare-and-set from the head on which the new blocks were built, in one transaction with the outbox
message, idempotency records and the mark of the job; it is answered as committed only after `refs/head` in the object store
has advanced too, so that the bucket alone can rebuild the node. Not here: what goes into the blocks (the verbs decide that).
Source: ADR 0003; specification, "Metadata chain".
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from odfabric.domain.chain.references import named_objects
from odfabric.domain.people.access import SYSTEM_ACCOUNT
from odfabric.errors import Changed, Determinate, HeadMoved, Indeterminate, LimitExceeded, NotFound
from odfabric.formats.identifiers.dataset_layout import (
    BLOCKS,
    INPUTS_LOCK,
    alias_key,
    block_key,
    collector_lock,
    dataset_prefix,
    head_key,
    object_key,
)
from odfabric.model.commit import CatalogEntry, ChainPage, EncodedBlock, Head, IdempotencyRecord, OutboxMessage
from odfabric.model.heads.head_log import APPENDED, SignedMove
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.node.remembered import Remembered
from odfabric.model.people.account import Grant
from odfabric.model.people.audit import THE_NODE, Actor, AuditEntry, AuditKind
from odfabric.model.rewrite import Rewrite, RewriteKind
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_reader import ChainReader
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.rewrite_records import record_rewrite
from odfabric.usecases.heads.head_signing import HeadSigning
from odfabric.usecases.heads.signed_here import check_signed_here

_log = logging.getLogger(__name__)

LOOKED_UP_MAX = 100
"""Objects of a commit that are looked up one by one, however short the chain before it."""

STORED_ONE_BY_ONE_MAX = 16
STORED_AT_ONCE = 10
"""Blocks of a long commit that are written at a time."""

INPUTS_WAIT_S_MAX = 30.0
"""How long a thread waits for others of its process that declare inputs or remove datasets, in seconds."""

PUBLISHED_KNOWN_MAX = 10_000
"""Datasets of which a process remembers what it has published."""
STORED_KNOWN_MAX = 10_000
"""Blocks of which a process remembers that it has stored them for a commit to come."""


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """Blocks that continue one particular head, oldest first.

    All objects they refer to are stored already.

    `inputs` are datasets that the blocks declare to read: if one is not there any more, nothing is committed.
    """

    blocks: tuple[EncodedBlock, ...]
    idempotency: tuple[IdempotencyRecord, ...] = ()
    inputs: tuple[DatasetId, ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """A head move that happened."""

    old_head: Multihash | None
    blocks: tuple[EncodedBlock, ...]

    @property
    def head(self) -> Multihash:
        """The new head."""
        return self.blocks[-1].hash


class Commits:
    """The seam as the verbs see it."""

    def __init__(
        self,
        *,
        chains: ChainWriter,
        catalog: Catalog,
        objects: ObjectStore,
        clock: Clock,
        attempts_max: int,
        block_bytes_max: int,
        signing: HeadSigning,
        publishes: bool = True,
    ) -> None:
        """Without `publishes` the heads of record are published ones already.

        `chains` moves `refs/head` itself, and the head log follows it.
        """
        self._signing = signing
        self._chains = chains
        self._catalog = catalog
        self._objects = objects
        self._clock = clock
        self._attempts_max = attempts_max
        self._block_bytes_max = block_bytes_max
        self._publishes = publishes
        self._inputs_turn = threading.Lock()
        self._published = Remembered[DatasetId, tuple[Multihash, CatalogEntry]](PUBLISHED_KNOWN_MAX)
        self._stored = Remembered[tuple[DatasetId, Multihash], bool](STORED_KNOWN_MAX)

    @property
    def chains(self) -> ChainReader:
        """The reading half, for those who must look at what was committed."""
        return self._chains

    def create(
        self,
        entry: CatalogEntry,
        blocks: Sequence[EncodedBlock],
        *,
        inputs: Sequence[DatasetId] = (),
        grants: Sequence[Grant] = (),
        by: Actor = THE_NODE,
        moves: Sequence[SignedMove] = (),
    ) -> Committed:
        """Create a dataset with its first blocks, its `inputs` and first `grants`.

        `moves` is the head log of a dataset that was signed elsewhere. Raises AlreadyExists, having written at most unreferenced objects, LimitExceeded, NotFound for an input that is gone.
        """
        planned = PlannedCommit(tuple(blocks), inputs=tuple(inputs))
        self._store_blocks(entry.id, planned)
        self._append(entry.id, None, planned, job_ids=(), entry=entry, grants=grants, by=[by], received=moves)
        self._published.pop(entry.id)
        self._published_at_last(entry.id)
        return Committed(None, planned.blocks)

    def commit(
        self,
        dataset: DatasetId,
        build: Callable[[Head], PlannedCommit | None],
        *,
        if_match: Multihash | None = None,
        job_ids: Sequence[str] = (),
        by: Sequence[Actor] = (THE_NODE,),
        moves: Sequence[SignedMove] | None = None,
        kind: str = APPENDED,
    ) -> Committed | None:
        """Build on the present head and move it; a lost race builds again on the new one.

        None: nothing to commit.

        `by` are those who have asked for it, for the audit. `moves` are entries of the head log of blocks that were written elsewhere, perhaps
        none; None: the blocks are written here. `kind` is what an entry that is signed here calls the move.

        `build` may run several times, so it may write nothing but content-addressed objects. Raises HeadMoved when attempts are
        exhausted, or at once with `if_match`; InvalidRequest for blocks written here of a dataset that is signed elsewhere; AlreadyExists if one of the jobs or an idempotency key has committed meanwhile; NotFound;
        LimitExceeded for a block over `block_bytes_max`; Indeterminate if the outcome is unknown, in which case a retry with the same jobs or key finds out.
        """
        moved: HeadMoved | None = None
        for _ in range(self._attempts_max):
            base = self._chains.head(dataset)
            if base is None:
                raise NotFound("dataset", str(dataset))
            if if_match is not None and base.hash != if_match:
                raise HeadMoved(expected=str(if_match), actual=str(base.hash))
            planned = build(base)
            if planned is None:
                return None
            self._store_blocks(dataset, planned)
            try:
                self._append(dataset, base.hash, planned, job_ids=job_ids, entry=None, by=by, received=moves, kind=kind)
            except HeadMoved as error:
                if if_match is not None:
                    raise
                moved = error
                continue
            self._published_at_last(dataset)
            done = Committed(base.hash, planned.blocks)
            ids = {"dataset": str(dataset), "block": str(done.head)}
            _log.info("committed, blocks: %d", len(done.blocks), extra=ids)
            return done
        raise moved or ValueError("a commit needs at least one attempt")

    def replace(
        self,
        entry: CatalogEntry,
        blocks: Sequence[EncodedBlock],
        *,
        onto: Multihash | None,
        if_match: Multihash,
        kind: RewriteKind,
        rows_kept: int | None = None,
        idempotency: Sequence[IdempotencyRecord] = (),
        by: Actor = THE_NODE,
        moves: Sequence[SignedMove] | None = None,
    ) -> None:
        """Replace all that follows `onto` by `blocks`; the old history is gone.

        `onto` None: the whole chain is replaced. Others may have read the history that is gone. `idempotency` are the keys that `blocks` have
        sealed, each once; `kind` says why, in the audit, beside the dataset and in the head log. `rows_kept` of the first records stay.

        `moves` are as in `commit`. Anyone who calls this has asked for the right to it; the audit names them. Without blocks the head goes back to `onto`. Raises
        HeadMoved if the head is not `if_match`, NotFound, InvalidRequest where nodes share heads or the dataset is signed elsewhere, LimitExceeded, Determinate, Indeterminate.
        """
        planned = PlannedCommit(tuple(blocks))
        last = blocks[-1].hash if blocks else onto
        if last is None:
            raise ValueError("a chain of no blocks")
        message = OutboxMessage(entry.id, if_match, last, self._now())
        if blocks:
            self._store_blocks(entry.id, planned)
        audit = self._entries(AuditKind.HISTORY_REPLACED, message, entry, [by], detail={"kind": kind.value})
        try:
            with self._objects.exclusive(collector_lock(entry.id)):
                if blocks:
                    self._check_present(entry.id, planned.blocks)
                self._with_log(
                    entry,
                    message,
                    kind.value,
                    moves,
                    lambda signed: self._chains.replace(
                        entry.id,
                        expected=if_match,
                        onto=onto,
                        blocks=planned.blocks,
                        message=message,
                        idempotency=idempotency,
                        audit=audit,
                        moves=signed,
                    ),
                )
        except Indeterminate:
            head = self._chains.head(entry.id)
            if head is None or head.hash != last:
                raise
        rewrite = Rewrite(kind=kind, old_head=if_match, new_head=last, at=message.occurred_at, rows_kept=rows_kept)
        record_rewrite(entry.id, rewrite, objects=self._objects)
        self._published_at_last(entry.id)

    def adopt(
        self,
        dataset: DatasetId,
        pages: Iterable[ChainPage],
        *,
        expected: Multihash | None,
        head: Head,
        entry: CatalogEntry | None = None,
    ) -> None:
        """Take blocks that lie in the object store into the database, all or none.

        `refs/head` is left as it is.

        `expected` is the head in the database, None with an `entry` for a dataset that it does not have. Raises what `pages`
        raises, AlreadyExists for a name that is taken, HeadMoved, NotFound, Determinate, Indeterminate.
        """
        message = OutboxMessage(dataset, expected, head.hash, self._now())
        try:
            self._chains.adopt(dataset, expected=expected, head=head, pages=pages, message=message, entry=entry)
        except Indeterminate:
            if not self._chains.contains(dataset, head.hash):
                raise

    def remove(self, dataset: DatasetId, *, if_match: Multihash | None = None, by: Actor = THE_NODE) -> None:
        """Delete a dataset of which the head is `if_match` (default: whatever it is now).

        Its objects become garbage.
        """
        base = self._chains.head(dataset)
        if base is None:
            raise NotFound("dataset", str(dataset))
        expected = if_match or base.hash
        message = OutboxMessage(dataset, expected, None, self._now())
        try:
            audit = self._entries(AuditKind.DATASET_DELETED, message, self._catalog.by_id(dataset), [by])
            self._chains.remove(dataset, expected=expected, message=message, audit=audit)
        except Indeterminate:
            if self._chains.head(dataset) is not None:
                raise
        self._published_at_last(dataset)

    def rename(self, entry: CatalogEntry, alias: DatasetAlias, *, by: Actor = THE_NODE) -> None:
        """Give a dataset another alias, and publish it.

        One that it has already is published only.

        Raises AlreadyExists, NotFound, InvalidRequest, Determinate, Indeterminate.
        """
        if entry.alias != alias or str(entry.alias) != str(alias):
            renamed = AuditEntry(
                kind=AuditKind.DATASET_RENAMED,
                actor=by,
                at=self._now(),
                target=str(alias),
                dataset=entry.id,
                detail={"oldName": str(entry.alias), "newName": str(alias)},
            )
            try:
                self._chains.rename(entry.id, alias=alias, audit=[renamed])
            except Indeterminate:
                now = self._catalog.by_id(entry.id)
                if now is None or str(now.alias) != str(alias):
                    raise
        self._published_at_last(entry.id)

    def publish(self, dataset: DatasetId) -> None:
        """Make `refs/head` and `info/alias` say what the database says now.

        Never backwards: the ref that is replaced was read before the database was asked, so anyone who is late changes nothing, even
        without the lock that makes others wait. The alias is written before the head that makes it visible. What this process
        has published itself is not published again while the database says the same of the same entry.
        """
        if not self._publishes:
            self._signing.follow(dataset)
            return
        head, entry = self._chains.head(dataset), self._catalog.by_id(dataset)
        if head is None or entry is None or self._published.get(dataset) != (head.hash, entry):
            self._publish(dataset)

    def sign(self, dataset: DatasetId, data: bytes) -> tuple[bytes, bytes] | None:
        """Sign bytes for a dataset: the signer's public key and the signature.

        None if its key is not here.
        """
        return self._signing.writer.sign(dataset, data)

    def publish_log(self, dataset: DatasetId) -> None:
        """Publish the head log, which has grown without a move of the head.

        Raises Determinate, Indeterminate.
        """
        self._signing.follow(dataset)

    def _publish(self, dataset: DatasetId) -> None:
        key, alias = head_key(dataset), alias_key(dataset)
        with self._objects.exclusive(key):
            known = self._published.pop(dataset)
            for _ in range(self._attempts_max):
                before = str(known[0]) if known is not None else self._objects.read_ref(key)
                head, entry = self._chains.head(dataset), self._catalog.by_id(dataset)
                if head is None or entry is None:
                    self._objects.delete(key)
                    self._objects.delete(alias)
                    self._signing.publisher.withdraw(dataset)
                    return
                if (known is None or known[1] != entry) and self._objects.read_ref(alias) != str(entry.alias):
                    self._objects.write_ref(alias, str(entry.alias))
                text = str(head.hash)
                self._signing.follow(dataset)
                if before == text or self._objects.replace_ref(key, text, expected=before):
                    self._published.put(dataset, (head.hash, entry))
                    return
                known = None
        raise Determinate(f"{key} is written by others all the time")

    def _published_at_last(self, dataset: DatasetId) -> None:
        """Publish what is committed already; a failure does not undo the commit.

        The caller must not believe that nothing happened.
        """
        try:
            self.publish(dataset)
        except Determinate as error:
            raise Indeterminate(f"it is committed, but not published yet: {error.message}", hint=error.hint) from error

    def _append(
        self,
        dataset: DatasetId,
        expected: Multihash | None,
        planned: PlannedCommit,
        *,
        job_ids: Sequence[str],
        entry: CatalogEntry | None,
        grants: Sequence[Grant] = (),
        by: Sequence[Actor],
        received: Sequence[SignedMove] | None,
        kind: str = APPENDED,
    ) -> None:
        message = OutboxMessage(dataset, expected, planned.blocks[-1].hash, self._now())
        audited = AuditKind.HEAD_MOVED if entry is None else AuditKind.DATASET_CREATED
        known = entry or self._catalog.by_id(dataset)
        audit = self._entries(audited, message, known, by)

        def append(moves: Sequence[SignedMove]) -> None:
            self._chains.append(
                dataset,
                expected=expected,
                blocks=planned.blocks,
                message=message,
                idempotency=planned.idempotency,
                job_ids=job_ids,
                entry=entry,
                grants=grants,
                audit=audit,
                moves=moves,
            )

        try:
            # The collector deletes under this lock alone, so what is there now is still there when the chain names it.
            with self._with_inputs(planned.inputs), self._objects.exclusive(collector_lock(dataset)):
                self._check_present(dataset, planned.blocks)
                self._with_log(known, message, kind, received, append)
        except Indeterminate:
            # It may have happened, or may still happen: only our block in the chain proves that it did. A blind retry
            # could append rows twice, so otherwise the caller decides, with its job or key.
            if not self._chains.contains(dataset, planned.blocks[-1].hash):
                raise

    @contextmanager
    def inputs_kept(self) -> Iterator[None]:
        """While the context is open, inputs stay: none is declared or removed.

        Nobody else declares inputs or removes datasets that might be some.

        Nodes that share objects and no locks do not wait for each other. Raises Determinate if it is not had in time.
        """
        # Threads take turns before they ask the store, whose locks may be few, for anyone who has this one takes another.
        if not self._inputs_turn.acquire(timeout=INPUTS_WAIT_S_MAX):
            raise Determinate("others are declaring inputs or removing datasets", hint="do it again")
        try:
            with self._objects.exclusive(INPUTS_LOCK):
                yield
        finally:
            self._inputs_turn.release()

    def _with_log(
        self,
        entry: CatalogEntry | None,
        message: OutboxMessage,
        kind: str,
        received: Sequence[SignedMove] | None,
        act: Callable[[Sequence[SignedMove]], None],
    ) -> None:
        """Move a head with the entry of the head log that says so.

        A log that goes on meanwhile (its key was handed over) is signed again. Raises InvalidRequest for blocks written here of a dataset
        that is signed elsewhere.
        """
        if entry is None or message.new_head is None or not self._publishes:
            act(())
            return
        for attempt in range(self._attempts_max):
            moves = received or self._signing.writer.moves(entry, message.old_head, message.new_head, kind)
            if received is None and not moves:
                check_signed_here(entry, self._signing.writer)
            try:
                act(moves)
                return
            except Changed:
                if received or attempt + 1 == self._attempts_max:
                    raise
                entry = self._catalog.by_id(entry.id) or entry

    @contextmanager
    def _with_inputs(self, inputs: Sequence[DatasetId]) -> Iterator[None]:
        """While the context is open all inputs are there. Raises NotFound if one is gone."""
        if not inputs:
            yield
            return
        with self.inputs_kept():
            for one in inputs:
                if self._chains.head(one) is None:
                    raise NotFound("dataset", str(one), hint="it is an input, and was removed meanwhile")
            yield

    def _check_present(self, dataset: DatasetId, blocks: Sequence[EncodedBlock]) -> None:
        """Raises Determinate if a known object was collected before it was referred to.

        Somebody had found that it need not be stored again.
        """
        named = {
            object_key(dataset, area, name)
            for encoded in blocks
            for area, name in [(BLOCKS, encoded.hash), *named_objects(encoded.block.event)]
        }
        if len(named) > LOOKED_UP_MAX and blocks[0].block.sequence_number < len(blocks):
            # Most of what the dataset has is new: listing it is cheaper than asking for each.
            named.difference_update(self._objects.keys(dataset_prefix(dataset)))
        else:
            named = {key for key in named if self._objects.stat(key) is None}
        if named:
            raise Determinate(f"object {min(named)} of the new blocks is gone", hint="do it again")

    def store_block(self, dataset: DatasetId, block: EncodedBlock) -> None:
        """Store a block of a commit to come, which does not store it again.

        Nobody sees it before that. Raises LimitExceeded, Determinate, Indeterminate.
        """
        self._check_size(block)
        self._objects.put_bytes(block_key(dataset, block.hash), block.data)
        self._stored.put((dataset, block.hash), True)

    def _check_size(self, block: EncodedBlock) -> None:
        """Raises LimitExceeded for a block that could never be read again."""
        size, maximum = len(block.data), self._block_bytes_max
        if size > maximum:
            raise LimitExceeded(f"a block of {size} bytes", limit="block_bytes_max", maximum=maximum)

    def _store_blocks(self, dataset: DatasetId, planned: PlannedCommit) -> None:
        for block in planned.blocks:
            self._check_size(block)

        def store(block: EncodedBlock) -> None:
            # Remembered for one attempt: a collector may have removed it, which is found before the head moves.
            if self._stored.pop((dataset, block.hash)) is None:
                self._objects.put_bytes(block_key(dataset, block.hash), block.data)

        if len(planned.blocks) <= STORED_ONE_BY_ONE_MAX:
            for block in planned.blocks:
                store(block)
            return
        # Each is made durable by itself, and a chain that comes from elsewhere has many.
        with ThreadPoolExecutor(STORED_AT_ONCE, thread_name_prefix="blocks") as threads:
            for _ in threads.map(store, planned.blocks):
                pass

    @staticmethod
    def _entries(
        kind: AuditKind,
        message: OutboxMessage,
        entry: CatalogEntry | None,
        by: Sequence[Actor],
        *,
        detail: Mapping[str, str] = MappingProxyType({}),
    ) -> list[AuditEntry]:
        """What the audit says of it.

        Of the system's own datasets nothing, or writing the audit would never end.
        """
        if entry is not None and entry.alias.account == SYSTEM_ACCOUNT:
            return []
        heads = {"oldHead": message.old_head, "newHead": message.new_head}
        return [
            AuditEntry(
                kind=kind,
                actor=actor,
                at=message.occurred_at,
                target=str(entry.alias) if entry else None,
                dataset=message.dataset_id,
                detail={**{name: str(head) for name, head in heads.items() if head is not None}, **detail},
            )
            for actor in by
        ]

    def _now(self) -> Instant:
        return self._clock.now()
