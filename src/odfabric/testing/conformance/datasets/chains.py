"""What a ChainWriter and the Catalog and Outbox beside it promise, as tests.

A subclass gives `storage`, new and empty for each test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from odfabric.errors import AlreadyExists, HeadMoved, NotFound, OdfError
from odfabric.model.commit import BlockRow, EncodedBlock, Head, IdempotencyRecord, OutboxMessage
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.instant import Instant
from odfabric.model.metadata import SetInfo
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.testing.conformance.examples import (
    NOW,
    GrowingChain,
    StoragePorts,
    encoded,
    entry_of,
    hash_of,
    hashes_down,
    new_chain,
)
from odfabric.testing.conformance.together import PROCESSES, THREADS, outcomes_of_processes, outcomes_of_threads

RECORD = IdempotencyRecord(key_hash=b"k" * 32, body_digest=b"d" * 32, block_hash=hash_of("sealed"))


def state_of(storage: StoragePorts, *chains: GrowingChain) -> list[object]:
    """Everything that a refused call must have left alone."""
    return [
        storage.catalog.page(limit=100),
        storage.outbox.pending(limit=1000),
        [
            (
                storage.chains.head(c.id),
                list(storage.chains.rows_down(c.id)),
                storage.chains.idempotency(c.id, b"k" * 32),
            )
            for c in chains
        ],
        storage.chains.commit_of_job("job-1"),
    ]


class ChainWriterContract:
    """The compare-and-set."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_an_unknown_dataset_has_nothing(self, storage: StoragePorts) -> None:
        chains, dataset = storage.chains, entry_of("nothing").id
        assert chains.head(dataset) is None
        assert chains.row(dataset, hash_of("x")) is None
        assert not chains.contains(dataset, hash_of("x"))
        assert list(chains.rows_down(dataset)) == []
        assert chains.idempotency(dataset, b"k") is None
        assert chains.commit_of_job("job-1") is None

    def test_first_blocks_make_the_dataset(self, storage: StoragePorts) -> None:
        chain = GrowingChain(storage.chains, entry_of("flights"))
        first, second = chain.grow(2)
        head = storage.chains.head(chain.id)
        assert head is not None
        assert (head.hash, head.sequence_number, head.system_time) == (second.hash, 1, second.block.system_time)
        assert list(storage.chains.rows_down(chain.id)) == [BlockRow.of(second), BlockRow.of(first)]
        assert [row.event_type for row in storage.chains.rows_down(chain.id)] == ["SetInfo", "Seed"]
        assert storage.catalog.by_id(chain.id) == chain.entry
        (pending,) = storage.outbox.pending(limit=10)
        assert pending.message == chain.message([first, second])

    def test_the_head_moves_to_the_last_block(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains), new_chain(storage.chains, "weather")
        chain.grow(3)
        head = storage.chains.head(chain.id)
        assert head is not None
        assert (head.hash, head.sequence_number) == (chain.head, 3)
        assert hashes_down(storage.chains, chain.id) == [block.hash for block in reversed(chain.blocks)]
        for block in chain.blocks:
            assert storage.chains.contains(chain.id, block.hash)
            assert storage.chains.row(chain.id, block.hash) == BlockRow.of(block)
            assert not storage.chains.contains(other.id, block.hash)

    def test_a_stale_writer_is_told_the_actual_head_and_writes_nothing(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        stale = chain.next_blocks(2, label="stale")
        chain.grow()
        before = state_of(storage, chain)
        with pytest.raises(HeadMoved) as moved:
            storage.chains.append(
                chain.id,
                expected=chain.blocks[0].hash,
                blocks=stale,
                message=chain.message(stale),
                idempotency=[RECORD],
                job_ids=("job-1",),
            )
        assert (moved.value.expected, moved.value.actual) == (str(chain.blocks[0].hash), str(chain.head))
        assert state_of(storage, chain) == before

    def test_nothing_is_appended_to_an_unknown_dataset(self, storage: StoragePorts) -> None:
        chain = GrowingChain(storage.chains, entry_of("nothing"))
        chain.blocks += chain.next_blocks()
        blocks = chain.next_blocks()
        with pytest.raises(NotFound):
            storage.chains.append(chain.id, expected=chain.head, blocks=blocks, message=chain.message(blocks))
        assert storage.outbox.pending(limit=10) == []

    def test_an_identity_is_taken_once(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        again = GrowingChain(storage.chains, replace(entry_of("other"), id=chain.id))
        before = state_of(storage, chain)
        with pytest.raises(AlreadyExists):
            again.grow(label="again")
        assert state_of(storage, chain) == before

    @pytest.mark.parametrize(("account", "name"), [("local", "flights"), ("LOCAL", "FLIGHTS"), ("Local", "fLights")])
    def test_an_alias_is_taken_once_whatever_its_case(self, storage: StoragePorts, account: str, name: str) -> None:
        chain = new_chain(storage.chains)
        again = GrowingChain(storage.chains, entry_of(name, account=account, dataset=entry_of("other").id))
        before = state_of(storage, chain, again)
        with pytest.raises(AlreadyExists):
            again.grow()
        assert state_of(storage, chain, again) == before

    def test_accounts_have_their_own_names(self, storage: StoragePorts) -> None:
        mine, yours = new_chain(storage.chains), new_chain(storage.chains, account="other")
        assert storage.catalog.by_alias(mine.entry.alias) == mine.entry
        assert storage.catalog.by_alias(yours.entry.alias) == yours.entry

    def test_an_idempotency_key_commits_once(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains), new_chain(storage.chains, "weather")
        for each in (chain, other):
            blocks = each.next_blocks()
            storage.chains.append(
                each.id, expected=each.head, blocks=blocks, message=each.message(blocks), idempotency=[RECORD]
            )
            each.blocks += blocks
            assert storage.chains.idempotency(each.id, RECORD.key_hash) == RECORD
        before = state_of(storage, chain, other)
        blocks = chain.next_blocks()
        fresh = replace(RECORD, key_hash=b"n" * 32)
        for records in ([fresh, RECORD], [fresh, fresh]):
            with pytest.raises(AlreadyExists):
                storage.chains.append(
                    chain.id,
                    expected=chain.head,
                    blocks=blocks,
                    message=chain.message(blocks),
                    idempotency=records,
                    job_ids=("job-1",),
                )
        assert state_of(storage, chain, other) == before
        assert storage.chains.idempotency(chain.id, fresh.key_hash) is None

    def test_a_job_commits_once(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains), new_chain(storage.chains, "weather")
        blocks = chain.next_blocks(2)
        storage.chains.append(
            chain.id, expected=chain.head, blocks=blocks, message=chain.message(blocks), job_ids=("job-1",)
        )
        chain.blocks += blocks
        assert storage.chains.commit_of_job("job-1") == chain.head
        before = state_of(storage, chain, other)
        for each in (chain, other):
            blocks = each.next_blocks()
            with pytest.raises(AlreadyExists):
                storage.chains.append(
                    each.id,
                    expected=each.head,
                    blocks=blocks,
                    message=each.message(blocks),
                    job_ids=("job-1",),
                    idempotency=[RECORD],
                )
        assert state_of(storage, chain, other) == before

    def test_a_stale_head_is_told_before_a_used_key(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        blocks = chain.next_blocks()
        arguments = {"blocks": blocks, "message": chain.message(blocks), "idempotency": [RECORD], "job_ids": ("job-1",)}
        storage.chains.append(chain.id, expected=chain.head, **arguments)  # type: ignore[arg-type]
        with pytest.raises(HeadMoved):
            storage.chains.append(chain.id, expected=chain.head, **arguments)  # type: ignore[arg-type]

    def test_calls_that_do_not_fit_together_are_bugs(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=2)
        good = chain.next_blocks(2)
        message = chain.message(good)
        moved = replace(good[1], block=replace(good[1].block, sequence_number=9))
        for blocks, told, entry in [
            ([], message, None),
            (good[1:], message, None),
            ([good[0], moved], message, None),
            (good, replace(message, new_head=good[0].hash), None),
            (good, replace(message, old_head=None), None),
            (good, message, chain.entry),
        ]:
            with pytest.raises(ValueError, match=r"."):
                storage.chains.append(chain.id, expected=chain.head, blocks=blocks, message=told, entry=entry)
        assert hashes_down(storage.chains, chain.id) == [block.hash for block in reversed(chain.blocks)]

    def test_times_of_blocks_are_kept_exactly_however_far_away(self, storage: StoragePorts) -> None:
        chain = GrowingChain(storage.chains, entry_of("old"))
        times = [Instant.parse("0001-01-01T00:00:00.000000001Z"), Instant.parse("9999-12-31T23:59:59.999999999Z")]
        blocks = [
            replace(block, block=replace(block.block, system_time=time))
            for block, time in zip(chain.next_blocks(2), times, strict=True)
        ]
        message = replace(chain.message(blocks), occurred_at=times[1])
        storage.chains.append(chain.id, expected=None, blocks=blocks, message=message, entry=chain.entry)
        head = storage.chains.head(chain.id)
        assert head is not None
        assert head.system_time == times[1]
        assert [row.system_time for row in storage.chains.rows_down(chain.id)] == times[::-1]
        assert storage.outbox.pending(limit=1)[0].message.occurred_at == times[1]

    def test_of_many_racing_creators_exactly_one_wins(self, storage: StoragePorts) -> None:
        rivals = [GrowingChain(storage.chains, entry_of("Flights")) for _ in range(THREADS)]
        outcomes = outcomes_of_threads(lambda number: rivals[number].grow(label=f"by {number}")[0].hash)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists"] * 15 + ["Multihash"]
        assert len(hashes_down(storage.chains, rivals[0].id)) == len(storage.outbox.pending(limit=100)) == 1

    def test_of_many_racing_writers_exactly_one_wins(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        proposals = [chain.next_blocks(2, label=f"by {number}") for number in range(THREADS)]

        def write(number: int) -> str:
            blocks = proposals[number]
            storage.chains.append(chain.id, expected=chain.head, blocks=blocks, message=chain.message(blocks))
            return str(blocks[-1].hash)

        outcomes = outcomes_of_threads(write)
        (winner,) = [outcome for outcome in outcomes if isinstance(outcome, str)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, HeadMoved)]
        assert len(losers) == THREADS - 1
        assert {loser.actual for loser in losers} == {winner}
        assert str(hashes_down(storage.chains, chain.id)[0]) == winner
        assert len(hashes_down(storage.chains, chain.id)) == 3
        assert len(storage.outbox.pending(limit=100)) == 2

    def test_of_many_racing_commits_with_one_key_exactly_one_wins(self, storage: StoragePorts) -> None:
        chains = [new_chain(storage.chains, f"dataset-{number}") for number in range(THREADS)]

        def write(number: int) -> str:
            chain = chains[number]
            blocks = chain.next_blocks()
            storage.chains.append(
                chain.id, expected=chain.head, blocks=blocks, message=chain.message(blocks), job_ids=("job-1",)
            )
            return "won"

        outcomes = outcomes_of_threads(write)
        assert outcomes.count("won") == 1
        assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == THREADS - 1


class ChainRowsContract:
    """Reading the index, the outbox and the catalog."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_rows_go_down_from_any_number_over_many_pages(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=1203)
        hashes = [block.hash for block in chain.blocks]
        assert hashes_down(storage.chains, chain.id) == hashes[::-1]
        assert [r.sequence_number for r in storage.chains.rows_down(chain.id, from_sequence=3)] == [3, 2, 1, 0]
        assert [r.sequence_number for r in storage.chains.rows_down(chain.id, from_sequence=0)] == [0]
        assert len(list(storage.chains.rows_down(chain.id, from_sequence=5000))) == 1203
        assert list(storage.chains.rows_down(chain.id, from_sequence=-1)) == []

    def test_rows_of_some_events_only(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=1203)

        def numbers(*event_types: str) -> list[int]:
            rows = storage.chains.rows_down(chain.id, event_types=frozenset(event_types))
            return [row.sequence_number for row in rows]

        assert numbers("Seed") == [0]
        assert numbers("SetInfo") == list(range(1202, 0, -1))
        assert numbers("Seed", "SetInfo") == list(range(1202, -1, -1))
        assert numbers("AddData") == []
        assert numbers() == []

    def test_rows_are_those_of_the_moment_of_the_call(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=3)
        rows = storage.chains.rows_down(chain.id)
        chain.grow()
        assert next(rows).sequence_number == 2
        chain.grow()
        assert [row.sequence_number for row in rows] == [1, 0]

    def test_rows_of_a_dataset_that_goes_away_do_not_end_early(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=1203)
        rows = storage.chains.rows_down(chain.id)
        seen = [next(rows).hash]
        chain.remove()
        other = GrowingChain(storage.chains, chain.entry)
        other.grow(1300, label="after the removal")
        try:
            seen += [row.hash for row in rows]
        except NotFound:
            return
        assert seen == [block.hash for block in reversed(chain.blocks)]

    def test_removal_takes_everything_but_marks_of_jobs(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains), new_chain(storage.chains, "weather", blocks=2)
        blocks = chain.next_blocks()
        storage.chains.append(
            chain.id,
            expected=chain.head,
            blocks=blocks,
            message=chain.message(blocks),
            idempotency=[RECORD],
            job_ids=("job-1",),
        )
        chain.blocks += blocks
        chain.remove()
        assert storage.chains.head(chain.id) is None
        assert hashes_down(storage.chains, chain.id) == []
        assert not storage.chains.contains(chain.id, blocks[0].hash)
        assert storage.chains.idempotency(chain.id, RECORD.key_hash) is None
        assert storage.catalog.by_id(chain.id) is storage.catalog.by_alias(chain.entry.alias) is None
        assert storage.chains.commit_of_job("job-1") == chain.head
        last = storage.outbox.pending(limit=100)[-1].message
        assert last == OutboxMessage(chain.id, chain.head, None, NOW)
        assert len(hashes_down(storage.chains, other.id)) == 2

    def test_removal_needs_the_head(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        stale = chain.head
        assert stale is not None
        chain.grow()
        before = state_of(storage, chain)
        message = OutboxMessage(chain.id, stale, None, NOW)
        with pytest.raises(HeadMoved) as moved:
            storage.chains.remove(chain.id, expected=stale, message=message)
        assert moved.value.actual == str(chain.head)
        with pytest.raises(NotFound):
            storage.chains.remove(entry_of("nothing").id, expected=stale, message=message)
        assert state_of(storage, chain) == before

    def test_a_removed_name_and_identity_are_free_again(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=3)
        chain.remove()
        again = GrowingChain(storage.chains, chain.entry)
        again.grow(2, label="again")
        assert hashes_down(storage.chains, again.id) == [block.hash for block in reversed(again.blocks)]

    def test_a_commit_and_a_removal_do_not_both_happen(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        proposals = [chain.next_blocks(label=f"by {number}") for number in range(THREADS)]

        def act(number: int) -> str:
            assert chain.head is not None
            if number % 2:
                message = OutboxMessage(chain.id, chain.head, None, NOW)
                storage.chains.remove(chain.id, expected=chain.head, message=message)
                return "removed"
            blocks = proposals[number]
            storage.chains.append(chain.id, expected=chain.head, blocks=blocks, message=chain.message(blocks))
            return "appended"

        outcomes = outcomes_of_threads(act)
        (winner,) = [outcome for outcome in outcomes if isinstance(outcome, str)]
        assert (storage.chains.head(chain.id) is None) == (winner == "removed")
        assert len(storage.outbox.pending(limit=100)) == 2

    def test_messages_wait_in_the_order_of_commits(self, storage: StoragePorts) -> None:
        first, second = new_chain(storage.chains), new_chain(storage.chains, "weather")
        for _ in range(3):
            first.grow()
            second.grow()
        pending = storage.outbox.pending(limit=100)
        assert len(pending) == 8
        assert [message.id for message in pending] == sorted({message.id for message in pending})
        for chain in (first, second):
            heads = [p.message.new_head for p in pending if p.message.dataset_id == chain.id]
            assert heads == [block.hash for block in chain.blocks]
        assert storage.outbox.pending(limit=3) == pending[:3]

    def test_the_catalog_finds_by_folded_name_and_keeps_the_written_one(self, storage: StoragePorts) -> None:
        entry = replace(
            entry_of("Flights.Hourly", account="Local"), sealed_key=b"\x00sealed\xff", remote_url="https://x.test/y"
        )
        GrowingChain(storage.chains, entry).grow()
        found = storage.catalog.by_alias(DatasetAlias(Name("lOCAL"), Name("fLIGHTS.hOURLY")))
        assert found == entry == storage.catalog.by_id(entry.id)
        assert found is not None
        assert str(found.alias) == "Local/Flights.Hourly"
        assert storage.catalog.by_alias(DatasetAlias(Name("local"), Name("flights"))) is None

    def test_the_catalog_goes_page_by_page_in_order_of_folded_names(self, storage: StoragePorts) -> None:
        names = [("b", "Beta"), ("B", "alpha"), ("a", "z"), ("a", "A-1"), ("a", "a.1"), ("a", "a1"), ("a", "aZ-1")]
        for account, name in names:
            new_chain(storage.chains, name, account=account)
        ordered = [f"{a}/{n}" for a, n in sorted(names, key=lambda item: (item[0].lower(), item[1].lower()))]
        whole = storage.catalog.page(limit=100)
        assert [str(entry.alias) for entry in whole] == ordered
        seen: list[str] = []
        after = None
        while page := storage.catalog.page(after=after, limit=3):
            seen += [str(entry.alias) for entry in page]
            after = page[-1].alias
        assert seen == ordered


class ChainProcessContract:
    """The same compare-and-set between processes.

    A subclass gives `chains`, and `open_chains`, which can be pickled and opens the same in another process."""

    @pytest.fixture
    def chains(self) -> ChainWriter:
        raise NotImplementedError

    @pytest.fixture
    def open_chains(self) -> Callable[[], ChainWriter]:
        raise NotImplementedError

    def test_of_racing_processes_exactly_one_creates(
        self, chains: ChainWriter, open_chains: Callable[[], ChainWriter]
    ) -> None:
        assert outcomes_of_processes(open_chains, _create) == ["AlreadyExists"] * (PROCESSES - 1) + ["won"]
        assert len(hashes_down(chains, entry_of("raced").id)) == 1

    def test_racing_processes_lose_no_commit(self, chains: ChainWriter, open_chains: Callable[[], ChainWriter]) -> None:
        chain = new_chain(chains, "raced")
        wins = outcomes_of_processes(open_chains, _grow_often)
        rows = list(chains.rows_down(chain.id))
        assert sum(map(int, wins)) == len(rows) - 1
        assert [row.sequence_number for row in rows] == list(range(len(rows) - 1, -1, -1))
        for row, before in pairwise(rows):
            assert row.prev == before.hash


def _create(chains: ChainWriter, number: int) -> str:
    GrowingChain(chains, entry_of("raced")).grow(label=f"by {number}")
    return "won"


def _grow_often(chains: ChainWriter, number: int) -> str:
    """Try 25 times to append to whatever the head is.

    Returns how often that was the first to do so.
    """
    wins = 0
    for attempt in range(25):
        head = chains.head(entry_of("raced").id)
        assert head is not None
        chain = GrowingChain(chains, entry_of("raced"))
        block = _after(chain, head, label=f"{number} {attempt}")
        message = OutboxMessage(chain.id, head.hash, block.hash, NOW)
        try:
            chains.append(chain.id, expected=head.hash, blocks=[block], message=message)
            wins += 1
        except HeadMoved:
            continue
        except OdfError as error:
            raise AssertionError(f"neither won nor lost: {error}") from error
    return str(wins)


def _after(chain: GrowingChain, head: Head, *, label: str) -> EncodedBlock:
    (like,) = chain.next_blocks(label=f"{head.sequence_number} {label}")
    block = replace(like.block, event=SetInfo(description=label), prev_block_hash=head.hash)
    return encoded(replace(block, sequence_number=head.sequence_number + 1))
