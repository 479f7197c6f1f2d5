"""External parts: the shard keeps a reference, the data's owner finds the rows."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

from odfabric_persist import state as transitions
from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings, Shard
from odfabric_persist.collect import maintain
from odfabric_persist.compact import compact
from odfabric_persist.encoding import decode_diff, decode_rollup, encode_diff, encode_rollup
from odfabric_persist.errors import Corrupt, UpperMismatch, UsageError
from odfabric_persist.keys import ROLLUP
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.metered import Meter, MeteredBlob
from odfabric_persist.splits import Split
from tests.persist.scenario import CODEC, listed, updates_of

ELSEWHERE = {
    "block-0": [["c", 0, 1], ["a", 0, 1], ["b", 0, 1], ["a", 0, 1]],
    "block-1": [["b", 1, -1], ["d", 1, 1]],
    "block-2": [["d", 2, -1], ["a", 2, -1]],
}
REFERENCES = [(name, len(rows)) for name, rows in ELSEWHERE.items()]
AT_2 = [["a", 2, 1], ["c", 2, 1]]


def resolve(external: str) -> pa.Table:
    return updates_of(ELSEWHERE[external])


@pytest.fixture
def meter() -> Meter:
    return Meter()


@pytest.fixture
def client(meter: Meter) -> PersistClient:
    blob = MeteredBlob(MemoryBlob(), meter)
    limits = BatchLimits(inline_bytes_max=0)
    return PersistClient(blob, MemoryConsensus(), PersistSettings(limits=limits), wait=lambda _: None)


@pytest.fixture
def shard(client: PersistClient) -> Shard:
    return client.open("s", CODEC, resolve=resolve)


def test_several_references_are_one_version_and_no_blob(shard: Shard, meter: Meter) -> None:
    writer = shard.open_writer()
    seqno, written = shard.newest().seqno, meter.calls["blob.set"]
    assert writer.append_references(REFERENCES, 0, 3) == 3
    assert (shard.newest().seqno, meter.calls["blob.set"]) == (seqno + 1, written)
    assert [len(run) for run in shard.newest().batches[0].runs] == [1, 1, 1]


def test_rows_in_no_order_are_read_sorted_and_added_up(shard: Shard) -> None:
    shard.open_writer().append_references(REFERENCES, 0, 3)
    assert listed(shard.snapshot(0)) == [["a", 0, 2], ["b", 0, 1], ["c", 0, 1]]
    assert listed(shard.snapshot(2)) == AT_2
    listener = shard.open_reader().listen(0)
    assert listed(listener.poll() or CODEC.no_rows) == [["a", 2, -1], ["b", 1, -1], ["d", 1, 1], ["d", 2, -1]]


def test_only_what_lies_in_the_bounds_counts(shard: Shard) -> None:
    writer = shard.open_writer()
    writer.append_references(REFERENCES[:2], 0, 1)
    writer.append_references(REFERENCES[1:], 1, 2)
    assert listed(shard.snapshot(1)) == [["a", 1, 2], ["c", 1, 1], ["d", 1, 1]]


def test_replicas_write_the_same_references_once(shard: Shard) -> None:
    first, second = shard.open_writer(), shard.open_writer()
    assert first.append_references(REFERENCES[:1], 0, 1) == 1
    seqno = shard.newest().seqno
    assert second.append_references(REFERENCES[:1], 0, 1) == 1
    assert shard.newest().seqno == seqno
    assert second.append_references(REFERENCES, 0, 3) == 3
    assert first.append_references(REFERENCES[1:], 1, 3) == 3
    assert listed(shard.snapshot(2)) == AT_2
    with pytest.raises(UpperMismatch):
        first.append_references(REFERENCES[:1], 4, 5)
    assert first.append_references([], 3, 4) == 4


def merge_all(shard: Shard, since: int) -> None:
    batches = shard.newest().batches
    output = compact(shard.parts, batches, 0, batches[-1].upper, since)
    names = tuple(batch.id for batch in batches)
    shard.machine.apply(partial(transitions.apply_merge, inputs=names, output=output, now_ms=0))


def test_compaction_copies_what_was_referred_to_and_collection_leaves_it_alone(shard: Shard, meter: Meter) -> None:
    writer, reader = shard.open_writer(), shard.open_reader()
    for number, reference in enumerate(REFERENCES):
        writer.append_references([reference], number, number + 1)
    reader.downgrade_since(2)
    merge_all(shard, 2)
    (batch,) = shard.newest().batches
    assert [part.external for part in batch.parts] == [None]
    for _ in range(4):
        found = maintain(shard.machine)
        reader.downgrade_since(2)
        assert found.parts == 0
    assert found.truncated is not None, "the versions with the references are gone"
    assert {entry.key for entry in shard.machine.blob.list("") if ROLLUP not in entry.key} == batch.blob_keys
    assert listed(shard.snapshot(2)) == AT_2


def test_portions_of_references_travel(shard: Shard, client: PersistClient) -> None:
    shard.open_writer().append_references(REFERENCES, 0, 3)
    texts = [split.to_json() for split in shard.snapshot_splits(2, 2)]
    fetched = [shard.fetch_split(Split.from_json(text)) for text in texts]
    assert listed(CODEC.consolidated(pa.concat_tables(fetched))) == AT_2
    with pytest.raises(UsageError, match="no-resolver"):
        client.open("s", CODEC).fetch_split(Split.from_json(texts[0]))


def test_states_carry_references_and_refuse_what_they_do_not_know(shard: Shard) -> None:
    before = shard.newest()
    shard.open_writer().append_references(REFERENCES, 0, 3)
    state = shard.newest()
    assert decode_rollup(encode_rollup(state)) == state
    diff = encode_diff(before, state, nonce="n", rollup=(1, "k"))
    assert decode_diff(diff).seqno == state.seqno
    other = PersistClient(shard.machine.blob, shard.machine.consensus, wait=lambda _: None)
    assert other.open("s", CODEC).newest() == state
    found = b'{"external":"block-0"}'
    for known, unknown in ((b'"external"', b'"borrowed"'), (found, b"7"), (found, b'{"external":"block-0","of":1}')):
        with pytest.raises(Corrupt, match="damaged"):
            decode_rollup(encode_rollup(state).replace(known, unknown))


def test_a_reference_that_stands_for_something_else_is_found_out(client: PersistClient) -> None:
    shard = client.open("s", CODEC, resolve=lambda name: resolve(name).slice(1))
    shard.open_writer().append_references(REFERENCES, 0, 3)
    with pytest.raises(Corrupt, match="block-0 has 3 rows, 4 were referred to"):
        shard.snapshot(2)
    for bad in [("", 1), ("x" * 513, 1), ("x", -1)]:
        with pytest.raises(UsageError, match="invalid-reference"):
            shard.open_writer().append_references([bad], 3, 4)


def test_a_sign_of_life_where_the_shard_no_longer_is_is_refused(shard: Shard) -> None:
    writer = shard.open_writer()
    writer.compare_and_append(updates_of([]), 0, 5)
    for expected in (3, 7):
        with pytest.raises(UpperMismatch) as caught:
            writer.compare_and_append(updates_of([]), expected, expected)
        assert caught.value.current == 5
    seqno = shard.newest().seqno
    assert writer.compare_and_append(updates_of([]), 5, 5) == 5
    assert shard.newest().seqno == seqno + 1
    assert writer.append(updates_of([]), 3, 3) == 5
