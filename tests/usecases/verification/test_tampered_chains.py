"""A chain that misstates its objects: refused by pull, named by verification.

Nothing else follows from it.

The law: of a valid chain any member of any data block is changed, and the chain after it hashed again. What no rule can tell from
another honest chain is named here, and nothing else is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from odfabric.errors import Corrupt
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA, dataset_prefix
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.commit import CatalogEntry, EncodedBlock
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.instant import FIRST_INSTANT, LAST_INSTANT, Instant
from odfabric.model.jobs.job import JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    OffsetInterval,
    SetDataSchema,
    SetInfo,
    SourceState,
)
from odfabric.model.offsets import OFFSET_MAX
from odfabric.testing.chains import (
    INPUT_IDS,
    START,
    example_id,
    example_transform,
    logical_hash,
    no_progress_after,
    physical_hash,
)
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.support.real_chains import COLUMNS, RealChain, hashes, plant, relinked, remote_files

URL = "https://elsewhere.example/alice/readings"
REFUSED = {"corrupted-source", "invalid-block", "chains-diverged"}
STRANGE = physical_hash("what nobody has")
SCHEMA = SetDataSchema(schema=arrow_to_data_schema(COLUMNS))

DataEvent = AddData | ExecuteTransform
Mutant = tuple[str, MetadataBlock]


def day(number: int) -> Instant:
    return Instant.from_millis(START.millis + number * 86_400_000)


def root_chain(folder: Path) -> RealChain:
    """Blocks with and without rows.

    Checkpoints that are repeated and renewed; a second schema.
    """
    chain = RealChain(folder)
    chain.add(SCHEMA)
    one, two = chain.checkpoint("one"), chain.checkpoint("checkpoint two")
    state = SourceState(source_name="default", kind="odf/etag", value="1")
    chain.add(AddData(new_data=chain.next_slice(0, 0, 0), new_checkpoint=one, new_watermark=day(1)))
    chain.add(_carrying_on(chain, new_watermark=day(2), new_source_state=state))
    chain.add(SetInfo(description="between"))
    chain.add(_carrying_on(chain, new_data=chain.next_slice(2, 3), new_watermark=day(2)))
    chain.add(_carrying_on(chain, new_data=chain.next_slice(1), new_checkpoint=two, new_watermark=day(4)))
    chain.add(_carrying_on(chain, new_data=chain.next_slice(0, 0), new_watermark=day(5)))
    return chain


def _carrying_on(chain: RealChain, **members: Any) -> AddData:
    last = chain.state.add_data.event if chain.state.add_data else AddData()
    event = AddData(
        prev_checkpoint=last.new_checkpoint.physical_hash if last.new_checkpoint else None,
        prev_offset=chain.state.last_offset,
        new_checkpoint=last.new_checkpoint,
        new_source_state=last.new_source_state,
    )
    return replace(event, **members)


def derived_chain(folder: Path) -> RealChain:
    """Transactions over two inputs, one of which pauses."""
    chain = RealChain(folder, DatasetKind.DERIVATIVE)
    chain.add(example_transform(*INPUT_IDS[:2], sql="select event_time, city from input0"), SCHEMA)
    progress = tuple(ExecuteTransformInput(dataset_id=one) for one in INPUT_IDS[:2])
    for number, operations in enumerate([(0, 0), (2, 3, 0), (1,)]):
        previous = chain.state.execute_transform
        checkpoint = chain.checkpoint("state " * (number + 1))
        advanced = [replace(one, new_block_hash=physical_hash(f"{number}")) for one in progress]
        advanced[0] = replace(advanced[0], new_offset=10 * number + 5)
        last = previous.event.new_checkpoint if previous else None
        chain.add(
            ExecuteTransform(
                query_inputs=tuple(advanced),
                prev_checkpoint=last.physical_hash if last else None,
                prev_offset=chain.state.last_offset,
                new_data=chain.next_slice(*operations),
                new_checkpoint=checkpoint,
                new_watermark=day(number + 1),
            )
        )
        progress = tuple(no_progress_after(one) for one in advanced)
    return chain


CHAINS = {"root": root_chain, "derivative": derived_chain}


# --- mutants: one member of one data block each -----------------------------------------------------------------------


def mutants(chain: RealChain, position: int) -> Iterator[Mutant]:
    """Blocks with one changed member, each with the member's name."""
    block = chain.blocks[position].block
    event = block.event
    assert isinstance(event, DataEvent)
    yield from header_mutants(block)
    followers = [one.block.event for one in chain.blocks[position + 1 :] if isinstance(one.block.event, DataEvent)]
    for name, changed in event_mutants(chain, event, followers[0] if followers else None):
        yield name, replace(block, event=changed)


