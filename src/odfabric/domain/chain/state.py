"""State of a chain at a block: the summary that every rule and reader asks.

Owns `ChainState`, an immutable value. It holds the nearest event of each kind, so it can be made in either direction:
`apply` adds a block on top, `merge` puts a newer stretch of a chain over an older one. Folding oldest first and reading
newest first give the same state, because `merge` is associative and a one-block state is its generator. A store keeps it
beside the head, so that appending never walks the chain again.

It is not a judgement: any sequence of blocks has a state, valid or not (`chain.validate` judges).
Source: specification, "Metadata chain"; RFC-014 (every data event carries what the next one needs).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    Checkpoint,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
)
from odfabric.model.multihash import Multihash
from odfabric.model.vocabulary import DatasetVocabulary

DataEvent: TypeAlias = AddData | ExecuteTransform
DisableEvent: TypeAlias = DisablePushSource | DisablePollingSource

EventT = TypeVar("EventT")
EventT_co = TypeVar("EventT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Located(Generic[EventT_co]):
    """An event and the block that carries it."""

    block_hash: Multihash
    sequence_number: int
    system_time: Instant
    event: EventT_co


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """The nearest event of each kind, seen from `head` back to the seed.

    `head` None is the empty chain.

    `push_sources` holds the newest definition of each name, ordered by name. `disabled` is the newest Disable* event.
    """

    head: Multihash | None = None
    sequence_number: int | None = None
    system_time: Instant | None = None
    seed: Located[Seed] | None = None
    vocab: Located[SetVocab] | None = None
    schema: Located[SetDataSchema] | None = None
    add_data: Located[AddData] | None = None
    execute_transform: Located[ExecuteTransform] | None = None
    polling_source: Located[SetPollingSource] | None = None
    push_sources: tuple[Located[AddPushSource], ...] = ()
    disabled: Located[DisableEvent] | None = None
    transform: Located[SetTransform] | None = None
    info: Located[SetInfo] | None = None
    license: Located[SetLicense] | None = None
    attachments: Located[SetAttachments] | None = None

    @classmethod
    def empty(cls) -> ChainState:
        """Before the seed."""
        return cls()

    @property
    def dataset_id(self) -> DatasetId:
        """Identity of the dataset. Raises ValueError before the seed."""
        return self._known_seed().dataset_id

    @property
    def kind(self) -> DatasetKind:
        """Kind of the dataset. Raises ValueError before the seed."""
        return self._known_seed().dataset_kind

    @property
    def vocabulary(self) -> DatasetVocabulary:
        """Names of the system columns: the nearest SetVocab, then defaults."""
        return DatasetVocabulary.from_event(self.vocab.event if self.vocab else None)

    @property
    def last_data(self) -> Located[DataEvent] | None:
        """The newest data block."""
        return newer_of(self.add_data, self.execute_transform)

    @property
    def last_offset(self) -> int | None:
        """Offset of the last record, None while there is none."""
        return last_offset_of(self.last_data.event) if self.last_data else None

    @property
    def next_offset(self) -> int:
        """Offset of the next record to be written."""
        return 0 if self.last_offset is None else self.last_offset + 1

    @property
    def watermark(self) -> Instant | None:
        """Watermark of the newest data block."""
        return self.last_data.event.new_watermark if self.last_data else None

    @property
    def checkpoint(self) -> Checkpoint | None:
        """Checkpoint of the newest data block."""
        return self.last_data.event.new_checkpoint if self.last_data else None

    @property
    def source_state(self) -> SourceState | None:
        """Source state of the newest AddData.

        That of older ones is lost unless it was repeated.
        """
        return self.add_data.event.new_source_state if self.add_data else None

    def push_source(self, name: str) -> Located[AddPushSource] | None:
        """The newest definition of a push source."""
        return next((source for source in self.push_sources if source.event.source_name == name), None)

    def _known_seed(self) -> Seed:
        if self.seed is None:
            raise ValueError("the chain has no seed yet")
        return self.seed.event


def apply(state: ChainState, block_hash: Multihash, block: MetadataBlock) -> ChainState:
    """The state after one more block."""
    return merge(newer=state_of_block(block_hash, block), older=state)


def state_of_block(block_hash: Multihash, block: MetadataBlock) -> ChainState:
    """What a single block says, as if there were no others."""
    head, number, time = block_hash, block.sequence_number, block.system_time
    state = ChainState(head=head, sequence_number=number, system_time=time)
    match block.event:
        case Seed() as event:
            return replace(state, seed=Located(head, number, time, event))
        case AddData() as event:
            return replace(state, add_data=Located(head, number, time, event))
        case ExecuteTransform() as event:
            return replace(state, execute_transform=Located(head, number, time, event))
        case SetDataSchema() as event:
            return replace(state, schema=Located(head, number, time, event))
        case SetVocab() as event:
            return replace(state, vocab=Located(head, number, time, event))
        case SetPollingSource() as event:
            return replace(state, polling_source=Located(head, number, time, event))
        case AddPushSource() as event:
            return replace(state, push_sources=(Located(head, number, time, event),))
        case (DisablePushSource() | DisablePollingSource()) as event:
            return replace(state, disabled=Located(head, number, time, event))
        case SetTransform() as event:
            return replace(state, transform=Located(head, number, time, event))
        case SetInfo() as event:
            return replace(state, info=Located(head, number, time, event))
        case SetLicense() as event:
            return replace(state, license=Located(head, number, time, event))
        case SetAttachments() as event:
            return replace(state, attachments=Located(head, number, time, event))


def merge(*, newer: ChainState, older: ChainState) -> ChainState:
    """The state of a stretch of blocks put on top of another one.

    Associative; the empty state is neutral.
    """
    if newer.head is None:
        return older
    if older.head is None:
        return newer
    return ChainState(
        head=newer.head,
        sequence_number=newer.sequence_number,
        system_time=newer.system_time,
        seed=newer.seed or older.seed,
        vocab=newer.vocab or older.vocab,
        schema=newer.schema or older.schema,
        add_data=newer.add_data or older.add_data,
        execute_transform=newer.execute_transform or older.execute_transform,
        polling_source=newer.polling_source or older.polling_source,
        push_sources=_merge_push_sources(newer.push_sources, older.push_sources),
        disabled=newer.disabled or older.disabled,
        transform=newer.transform or older.transform,
        info=newer.info or older.info,
        license=newer.license or older.license,
        attachments=newer.attachments or older.attachments,
    )


def _merge_push_sources(
    newer: tuple[Located[AddPushSource], ...], older: tuple[Located[AddPushSource], ...]
) -> tuple[Located[AddPushSource], ...]:
    if not newer:
        return older
    if not older:
        return newer
    by_name = {source.event.source_name: source for source in (*older, *newer)}
    return tuple(by_name[name] for name in sorted(by_name))


def newer_of(left: Located[EventT] | None, right: Located[EventT] | None) -> Located[EventT] | None:
    """Of two events of one chain the one nearer to the head."""
    if left is None or right is None:
        return left or right
    return left if left.sequence_number > right.sequence_number else right


def last_offset_of(event: DataEvent) -> int | None:
    """Offset of the last record after a data event.

    The end of its own slice, else what it carries on.
    """
    return event.prev_offset if event.new_data is None else event.new_data.offset_interval.end


def last_input_block_of(progress: ExecuteTransformInput) -> Multihash | None:
    """The last block of an input consumed up to and including this transaction."""
    return progress.new_block_hash or progress.prev_block_hash


def last_input_offset_of(progress: ExecuteTransformInput) -> int | None:
    """The last record of an input consumed up to and including this transaction."""
    return progress.prev_offset if progress.new_offset is None else progress.new_offset
