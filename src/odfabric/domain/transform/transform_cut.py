"""Where transactions of a derivative end, if its inputs need more than one.

Owns the order in which blocks of several inputs are taken and the cuts in it. Blocks are taken by system time, then in the order of
the inputs, so a transaction holds all blocks of all inputs up to some moment: no watermark runs further ahead of another input's
rows than it did in reality. Blocks of one moment are parted only if they are too much by themselves, and a block never is.
Invariant: a transaction takes something that is worth a run, is within the limits unless that is a single data block, and the cuts
one after the other give the whole intervals. Exempt from the limits is what a new transform needs to read before its inputs look as
they did when it was judged (`Floor`). Not here: what a transaction reads up to a cut (`domain.transform.transform_plan`).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

from odfabric.domain.chain.state import ChainState
from odfabric.domain.transform.transform_plan import InputChain, links_since, progress_so_far, watermark_at
from odfabric.errors import NotFound
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import AddData, ExecuteTransform, SetDataSchema, SetVocab
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """What one transaction takes of all inputs together: records, and data blocks.

    `bytes_max` is what the engine may have in hand of it, which only the engine can tell; 0: any.
    """

    rows_max: int
    blocks_max: int
    bytes_max: int = 0


class Floor(Enum):
    """How far the first transaction goes at least.

    So that schemas and names of columns are those the query means.

    NONE: the transform has run, whatever comes fits it. FIRST: to the schema under which each input's first records stand. LAST: to
    the newest schema of each input.
    """

    NONE = auto()
    FIRST = auto()
    LAST = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBlock:
    """A block of an input that was not consumed yet.

    `worth_a_run`: it has records or moves the watermark.
    """

    hash: Multihash
    system_time: Instant
    rows: int
    is_data: bool
    worth_a_run: bool
    describes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InputNews:
    """All new blocks of an input, oldest first, and the block after which they stand."""

    dataset_id: DatasetId
    after: Multihash | None
    blocks: tuple[NewBlock, ...]

    def floor(self, rule: Floor) -> int:
        """How many blocks the first transaction takes at least."""
        blocks = self.blocks
        if rule is Floor.NONE:
            return 0
        if rule is Floor.FIRST:
            with_rows = (index for index, block in enumerate(blocks) if block.rows)
            blocks = blocks[: next(with_rows, len(blocks))]
        return max((index for index, block in enumerate(blocks, start=1) if block.describes), default=0)

    def end(self, taken: int) -> Multihash | None:
        """The last of the first `taken` blocks; None before the first block of the chain."""
        return self.blocks[taken - 1].hash if taken else self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A transaction: the last block to read of each input, and records in all."""

    ends: Mapping[DatasetId, Multihash | None]
    rows: int


@dataclass(frozen=True, slots=True)
class _Load:
    rows: int = 0
    blocks: int = 0
    worth_a_run: bool = False

    def plus(self, block: NewBlock) -> _Load:
        return _Load(self.rows + block.rows, self.blocks + block.is_data, self.worth_a_run or block.worth_a_run)

    def is_within(self, limits: TransactionLimits) -> bool:
        return self.rows <= limits.rows_max and self.blocks <= limits.blocks_max


_Ordered = Sequence[tuple[int, NewBlock]]
"""Blocks in the order in which they are taken, with the position of their input."""


def whole(inputs: Mapping[DatasetId, InputChain], *, rows: int = 0) -> Cut:
    """A transaction that reads every input up to the given state."""
    return Cut(ends={dataset: chain.state.head for dataset, chain in inputs.items()}, rows=rows)


def whole_if_small(state: ChainState, inputs: Mapping[DatasetId, InputChain], limits: TransactionLimits) -> Cut | None:
    """One transaction for all, if the states show that it is within the limits.

    Most are, and no block need be read.
    """
    rows = blocks = 0
    for dataset, since in {each.dataset_id: each for each in progress_so_far(state)}.items():
        chain = inputs[dataset]
        rows += chain.state.next_offset - OffsetRange.after(since.prev_offset, None).begin
        blocks += (chain.state.sequence_number or 0) + 1
        if since.prev_block_hash is not None:
            try:
                blocks -= chain.blocks.get(since.prev_block_hash).sequence_number + 1
            except NotFound:
                return None
    return whole(inputs, rows=rows) if _Load(rows, blocks).is_within(limits) else None