def header_mutants(block: MetadataBlock) -> Iterator[Mutant]:
    event = block.event
    # Rows hold the time of their block; a block without rows may have been written a little later.
    for by in (-2_000_000_000, *([1_000_000] if isinstance(event, DataEvent) and event.new_data is not None else [])):
        yield "system_time", replace(block, system_time=Instant(block.system_time.epoch_ns + by))
    for moment in (Instant(FIRST_INSTANT.epoch_ns - 1), Instant(LAST_INSTANT.epoch_ns + 1)):
        yield "system_time", replace(block, system_time=moment)
    yield "prev_block_hash", replace(block, prev_block_hash=STRANGE)
    for number in (0, block.sequence_number - 1, block.sequence_number + 1, 2**64 - 1):
        yield "sequence_number", replace(block, sequence_number=number)


def event_mutants(chain: RealChain, event: DataEvent, follower: DataEvent | None) -> Iterator[tuple[str, DataEvent]]:
    if event.new_data is not None:
        for name, changed in slice_mutants(chain, event.new_data):
            yield f"new_data.{name}", replace(event, new_data=changed)
        if follower is not None:
            yield "new_data", replace(event, new_data=None)
    if event.new_checkpoint is not None:
        for name, checkpoint in checkpoint_mutants(event.new_checkpoint):
            yield f"new_checkpoint.{name}", replace(event, new_checkpoint=checkpoint)
        if follower is not None:
            yield "new_checkpoint", replace(event, new_checkpoint=None)
    offset = event.prev_offset
    for prev_offset in (None if offset is not None else 0, 0 if offset is None else offset + 1, OFFSET_MAX + 1):
        yield "prev_offset", replace(event, prev_offset=prev_offset)
    yield "prev_checkpoint", replace(event, prev_checkpoint=STRANGE if event.prev_checkpoint is None else None)
    for watermark in wrong_watermarks(event, follower):
        yield "new_watermark", replace(event, new_watermark=watermark)
    if isinstance(event, ExecuteTransform):
        yield from input_mutants(event, follower)


def slice_mutants(chain: RealChain, data: DataSlice) -> Iterator[tuple[str, DataSlice]]:
    start, end = data.offset_interval.start, data.offset_interval.end
    intervals = [(start + 1, end), (start, end + 1), (start + 1, end + 1), (start, OFFSET_MAX), (start, 2**63 - 1)]
    intervals += [(start, 2**64 - 1), (2**64 - 1, 2**64 - 1)]
    intervals += [(start, end - 1)] if end > start else []
    for interval in intervals:
        yield "offset_interval", replace(data, offset_interval=OffsetInterval(start=interval[0], end=interval[1]))
    for size in (0, data.size - 1, data.size + 1, 2**63 - 1, 2**63, 2**64 - 1):
        yield "size", replace(data, size=size)
    yield "logical_hash", replace(data, logical_hash=logical_hash("what nobody has"))
    yield "logical_hash", replace(data, logical_hash=data.physical_hash)
    yield "physical_hash", replace(data, physical_hash=STRANGE)
    for other in slices_of(chain.blocks):
        if other != data:
            yield "physical_hash", replace(data, physical_hash=other.physical_hash)
            yield "logical_hash", replace(data, logical_hash=other.logical_hash)
            # All that is said of the object is right, but for which rows it has.
            yield "offset_interval", replace(other, offset_interval=data.offset_interval)


def slices_of(blocks: list[EncodedBlock]) -> list[DataSlice]:
    events = [one.block.event for one in blocks]
    return [one.new_data for one in events if isinstance(one, DataEvent) and one.new_data is not None]


