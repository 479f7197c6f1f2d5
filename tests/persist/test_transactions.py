"""Transactions on one shard are strictly serialisable under any fault.

The check would notice if they were not.

`ODF_PERSIST_HISTORIES` sets how many histories are played (4 by default), each of 48 transactions by four clients.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric_persist import state as transitions
from odfabric_persist.batch import retimed
from odfabric_persist.errors import PersistError
from odfabric_persist.frontier import Frontier
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Version
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.memory import MemoryConsensus
from odfabric_persist.location.s3_blob import S3Blob
from odfabric_persist.state import Batch, State
from tests.persist.histories import Append, Outcome, Read, Transaction, anomalies
from tests.persist.stores import address_of, closing_consensus, fresh_place
from tests.persist.transactions import IllFormedError, play

HISTORIES = int(os.environ.get("ODF_PERSIST_HISTORIES", "4"))


@pytest.mark.timeout(300 + 10 * HISTORIES)
def test_transactions_are_strictly_serialisable(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes: Counter[Outcome] = Counter()
    found: list[str] = []
    operations = mismatches = 0
    for seed in range(HISTORIES):
        played = play(seed, chance=(0.0, 0.05, 0.15)[seed % 3])
        found += [f"seed {seed}: {text}" for text in anomalies(played.history, played.final)]
        outcomes.update(one.outcome for one in played.history)
        operations += sum(len(one.operations) for one in played.history)
        mismatches += played.mismatches
    told = ", ".join(f"{count} {outcome.value}" for outcome, count in sorted(outcomes.items(), key=str))
    with capsys.disabled():
        print(
            f"\n{HISTORIES} histories, {operations} operations in transactions ({told}), {mismatches} lost races, "
            f"{len(found)} anomalies"
        )
    assert not found
    assert outcomes[Outcome.DONE] > 40 * HISTORIES * 0.8
    assert mismatches
    assert HISTORIES < 6 or outcomes[Outcome.UNKNOWN] > 0


@pytest.mark.parametrize(("blobs", "versions"), [("folder", "sqlite"), ("s3", "postgres")])
def test_they_are_on_stores_that_last(
    blobs: str, versions: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        blob: Blob = FolderBlob(tmp_path / "blobs")
        if blobs == "s3":
            blob = stack.enter_context(closing(S3Blob(fresh_place(request))))
        consensus = stack.enter_context(closing_consensus(address_of(versions, request, tmp_path)))()
        played = play(11, clients=3, transactions=6, chance=0.1, blob=blob, consensus=consensus)
    assert anomalies(played.history, played.final) == []
    assert played.final


def test_the_same_seed_is_the_same_history() -> None:
    first, second = (play(3, transactions=4) for _ in range(2))
    assert (first.history, first.final) == (second.history, second.final)


class ForgetfulConsensus(MemoryConsensus):
    """A register that now and then says yes to who came too late."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        won = super().compare_and_set(key, expected, new)
        self.lost += not won
        return won or self.lost % 3 == 0


class BlindConsensus(MemoryConsensus):
    """A register without conditions: the last version replaces the newest."""

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        head = self.head(key)
        if head is not None and expected is not None and head.seqno == new.seqno:
            self._versions[key][-1] = new
            return True
        return super().compare_and_set(key, expected, new)


def symptoms(consensus: Callable[[], MemoryConsensus]) -> Iterator[str]:
    """What is wrong with histories of a few seeds."""
    for seed in range(5):
        try:
            played = play(seed, consensus=consensus(), chance=0.0)
        except (IllFormedError, PersistError) as error:
            yield repr(error)
        else:
            yield from anomalies(played.history, played.final)


@pytest.mark.parametrize("broken", [ForgetfulConsensus, BlindConsensus])
def test_a_register_that_breaks_its_word_is_caught(broken: type[MemoryConsensus]) -> None:
    assert list(symptoms(broken))


def test_a_machine_that_does_not_compare_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = transitions.append_batch

    def wrong(state: State, writer: str, batch: Batch, expected: Frontier, **more: object) -> State:
        """Anyone who is late goes on from where the shard is, with what it read before."""
        if state.upper is not None and expected is not None and expected < state.upper:
            late = retimed(batch, state.upper, state.upper + 1)
            late = replace(late, lower=state.upper)
            return right(state, writer, late, state.upper, **more)  # type: ignore[arg-type]
        return right(state, writer, batch, expected, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(transitions, "append_batch", wrong)
    assert any("IllFormedError" in one or "cycle" in one for one in symptoms(MemoryConsensus))


def done(number: int, began: int, ended: int, *operations: Append | Read, seen: list[tuple[int, ...]]) -> Transaction:
    return Transaction(number, operations, began, ended, Outcome.DONE, seen)


A, B = 0, 1


@pytest.mark.parametrize(
    ("history", "final", "message"),
    [
        ([done(0, 1, 2, Append(A, 1), seen=[])], {}, "is lost"),
        ([done(0, 1, 2, Append(A, 1), seen=[])], {A: (1, 1)}, "twice"),
        ([Transaction(0, [Append(A, 1)], 1, 2, Outcome.FAILED)], {A: (1,)}, "failed"),
        (
            [done(0, 1, 2, Append(A, 1), Append(A, 2), seen=[]), done(1, 1, 2, Read(A), seen=[(1,)])],
            {A: (1, 2)},
            "middle",
        ),
        ([done(0, 1, 2, Append(A, 1), Read(A), seen=[()])], {A: (1,)}, "own appends"),
        (
            [
                done(0, 1, 9, Append(A, 1), seen=[]),
                done(1, 1, 9, Append(A, 2), seen=[]),
                done(2, 1, 9, Read(A), seen=[(2,)]),
            ],
            {A: (1, 2)},
            "no beginning",
        ),
        # Each reads what the other has not written yet: write skew.
        (
            [done(0, 1, 9, Read(A), Append(B, 1), seen=[()]), done(1, 1, 9, Read(B), Append(A, 2), seen=[()])],
            {A: (2,), B: (1,)},
            "cycle",
        ),
        # It ended before the other began, which did not see it.
        ([done(0, 1, 2, Append(A, 1), seen=[]), done(1, 3, 4, Read(A), seen=[()])], {A: (1,)}, "cycle"),
        (
            [done(0, 1, 9, Append(A, 1), Append(B, 2), seen=[]), done(1, 1, 9, Append(A, 3), Append(B, 4), seen=[])],
            {A: (1, 3), B: (4, 2)},
            "cycle",
        ),
    ],
)
def test_the_check_knows_anomalies(history: list[Transaction], final: dict[int, tuple[int, ...]], message: str) -> None:
    (found, *_) = anomalies(history, final)
    assert message in found


def test_the_check_accepts_what_a_serial_order_explains() -> None:
    history = [
        done(0, 1, 5, Append(A, 1), Read(A), seen=[(1,)]),
        done(1, 2, 6, Read(A), seen=[()]),
        Transaction(2, [Append(A, 3)], 3, 4, Outcome.UNKNOWN),
        done(3, 7, 8, Read(A), Read(B), seen=[(1, 3), ()]),
        Transaction(4, [Append(B, 5)], 7, 8, Outcome.FAILED),
    ]
    assert anomalies(history, {A: (1, 3)}) == []
