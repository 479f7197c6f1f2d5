"""Compaction: what a chain says before and after, for chains of any shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.append import fold_blocks, link_blocks
from odfabric.domain.chain.block_attributes import as_extra
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.walk import ChainLink
from odfabric.domain.history.compaction import Batch, CompactionLimits, compaction_steps, metadata_steps
from odfabric.domain.ingestion.idempotency import (
    IdempotencyEntry,
    idempotency_records,
    sealed_attributes,
    sealed_state,
)
from odfabric.domain.sources.polled_content import PolledContent, polled_attributes, polled_before, polled_file
from odfabric.model.commit import EncodedBlock
from odfabric.model.data_schema import DataSchema
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    DatasetKind,
    DataSlice,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetInfo,
    SourceState,
)
from odfabric.model.multihash import sha3_256_multihash

START = Instant.parse("2026-01-01T00:00:00Z")
LATER = Instant.parse("2026-06-01T00:00:00Z")
DAY_NS = 86_400 * 10**9


def hash_of(number: int) -> Any:
    return sha3_256_multihash(number.to_bytes(32, "big"))


def key_of(number: int) -> IdempotencyEntry:
    return IdempotencyEntry(number.to_bytes(32, "big"), number.to_bytes(32, "little"))


Piece = tuple[str, int]
"""What a block is: rows, none (a watermark), info; keyed or polled rows. And a number."""
pieces = st.lists(
    st.tuples(st.sampled_from(["rows", "none", "info", "keyed", "polled"]), st.integers(1, 6)), max_size=12
)


def chain_of(wanted: list[Piece]) -> list[EncodedBlock]:
    seed = Seed(dataset_id=DatasetId(bytes(32)), dataset_kind=DatasetKind.ROOT)
    blocks = link_blocks(ChainState.empty(), [seed, SetDataSchema(schema=DataSchema(fields=()))], system_time=START)
    state = fold_blocks(ChainState.empty(), blocks)
    for place, (kind, count) in enumerate(wanted):
        made = link_blocks(state, [event_of(kind, count, place, state)], system_time=START)
        blocks += made
        state = fold_blocks(state, made)
    return blocks


def event_of(kind: str, count: int, place: int, state: ChainState) -> MetadataEvent:
    if kind == "info":
        return SetInfo(description=f"text {place}")
    watermark = Instant(START.epoch_ns + (place + 1) * DAY_NS)
    event = AddData(prev_offset=state.last_offset, new_watermark=watermark, new_source_state=state.source_state)
    if kind == "none":
        return event
    interval = OffsetInterval(start=state.next_offset, end=state.next_offset + count - 1)
    data = DataSlice(
        logical_hash=hash_of(place), physical_hash=hash_of(place), offset_interval=interval, size=count * 100
    )
    event = replace(event, new_data=data)
    match kind:
        case "keyed":
            keys = [key_of(place)]
            source_state = sealed_state(keys, source_name="default")
            return replace(event, new_source_state=source_state, extra=as_extra(sealed_attributes(keys)))
        case "polled":
            content = PolledContent(content=hash_of(place), name=f"file-{place}", size=count, modified_at=START)
            source_state = SourceState(source_name="default", kind="odf/etag", value=f"file-{place}")
            return replace(event, new_source_state=source_state, extra=as_extra(polled_attributes(content)))
        case _:
            return event


def links_of(blocks: list[EncodedBlock]) -> list[ChainLink]:
    return [ChainLink(one.hash, one.block) for one in blocks]


def compacted(blocks: list[EncodedBlock], limits: CompactionLimits) -> list[EncodedBlock]:
    made, state = blocks[:1], fold_blocks(ChainState.empty(), blocks[:1])
    for step in compaction_steps(links_of(blocks)[1:], limits):
        event = step
        if isinstance(step, Batch):
            data = None
            if step.slices:
                data = replace(step.slices[0], offset_interval=step.interval, size=sum(one.size for one in step.slices))
            event = step.event(data)
        assert not isinstance(event, Batch)
        new = link_blocks(state, [event], system_time=LATER)
        made += new
        state = fold_blocks(state, new)
    return made


def said(state: ChainState) -> tuple[object, ...]:
    source = state.source_state
    if source is not None and source.kind.startswith("odfabric/"):
        source = replace(source, value="")  # it seals the keys of its block
    info = state.info.event if state.info else None
    return state.last_offset, state.watermark, state.checkpoint, source, info


@given(pieces, st.integers(1, 1000), st.integers(1, 20))
def test_the_state_stays_and_the_chain_is_valid(wanted: list[Piece], size: int, records: int) -> None:
    blocks = chain_of(wanted)
    limits = CompactionLimits(slice_bytes_max=size, slice_records_max=records)
    after = compacted(blocks, limits)
    assert len(after) <= len(blocks)
    assert said(fold_blocks(ChainState.empty(), after)) == said(fold_blocks(ChainState.empty(), blocks))
    assert compacted(after, limits)[1:] == after[1:]


@given(pieces)
def test_keys_and_files_are_said_by_the_new_blocks(wanted: list[Piece]) -> None:
    blocks = chain_of(wanted)
    after = compacted(blocks, CompactionLimits(slice_bytes_max=10**9, slice_records_max=10**6))
    assert keys(after) == keys(blocks)
    assert files(after) == files(blocks)


def keys(blocks: list[EncodedBlock]) -> set[bytes]:
    return {record.key_hash for one in blocks for record in idempotency_records(one.hash, one.block)}


def files(blocks: list[EncodedBlock]) -> dict[str, tuple[Instant, object]]:
    found: dict[str, tuple[Instant, object]] = {}
    for one in reversed(blocks):
        for file in (*polled_before(one.block), polled_file(one.block)):
            if file is not None:
                found.setdefault(file.name, (file.read_at, file.content and file.content.content))
    return found


@given(pieces)
def test_without_rows_everything_else_stays(wanted: list[Piece]) -> None:
    blocks = chain_of(wanted)
    kept = list(metadata_steps(links_of(blocks)[1:]))
    assert kept == [one.block.event for one in blocks[1:] if not isinstance(one.block.event, AddData)]