def checkpoint_mutants(checkpoint: Checkpoint) -> Iterator[tuple[str, Checkpoint]]:
    yield "physical_hash", replace(checkpoint, physical_hash=STRANGE)
    for size in (0, checkpoint.size - 1, checkpoint.size + 1, 2**64 - 1):
        yield "size", replace(checkpoint, size=size)


def wrong_watermarks(event: DataEvent, follower: DataEvent | None) -> Iterator[Instant | None]:
    """Only a watermark that the next block goes back from is wrong.

    A later watermark may have been set by hand.
    """
    assert event.new_watermark is not None
    yield Instant(FIRST_INSTANT.epoch_ns - 1)
    yield Instant(LAST_INSTANT.epoch_ns + 1)
    yield Instant.parse("+2147483647-01-01T00:00:00Z")
    if event.prev_offset is not None:
        yield None
        yield Instant.from_millis(START.millis + 1)
    if follower is not None and follower.new_watermark is not None:
        yield Instant(follower.new_watermark.epoch_ns + 1)


def input_mutants(event: ExecuteTransform, follower: DataEvent | None) -> Iterator[tuple[str, ExecuteTransform]]:
    yield "query_inputs", replace(event, query_inputs=event.query_inputs[::-1])
    yield "query_inputs", replace(event, query_inputs=event.query_inputs[:1])
    first, *rest = event.query_inputs
    changes: list[dict[str, Any]] = [
        {"dataset_id": example_id("strange")},
        {"prev_block_hash": STRANGE},
        {"prev_offset": 0 if first.prev_offset is None else first.prev_offset + 1},
        {"new_block_hash": None},
        {"new_offset": 2**64 - 1},
    ]
    if first.prev_offset is not None:
        changes += [{"new_offset": first.prev_offset - 1}, {"new_offset": first.prev_offset}]
    if follower is not None:
        changes += [{"new_block_hash": STRANGE}, {"new_offset": None}, {"new_offset": (first.new_offset or 0) + 1}]
    for members in changes:
        (name,) = members
        yield f"query_inputs.{name}", replace(event, query_inputs=(replace(first, **members), *rest))


def data_positions(chain: RealChain) -> list[int]:
    return [number for number, one in enumerate(chain.blocks) if isinstance(one.block.event, DataEvent)]


# --- pulling and verifying --------------------------------------------------------------------------------------------


def pull(memory: MemoryNode, blocks: list[EncodedBlock], files: dict[str, bytes]) -> dict[str, Any]:
    """The outcome of a pull of these blocks: `code` is None where it succeeded."""
    memory.remotes.publish(URL, remote_files(blocks, files))
    alias = DatasetAlias(memory.node.account, Name("copy"))
    entry = memory.node.repository.find(alias)
    request = PullRequest(dataset=entry.id if entry else None, alias=alias, url=URL)
    job = memory.finish(memory.node.requests.pull(request))
    if job.status is JobStatus.SUCCEEDED:
        return {"code": None, **json.loads(job.result or "")}
    found: dict[str, Any] = json.loads(job.error or "")
    return found


def problems(memory: MemoryNode, entry: CatalogEntry) -> list[dict[str, Any]]:
    job = memory.finish(memory.node.requests.verify(entry, VerifyOptions()))
    assert job.status is JobStatus.SUCCEEDED, job.error
    errors: list[dict[str, Any]] = json.loads(job.result or "")["errors"]
    return errors


def copied(folder: Path, blocks: list[EncodedBlock], files: dict[str, bytes]) -> tuple[MemoryNode, CatalogEntry]:
    memory = MemoryNode(folder)
    assert pull(memory, blocks, files)["code"] is None
    return memory, memory.node.datasets.resolve(DatasetAlias(None, Name("copy")))


@pytest.mark.parametrize("kind", CHAINS)
def test_the_chain_itself_is_pulled_and_verified(kind: str, tmp_path: Path) -> None:
    chain = CHAINS[kind](tmp_path)
    memory, entry = copied(tmp_path / "node", chain.blocks, chain.files)
    assert problems(memory, entry) == []
    planted = MemoryNode(tmp_path / "planted")
    assert problems(planted, plant(planted, chain.blocks, chain.files)) == []


