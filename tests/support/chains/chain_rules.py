"""Chain rule cases on example chains: a block that breaks one rule, a valid one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.validate import validate_append
from odfabric.errors import InvalidBlock
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    DatasetKind,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
    SetDataSchema,
    SetTransform,
    SourceState,
    SqlQueryStep,
    Transform,
    TransformSql,
)
from odfabric.testing.chains import (
    INPUT_IDS,
    START,
    ChainBuilder,
    example_checkpoint,
    example_schema,
    example_transform,
    physical_hash,
)

NOON = Instant.parse("2024-01-01T12:00:00Z")
LATER = Instant.parse("2024-01-01T13:00:00Z")


@dataclass(frozen=True)
class Attempt:
    """A block on top of a state; `now` as `validate_append` takes it."""

    state: ChainState
    block: MetadataBlock
    now: Instant | None = None

    def judge(self) -> None:
        validate_append(self.state, self.block, now=self.now)


Attempts = Callable[[], tuple[Attempt, Attempt]]


@dataclass(frozen=True)
class Case:
    """A rule, its refusal's text, and a breaking attempt beside a passing one."""

    rule: str
    kind: str
    text: str
    attempts: Attempts

    def __str__(self) -> str:
        return f"{self.rule}-{self.attempts.__name__}"

    def check(self) -> None:
        bad, good = self.attempts()
        good.judge()
        with pytest.raises(InvalidBlock) as refusal:
            bad.judge()
        assert (refusal.value.place.rule, refusal.value.kind) == (self.rule, self.kind)
        assert self.text in refusal.value.message


class CaseBook:
    """Collects cases: `@book.case(rule, kind, text)` over a function of two attempts."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def case(self, rule: str, kind: str, text: str) -> Callable[[Attempts], Attempts]:
        def register(attempts: Attempts) -> Attempts:
            self.cases.append(Case(rule, kind, text, attempts))
            return attempts

        return register

    @property
    def rules(self) -> set[str]:
        return {case.rule for case in self.cases}


def on(chain: ChainBuilder, event: MetadataEvent, *, now: Instant | None = None, **header: object) -> Attempt:
    """The next block of the chain, with members of the header overridden."""
    assert chain.state.system_time is not None
    assert chain.state.sequence_number is not None
    block = MetadataBlock(
        system_time=chain.state.system_time,
        prev_block_hash=chain.head,
        sequence_number=chain.state.sequence_number + 1,
        event=event,
    )
    return Attempt(chain.state, replace(block, **header), now)  # type: ignore[arg-type]


def first(event: MetadataEvent, **header: object) -> Attempt:
    """The first block of a chain."""
    block = MetadataBlock(system_time=START, sequence_number=0, event=event)
    return Attempt(ChainState.empty(), replace(block, **header))  # type: ignore[arg-type]


def pair(chain: ChainBuilder, bad: MetadataEvent, good: MetadataEvent) -> tuple[Attempt, Attempt]:
    return on(chain, bad), on(chain, good)


def empty_root() -> ChainBuilder:
    return ChainBuilder(DatasetKind.ROOT)


def root() -> ChainBuilder:
    """A root with schema, ten records, watermark noon, checkpoint, source state."""
    chain = empty_root()
    chain.append(SetDataSchema(schema=example_schema()))
    state = SourceState(source_name="default", kind="odf/etag", value="one")
    chain.append(
        chain.next_add_data(10, new_watermark=NOON, new_checkpoint=example_checkpoint("one"), new_source_state=state)
    )
    return chain


def declared_derivative(inputs: int = 1) -> ChainBuilder:
    """A derivative dataset with transform and schema."""
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    chain.append(example_transform(*INPUT_IDS[:inputs]))
    chain.append(SetDataSchema(schema=example_schema()))
    return chain


def derivative(inputs: int = 1) -> ChainBuilder:
    """A derivative with a checkpoint that consumed five records up to each `one`.

    `one` is a block of each input.
    """
    chain = declared_derivative(inputs)
    chain.append(advanced(chain, "one", 4, rows=5, new_checkpoint=example_checkpoint("one"), new_watermark=NOON))
    return chain


def advanced(
    chain: ChainBuilder, block: str, offset: int | None, *, rows: int = 0, **members: object
) -> ExecuteTransform:
    """The next transaction, which consumes all inputs up to a block and an offset."""
    event = chain.next_execute_transform(rows)
    inputs = tuple(
        replace(progress, new_block_hash=physical_hash(block), new_offset=offset) for progress in event.query_inputs
    )
    return replace(event, query_inputs=inputs, **members)  # type: ignore[arg-type]


def with_input(event: ExecuteTransform, **members: object) -> ExecuteTransform:
    """The event with members of its first input overridden."""
    head, *rest = event.query_inputs
    return replace(event, query_inputs=(replace(head, **members), *rest))  # type: ignore[arg-type]


def sql(*steps: SqlQueryStep, query: str | None = None) -> Transform:
    return TransformSql(engine="spark", queries=steps or None, query=query)


def transform_of(transform: Transform) -> SetTransform:
    return replace(example_transform(), transform=transform)


OUTPUT = SqlQueryStep(query="select 1")
STEP = SqlQueryStep(alias="step", query="select 1")
