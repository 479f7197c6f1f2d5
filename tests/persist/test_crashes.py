"""Death after any store call: the next process finds all acknowledged, once.

The same work is done again and again, and cut off after one call more each time. Then another process looks: the shard verifies, its
rows are those of the commits so far and perhaps of the one that was under way. It repeats the work as a replica does, and in the end
the rows are exactly those of all commits, whatever was cut off. `ODF_PERSIST_CRASH_COMMITS` sets how much work it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings, Shard
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.sqlite_consensus import SqliteConsensus
from odfabric_persist.location.unreliable import Faults, UnreliableBlob, UnreliableConsensus
from odfabric_persist.maintenance import MaintenanceLimits
from odfabric_persist.merge import MergeLimits
from odfabric_persist.tiers import FanOut
from odfabric_persist.usage import Standing, audit, remove_leaked
from odfabric_persist.verify import verify
from tests.persist.scenario import CODEC, listed, updates_of

COMMITS = int(os.environ.get("ODF_PERSIST_CRASH_COMMITS", "3"))
T = TypeVar("T")


class DeathError(BaseException):
    """The process is gone."""


class Mortal(Faults):
    """Dies after so many calls of its stores; no call comes through after that."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.left = calls

    def call(self, operation: str, work: Callable[[], T]) -> T:
        if self.left <= 0:
            raise DeathError
        self.left -= 1
        result = work()
        if self.left == 0:
            raise DeathError
        return result


def rows(number: int) -> list[list[object]]:
    return [[key, number, diff] for key, diff in (("a", 1), (f"k{number}", 1), (f"k{number - 1}", -1))]


def opened(blob: Blob, consensus: Consensus, *, clock_ms: int) -> PersistClient:
    settings = PersistSettings(
        limits=BatchLimits(part_rows=2, inline_bytes_max=0),
        maintenance=MaintenanceLimits(
            rollup_every=5, fan_out=FanOut(fresh=3, above=2), merge=MergeLimits(rows_max=4, runs_max=2)
        ),
        attempts_max=1,
    )
    return PersistClient(blob, consensus, settings, now_ms=lambda: clock_ms, wait=lambda _: None)


def shard_of(client: PersistClient) -> Shard:
    return client.open("s", CODEC, resolve=lambda name: updates_of(rows(int(name))))


def work(client: PersistClient, acknowledged: list[int]) -> None:
    """All commits, of blobs and of references, with what else goes on in a shard."""
    shard = shard_of(client)
    writer, hold = shard.open_writer("w"), shard.open_critical("c")
    for number in range(COMMITS):
        if number % 3 == 2:
            writer.append_references([(str(number), 3)], number, number + 1)
        else:
            writer.append(updates_of(rows(number)), number, number + 1)
        acknowledged.append(number)
        hold.compare_and_downgrade_since(hold.hold[1], number + 1, max(0, number - 2))
        shard.maintain()
    shard.expire(critical="c")


def expected(commits: int, as_of: int) -> list[list[object]]:
    updates = [row for number in range(commits) for row in rows(number)]
    table = updates_of([[key, as_of, diff] for key, _, diff in updates])
    return listed(CODEC.consolidated(table))


@pytest.fixture(params=["memory", "folder and sqlite"])
def new_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], tuple[Blob, Consensus]]]:
    with ExitStack() as closing:

        def made() -> tuple[Blob, Consensus]:
            if request.param == "memory":
                return MemoryBlob(), MemoryConsensus()
            place = tmp_path / f"{len(list(tmp_path.iterdir()))}"
            place.mkdir()
            consensus = SqliteConsensus(place / "versions.db")
            closing.callback(consensus.close)
            return FolderBlob(place / "blobs"), consensus

        yield made


def die_after(calls: int, blob: Blob, consensus: Consensus) -> list[int] | None:
    """The commits that were acknowledged to a process that died after so many calls.

    None if it came to the end.
    """
    mortal, acknowledged = Mortal(calls), []
    client = opened(UnreliableBlob(blob, mortal), UnreliableConsensus(consensus, mortal), clock_ms=1000)
    try:
        work(client, acknowledged)
    except DeathError:
        return acknowledged
    return None


def test_death_after_any_call_loses_and_doubles_nothing(
    new_stores: Callable[[], tuple[Blob, Consensus]], request: pytest.FixtureRequest
) -> None:
    in_memory = "memory" in request.node.name
    calls, tried = 0, 0
    while True:
        # On the disk every seventh call is enough: the calls are the same, and each is a file or a transaction.
        calls += 1 if in_memory else 7
        blob, consensus = new_stores()
        acknowledged = die_after(calls, blob, consensus)
        if acknowledged is None:
            break
        tried += 1
        found_by_the_next(blob, consensus, acknowledged, calls)
    assert tried > (50 if in_memory else 7)


def found_by_the_next(blob: Blob, consensus: Consensus, acknowledged: list[int], calls: int) -> None:
    place = f"dead after {calls} calls"
    # So much later that no claim of the dead one holds.
    client = opened(blob, consensus, clock_ms=10**9)
    shard = shard_of(client)
    verified = verify(shard.machine)
    assert not verified.problems, place
    upper = shard.newest().upper or 0
    assert upper - len(acknowledged) in (0, 1), place
    if upper and (shard.newest().since or 0) < upper:
        assert listed(shard.snapshot(upper - 1)) == expected(upper, upper - 1), place
    work(client, [])
    assert listed(shard.snapshot(COMMITS - 1)) == expected(COMMITS, COMMITS - 1), place
    assert not verify(shard.machine).problems, place
    usage = audit(blob, consensus, now_ms=10**9, leaked_after_ms=10)
    assert len(usage.leaked) <= 8, f"{place}: one merge cannot leave more"
    assert len(list(remove_leaked(blob, consensus, now_ms=10**9, leaked_after_ms=10))) == len(usage.leaked)
    (after,) = audit(blob, consensus, now_ms=10**9, leaked_after_ms=10).shards
    assert not after.blobs[Standing.LEAKED], place
    assert not verify(shard.machine).problems, place
    assert listed(shard.snapshot(COMMITS - 1)) == expected(COMMITS, COMMITS - 1), place