@pytest.mark.parametrize("kind", CHAINS)
def test_law_a_changed_member_is_refused_by_a_node_that_has_nothing(kind: str, tmp_path: Path) -> None:
    chain = CHAINS[kind](tmp_path)
    for position in data_positions(chain):
        for number, (name, changed) in enumerate(mutants(chain, position)):
            memory = MemoryNode(tmp_path / f"{position}-{number}")
            outcome = pull(memory, relinked(chain.blocks, position, changed), chain.files)
            assert outcome["code"] in REFUSED | {"limit-exceeded"}, f"{name} of block {position}: {changed}: {outcome}"
            assert memory.node.datasets.page(after=None, limit=10) == []


@pytest.mark.parametrize("kind", CHAINS)
def test_law_a_changed_member_is_refused_by_a_node_that_has_all_objects(kind: str, tmp_path: Path) -> None:
    """They were pulled with the chain itself, which then was deleted."""
    chain = CHAINS[kind](tmp_path)
    memory, entry = copied(tmp_path / "node", chain.blocks, chain.files)
    memory.node.datasets.delete(entry)
    for position in data_positions(chain):
        for name, changed in mutants(chain, position):
            outcome = pull(memory, relinked(chain.blocks, position, changed), chain.files)
            assert outcome["code"] in REFUSED | {"limit-exceeded"}, f"{name} of block {position}: {changed}: {outcome}"
            assert memory.node.datasets.page(after=None, limit=10) == []


@pytest.mark.parametrize("kind", CHAINS)
def test_law_a_changed_member_is_refused_by_a_copy_that_follows(kind: str, tmp_path: Path) -> None:
    chain = CHAINS[kind](tmp_path)
    for position in data_positions(chain):
        memory, entry = copied(tmp_path / f"{position}", chain.blocks[:position], chain.files)
        head = memory.node.datasets.head(entry)
        for name, changed in mutants(chain, position):
            outcome = pull(memory, relinked(chain.blocks, position, changed), chain.files)
            assert outcome["code"] in REFUSED | {"limit-exceeded"}, f"{name} of block {position}: {changed}: {outcome}"
            assert memory.node.datasets.head(entry) == head


@pytest.mark.parametrize("kind", CHAINS)
def test_law_a_changed_member_is_named_by_verification(kind: str, tmp_path: Path) -> None:
    """No database takes blocks that do not link, so links are left as they are here."""
    chain = CHAINS[kind](tmp_path)
    for position in data_positions(chain):
        for number, (name, changed) in enumerate(mutants(chain, position)):
            if name in ("prev_block_hash", "sequence_number"):
                continue
            blocks = relinked(chain.blocks, position, changed)
            memory = MemoryNode(tmp_path / f"{position}-{number}")
            found = problems(memory, plant(memory, blocks, chain.files))
            suspects = {str(one) for one in hashes(blocks)[position:]} | {str(STRANGE)}
            assert found, f"{name} of block {position}: {changed}"
            assert found[0]["block"] in suspects, f"{name} of block {position}: {found}"


@pytest.mark.parametrize(("kind", "event"), [("root", AddData), ("derivative", ExecuteTransform)])
def test_the_mutants_reach_every_member(kind: str, event: type, tmp_path: Path) -> None:
    chain = CHAINS[kind](tmp_path)
    names = {name for position in data_positions(chain) for name, _ in mutants(chain, position)}
    expected = {one.name for owner in (event, MetadataBlock) for one in fields(owner)}
    expected |= {f"new_data.{one.name}" for one in fields(DataSlice)}
    expected |= {f"new_checkpoint.{one.name}" for one in fields(Checkpoint)}
    if event is ExecuteTransform:
        expected |= {f"query_inputs.{one.name}" for one in fields(ExecuteTransformInput)}
    # An honest chain may have any of these; only a signature could tell.
    unbound = {"event", "new_source_state", "extra"}
    assert names == expected - unbound


