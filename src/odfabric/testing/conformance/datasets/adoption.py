"""Contract of ChainWriter.adopt: a chain returns in pages, all or nothing.

A subclass gives `storage`, new and empty for each test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from odfabric.errors import AlreadyExists, Corrupt, HeadMoved, NotFound
from odfabric.model.commit import BlockRow, ChainPage, EncodedBlock, Head, IdempotencyRecord, OutboxMessage
from odfabric.model.multihash import Multihash
from odfabric.testing.conformance.examples import (
    GrowingChain,
    StoragePorts,
    entry_of,
    hash_of,
    hashes_down,
    new_chain,
)

RECORD = IdempotencyRecord(key_hash=b"k" * 32, body_digest=b"d" * 32, block_hash=hash_of("sealed"))


def head_at(block: EncodedBlock) -> Head:
    """The head that a block is."""
    return Head(block.hash, block.block.sequence_number, block.block.system_time)


def pages_of(blocks: Sequence[EncodedBlock], *records: IdempotencyRecord, size: int = 2) -> list[ChainPage]:
    """Pages of some blocks each; the first one has the records."""
    pages = [ChainPage(tuple(blocks[at : at + size])) for at in range(0, len(blocks), size)]
    return [replace(pages[0], idempotency=records), *pages[1:]]


def adopt(chain: GrowingChain, blocks: Sequence[EncodedBlock], pages: Iterator[ChainPage] | list[ChainPage]) -> None:
    """Adopt blocks that continue what the chain has."""
    chain.chains.adopt(
        chain.id,
        expected=chain.head,
        head=head_at(blocks[-1]),
        pages=pages,
        message=OutboxMessage(chain.id, chain.head, blocks[-1].hash, blocks[0].block.system_time),
        entry=None if chain.blocks else chain.entry,
    )
    chain.blocks += blocks


class AdoptionContract:
    """Chains that are taken back."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_a_chain_in_pages_is_the_chain_that_was_committed(self, storage: StoragePorts) -> None:
        committed = new_chain(storage.chains, "weather", blocks=7)
        chain = GrowingChain(storage.chains, entry_of("flights"))
        blocks = chain.next_blocks(7)
        adopt(chain, blocks, iter(pages_of(blocks, RECORD)))
        assert storage.catalog.by_id(chain.id) == chain.entry
        assert storage.chains.head(chain.id) == head_at(blocks[-1])
        assert list(storage.chains.rows_down(chain.id)) == [BlockRow.of(block) for block in reversed(blocks)]
        assert storage.chains.idempotency(chain.id, RECORD.key_hash) == RECORD
        first, second = storage.outbox.pending(limit=10)
        assert first.message.dataset_id == committed.id
        assert second.message == chain.message(blocks)
        chain.grow(2)
        assert hashes_down(storage.chains, chain.id) == [block.hash for block in reversed(chain.blocks)]

    def test_a_chain_is_continued_from_the_head_that_is_there(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=2)
        blocks = chain.next_blocks(5)
        adopt(chain, blocks, pages_of(blocks))
        assert hashes_down(storage.chains, chain.id) == [block.hash for block in reversed(chain.blocks)]
        assert storage.chains.head(chain.id) == head_at(blocks[-1])

    def test_of_two_records_with_one_key_the_older_stays(self, storage: StoragePorts) -> None:
        chain = GrowingChain(storage.chains, entry_of("flights"))
        blocks = chain.next_blocks(3)
        adopt(chain, blocks, pages_of(blocks, RECORD, replace(RECORD, body_digest=b"e" * 32)))
        more = chain.next_blocks(2)
        adopt(chain, more, pages_of(more, replace(RECORD, body_digest=b"f" * 32)))
        assert storage.chains.idempotency(chain.id, RECORD.key_hash) == RECORD

    def test_what_the_pages_raise_leaves_nothing(self, storage: StoragePorts) -> None:
        chain = GrowingChain(storage.chains, entry_of("flights"))
        blocks = chain.next_blocks(6)

        def damaged() -> Iterator[ChainPage]:
            yield from pages_of(blocks[:4], RECORD)
            raise Corrupt("the disk", object_name="block")

        with pytest.raises(Corrupt):
            adopt(chain, blocks, damaged())
        assert storage.catalog.by_id(chain.id) is None
        assert storage.chains.head(chain.id) is None
        assert hashes_down(storage.chains, chain.id) == []
        assert storage.chains.idempotency(chain.id, RECORD.key_hash) is None
        assert storage.outbox.pending(limit=10) == []

    def test_refusals_write_nothing(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=3)
        before = (hashes_down(storage.chains, chain.id), storage.outbox.pending(limit=10))
        stale = GrowingChain(storage.chains, chain.entry, chain.blocks[:2])
        blocks = stale.next_blocks(3, label="stale")
        with pytest.raises(HeadMoved):
            adopt(stale, blocks, pages_of(blocks))
        clash = GrowingChain(storage.chains, replace(chain.entry, id=entry_of("other").id))
        blocks = clash.next_blocks(3)
        with pytest.raises(AlreadyExists):
            adopt(clash, blocks, pages_of(blocks))
        unknown = GrowingChain(storage.chains, entry_of("unknown"), chain.blocks[:2])
        blocks = unknown.next_blocks(3)
        with pytest.raises(NotFound):
            adopt(unknown, blocks, pages_of(blocks))
        assert (hashes_down(storage.chains, chain.id), storage.outbox.pending(limit=10)) == before

    @pytest.mark.parametrize("missing", [0, 2, 4])
    def test_pages_with_a_gap_are_a_bug_and_write_nothing(self, storage: StoragePorts, missing: int) -> None:
        chain = GrowingChain(storage.chains, entry_of("flights"))
        blocks = chain.next_blocks(5)
        with pytest.raises(ValueError, match=r"block|pages"):
            adopt(chain, blocks, pages_of([*blocks[:missing], *blocks[missing + 1 :]]))
        with pytest.raises(ValueError, match="pages"):
            adopt(GrowingChain(storage.chains, entry_of("flights")), blocks, pages_of(blocks[:-1]))
        assert storage.chains.head(chain.id) is None
        assert storage.catalog.by_id(chain.id) is None

    def test_calls_that_do_not_fit_together_are_bugs(self, storage: StoragePorts) -> None:
        chain = GrowingChain(storage.chains, entry_of("flights"))
        blocks = chain.next_blocks(2)
        for told, entry in ((hash_of("other"), chain.entry), (blocks[-1].hash, None)):
            with pytest.raises((ValueError, NotFound)):
                storage.chains.adopt(
                    chain.id,
                    expected=None,
                    head=head_at(blocks[-1]),
                    pages=pages_of(blocks),
                    message=_message(chain, told),
                    entry=entry,
                )
        assert storage.chains.head(chain.id) is None


def _message(chain: GrowingChain, told: Multihash) -> OutboxMessage:
    return OutboxMessage(chain.id, None, told, chain.entry.created_at)
