"""Rows of the database that follow `refs/head`.

Owns how a database that is behind is brought forward. Invariant: rows of a commit of this node are written from its intent, whole; those
of others in one transaction for all that is missing, with one outbox message, so that subscribers here hear of it once. Records of
keys come out of the blocks. Blocks are hashed and must follow each other; that they keep the rules of a chain was judged by the
node that committed them, and is judged again by verification.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice

from odfabric.adapters.object_heads.head_refs import HeadRefs
from odfabric.adapters.object_heads.names import SharedNames
from odfabric.adapters.object_heads.stretch import BlocksInStore, Stretch
from odfabric.domain.ingestion.idempotency import idempotency_records
from odfabric.errors import AlreadyExists, ChainsDiverged, Corrupt, Determinate, HeadMoved, NotFound
from odfabric.formats.identifiers.dataset_layout import head_key
from odfabric.model.commit import CatalogEntry, ChainPage, CommitIntent, EncodedBlock, Head, OutboxMessage
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.metadata import Seed
from odfabric.model.multihash import Multihash
from odfabric.model.people.audit import AuditEntry
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.commit_intents import CommitIntents
from odfabric.ports.datasets.object_store import ObjectStore

_log = logging.getLogger(__name__)

ATTEMPTS_MAX = 20
PAGE_BLOCKS = 500


class LocalRows:
    """The rows of this node."""

    def __init__(
        self,
        *,
        local: ChainWriter,
        catalog: Catalog,
        intents: CommitIntents,
        objects: ObjectStore,
        heads: HeadRefs,
        names: SharedNames,
        block_bytes_max: int,
        blocks_max: int,
    ) -> None:
        self._local = local
        self._catalog = catalog
        self._intents = intents
        self._objects = objects
        self._heads = heads
        self._names = names
        self._block_bytes_max = block_bytes_max
        self._blocks_max = blocks_max

    def follow(self, dataset: DatasetId) -> Head | None:
        """Bring the rows of a dataset to `refs/head`.

        The head, None for a dataset that does not exist.

        Where it moves on meanwhile, the head is one that it had since the call: rows that have what was published then are not behind.
        Raises Corrupt if the objects have less than the rows, or a block is missing; Determinate, Indeterminate.
        """
        seen: Multihash | None = None
        for _ in range(ATTEMPTS_MAX):
            if seen is not None and self._local.row(dataset, seen) is not None:
                return self._local.head(dataset)
            # In this order: what is published is never older than the rows that were read before it.
            local = self._local.head(dataset)
            published = self._heads.read(dataset)
            if published.hash == (local.hash if local else None):
                return local
            seen = seen or published.hash
            self._check_not_behind(dataset, local, published.text, published.hash)
            try:
                if published.hash is not None:
                    if not self._bring_forward(dataset, local, published.hash):
                        return None
                elif local is not None:
                    self._forget_closed(dataset, local, published.text)
            except (HeadMoved, AlreadyExists, NotFound):
                continue  # another process of this node was faster
        raise Determinate(f"dataset {dataset} changes all the time")

    def write(self, intent: CommitIntent, blocks: Sequence[EncodedBlock]) -> None:
        """The rows of a commit of this node, which has happened, unless they are there.

        Then the intent goes.
        """
        dataset = intent.message.dataset_id
        try:
            self._append(intent, blocks)
        except (HeadMoved, AlreadyExists, NotFound):
            self.follow(dataset)
        self._intents.drop(intent.key)

    def forget(self, dataset: DatasetId, message: OutboxMessage, audit: Sequence[AuditEntry] = ()) -> None:
        """Take out the rows of a dataset that was removed, and leave its name to others."""
        entry = self._catalog.by_id(dataset)
        if entry is not None:
            self._names.release(entry.alias, dataset)
        local = self._local.head(dataset)
        if local is not None:
            self._local.remove(dataset, expected=local.hash, message=message, audit=audit)

    def _forget_closed(self, dataset: DatasetId, local: Head, text: str | None) -> None:
        """Take out the rows of a dataset whose register was closed with `text`.

        An intent of a removal with that text says that this node has closed it.
        """
        ours = [intent for intent in self._intents.all() if intent.closing is not None and intent.closing == text]
        if not ours:
            self.forget(dataset, OutboxMessage(dataset, local.hash, None, local.system_time))
        for intent in ours:
            self.forget(dataset, intent.message, intent.audit)
            self._intents.drop(intent.key)

    def blocks_of(self, intent: CommitIntent) -> list[EncodedBlock]:
        """The blocks of an intent, oldest first. Raises Corrupt."""
        stretch = self._stretch(intent.message.dataset_id, intent.head, tail=intent.message.old_head)
        return list(stretch.oldest_first(len(stretch)))

    def _check_not_behind(
        self, dataset: DatasetId, local: Head | None, text: str | None, published: Multihash | None
    ) -> None:
        """Refuse a head that goes back.

        A removal leaves a text, so anything else is the wrong place, or an old copy of it.
        """
        older = self._local.row(dataset, published) if published is not None else None
        behind = older is not None and local is not None and older.sequence_number < local.sequence_number
        if behind or (local is not None and text is None):
            raise Corrupt(
                f"refs/head of {dataset} is older than this node's database: are these its objects, and all of them?",
                object_name=head_key(dataset),
            )

    def _bring_forward(self, dataset: DatasetId, local: Head | None, published: Multihash) -> bool:
        """One step towards `published`.

        A commit of this node, or what others committed up to the next one of ours.

        False for a dataset that does not exist yet, for it has no name.
        """
        named = None
        if local is None:
            named = self._names.of(dataset)
            if named is None:
                return False
            self._make_room(named[0], dataset)
        try:
            stretch = self._stretch(dataset, published, tail=local.hash if local else None)
        except ChainsDiverged:
            _log.warning("dataset %s was removed and made again: its rows are read anew", dataset)
            assert local is not None
            self._local.remove(
                dataset, expected=local.hash, message=OutboxMessage(dataset, local.hash, None, local.system_time)
            )
            return True
        count, intent = self._first_of_ours(dataset, stretch, named[0] if named else None)
        if intent is not None and intent.message.old_head == (local.hash if local else None):
            self._append(intent, list(stretch.oldest_first(count)))
            self._intents.drop(intent.key)
            return True
        entry = _entry(dataset, stretch.at(0), named[0], named[1].remote_url) if named else None
        self._adopt(dataset, local, stretch, count, entry)
        return True

    def _first_of_ours(
        self, dataset: DatasetId, stretch: Stretch, alias: DatasetAlias | None
    ) -> tuple[int, CommitIntent | None]:
        """The commit of this node with which the stretch begins, and its blocks.

        Else None, and the number of blocks before this node's oldest commit.
        """
        found: list[tuple[int, int, CommitIntent]] = []
        for intent in self._intents.all():
            if intent.closing is not None:
                continue
            of_another = intent.entry is not None and intent.entry.alias != alias
            end = stretch.position(intent.head) if intent.message.dataset_id == dataset and not of_another else None
            if end is not None:
                old = intent.message.old_head
                before = stretch.position(old) if old is not None else None
                found.append((-1 if before is None else before, end, intent))
        if not found:
            return len(stretch), None
        before, end, intent = min(found, key=lambda one: one[1])
        return (end + 1, intent) if before < 0 else (before + 1, None)

    def _append(self, intent: CommitIntent, blocks: Sequence[EncodedBlock]) -> None:
        self._local.append(
            intent.message.dataset_id,
            expected=intent.message.old_head,
            blocks=blocks,
            message=intent.message,
            idempotency=intent.idempotency,
            job_ids=intent.job_ids,
            entry=intent.entry,
            grants=intent.grants,
            audit=intent.audit,
        )

    def _adopt(
        self, dataset: DatasetId, local: Head | None, stretch: Stretch, count: int, entry: CatalogEntry | None
    ) -> None:
        top = stretch.at(count - 1)
        self._local.adopt(
            dataset,
            expected=local.hash if local else None,
            head=Head(top.hash, top.block.sequence_number, top.block.system_time),
            pages=_pages(stretch.oldest_first(count)),
            message=OutboxMessage(dataset, local.hash if local else None, top.hash, top.block.system_time),
            entry=entry,
        )

    def _make_room(self, alias: DatasetAlias, dataset: DatasetId) -> None:
        """Rows may not know yet that the one who had the name before is gone."""
        held = self._catalog.by_alias(alias)
        if held is not None and held.id != dataset:
            self.follow(held.id)

    def _stretch(self, dataset: DatasetId, head: Multihash, *, tail: Multihash | None) -> Stretch:
        blocks = BlocksInStore(dataset, self._objects, block_bytes_max=self._block_bytes_max)
        return Stretch(blocks, head, tail=tail, blocks_max=self._blocks_max)


def _entry(dataset: DatasetId, first: EncodedBlock, alias: DatasetAlias, remote_url: str | None) -> CatalogEntry:
    """What the objects know of a dataset of another node; its sealed key is there."""
    seed = first.block.event
    if not isinstance(seed, Seed) or seed.dataset_id != dataset:
        raise Corrupt(f"the chain of {dataset} begins with another block than its seed", object_name=str(first.hash))
    return CatalogEntry(
        id=dataset,
        alias=alias,
        kind=seed.dataset_kind,
        created_at=first.block.system_time,
        remote_url=remote_url,
    )


def _pages(blocks: Iterator[EncodedBlock]) -> Iterator[ChainPage]:
    while page := tuple(islice(blocks, PAGE_BLOCKS)):
        records = [record for encoded in page for record in idempotency_records(encoded.hash, encoded.block)]
        yield ChainPage(page, tuple(records))
