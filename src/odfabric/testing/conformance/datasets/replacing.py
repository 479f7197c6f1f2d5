"""What `ChainWriter.replace` promises, as tests.

A subclass gives `storage`, new and empty for each test.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from odfabric.errors import HeadMoved, InvalidRequest, NotFound
from odfabric.model.commit import EncodedBlock, IdempotencyRecord, OutboxMessage
from odfabric.model.multihash import Multihash
from odfabric.testing.conformance.examples import (
    NOW,
    GrowingChain,
    StoragePorts,
    entry_of,
    hash_of,
    hashes_down,
    new_chain,
)


def others_after(chain: GrowingChain, kept: int, count: int) -> list[EncodedBlock]:
    """Blocks that would follow the first `kept` ones of the chain."""
    return GrowingChain(chain.chains, chain.entry, chain.blocks[:kept]).next_blocks(count, label="other")


def replace(
    chain: GrowingChain, onto: Multihash | None, blocks: Sequence[EncodedBlock], *, expected: Multihash | None = None
) -> None:
    """Replace what follows `onto`."""
    before = expected or chain.head
    assert before is not None
    message = OutboxMessage(chain.id, before, blocks[-1].hash if blocks else onto, NOW)
    chain.chains.replace(chain.id, expected=before, onto=onto, blocks=blocks, message=message)


class ReplacingContract:
    """Replacing a part of a chain."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_other_blocks_take_the_place_of_the_last_ones(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=4)
        others = others_after(chain, 2, 3)
        replace(chain, chain.blocks[1].hash, others)
        kept = [block.hash for block in chain.blocks[:2]]
        assert hashes_down(storage.chains, chain.id) == [block.hash for block in others[::-1]] + kept[::-1]
        head = storage.chains.head(chain.id)
        assert head is not None
        assert (head.hash, head.sequence_number) == (others[-1].hash, 4)
        assert not storage.chains.contains(chain.id, chain.blocks[2].hash)
        assert [one.message.new_head for one in storage.outbox.pending(limit=9)] == [chain.head, others[-1].hash]

    def test_without_blocks_the_head_goes_back(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=3)
        replace(chain, chain.blocks[0].hash, [])
        assert hashes_down(storage.chains, chain.id) == [chain.blocks[0].hash]
        chain.blocks = chain.blocks[:1]
        chain.grow(label="anew")
        assert hashes_down(storage.chains, chain.id)[0] == chain.head

    def test_the_whole_chain_may_be_replaced(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=2)
        others = others_after(chain, 0, 3)
        replace(chain, None, others)
        assert hashes_down(storage.chains, chain.id) == [block.hash for block in others[::-1]]
        assert storage.catalog.by_id(chain.id) == chain.entry

    def test_records_of_keys_go_with_the_blocks_that_have_sealed_them(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        for name in ("kept", "gone"):
            blocks = chain.next_blocks(label=name)
            record = IdempotencyRecord(hash_of(name).digest, hash_of("body").digest, blocks[-1].hash)
            message = chain.message(blocks)
            storage.chains.append(
                chain.id, expected=chain.head, blocks=blocks, message=message, idempotency=[record], job_ids=[name]
            )
            chain.blocks += blocks
        replace(chain, chain.blocks[1].hash, [])
        assert storage.chains.idempotency(chain.id, hash_of("kept").digest) is not None
        assert storage.chains.idempotency(chain.id, hash_of("gone").digest) is None
        assert storage.chains.commit_of_job("gone") == chain.head

    def test_keys_that_the_new_blocks_have_sealed_are_known(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        blocks = chain.next_blocks(label="old")
        record = IdempotencyRecord(hash_of("key").digest, hash_of("body").digest, blocks[-1].hash)
        storage.chains.append(
            chain.id, expected=chain.head, blocks=blocks, message=chain.message(blocks), idempotency=[record]
        )
        chain.blocks += blocks
        others = others_after(chain, 1, 1)
        moved = IdempotencyRecord(record.key_hash, record.body_digest, others[-1].hash)
        message = OutboxMessage(chain.id, blocks[-1].hash, others[-1].hash, NOW)
        storage.chains.replace(
            chain.id,
            expected=blocks[-1].hash,
            onto=chain.blocks[0].hash,
            blocks=others,
            message=message,
            idempotency=[moved],
        )
        assert storage.chains.idempotency(chain.id, record.key_hash) == moved

    def test_a_head_that_has_moved_is_left_alone(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=3)
        with pytest.raises(HeadMoved):
            replace(chain, chain.blocks[0].hash, [], expected=chain.blocks[1].hash)
        with pytest.raises(NotFound):
            replace(chain, hash_of("strange"), [])
        with pytest.raises(NotFound):
            replace(GrowingChain(storage.chains, entry_of("nothing"), chain.blocks), chain.blocks[0].hash, [])
        assert hashes_down(storage.chains, chain.id) == [block.hash for block in chain.blocks[::-1]]

    def test_calls_that_do_not_fit_together_are_bugs(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=3)
        with pytest.raises(ValueError, match="no blocks"):
            replace(chain, None, [])
        with pytest.raises(ValueError, match="follows"):
            replace(chain, chain.blocks[0].hash, others_after(chain, 2, 1))


class NoReplacingContract:
    """Where nodes share heads, these never go back."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_replacing_is_refused(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=2)
        with pytest.raises(InvalidRequest, match="shares its heads"):
            replace(chain, chain.blocks[0].hash, [])
        assert hashes_down(storage.chains, chain.id) == [block.hash for block in chain.blocks[::-1]]