def news_of(state: ChainState, inputs: Mapping[DatasetId, InputChain], *, blocks_max: int) -> tuple[InputNews, ...]:
    """What each input has new. Raises as `plan_transform`."""
    progress = {each.dataset_id: each.prev_block_hash for each in progress_so_far(state)}
    return tuple(
        InputNews(dataset_id=dataset, after=after, blocks=_new_blocks(inputs[dataset], after, blocks_max=blocks_max))
        for dataset, after in progress.items()
    )


def cuts(news: Sequence[InputNews], *, limits: TransactionLimits, floor: Floor) -> tuple[Cut, ...]:
    """The transactions that take all the news, at least one."""
    taken = _first_taken(news, floor)
    load = _Load()
    for entry, count in zip(news, taken, strict=True):
        for block in entry.blocks[:count]:
            load = load.plus(block)
    order = _in_order(news, taken)
    ends = [_end(order, 0, load, limits)]
    while ends[-1] < len(order):
        ends.append(_end(order, ends[-1], _Load(), limits))
    found: list[Cut] = []
    for start, end in pairwise([0, *ends]):
        rows = load.rows if not found else 0
        for position, block in order[start:end]:
            taken[position] += 1
            rows += block.rows
        reached = {entry.dataset_id: entry.end(count) for entry, count in zip(news, taken, strict=True)}
        found.append(Cut(ends=reached, rows=rows))
    return tuple(found)


def _end(order: _Ordered, start: int, load: _Load, limits: TransactionLimits) -> int:
    """Where the transaction ends that begins at `start` and has `load` already."""
    moment = start if load.worth_a_run else None
    for index in range(start, len(order)):
        block = order[index][1]
        if load.worth_a_run and index > start and block.system_time != order[index - 1][1].system_time:
            moment = index
        more = load.plus(block)
        if load.worth_a_run and block.is_data and not more.is_within(limits):
            return index if moment is None else moment
        load = more
    return len(order)


def _first_taken(news: Sequence[InputNews], rule: Floor) -> list[int]:
    """Blocks of each input that are taken before anything else.

    Up to its floor, and up to the moment that floors reach.
    """
    floors = [entry.floor(rule) for entry in news]
    moments = [
        block.system_time
        for entry, count in zip(news, floors, strict=True)
        for block in entry.blocks[:count]
        if block.worth_a_run
    ]
    if not moments:
        return floors
    reached = max(moments)
    return [
        max(count, sum(block.system_time <= reached for block in entry.blocks))
        for entry, count in zip(news, floors, strict=True)
    ]


def _in_order(news: Sequence[InputNews], taken: Sequence[int]) -> list[tuple[int, NewBlock]]:
    rest = [
        [(position, block) for block in entry.blocks[count:]]
        for position, (entry, count) in enumerate(zip(news, taken, strict=True))
    ]
    return list(heapq.merge(*rest, key=lambda placed: (placed[1].system_time, placed[0])))


def _new_blocks(chain: InputChain, after: Multihash | None, *, blocks_max: int) -> tuple[NewBlock, ...]:
    found: list[NewBlock] = []
    links = list(links_since(chain, after, blocks_max=blocks_max))
    watermark = watermark_at(chain.blocks, after)
    for link in reversed(links):
        event, rows, moves = link.block.event, 0, False
        if isinstance(event, AddData | ExecuteTransform):
            rows = 0 if event.new_data is None else OffsetRange.from_wire(event.new_data.offset_interval).rows
            moves = event.new_watermark is not None and event.new_watermark != watermark
            watermark = event.new_watermark or watermark
        block = NewBlock(
            hash=link.hash,
            system_time=link.block.system_time,
            rows=rows,
            is_data=isinstance(event, AddData | ExecuteTransform),
            worth_a_run=rows > 0 or moves,
            describes=isinstance(event, SetDataSchema | SetVocab),
        )
        found.append(block)
    return tuple(found)
