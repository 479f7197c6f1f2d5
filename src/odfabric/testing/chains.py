"""Valid chains for tests: a builder by single blocks, and seeded random chains.

Owns examples of every event. Invariant: whatever the builder holds was accepted by `chain.validate`. A test overrides the one
member it is about and leaves the rest to the defaults.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from random import Random

from odfabric.domain.chain.append import link_blocks
from odfabric.domain.chain.state import ChainState, apply, last_input_block_of, last_input_offset_of
from odfabric.errors import NotFound
from odfabric.model.commit import EncodedBlock
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    ExtraAttributes,
    TimeUnit,
)
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    AttachmentEmbedded,
    AttachmentsEmbedded,
    Checkpoint,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfabric.model.multihash import ARROW0_SHA3_256, Multihash, sha3_256_multihash
from odfabric.model.source import (
    FetchStepUrl,
    MergeStrategyAppend,
    MergeStrategyLedger,
    ReadStepCsv,
    ReadStepNdJson,
)

START = Instant.parse("2024-01-01T00:00:00Z")
INPUT_IDS = tuple(DatasetId(hashlib.sha3_256(f"input {number}".encode()).digest()) for number in range(3))

_TIMESTAMP = DataTypeTimestamp(unit=TimeUnit.MILLISECOND, timezone="UTC")


def physical_hash(name: str) -> Multihash:
    """The SHA3-256 hash of a text, standing for an object or a block."""
    return sha3_256_multihash(hashlib.sha3_256(name.encode()).digest())


def logical_hash(name: str) -> Multihash:
    """A logical hash made from a text."""
    return Multihash(ARROW0_SHA3_256, hashlib.sha3_256(name.encode()).digest())


def example_id(name: str = "dataset") -> DatasetId:
    """A dataset identity made from a text."""
    return DatasetId(hashlib.sha3_256(name.encode()).digest())


def example_schema(*fields: DataField) -> DataSchema:
    """The system columns followed by `fields`."""
    return DataSchema(
        fields=(
            DataField(name="offset", type=DataTypeInt64()),
            DataField(name="op", type=DataTypeInt32()),
            DataField(name="system_time", type=_TIMESTAMP),
            DataField(name="event_time", type=_TIMESTAMP),
            *(fields or (DataField(name="city", type=DataTypeOption(inner=DataTypeString())),)),
        )
    )


def example_push_source(name: str = "default", *, header: bool = True) -> AddPushSource:
    """A push source of CSV files."""
    return AddPushSource(source_name=name, read=ReadStepCsv(header=header), merge=MergeStrategyAppend())


def example_polling_source(url: str = "https://example.org/data.json") -> SetPollingSource:
    """A polling source of newline-delimited JSON."""
    return SetPollingSource(
        fetch=FetchStepUrl(url=url), read=ReadStepNdJson(), merge=MergeStrategyLedger(primary_key=("city",))
    )


def example_transform(*inputs: DatasetId, sql: str = "select * from input0") -> SetTransform:
    """A transform of one statement over inputs named `input0`, `input1`, ..."""
    return SetTransform(
        inputs=tuple(
            TransformInput(dataset_ref=str(dataset_id), alias=f"input{number}")
            for number, dataset_id in enumerate(inputs or INPUT_IDS[:1])
        ),
        transform=TransformSql(engine="spark", queries=(SqlQueryStep(query=sql),)),
    )


def example_slice(start: int, rows: int, *, name: str | None = None) -> DataSlice:
    """A data slice of `rows` records from offset `start`."""
    text = name or f"slice {start} {rows}"
    return DataSlice(
        logical_hash=logical_hash(text),
        physical_hash=physical_hash(text),
        offset_interval=OffsetInterval(start=start, end=start + rows - 1),
        size=100 + rows,
    )


def example_checkpoint(name: str) -> Checkpoint:
    """A checkpoint made from a text."""
    return Checkpoint(physical_hash=physical_hash(f"checkpoint {name}"), size=100)


class ChainBuilder:
    """A chain that grows by valid blocks.

    Also the source of its blocks (`BlockSource`).
    """

    def __init__(self, kind: DatasetKind = DatasetKind.ROOT, *, dataset_id: DatasetId | None = None) -> None:
        self.state = ChainState.empty()
        self.blocks: list[EncodedBlock] = []
        self.by_hash: dict[Multihash, MetadataBlock] = {}
        self.append(Seed(dataset_id=dataset_id or example_id(), dataset_kind=kind))

    @property
    def head(self) -> Multihash:
        """Hash of the newest block."""
        return self.blocks[-1].hash

    def get(self, block_hash: Multihash) -> MetadataBlock:
        """The block of that hash. Raises NotFound."""
        block = self.by_hash.get(block_hash)
        if block is None:
            raise NotFound("block", str(block_hash))
        return block

    def append(self, event: MetadataEvent, *, after_ms: int = 1000) -> EncodedBlock:
        """Append an event `after_ms` after the head. Raises InvalidBlock."""
        head_time = self.state.system_time
        time = START if head_time is None else Instant.from_millis(head_time.millis + after_ms)
        (encoded,) = link_blocks(self.state, [event], system_time=time)
        self.state = apply(self.state, encoded.hash, encoded.block)
        self.blocks.append(encoded)
        self.by_hash[encoded.hash] = encoded.block
        return encoded

    def extend(self, events: list[MetadataEvent]) -> None:
        """Append several events. Raises InvalidBlock."""
        for event in events:
            self.append(event)

    def next_add_data(self, rows: int = 0, **members: object) -> AddData:
        """An AddData that carries on what the last one said, with `rows` new records.

        `members` override.
        """
        last = self.state.add_data.event if self.state.add_data else AddData()
        event = AddData(
            prev_checkpoint=last.new_checkpoint.physical_hash if last.new_checkpoint else None,
            prev_offset=self.state.last_offset,
            new_data=example_slice(self.state.next_offset, rows) if rows else None,
            new_checkpoint=last.new_checkpoint,
            new_watermark=last.new_watermark,
            new_source_state=last.new_source_state,
        )
        return replace(event, **members)  # type: ignore[arg-type]

    def next_execute_transform(self, rows: int = 0, **members: object) -> ExecuteTransform:
        """An ExecuteTransform that carries on what the last one said, without progress.

        `members` override.
        """
        if self.state.transform is None:
            raise ValueError("the chain has no transform yet")
        last = self.state.execute_transform.event if self.state.execute_transform else None
        checkpoint = last.new_checkpoint if last else None
        inputs = (
            last.query_inputs
            if last
            else tuple(
                ExecuteTransformInput(dataset_id=INPUT_IDS[number])
                for number in range(len(self.state.transform.event.inputs))
            )
        )
        event = ExecuteTransform(
            query_inputs=tuple(no_progress_after(progress) for progress in inputs),
            prev_checkpoint=checkpoint.physical_hash if checkpoint else None,
            prev_offset=self.state.last_offset,
            new_data=example_slice(self.state.next_offset, rows) if rows else None,
            new_checkpoint=checkpoint,
            new_watermark=self.state.watermark,
        )
        return replace(event, **members)  # type: ignore[arg-type]


def no_progress_after(progress: ExecuteTransformInput) -> ExecuteTransformInput:
    """An empty interval that begins where `progress` ends."""
    return ExecuteTransformInput(
        dataset_id=progress.dataset_id,
        prev_block_hash=last_input_block_of(progress),
        prev_offset=last_input_offset_of(progress),
    )


def random_chain(chance: Random, *, kind: DatasetKind, blocks: int) -> ChainBuilder:
    """A valid chain of `blocks` blocks with all events that its kind admits."""
    chain = ChainBuilder(kind)
    if kind is DatasetKind.ROOT:
        _grow_root(chain, chance, blocks)
    else:
        _grow_derivative(chain, chance, blocks)
    return chain


def random_add_data(chain: ChainBuilder, chance: Random) -> AddData:
    """An AddData that fits on top.

    Data, or a step of watermark, checkpoint or source state, or several of these.
    """
    rows = chance.choice((0, 1, 7)) if chain.state.schema else 0
    event = chain.next_add_data(rows)
    if chance.random() < 0.5 or not rows:
        event = replace(event, new_watermark=_later(chain.state.watermark, chance))
    if chance.random() < 0.3:
        event = replace(event, new_checkpoint=chance.choice((None, example_checkpoint(_word(chain, chance)))))
    if chance.random() < 0.3:
        state = SourceState(source_name="default", kind="odf/etag", value=_word(chain, chance))
        event = replace(event, new_source_state=chance.choice((None, state)))
    return event


def random_execute_transform(chain: ChainBuilder, chance: Random) -> ExecuteTransform:
    """An ExecuteTransform that fits on top and advances at least its checkpoint."""
    event = chain.next_execute_transform(chance.choice((0, 1, 7)) if chain.state.schema else 0)
    event = replace(
        event,
        query_inputs=tuple(_random_progress(chain, progress, chance) for progress in event.query_inputs),
        new_checkpoint=example_checkpoint(_word(chain, chance)),
    )
    if chance.random() < 0.5:
        event = replace(event, new_watermark=_later(chain.state.watermark, chance))
    return event


def _grow_root(chain: ChainBuilder, chance: Random, blocks: int) -> None:
    polls = chance.random() < 0.3
    while len(chain.blocks) < blocks:
        step = chance.choice(("data", "data", "data", "data", "schema", "source", "words"))
        if step == "data":
            _append(chain, chance, random_add_data(chain, chance))
        elif step == "schema":
            _append(chain, chance, _random_schema(chain, chance))
        elif step == "source" and polls:
            _append(chain, chance, example_polling_source(f"https://example.org/{_word(chain, chance)}"))
        elif step == "source":
            _append(chain, chance, _random_push_source(chain, chance))
        else:
            _append(chain, chance, _random_words(chain, chance))


def _grow_derivative(chain: ChainBuilder, chance: Random, blocks: int) -> None:
    inputs = INPUT_IDS[: chance.randint(1, len(INPUT_IDS))]
    while len(chain.blocks) < blocks:
        step = chance.choice(("transform", "data", "data", "data", "schema", "words"))
        if chain.state.transform is None or step == "transform":
            _append(chain, chance, example_transform(*inputs, sql=f"select '{_word(chain, chance)}' from input0"))
        elif step == "data":
            _append(chain, chance, random_execute_transform(chain, chance))
        elif step == "schema":
            _append(chain, chance, _random_schema(chain, chance))
        else:
            _append(chain, chance, _random_words(chain, chance))


def _append(chain: ChainBuilder, chance: Random, event: MetadataEvent) -> None:
    chain.append(event, after_ms=chance.choice((0, 1, 60_000)))


def _random_schema(chain: ChainBuilder, chance: Random) -> SetDataSchema:
    current = chain.state.schema.event.schema if chain.state.schema else None
    if current is None:
        return SetDataSchema(schema=example_schema())
    added = DataField(name=f"f{len(current.fields)}", type=DataTypeOption(inner=DataTypeInt64()))
    choices: list[Callable[[], DataSchema]] = [
        lambda: replace(current, fields=(*current.fields, added)),
        lambda: replace(current, extra=ExtraAttributes(entries=json.dumps({"example.org/note": _word(chain, chance)}))),
        lambda: replace(current, fields=(current.fields[-1], *current.fields[:-1])),
    ]
    return SetDataSchema(schema=chance.choice(choices)())


def _random_push_source(chain: ChainBuilder, chance: Random) -> AddPushSource:
    name = chance.choice(("default", "north", "south"))
    existing = chain.state.push_source(name)
    if existing is None:
        return example_push_source(name)
    read = existing.event.read
    return example_push_source(name, header=not (isinstance(read, ReadStepCsv) and read.header))


def _random_words(chain: ChainBuilder, chance: Random) -> MetadataEvent:
    choices: list[MetadataEvent] = [
        SetInfo(description=_word(chain, chance), keywords=("test",)),
        SetLicense(short_name="CC0", name="CC0 1.0", website_url="https://creativecommons.org/publicdomain/zero/1.0"),
        SetAttachments(
            attachments=AttachmentsEmbedded(items=(AttachmentEmbedded(path="a.md", content=_word(chain, chance)),))
        ),
    ]
    if chain.state.last_offset is None:
        choices.append(SetVocab(event_time_column=chance.choice((None, "date", "event_time"))))
    return chance.choice(choices)


def _random_progress(chain: ChainBuilder, progress: ExecuteTransformInput, chance: Random) -> ExecuteTransformInput:
    if chance.random() < 0.3:
        return progress
    advanced = replace(progress, new_block_hash=physical_hash(f"input block {_word(chain, chance)}"))
    if chance.random() < 0.3:
        return advanced
    first = 0 if progress.prev_offset is None else progress.prev_offset + 1
    return replace(advanced, new_offset=first + chance.randint(0, 9))


def _later(watermark: Instant | None, chance: Random) -> Instant:
    base = START if watermark is None else watermark
    return Instant.from_millis(base.millis + chance.randint(1, 100_000))


def _word(chain: ChainBuilder, chance: Random) -> str:
    """A word that no earlier block of the chain has, even if randomness is all zero."""
    return f"{len(chain.blocks)}.{chance.randrange(1000)}"
