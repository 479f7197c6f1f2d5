"""Reading or working on a shard holds nothing by itself.

Before any call to the location somebody else may merge and collect.

Each act is done again and again, overtaken before its first call, its second, and so on until it makes no more calls: whatever it reports
must be right, and nothing that is named may be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings, Shard
from odfabric_persist.compact import apply, compact
from odfabric_persist.inspect import existing, inspect
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.unreliable import Faults, UnreliableBlob, UnreliableConsensus
from odfabric_persist.maintenance import MaintenanceLimits
from odfabric_persist.usage import LEAKED_AFTER_MS, audit
from odfabric_persist.verify import verify
from tests.persist.scenario import CODEC, listed, updates_of

LIMITS = MaintenanceLimits(rollup_every=4)
BEGINNING = 20
OTHERS = 30
CALLS_MAX = 200


class Overtaken:
    """A shard with commits, and one who works on it.

    Somebody else goes first before the call with number `before`.
    """

    def __init__(self, before: int) -> None:
        self.blob, self.consensus = MemoryBlob(), MemoryConsensus()
        self.before, self.calls, self.now_ms, self.begun = before, 0, 0, False
        self.others = self._client(self.blob, self.consensus).open("s", CODEC)
        self.commit(BEGINNING, start=0)
        faults = Faults(wait=lambda _: self._call())
        self.watched_blob = UnreliableBlob(self.blob, faults)
        self.watched_consensus = UnreliableConsensus(self.consensus, faults)
        self.shard: Shard = self._client(self.watched_blob, self.watched_consensus).open("s", CODEC)
        self.shard.newest()
        self.begin()

    def _client(self, blob: Blob, consensus: Consensus) -> PersistClient:
        settings = PersistSettings(limits=BatchLimits(inline_bytes_max=0), maintenance=LIMITS)
        return PersistClient(blob, consensus, settings, now_ms=lambda: self.now_ms, wait=lambda _: None)

    def begin(self) -> None:
        """Calls count from here."""
        self.begun, self.calls = True, 0

    def _call(self) -> None:
        self.calls += 1
        if self.begun and self.calls == self.before:
            self.go_first()

    def commit(self, count: int, *, start: int) -> None:
        writer = self.others.open_writer("w")
        for number in range(start, start + count):
            writer.compare_and_append(updates_of([[f"k{number}", number, 1]]), number, number + 1)

    def go_first(self) -> None:
        """Merge and collect, while claims of others have run out."""
        oldest = self._oldest()
        self.now_ms += LIMITS.claim_ms + 1
        self.others.maintain()
        self.commit(OTHERS, start=BEGINNING)
        self.others.maintain()
        assert self._oldest() > oldest, "nothing was collected"

    def _oldest(self) -> int:
        return self.consensus.scan("s", 0, 1)[0].seqno


def _versions_end_with_the_newest(place: Overtaken) -> None:
    states = list(place.shard.machine.states_from(0))
    assert states[-1].seqno >= BEGINNING
    assert all(one.seqno < other.seqno for one, other in pairwise(states))


def _nothing_is_missed(place: Overtaken) -> None:
    assert verify(place.shard.machine).problems == []


def _nothing_is_called_leaked(place: Overtaken) -> None:
    now_ms = place.now_ms + LEAKED_AFTER_MS - 1
    usage = audit(place.watched_blob, place.watched_consensus, now_ms=now_ms)
    assert [one.problem for one in usage.shards] == [""]
    assert not {entry.key for entry in usage.leaked} & place.others.newest().blob_keys


def _it_is_shown(place: Overtaken) -> None:
    machine = existing(place.watched_blob, place.watched_consensus, "s")
    assert inspect(machine).rows > 0


def _it_is_read(place: Overtaken) -> None:
    rows = listed(place.shard.snapshot(BEGINNING - 1))
    assert {key for key, *_ in rows} == {f"k{number}" for number in range(BEGINNING)}


def _it_is_maintained(place: Overtaken) -> None:
    place.shard.maintain()


def _a_merge_that_came_late_is_dropped(place: Overtaken) -> None:
    batches = place.others.newest().batches
    output = compact(place.others.parts, batches, 0, BEGINNING, 0)
    middle = batches[:2]
    assert apply(place.others.parts, middle, compact(place.others.parts, middle, 0, 2, 0))
    place.begin()
    assert not apply(place.shard.parts, batches, output)


ACTS = [
    _versions_end_with_the_newest,
    _nothing_is_missed,
    _nothing_is_called_leaked,
    _it_is_shown,
    _it_is_read,
    _it_is_maintained,
    _a_merge_that_came_late_is_dropped,
]


@pytest.mark.parametrize("act", ACTS)
def test_who_is_overtaken_tells_nothing_wrong(act: Callable[[Overtaken], None]) -> None:
    for before in range(1, CALLS_MAX):
        place = Overtaken(before)
        act(place)
        if place.calls < before:
            break
        assert {key for key, *_ in listed(place.others.snapshot(BEGINNING + OTHERS - 1))} == {
            f"k{number}" for number in range(BEGINNING + OTHERS)
        }
        assert verify(place.others.machine).problems == []
    assert 2 < before < CALLS_MAX - 1