# --- objects that are here already ------------------------------------------------------------------------------------


def named_again(chain: RealChain, data: DataSlice) -> AddData:
    """A block that claims the rows of an earlier slice for the next offsets."""
    start = chain.state.next_offset
    rows = data.offset_interval.end - data.offset_interval.start + 1
    again = replace(data, offset_interval=OffsetInterval(start=start, end=start + rows - 1))
    return _carrying_on(chain, new_data=again, new_watermark=day(9))


def test_a_slice_that_a_chain_names_twice_is_refused(tmp_path: Path) -> None:
    chain = root_chain(tmp_path)
    honest = list(chain.blocks)
    for data in slices_of(honest):
        chain.blocks, chain.state = list(honest), root_chain(tmp_path).state
        chain.add(named_again(chain, data))
        memory = MemoryNode(tmp_path / f"once-{data.offset_interval.start}")
        outcome = pull(memory, chain.blocks, chain.files)
        assert (outcome["code"], "has the offset" in outcome["message"]) == ("corrupted-source", True)
        follower, entry = copied(tmp_path / f"later-{data.offset_interval.start}", honest, chain.files)
        assert pull(follower, chain.blocks, chain.files)["code"] == "corrupted-source"
        assert follower.node.datasets.head(entry).hash == honest[-1].hash


def test_a_damaged_object_that_nobody_needed_is_fetched_again(tmp_path: Path) -> None:
    chain = root_chain(tmp_path)
    memory, entry = copied(tmp_path / "node", chain.blocks, chain.files)
    memory.node.datasets.delete(entry)
    for area in (DATA, CHECKPOINTS):
        key = next(iter(memory.objects.keys(dataset_prefix(entry.id) + area)))
        memory.objects.delete(key)
        memory.objects.put_bytes(key, b"damaged")
    assert pull(memory, chain.blocks, chain.files)["code"] is None
    assert problems(memory, memory.node.datasets.resolve(entry.id)) == []


def test_an_object_that_is_here_is_not_fetched_again(tmp_path: Path) -> None:
    chain = root_chain(tmp_path)
    memory, entry = copied(tmp_path / "node", chain.blocks, chain.files)
    memory.node.datasets.delete(entry)
    assert pull(memory, chain.blocks, {})["code"] is None


# --- chains that came in before there were rules ----------------------------------------------------------------------


def planted_with(tmp_path: Path, interval: OffsetInterval) -> tuple[MemoryNode, CatalogEntry]:
    chain = root_chain(tmp_path)
    block = chain.blocks[-1].block
    assert isinstance(block.event, AddData)
    assert block.event.new_data is not None
    event = replace(block.event, new_data=replace(block.event.new_data, offset_interval=interval))
    memory = MemoryNode(tmp_path / "node")
    blocks = relinked(chain.blocks, len(chain.blocks) - 1, replace(block, event=event))
    return memory, plant(memory, blocks, chain.files)


TAIL = ReadTail(skip=0, limit=5, data_format="JsonAoS", schema_format=None)


@pytest.mark.parametrize("end", [2**63 - 1, 2**64 - 1])
def test_the_largest_offset_is_told_by_every_reader(end: int, tmp_path: Path) -> None:
    memory, entry = planted_with(tmp_path, OffsetInterval(start=6, end=end))
    with pytest.raises(Corrupt, match="rule X10"):
        memory.node.rows.tail(entry, TAIL)
    (problem,) = problems(memory, entry)
    assert (problem["kind"], "rule X10" in problem["message"]) == ("BlockMalformed", True)
    memory.node.datasets.delete(entry)
    honest = root_chain(tmp_path)
    assert pull(memory, honest.blocks, honest.files)["code"] is None


@pytest.mark.parametrize("interval", [OffsetInterval(start=6, end=9), OffsetInterval(start=7, end=8)])
def test_a_tail_never_shows_rows_as_what_they_are_not(interval: OffsetInterval, tmp_path: Path) -> None:
    memory, entry = planted_with(tmp_path, interval)
    with pytest.raises(Corrupt, match="does not hold the rows that its block says"):
        memory.node.rows.tail(entry, TAIL)
