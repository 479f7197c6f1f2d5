"""The database is rebuilt from objects; what is damaged is left out and reported.

Same catalog, heads, index and idempotency.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.domain.chain.append import link_blocks
from odfabric.domain.ingestion.idempotency import idempotency_key_hash
from odfabric.errors import ChainsDiverged, Corrupt, External, IdempotencyKeyReused
from odfabric.formats.blocks.block import block_hash, encode_block
from odfabric.formats.identifiers.dataset_layout import alias_key, block_key, data_key, head_key, head_log_key
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry, IdempotencyRecord
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import AddData, MetadataBlock, SetInfo
from odfabric.model.multihash import Multihash
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.maintenance.rebuild import RebuildOutcome, RebuiltDataset
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.manifests import DERIVED, ROOT

NAMES = ("readings", "copied", "empty")


def push(memory: MemoryNode, name: str, key: str | None, city: str) -> Job | CommitResult:
    body = json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": city}).encode() + b"\n"
    entry = memory.node.datasets.resolve(parse_dataset_alias(name))
    return memory.node.requests.push(PushData(dataset=entry.id, body=iter([body]), idempotency_key=key))


def committed(memory: MemoryNode, name: str, key: str | None, city: str) -> dict[str, object]:
    accepted = push(memory, name, key, city)
    if isinstance(accepted, CommitResult):
        return accepted.to_value()
    ended = memory.finish(accepted)
    assert ended.status is JobStatus.SUCCEEDED, ended.error
    result: dict[str, object] = json.loads(ended.result or "{}")
    return result


def grown(folder: Path, *, seed: int = 0, pushes: int = 6) -> MemoryNode:
    """A node with datasets pushed with and without keys, and a derivative."""
    memory, random = MemoryNode(folder, seed=seed), Random(seed)
    for manifest in (ROOT, DERIVED, ROOT.replace("name: readings", "name: empty")):
        memory.add(manifest)
    copied = memory.node.datasets.resolve(parse_dataset_alias("copied"))
    for number in range(pushes):
        committed(memory, "readings", f"key-{number}" if random.random() < 0.6 else None, f"city {number}")
        if random.random() < 0.5:
            memory.finish(memory.node.requests.pull(PullRequest(dataset=copied.id, alias=copied.alias)))
    memory.node.background.relay_outbox()
    return memory


def entry_of(memory: MemoryNode, name: str) -> CatalogEntry:
    return memory.node.datasets.resolve(parse_dataset_alias(name))


def database(memory: MemoryNode, names: Sequence[str] = NAMES, keys: int = 8) -> list[object]:
    """What a rebuild must restore: entries, heads, index, records.

    Entries but for what only the database knows.
    """
    found: list[object] = []
    for name in names:
        entry, chains = entry_of(memory, name), memory.node.ports.chains
        records = [record for number in range(keys) if (record := record_of(memory, entry, f"key-{number}"))]
        known = (entry.id, entry.alias, entry.kind, entry.created_at)
        found.append((known, chains.head(entry.id), list(chains.rows_down(entry.id)), records))
    return found


def record_of(memory: MemoryNode, entry: CatalogEntry, key: str) -> IdempotencyRecord | None:
    key_hash = idempotency_key_hash(account="local", route=f"ingest/{entry.id}/", key=key)
    return memory.node.ports.chains.idempotency(entry.id, key_hash)


def rebuilt(memory: MemoryNode, *, adopt: bool = False) -> dict[str, RebuiltDataset]:
    return {str(found.alias): found for found in memory.node.objects.rebuild(adopt=adopt)}


@pytest.mark.parametrize("seed", range(5))
def test_everything_that_the_store_knows_comes_back(tmp_path: Path, seed: int) -> None:
    memory = grown(tmp_path, seed=seed)
    before = database(memory)
    memory.lose_database()
    assert memory.node.datasets.page(after=None, limit=10) == []
    found = rebuilt(memory)
    assert {one.outcome for one in found.values()} == {RebuildOutcome.REBUILT}
    assert database(memory) == before
    assert all(one.blocks == len(index) for one, (_, _, index, _) in zip_by_name(found, before))
    again = rebuilt(memory)
    assert {one.outcome for one in again.values()} == {RebuildOutcome.UP_TO_DATE}
    for name in NAMES:
        job = memory.finish(memory.node.requests.verify(entry_of(memory, name), VerifyOptions()))
        assert json.loads(job.result or "{}") == {"ok": True, "errors": []}


def test_a_head_log_comes_back_and_goes_on(tmp_path: Path) -> None:
    """A second log from its first entry on would be a fork to its readers."""
    memory = grown(tmp_path, pushes=3)
    entry = entry_of(memory, "readings")
    before = list(memory.node.ports.head_logs.lines(entry.id, first=0, limit=100))
    assert len(before) > 2
    memory.lose_database()
    assert rebuilt(memory)["local/readings"].problem is None
    assert list(memory.node.ports.head_logs.lines(entry.id, first=0, limit=100)) == before
    committed(memory, "readings", None, "one more")
    assert list(memory.node.ports.head_logs.lines(entry.id, first=0, limit=len(before))) == before


def test_a_damaged_head_log_is_named_and_its_dataset_comes_back(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    entry = entry_of(memory, "readings")
    key = head_log_key(entry.id)
    text = memory.objects.read_ref(key)
    assert text is not None
    memory.objects.write_ref(key, text.replace("append", "bppend", 1))
    memory.lose_database()
    found = rebuilt(memory)["local/readings"]
    assert (found.outcome, getattr(found.problem, "object_name", None)) == (RebuildOutcome.REBUILT, key)
    assert not memory.node.ports.head_logs.lines(entry.id, first=0, limit=1)


def zip_by_name(found: dict[str, RebuiltDataset], before: list[object]) -> list[tuple[RebuiltDataset, tuple]]:  # type: ignore[type-arg]
    return [(found[f"local/{name}"], one) for name, one in zip(NAMES, before, strict=True)]  # type: ignore[misc]


def test_a_key_used_before_answers_the_same_block_after(tmp_path: Path) -> None:
    memory = grown(tmp_path, pushes=0)
    first = committed(memory, "readings", "key-1", "here")
    memory.lose_database()
    rebuilt(memory)
    assert committed(memory, "readings", "key-1", "here") == first
    with pytest.raises(IdempotencyKeyReused):
        push(memory, "readings", "key-1", "elsewhere")
    assert committed(memory, "readings", "key-2", "there")["rows"] == 1


def test_the_relay_has_nobody_to_tell(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    memory.lose_database()
    rebuilt(memory)
    assert memory.node.background.relay_outbox() == len(NAMES)
    assert memory.webhooks.received == []


def test_small_pages_make_the_same_database(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    before = database(memory)
    memory.lose_database(rebuild_page_blocks_max=2)
    rebuilt(memory)
    assert database(memory) == before


def test_a_fault_at_any_call_is_mended_by_repeating(tmp_path: Path) -> None:
    memory = grown(tmp_path, pushes=3)
    before = database(memory)
    watch = FaultPlan()
    memory.lose_database(watch)
    rebuilt(memory)
    faults = [(number, fault) for number, call in enumerate(watch.calls) for fault in call.faults]
    assert len(faults) > 20
    for number, fault in faults:
        memory.lose_database(FaultPlan.single(number, fault))
        for _ in range(3):
            try:
                found = rebuilt(memory)
            except External:
                continue
            break
        assert {one.outcome for one in found.values()} <= {RebuildOutcome.REBUILT, RebuildOutcome.UP_TO_DATE}
        memory.restart()
        assert database(memory) == before, f"fault {fault.value} at call {number}"


@pytest.mark.parametrize("position", [0, 2, -1])
def test_a_flipped_byte_is_told_with_its_block_and_the_others_come_back(tmp_path: Path, position: int) -> None:
    memory = grown(tmp_path)
    entry = entry_of(memory, "readings")
    before = database(memory, ("copied", "empty"))
    damaged = list(memory.node.ports.chains.rows_down(entry.id))[position].hash
    memory.objects.damage(block_key(entry.id, damaged))
    memory.lose_database()
    found = rebuilt(memory)
    told = found["local/readings"]
    assert (told.outcome, told.head, told.blocks) == (RebuildOutcome.REFUSED, None, 0)
    assert isinstance(told.problem, Corrupt)
    assert told.problem.object_name == str(damaged)
    assert str(damaged) in str(told.to_value()["problem"])
    assert memory.node.repository.find(entry.id) is None
    assert database(memory, ("copied", "empty")) == before


def test_a_missing_block_and_bad_refs_are_told(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    readings, copied, empty = (entry_of(memory, name) for name in NAMES)
    (*_, second, _) = memory.node.ports.chains.rows_down(readings.id)
    memory.objects.delete(block_key(readings.id, second.hash))
    memory.objects.delete(alias_key(copied.id))
    memory.objects.write_ref(head_key(empty.id), "no hash")
    memory.lose_database()
    problems = {found.dataset: found.problem for found in memory.node.objects.rebuild(adopt=False)}
    named = {dataset: problem.object_name for dataset, problem in problems.items() if isinstance(problem, Corrupt)}
    assert named == {
        readings.id: str(second.hash),
        copied.id: alias_key(copied.id),
        empty.id: head_key(empty.id),
    }


def test_a_chain_of_another_dataset_is_refused(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    readings, empty = entry_of(memory, "readings"), entry_of(memory, "empty")
    for row in memory.node.ports.chains.rows_down(readings.id):
        data = memory.objects.read_bytes(block_key(readings.id, row.hash), size_max=1 << 20)
        memory.objects.put_bytes(block_key(empty.id, row.hash), data)
    memory.objects.write_ref(head_key(empty.id), memory.objects.read_ref(head_key(readings.id)) or "")
    memory.lose_database()
    found = rebuilt(memory)
    assert isinstance(found["local/empty"].problem, Corrupt)
    assert "another block than its seed" in str(found["local/empty"].problem)
    assert found["local/readings"].outcome is RebuildOutcome.REBUILT


def test_a_block_that_breaks_a_rule_of_chains_is_refused(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    empty = entry_of(memory, "empty")
    head = memory.node.datasets.head(empty)
    block = MetadataBlock(
        system_time=Instant(head.system_time.epoch_ns - 1_000_000),
        prev_block_hash=head.hash,
        sequence_number=head.sequence_number + 1,
        event=SetInfo(description="before its time"),
    )
    data = encode_block(block)
    memory.objects.put_bytes(block_key(empty.id, block_hash(data)), data)
    memory.lose_database()
    told = rebuilt(memory, adopt=True)["local/empty"]
    assert (told.head, told.adopted) == (head.hash, False)
    assert isinstance(told.problem, Corrupt)
    memory.objects.write_ref(head_key(empty.id), str(block_hash(data)))
    memory.lose_database()
    told = rebuilt(memory)["local/empty"]
    assert told.outcome is RebuildOutcome.REFUSED
    assert isinstance(told.problem, Corrupt)
    assert told.problem.object_name == str(block_hash(data))
    assert memory.node.repository.find(empty.id) is None


def test_a_database_with_another_chain_is_refused_and_left_alone(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    readings = entry_of(memory, "readings")
    seed = list(memory.node.ports.chains.rows_down(readings.id))[-1]
    committed(memory, "readings", None, "ours")
    ours = memory.node.ports.chains.head(readings.id)
    # What the bucket says now is an older state followed by a block that the database never had.
    memory.objects.write_ref(head_key(readings.id), str(another_block(memory, readings, after=seed.hash)))
    found = rebuilt(memory)["local/readings"]
    assert found.outcome is RebuildOutcome.REFUSED
    assert isinstance(found.problem, ChainsDiverged)
    assert memory.node.ports.chains.head(readings.id) == ours


def another_block(memory: MemoryNode, entry: CatalogEntry, *, after: Multihash) -> Multihash:
    """A valid block on top of `after` that is in no chain; its hash."""
    state = memory.node.repository.state(entry.id, after)
    (block,) = link_blocks(state, [SetInfo(description="aside")], system_time=state.system_time)  # type: ignore[arg-type]
    memory.objects.put_bytes(block_key(entry.id, block.hash), block.data)
    return block.hash


def test_a_database_that_is_behind_catches_up(tmp_path: Path) -> None:
    memory = grown(tmp_path, pushes=1)
    copy = memory.store.backup()
    committed(memory, "readings", "key-5", "later")
    before = database(memory)
    memory.use_database(copy)
    found = rebuilt(memory)
    assert (found["local/readings"].outcome, found["local/readings"].blocks) == (RebuildOutcome.CAUGHT_UP, 1)
    assert found["local/empty"].outcome is RebuildOutcome.UP_TO_DATE
    assert database(memory) == before


def test_a_database_that_is_ahead_is_left_alone(tmp_path: Path) -> None:
    memory = grown(tmp_path, pushes=1)
    readings = entry_of(memory, "readings")
    older = memory.objects.read_ref(head_key(readings.id))
    committed(memory, "readings", None, "later")
    before = database(memory)
    memory.objects.write_ref(head_key(readings.id), older or "")
    assert rebuilt(memory, adopt=True)["local/readings"].outcome is RebuildOutcome.AHEAD
    assert database(memory) == before


def unpublished(memory: MemoryNode) -> tuple[CatalogEntry, list[Multihash]]:
    """The store of a node that died between its last two commits and publication."""
    readings = entry_of(memory, "readings")
    older = memory.objects.read_ref(head_key(readings.id))
    for number in range(2):
        committed(memory, "readings", f"key-{6 + number}", f"unpublished {number}")
    memory.objects.write_ref(head_key(readings.id), older or "")
    return readings, [row.hash for row in memory.node.ports.chains.rows_down(readings.id)][1::-1]


def test_blocks_beyond_the_published_head_are_told_and_taken_only_if_asked(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    readings, beyond = unpublished(memory)
    whole = database(memory)
    memory.lose_database()
    told = rebuilt(memory)["local/readings"]
    assert (list(told.beyond), told.adopted) == (beyond, False)
    assert str(memory.node.datasets.head(readings).hash) == memory.objects.read_ref(head_key(readings.id))
    assert record_of(memory, readings, "key-6") is None
    taken = rebuilt(memory, adopt=True)["local/readings"]
    assert (list(taken.beyond), taken.adopted, taken.blocks) == (beyond, True, 2)
    assert database(memory) == whole
    assert memory.objects.read_ref(head_key(readings.id)) == str(beyond[-1])
    assert rebuilt(memory, adopt=True)["local/readings"].beyond == ()


def test_blocks_beyond_without_their_data_are_not_taken(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    readings, beyond = unpublished(memory)
    event = memory.node.repository.blocks(readings.id).get(beyond[-1]).event
    assert isinstance(event, AddData)
    assert event.new_data is not None
    memory.objects.delete(data_key(readings.id, event.new_data.physical_hash))
    memory.lose_database()
    told = rebuilt(memory, adopt=True)["local/readings"]
    assert (told.outcome, told.adopted) == (RebuildOutcome.REBUILT, False)
    assert isinstance(told.problem, Corrupt)
    assert told.problem.object_name == str(event.new_data.physical_hash)


def test_of_two_blocks_beyond_in_one_place_neither_is_taken(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    readings = entry_of(memory, "readings")
    published = memory.node.datasets.head(readings).hash
    unpublished(memory)
    another_block(memory, readings, after=published)
    memory.lose_database()
    told = rebuilt(memory, adopt=True)["local/readings"]
    assert (told.outcome, told.beyond, told.problem) == (RebuildOutcome.REBUILT, (), None)


def test_a_fault_while_taking_what_lies_beyond_is_mended_by_repeating(tmp_path: Path) -> None:
    memory = grown(tmp_path, pushes=1)
    readings, beyond = unpublished(memory)
    older = memory.objects.read_ref(head_key(readings.id)) or ""
    watch = FaultPlan()
    memory.lose_database(watch)
    rebuilt(memory, adopt=True)
    for number, call in enumerate(watch.calls):
        if not call.effect:
            continue
        for fault in Fault:
            memory.objects.write_ref(head_key(readings.id), older)
            memory.lose_database(FaultPlan.single(number, fault))
            for _ in range(3):
                try:
                    rebuilt(memory, adopt=True)
                except External:
                    continue
                break
            memory.restart()
            memory.node.background.relay_outbox()
            assert memory.node.datasets.head(readings).hash == beyond[-1]
            assert memory.objects.read_ref(head_key(readings.id)) == str(beyond[-1])


def test_names_that_clash_are_told(tmp_path: Path) -> None:
    memory = grown(tmp_path)
    copied = entry_of(memory, "copied")
    memory.objects.write_ref(alias_key(copied.id), "local/Readings")
    memory.lose_database()
    outcomes = sorted(found.outcome.value for found in memory.node.objects.rebuild(adopt=False))
    assert outcomes == ["rebuilt", "rebuilt", "refused"]
