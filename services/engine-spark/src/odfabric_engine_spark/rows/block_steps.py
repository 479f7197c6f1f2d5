"""Steps: blocks of inputs in the order in which a transaction takes them.

Owns which rows come with which block, and what every watermark is before and after it. Invariant: a step knows watermarks of
earlier blocks only, so a row is late only against what its own input had announced before. Source:
docs/engine.md#steps-and-slicing; docs/engine.md#output-watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.errors import InvalidRequest
from odfabric.model.engine import TransformRequestInput
from odfabric.model.instant import Instant
from odfabric.model.offsets import OffsetRange

_NANOS_PER_MICRO = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One block of one input.

    Watermarks are in microseconds, None while there is none.

    `own_before_us` is its input's watermark before the block, `after_us` the least of all inputs after it.
    """

    input: int
    offsets: OffsetRange
    own_before_us: int | None
    after_us: int | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The steps of a transaction, and watermarks of the inputs before and after it."""

    before: tuple[Instant | None, ...]
    steps: tuple[Step, ...]
    after: tuple[Instant | None, ...]

    @property
    def before_us(self) -> int | None:
        """The least watermark before the transaction, in microseconds."""
        return micros(least(self.before))

    @property
    def watermark(self) -> Instant | None:
        """The least watermark of all inputs after the transaction.

        None while an input has none.
        """
        return least(self.after)


def timeline(inputs: Sequence[TransformRequestInput], before: Sequence[Instant | None]) -> Timeline:
    """Steps of all inputs by system time, then by the position of the input."""
    blocks = [
        (step.system_time, position, index, block)
        for position, one in enumerate(inputs)
        for index, (step, block) in enumerate(zip(one.steps, _blocks(one), strict=True))
    ]
    marks = list(before)
    steps: list[Step] = []
    for _, position, index, offsets in sorted(blocks, key=lambda block: block[:3]):
        own_before = marks[position]
        marks[position] = _later(own_before, inputs[position].steps[index].watermark)
        steps.append(
            Step(input=position, offsets=offsets, own_before_us=micros(own_before), after_us=micros(least(marks)))
        )
    return Timeline(tuple(before), tuple(steps), tuple(marks))


def least(marks: Sequence[Instant | None]) -> Instant | None:
    """The least watermark, None if one is missing."""
    known = [mark for mark in marks if mark is not None]
    return min(known) if len(known) == len(marks) and known else None


def micros(instant: Instant | None) -> int | None:
    """Whole microseconds, rounded down."""
    return None if instant is None else instant.epoch_ns // _NANOS_PER_MICRO


def _blocks(one: TransformRequestInput) -> list[OffsetRange]:
    """The rows of each block.

    Raises InvalidRequest if the blocks do not hold exactly the interval of the input.
    """
    found: list[OffsetRange] = []
    begin = one.offsets.begin
    for step in one.steps:
        end = begin if step.last_offset is None else max(begin, step.last_offset + 1)
        found.append(OffsetRange(begin, end))
        begin = end
    if begin != one.offsets.end:
        raise InvalidRequest(
            f"the steps of input {one.query_alias} end at offset {begin}, its rows at {one.offsets.end}"
        )
    return found


def _later(one: Instant | None, other: Instant | None) -> Instant | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)
