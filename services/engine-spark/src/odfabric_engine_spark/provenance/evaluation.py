"""Run a query over many sets of records at once, and count records in the results.

Owns how many worlds there are, which is bounded, and how many runs of the query they take. Nothing of the circuit is used here: a record
that is found comes from the query alone, so an answer is checked by something that did not make it. Searches for sets of records are
generators that ask for worlds; those of all records advance together, so that one run serves a step of each.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count as counted
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.time.timed_filters import at_watermark, timed_filter
from odfabric_engine_spark.provenance.equal_rows import places_of
from odfabric_engine_spark.provenance.explained_query import ExplainedQuery
from odfabric_engine_spark.provenance.states import Pool
from odfabric_engine_spark.provenance.world_plan import lists_worlds
from odfabric_engine_spark.rows.output_shape import OutputShape, as_output
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Plan, analysed, children, items, output_of, simple_name
from odfabric_engine_spark.spark.catalyst.plan_rebuild import with_children
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import whole

_RECORDS_AT_ONCE = 200_000
"""Records in the worlds of one run; a world that has more runs alone."""
RECORDS_PER_EVALUATION = 5_000
"""A world counts as one evaluation for each started so many of its records, so the budget bounds the rows of all worlds."""
_KEY_BYTES = 16

T = TypeVar("T")


class EvaluationsSpent(Exception):
    """No more worlds are allowed."""


@dataclass(frozen=True, slots=True)
class World:
    """Records by number, ascending: all that came.

    `watermark_us` is that of timed filters.
    """

    numbers: Longs
    watermark_us: int | None


Search: TypeAlias = Generator[Sequence[World], Sequence[int], T]
"""A search for one record. It asks for worlds, and is sent how often each gives the record.

Answers may be those of the first few worlds only, at least of one. Where not even that is allowed, EvaluationsSpent is raised in it.
"""


@dataclass(slots=True)
class Budget:
    """How many worlds are allowed, and how many there were.

    A large one counts several times.
    """

    allowed: int
    spent: int = 0

    def spend(self, records: int = 0) -> None:
        """One more, of so many records. Raises EvaluationsSpent."""
        if self.spent >= self.allowed:
            raise EvaluationsSpent
        self.spent += max(1, -(-records // RECORDS_PER_EVALUATION))


_Key: TypeAlias = tuple[bytes, int | None]


@dataclass(slots=True)
class Evaluation:
    """A query over records of a pool, and the counts of `records` in its results.

    A world that was made already is not made again. `runs` counts runs of the query.
    """

    query: ExplainedQuery
    shape: OutputShape
    pool: Pool
    records: pa.Table
    budget: Budget
    call: EngineCall
    runs: int = 0
    _counts: dict[_Key, Longs] = field(default_factory=dict)

    def together(self, searches: Mapping[int, Search[T]]) -> dict[int, T]:
        """What searches end with, by position of their record; they advance together."""
        found: dict[int, T] = {}
        answers: dict[int, Sequence[int] | None] = dict.fromkeys(searches)
        while answers:
            asked: dict[int, Sequence[World]] = {}
            for record, counts in answers.items():
                search = searches[record]
                try:
                    spent = counts is not None and not counts
                    asked[record] = search.throw(EvaluationsSpent()) if spent else search.send(counts)  # type: ignore[arg-type]
                except StopIteration as end:
                    found[record] = end.value
            self._make([world for worlds in asked.values() for world in worlds])
            answers = {record: self._answers(record, worlds) for record, worlds in asked.items()}
        return found

    def _answers(self, record: int, worlds: Sequence[World]) -> list[int]:
        """Counts of a record in the first of some worlds that were made."""
        found = []
        for world in worlds:
            counts = self._counts.get(self._key(world))
            if counts is None:
                break
            found.append(int(counts[record]))
        return found

    def _key(self, world: World) -> _Key:
        named = blake2b(world.numbers.tobytes(), digest_size=_KEY_BYTES).digest()
        return named, world.watermark_us if self.query.timed else None

    def _make(self, worlds: Sequence[World]) -> None:
        """Makes the worlds that are new, as far as they are allowed."""
        new: dict[_Key, World] = {}
        for world in worlds:
            key = self._key(world)
            if key in self._counts or key in new:
                continue
            try:
                self.budget.spend(len(world.numbers))
            except EvaluationsSpent:
                break
            new[key] = world
        for keys in _batches(new):
            self._run(keys, [new[key] for key in keys])

    def _run(self, keys: Sequence[_Key], worlds: Sequence[World]) -> None:
        self.call.check()
        self.runs += 1
        found, of_world = results_of(self.query, self.pool, worlds, self.call)
        rows = as_output(found, self.shape.rows)
        counts = [np.bincount(of_world[places], minlength=len(worlds)) for places in places_of(self.records, rows)]
        for at, key in enumerate(keys):
            self._counts[key] = np.array([each[at] for each in counts], np.int64)


def results_of(query: ExplainedQuery, pool: Pool, worlds: Sequence[World], call: EngineCall) -> tuple[pa.Table, Longs]:
    """Rows that the query gives in worlds, by one run, and of which world each is.

    All worlds are at one watermark; a world is named by its position.
    """
    plan = _Binding(query, pool, worlds, counted()).of(query.worlds)
    found = whole(call, query.catalyst.data_frame(plan))
    *columns, numbers = (one_array(column) for column in found.columns)
    return pa.table(columns, names=found.column_names[:-1]), numbers.to_numpy()


@dataclass(frozen=True, slots=True)
class _Binding:
    """Puts the rows of worlds into their plan."""

    query: ExplainedQuery
    pool: Pool
    worlds: Sequence[World]
    positions: Iterator[int]

    def of(self, plan: Plan) -> Plan:
        catalyst = self.query.catalyst
        if scan_alias(plan) is not None:
            *columns, _ = output_of(plan)
            sets = [each.numbers for each in self.worlds]
            return self._with_rows(plan, self.pool.rows(sets, next(self.positions), columns))
        if lists_worlds(plan):
            return self._with_rows(plan, pa.table({"c0": np.arange(len(self.worlds))}))
        below = [self.of(child) for child in children(plan)]
        if simple_name(plan) == "Filter" and timed_filter(plan) is not None:
            at = at_watermark(catalyst, plan.withNewChildren(catalyst.seq(below)), self.worlds[0].watermark_us)
            return catalyst.logical.Filter(at.condition(), below[0])
        return with_children(catalyst, plan, below) if below else plan

    def _with_rows(self, scan: Plan, rows: pa.Table) -> Plan:
        catalyst = self.query.catalyst
        relation = analysed(local_rows(catalyst.session, rows))
        named = items(catalyst.as_columns(output_of(relation), output_of(scan)))
        # In one partition: then no operator above shuffles rows.
        return catalyst.logical.Project(catalyst.seq(named), catalyst.logical.Repartition(1, False, relation))


def _batches(worlds: Mapping[_Key, World]) -> list[list[_Key]]:
    """Worlds of one watermark, that have not too many records together."""
    found: list[list[_Key]] = []
    sizes: dict[int | None, int] = {}
    open_batches: dict[int | None, list[_Key]] = {}
    for key, world in worlds.items():
        watermark, size = key[1], len(world.numbers)
        if watermark not in open_batches or sizes[watermark] + size > _RECORDS_AT_ONCE:
            open_batches[watermark], sizes[watermark] = [], 0
            found.append(open_batches[watermark])
        open_batches[watermark].append(key)
        sizes[watermark] += size
    return found
