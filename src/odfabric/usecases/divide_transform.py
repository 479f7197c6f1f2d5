"""Divide what the inputs of a derivative dataset have new into transactions of bounded size.

Owns which inputs, up to which of their blocks, the next transaction of a run reads, and smaller ones where the engine finds one too large. Invariant: inputs are taken as they were when the
run began, or when somebody else moved the dataset's head; so a run ends although its inputs grow. Not here: where cuts may lie
(`domain.transform_cut`), running a transaction (`usecases.run_transform`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.walk import read_state
from odfabric.domain.schema_evolution import current_schema
from odfabric.domain.transform_cut import Cut, Floor, InputNews, TransactionLimits, cuts, news_of, whole, whole_if_small
from odfabric.domain.transform_plan import InputChain, TransformChange, transform_inputs
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetHandle, DatasetId
from odfabric.model.metadata import ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.ports.engine import Engine
from odfabric.usecases.commit import Committed
from odfabric.usecases.judge_transform import change_of, means_the_same
from odfabric.usecases.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformPart:
    """What one transaction reads. `rows_before` of `rows_total` records were read by earlier transactions of the run.

    `bytes_in_hand_max` is what the engine may have in hand of it, 0 where it has to do with what is there.
    """

    inputs: Mapping[DatasetId, InputChain]
    change: TransformChange | None
    bytes_in_hand_max: int
    rows: int
    rows_before: int
    rows_total: int

    def progress(self, told: EngineProgress) -> EngineProgress:
        """What the engine tells of its transaction, told of the whole run."""
        if self.rows == self.rows_total:
            return told
        return EngineProgress(stage=told.stage, done=self.rows_before, total=self.rows_total)


class TransformDivision:
    """The transactions of one run, planned when the first is asked for; `done` when there are no more."""

    def __init__(self, repository: Repository, engine: Engine, *, limits: TransactionLimits, blocks_max: int) -> None:
        self._repository = repository
        self._engine = engine
        self._limits = limits
        self._blocks_max = blocks_max
        self._base: Multihash | None = None
        self._cuts: tuple[Cut, ...] | None = None
        self._together = 1
        self._bytes_max = limits.bytes_max
        self._change: TransformChange | None = None
        self._rows_done = 0
        self._heads: dict[DatasetId, InputChain] = {}
        self._passed: dict[DatasetId, ChainState] = {}

    @property
    def done(self) -> bool:
        """Whether all that was planned has been done; not before something was planned."""
        return self._cuts == ()

    def next_part(self, state: ChainState) -> TransformPart:
        """What the next transaction on top of `state` reads. Raises what planning raises, NotFound for an input."""
        if self._cuts is None or self._base != state.head:
            self._base, self._together = state.head, 1
            self._bytes_max = self._limits.bytes_max
            self._cuts = self._divide(state)
        taken = self._cuts[: self._together]
        rows = sum(cut.rows for cut in taken)
        migrates = self._change is not None and self._change.migrates
        return TransformPart(
            inputs={dataset: self._input(dataset, end) for dataset, end in taken[-1].ends.items()},
            change=self._change,
            bytes_in_hand_max=0 if migrates else self._bytes_max,
            rows=rows,
            rows_before=self._rows_done,
            rows_total=self._rows_done + sum(cut.rows for cut in self._cuts),
        )

    def divide(self, state: ChainState) -> None:
        """The engine would have too much in hand with the part that was given: half of it is next, and all is halved from now on.

        What cannot be divided - a block, all that it takes until something can be recorded - is given again without a limit.
        """
        smaller = self._halved(state) if self._together == 1 else None
        if smaller is None:
            self._bytes_max = 0
        else:
            self._cuts = smaller

    def _halved(self, state: ChainState) -> tuple[Cut, ...] | None:
        """What is left in cuts of half as many records, None if that is no less for the first."""
        self._passed.clear()  # cuts lie earlier now
        rows = self._cuts[0].rows if self._cuts else 0
        limits = replace(self._limits, rows_max=max(rows // 2, 1))
        news = news_of(state, self._heads, blocks_max=self._blocks_max)
        found = cuts(news, limits=limits, floor=self._floor(state, news))
        if found[0].rows >= rows:
            return None
        self._limits = limits
        return found

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
        self._bytes_max = self._limits.bytes_max

    def _divide(self, state: ChainState) -> tuple[Cut, ...]:
        self._passed.clear()
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
