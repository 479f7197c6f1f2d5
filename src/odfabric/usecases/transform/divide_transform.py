"""Divide a derivative's new input into transactions of bounded size.

Owns which inputs, up to which of their blocks, the next transaction of a run reads, and smaller ones where the engine finds one too large. Invariant: inputs are taken as they were when the
run began, or when somebody else moved the dataset's head; so a run ends although its inputs grow. Not here: where cuts may lie
(`domain.transform.transform_cut`), running a transaction (`usecases.transform.run_transform`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.walk import read_state
from odfabric.domain.transform.transform_cut import (
    Cut,
    Floor,
    InputNews,
    TransactionLimits,
    cuts,
    news_of,
    whole,
    whole_if_small,
)
from odfabric.domain.transform.transform_plan import InputChain, TransformChange, transform_inputs
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetHandle, DatasetId
from odfabric.model.metadata import ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.ports.engine import Engine
from odfabric.usecases.chain.commit import Committed
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.transform.judge_transform import change_of, means_the_same


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformPart:
    """What one transaction reads.

    `rows_before` of `rows_total` records were read by earlier transactions of the run.

    `bytes_in_hand_max` is what the engine may have in hand of it, 0 where it has to do with what is there. `divisible`: a smaller one
    can be asked for.
    """

    inputs: Mapping[DatasetId, InputChain]
    change: TransformChange | None
    bytes_in_hand_max: int
    divisible: bool
    rows: int
    rows_before: int
    rows_total: int

    def progress(self, told: EngineProgress) -> EngineProgress:
        """What the engine says of its transaction, for the whole run."""
        if self.rows == self.rows_total:
            return told
        return EngineProgress(stage=told.stage, done=self.rows_before, total=self.rows_total)


_SHARES_MAX = 64
"""A transaction is divided into no more than this."""


@dataclass(slots=True)
class _Size:
    """Records per transaction: fewer after one too large, more after some that fit.

    `is_least`: they are no further divided, and run without a limit.
    """

    rows_max: int
    is_least: bool = False
    _rows_min: int = 0
    _wait: int = 1
    _left: int = 1

    def halve(self, rows: int) -> bool:
        """A transaction of so many records was too much.

        Whether half of it is to be tried.
        """
        self._rows_min = self._rows_min or max(rows // _SHARES_MAX, 1)
        self._left = self._wait
        if rows // 2 < self._rows_min:
            return False
        self.rows_max = rows // 2
        return True

    def recorded(self, rows_max: int) -> bool:
        """A transaction was not too much.

        Whether the next one is to be larger: each time that is tried after twice as many of them.
        """
        if self.rows_max >= rows_max and not self.is_least:
            return False
        self._left -= 1
        if self._left:
            return False
        self._wait *= 2
        self._left = self._wait
        self.is_least = False
        self.rows_max = min(2 * self.rows_max, rows_max)
        return True


class TransformDivision:
    """The transactions of one run, planned when the first is asked for.

    `done` when there are no more.
    """

    def __init__(self, repository: Repository, engine: Engine, *, limits: TransactionLimits, blocks_max: int) -> None:
        self._repository = repository
        self._engine = engine
        self._limits = limits
        self._blocks_max = blocks_max
        self._base: Multihash | None = None
        self._cuts: tuple[Cut, ...] | None = None
        self._together = 1
        self._size = _Size(limits.rows_max)
        self._change: TransformChange | None = None
        self._cut_anew = False
        self._rows_done = 0
        self._heads: dict[DatasetId, InputChain] = {}
        self._passed: dict[DatasetId, ChainState] = {}

    @property
    def done(self) -> bool:
        """Whether all that was planned has been done; not before something was planned."""
        return self._cuts == ()

    def next_part(self, state: ChainState) -> TransformPart:
        """What the next transaction on top of `state` reads.

        Raises what planning raises, NotFound for an input.
        """
        if self._cuts is None or self._base != state.head:
            self._base, self._together = state.head, 1
            self._cuts = self._divide(state)
        elif self._cut_anew and self._cuts:
            self._cuts = self._cuts_of(state, Floor.NONE)
        self._cut_anew = False
        taken = self._cuts[: self._together]
        rows = sum(cut.rows for cut in taken)
        migrates = self._change is not None and self._change.migrates
        return TransformPart(
            inputs={dataset: self._input(dataset, end) for dataset, end in taken[-1].ends.items()},
            change=self._change,
            bytes_in_hand_max=0 if migrates or self._size.is_least else self._limits.bytes_max,
            divisible=not (migrates or self._size.is_least),
            rows=rows,
            rows_before=self._rows_done,
            rows_total=self._rows_done + sum(cut.rows for cut in self._cuts),
        )

    def divide(self, state: ChainState) -> None:
        """The engine lacks memory for the given part: half of it is next.

        What cannot be divided - a block, all that it takes until something can be recorded - is given again without a limit, and so
        is a part that is small beside the one that was refused first: then it is not the number of records that takes memory.
        """
        rows = self._cuts[0].rows if self._cuts else 0
        if self._together > 1 or not self._size.halve(rows):
            self._size.is_least = True
            return
        self._passed.clear()  # cuts lie earlier now
        news = news_of(state, self._heads, blocks_max=self._blocks_max)
        found = self._cuts_of(state, self._floor(state, news))
        if found[0].rows < rows:
            self._cuts = found
        else:
            self._size.is_least = True

    def _cuts_of(self, state: ChainState, floor: Floor) -> tuple[Cut, ...]:
        """What is left, in transactions of the size that is taken now."""
        news = news_of(state, self._heads, blocks_max=self._blocks_max)
        return cuts(news, limits=replace(self._limits, rows_max=self._size.rows_max), floor=floor)

    def advance(self, committed: Committed | None) -> None:
        """Go on behind the part that was run.

        A transaction of which nothing can be recorded (rule A6: no rows, no checkpoint, no watermark) consumes nothing; the next one
        takes it up together with as much again, until something can be recorded or nothing is left.
        """
        remaining = self._cuts or ()
        taken = remaining[: self._together]
        if committed is not None:
            self._base = committed.head
        if committed is None or not any(isinstance(each.block.event, ExecuteTransform) for each in committed.blocks):
            self._cuts = remaining if len(taken) < len(remaining) else ()
            self._together *= 2
            return
        self._rows_done += sum(cut.rows for cut in taken)
        self._cuts, self._together, self._change = remaining[self._together :], 1, None
        self._cut_anew = self._size.recorded(self._limits.rows_max)

    def _divide(self, state: ChainState) -> tuple[Cut, ...]:
        self._passed.clear()
        self._size = _Size(self._limits.rows_max)
        self._heads = {
            dataset: input_at(dataset, self._repository.head(dataset).hash, self._repository)
            for dataset in transform_inputs(state)
        }
        heads = self._heads
        own = self._repository.blocks(state.dataset_id)
        self._change = change_of(state, heads, blocks=own, engine=self._engine, blocks_max=self._blocks_max)
        if self._change is not None and self._change.migrates:
            return (whole(heads),)
        if any(current_schema(chain.state) is None for chain in heads.values()):
            return (whole(heads),)
        small = whole_if_small(state, heads, self._limits)
        if small is not None:
            return (small,)
        news = news_of(state, heads, blocks_max=self._blocks_max)
        return cuts(news, limits=self._limits, floor=self._floor(state, news))

    def _floor(self, state: ChainState, news: tuple[InputNews, ...]) -> Floor:
        if state.execute_transform is not None:
            return Floor.NONE if self._change is None else Floor.LAST
        early = {entry.dataset_id: self._input(entry.dataset_id, entry.end(entry.floor(Floor.FIRST))) for entry in news}
        return Floor.FIRST if means_the_same(state, early, self._heads, engine=self._engine) else Floor.LAST

    def _input(self, dataset: DatasetId, end: Multihash | None) -> InputChain:
        """The input at a block, its state being read on from the one before."""
        head = self._heads[dataset]
        if end == head.state.head:
            return head
        self._passed[dataset] = read_state(head.blocks, end, base=self._passed.get(dataset))
        return InputChain(handle=head.handle, state=self._passed[dataset], blocks=head.blocks)


def input_at(dataset: DatasetId, head: Multihash | None, repository: Repository) -> InputChain:
    """An input at one of its blocks. Raises NotFound."""
    entry = repository.resolve(dataset)
    state = ChainState.empty() if head is None else repository.state(dataset, head)
    return InputChain(handle=DatasetHandle(entry.id, entry.alias), state=state, blocks=repository.blocks(dataset))
