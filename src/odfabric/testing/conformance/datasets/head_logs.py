"""What HeadLogs, and ChainWriter with moves, promise, as tests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from odfabric.errors import Changed, HeadMoved, NotFound
from odfabric.formats.heads.head_log import entry_to_sign, signed_move
from odfabric.model.commit import OutboxMessage
from odfabric.model.heads.head_log import APPENDED, CREATED, HANDED_OVER, HeadMove, SeenHead, SignedMove
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.testing.conformance.examples import GrowingChain, new_chain

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
AT = Instant.from_millis(1_772_442_600_123)


def entry_after(last: SignedMove | None, dataset: DatasetId, head: Multihash) -> SignedMove:
    """The next entry of a log."""
    move = HeadMove(
        sequence=0 if last is None else last.move.sequence + 1,
        kind=CREATED if last is None else APPENDED,
        old_head=None if last is None else last.move.new_head,
        new_head=head,
        system_time=AT,
        previous=None if last is None else last.hash,
        signer=KEY.public_key().public_bytes_raw(),
    )
    return signed_move(move, KEY.sign(entry_to_sign(dataset, move)))


def seen_of(dataset: DatasetId, entry: SignedMove, *, signed_at: Instant = AT) -> SeenHead:
    """What a node remembers of a log that ends there."""
    return SeenHead(
        dataset=dataset,
        sequence=entry.move.sequence,
        head=entry.move.new_head,
        log=entry.hash,
        signer=entry.move.signer,
        signed_at=signed_at,
        seen_at=AT,
        place="file:///shelf",
        line=b"line",
    )


def head_of(chain: GrowingChain) -> Multihash:
    """The last block of a chain that has one."""
    assert chain.head is not None
    return chain.head


class HeadLogsContract:
    """Subclasses give `chains`, `catalog` and `logs`, on one fresh store."""

    @pytest.fixture
    def chain(self, chains: ChainWriter) -> GrowingChain:
        """A dataset with one block."""
        return new_chain(chains)

    def test_hand_overs_are_found(self, logs: HeadLogs, chain: GrowingChain) -> None:
        dataset, entries = chain.entry.id, [entry_after(None, chain.entry.id, head_of(chain))]
        assert list(logs.handovers(dataset, limit=9)) == []
        for number in range(1, 9):
            plain = entry_after(entries[-1], dataset, head_of(chain)).move
            handed = replace(plain, kind=HANDED_OVER, next_signer=plain.signer)
            move = handed if number % 3 == 0 else plain
            entries.append(signed_move(move, KEY.sign(entry_to_sign(dataset, move))))
        logs.add(dataset, entries)
        assert list(logs.handovers(dataset, limit=9)) == [entries[3].line, entries[6].line]
        assert list(logs.handovers(dataset, limit=1)) == [entries[6].line]

    def test_entries_come_out_as_they_went_in(self, logs: HeadLogs, chain: GrowingChain) -> None:
        dataset = chain.entry.id
        assert (logs.last(dataset), list(logs.lines(dataset, first=0, limit=9))) == (None, [])
        first = entry_after(None, dataset, head_of(chain))
        second = entry_after(first, dataset, head_of(chain))
        third = entry_after(second, dataset, head_of(chain))
        logs.add(dataset, [first, second])
        logs.add(dataset, [third])
        assert logs.last(dataset) == third.line
        assert list(logs.lines(dataset, first=1, limit=1)) == [second.line]
        assert list(logs.lines(dataset, first=1, limit=9)) == [second.line, third.line]
        assert list(logs.lines(dataset, first=3, limit=9)) == []

    def test_an_entry_follows_the_newest_one(self, logs: HeadLogs, chain: GrowingChain) -> None:
        dataset = chain.entry.id
        first = entry_after(None, dataset, head_of(chain))
        second = entry_after(first, dataset, head_of(chain))
        with pytest.raises(Changed):
            logs.add(dataset, [second])
        logs.add(dataset, [first])
        with pytest.raises(Changed):
            logs.add(dataset, [first])
        other = entry_after(replace(first, hash=second.hash), dataset, head_of(chain))
        with pytest.raises(Changed):
            logs.add(dataset, [other])
        assert logs.last(dataset) == first.line

    def test_a_dataset_that_is_not_here_has_no_log(self, logs: HeadLogs, chain: GrowingChain) -> None:
        stranger = DatasetId(bytes(32))
        with pytest.raises(NotFound):
            logs.add(stranger, [entry_after(None, stranger, head_of(chain))])
        with pytest.raises(NotFound):
            logs.replace(stranger, ())

    def test_a_log_that_is_replaced(self, logs: HeadLogs, chain: GrowingChain) -> None:
        dataset = chain.entry.id
        first = entry_after(None, dataset, head_of(chain))
        second = entry_after(first, dataset, head_of(chain))
        logs.add(dataset, [first, second])
        logs.note_seen(seen_of(dataset, second))
        logs.replace(dataset, [first])
        assert (logs.last(dataset), logs.seen(dataset)) == (first.line, None)

    def test_a_key_that_is_handed_over(self, logs: HeadLogs, catalog: Catalog, chain: GrowingChain) -> None:
        dataset = chain.entry.id
        first = entry_after(None, dataset, head_of(chain))
        logs.hand_over(dataset, [first], sealed_key=b"another")
        found = catalog.by_id(dataset)
        assert found is not None
        assert (found.sealed_key, logs.last(dataset)) == (b"another", first.line)
        with pytest.raises(Changed):
            logs.hand_over(dataset, [first], sealed_key=b"a third")
        logs.hand_over(dataset, (), sealed_key=None)
        found = catalog.by_id(dataset)
        assert found is not None
        assert (found.sealed_key, logs.last(dataset)) == (None, first.line)

    def test_the_newest_that_was_seen_stays(self, logs: HeadLogs, chain: GrowingChain) -> None:
        dataset = chain.entry.id
        first = entry_after(None, dataset, head_of(chain))
        second = entry_after(first, dataset, head_of(chain))
        later = Instant(AT.epoch_ns + 1)
        assert logs.seen(dataset) is None
        for noted, expected in (
            (seen_of(dataset, first), seen_of(dataset, first)),
            (seen_of(dataset, first, signed_at=later), seen_of(dataset, first, signed_at=later)),
            (seen_of(dataset, first), seen_of(dataset, first, signed_at=later)),
            (seen_of(dataset, second), seen_of(dataset, second)),
            (seen_of(dataset, first, signed_at=later), seen_of(dataset, second)),
        ):
            logs.note_seen(noted)
            assert logs.seen(dataset) == expected
        logs.note_seen(seen_of(dataset, first), forced=True)
        assert logs.seen(dataset) == seen_of(dataset, first)

    def test_a_commit_takes_its_entry_or_nothing(
        self, logs: HeadLogs, chains: ChainWriter, chain: GrowingChain
    ) -> None:
        dataset, before = chain.entry.id, head_of(chain)
        blocks = chain.next_blocks(1)
        message = OutboxMessage(dataset, before, blocks[-1].hash, AT)
        first = entry_after(None, dataset, blocks[-1].hash)
        wrong = entry_after(first, dataset, blocks[-1].hash)
        with pytest.raises(Changed):
            chains.append(dataset, expected=before, blocks=blocks, message=message, moves=[wrong])
        found = chains.head(dataset)
        assert found is not None
        assert (found.hash, logs.last(dataset)) == (before, None)
        chains.append(dataset, expected=before, blocks=blocks, message=message, moves=[first])
        found = chains.head(dataset)
        assert found is not None
        assert (found.hash, logs.last(dataset)) == (blocks[-1].hash, first.line)
        with pytest.raises(HeadMoved):
            chains.append(dataset, expected=before, blocks=blocks, message=message, moves=[wrong])
        assert logs.last(dataset) == first.line

    def test_a_log_goes_with_its_dataset_and_what_was_seen_stays(self, logs: HeadLogs, chain: GrowingChain) -> None:
        dataset = chain.entry.id
        first = entry_after(None, dataset, head_of(chain))
        logs.add(dataset, [first])
        logs.note_seen(seen_of(dataset, first))
        chain.remove()
        assert (logs.last(dataset), logs.seen(dataset)) == (None, seen_of(dataset, first))
