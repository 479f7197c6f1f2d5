"""States of the inputs around a block: before it, after its steps, after it.

Owns what is there of the known rows at a state, and the watermark then. A timed query over one input writes what each step changes; every
other one writes what the whole interval changes (docs/engine.md#steps-and-slicing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from odfabric.errors import InvalidRequest
from odfabric.model.engine import TransformRequestInput
from odfabric.model.instant import Instant
from odfabric.model.provenance import ConsumedInterval
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.provenance.circuit.builder import LeafRows
from odfabric_engine_spark.provenance.past_rows import CORRECT_FROM, CORRECT_TO, KnownRows
from odfabric_engine_spark.provenance.world_plan import WORLD
from odfabric_engine_spark.rows.block_steps import least, micros
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute


@dataclass(frozen=True, slots=True)
class State:
    """How many records of each input came, and the watermark in microseconds."""

    ends: tuple[int, ...]
    watermark_us: int | None


def states_of(
    inputs: Sequence[TransformRequestInput], intervals: Sequence[ConsumedInterval], *, by_steps: bool
) -> list[State]:
    """The states from before a block to after it, at least two.

    `by_steps`: also those after each step, of one input. Raises InvalidRequest.
    """
    for one, interval in zip(inputs, intervals, strict=True):
        if one.offsets.begin or interval.offsets.end != one.offsets.end or interval.steps_before > len(one.steps):
            raise InvalidRequest(
                f"provenance needs all of the input {one.query_alias}: records and steps from the first to the end of the interval"
            )
    counts = [interval.steps_before for interval in intervals]
    before = State(tuple(each.offsets.begin for each in intervals), _watermark(inputs, counts))
    found = [before]
    if by_steps and len(inputs) == 1:
        for taken in range(counts[0] + 1, len(inputs[0].steps)):
            last = inputs[0].steps[taken - 1].last_offset
            end = before.ends[0] if last is None else max(before.ends[0], last + 1)
            found.append(State((end,), _watermark(inputs, [taken])))
    return [
        *found,
        State(tuple(one.offsets.end for one in inputs), _watermark(inputs, [len(one.steps) for one in inputs])),
    ]


def _watermark(inputs: Sequence[TransformRequestInput], taken: Sequence[int]) -> int | None:
    marks: list[Instant | None] = []
    for one, count in zip(inputs, taken, strict=True):
        known = [step.watermark for step in one.steps[:count] if step.watermark is not None]
        marks.append(max(known, default=None))
    return micros(least(marks))


@dataclass(frozen=True, slots=True)
class Pool:
    """The known records of all inputs, numbered through: input by input, by offset.

    `uses` says by use of an input which of its records can matter, `late` which of them it drops.
    """

    aliases: tuple[str, ...]
    known: Mapping[str, KnownRows]
    uses: Mapping[int, tuple[str, Mask]]
    late: Mapping[int, Mask] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many records."""
        return sum(len(each.offsets) for each in self.known.values())

    def begin(self, alias: str) -> int:
        """The number of the first record of an input."""
        before = self.aliases[: self.aliases.index(alias)]
        return sum(len(self.known[each].offsets) for each in before)

    def came(self, ends: Sequence[int]) -> Mask:
        """Records before the given ends."""
        parts = [self.known[alias].offsets < end for alias, end in zip(self.aliases, ends, strict=True)]
        return np.concatenate([np.zeros(0, dtype=bool), *parts])

    def there(self, taken: Mask) -> Mask:
        """Which of the taken records are there when these are all that came."""
        found = np.zeros(len(taken), dtype=bool)
        for alias in self.aliases:
            own = self._own(alias)
            found[own] = self.known[alias].there(taken[own])
        return found

    def owed(self, taken: Mask) -> bool:
        """Whether the taken records withdraw some row more often than it came."""
        return any(self.known[alias].owed(taken[self._own(alias)]) for alias in self.aliases)

    def leaf_rows(self, taken: Mask, position: int, columns: Sequence[Attribute], *, net: bool = True) -> LeafRows:
        """Rows of one use of an input that can matter.

        Of the taken records those that are there, unless not `net`.
        """
        alias, matters = self.uses[position]
        known = self.known[alias]
        chosen = np.flatnonzero(self._of_use(taken, position, net=net) & matters)
        return LeafRows(known.of_columns(columns, chosen), known.offsets[chosen])

    def rows(self, worlds: Sequence[Longs], position: int, columns: Sequence[Attribute]) -> pa.Table:
        """Rows of one use of an input for each of some worlds.

        The position of the world is the last column.

        A world has records by number: all that came.
        """
        alias, _ = self.uses[position]
        chosen = [np.flatnonzero(self._of_use(self.mask(numbers), position, net=True)) for numbers in worlds]
        rows = self.known[alias].of_columns(columns, np.concatenate(chosen))
        of_world = np.repeat(np.arange(len(worlds)), [len(each) for each in chosen])
        return rows.append_column(WORLD, pa.array(of_world, pa.int64()))

    def _of_use(self, taken: Mask, position: int, *, net: bool) -> Mask:
        alias, _ = self.uses[position]
        own = taken[self._own(alias)]
        if position in self.late:
            own = own & ~self.late[position]
        return self.known[alias].there(own) if net else own

    def numbers(self, alias: str, offsets: Longs) -> Longs:
        """The numbers of records of an input by their offsets."""
        return self.begin(alias) + np.searchsorted(self.known[alias].offsets, offsets)

    def offsets(self, numbers: Longs) -> list[tuple[int, Longs]]:
        """Offsets of records by input, for inputs that have some."""
        found = []
        for at, alias in enumerate(self.aliases):
            begin, known = self.begin(alias), self.known[alias]
            own = numbers[(numbers >= begin) & (numbers < begin + len(known.offsets))]
            if len(own):
                found.append((at, known.offsets[own - begin]))
        return found

    def whole_corrections(self, numbers: Longs) -> list[tuple[int, Longs]]:
        """Offsets of records by input, with the other halves of corrections.

        Such a half may not matter for a record: it may have another key, and then the pool does not have it.
        """
        found = []
        for at, offsets in self.offsets(numbers):
            known = self.known[self.aliases[at]]
            operations = known.operations[np.searchsorted(known.offsets, offsets)]
            halves = [offsets[operations == CORRECT_FROM] + 1, offsets[operations == CORRECT_TO] - 1]
            found.append((at, np.unique(np.concatenate([offsets, *halves]))))
        return found

    def changes(self, numbers: Longs) -> list[Longs]:
        """Records by number, ascending, as changes: both halves of a correction are one."""
        if not len(numbers):
            return []
        operations = np.concatenate([self.known[alias].operations for alias in self.aliases])[numbers]
        offsets = np.concatenate([self.known[alias].offsets for alias in self.aliases])[numbers]
        one = (operations[:-1] == CORRECT_FROM) & (operations[1:] == CORRECT_TO)
        one &= (np.diff(numbers) == 1) & (np.diff(offsets) == 1)
        return np.split(numbers, np.flatnonzero(~one) + 1)

    def mask(self, numbers: Longs) -> Mask:
        """Records by number as a mask."""
        found = np.zeros(self.count, dtype=bool)
        found[numbers] = True
        return found

    def _own(self, alias: str) -> slice:
        begin = self.begin(alias)
        return slice(begin, begin + len(self.known[alias].offsets))
