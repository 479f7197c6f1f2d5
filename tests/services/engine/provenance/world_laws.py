"""One run for many sets of rows gives what a run for each gives.

The judge binds the rows of one world to the normal plan itself, which knows nothing of worlds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as counted
from random import Random

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array, row_bytes
from odfabric.model.provenance import ConsumedInterval
from odfabric_engine_spark.compile.compile_query import input_tables
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.time.timed_filters import at_watermark, timed_filter
from odfabric_engine_spark.provenance.evaluation import World, results_of
from odfabric_engine_spark.provenance.explained_query import ExplainedQuery, plan_of
from odfabric_engine_spark.provenance.past_rows import PastRows
from odfabric_engine_spark.provenance.states import Pool, states_of
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Plan,
    analysed,
    children,
    items,
    output_of,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import with_children
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import whole
from tests.services.engine.laws.general_check import derivative_of, inputs_of
from tests.services.engine.laws.grammar.general_cases import GeneralCase
from tests.services.engine.laws.law_check import Lab


@dataclass(frozen=True)
class Worlds:
    """A query, all records of its inputs, and sets of them."""

    query: ExplainedQuery
    pool: Pool
    worlds: Sequence[World]
    call: EngineCall

    def together(self) -> list[Counter[bytes]]:
        """Rows of each world, from one run."""
        rows, of_world = results_of(self.query, self.pool, self.worlds, self.call)
        return [_bag(rows.filter(pa.array(of_world == at))) for at in range(len(self.worlds))]

    def alone(self) -> list[Counter[bytes]]:
        """Rows of each world, from a run of the normal plan over its rows."""
        return [self._alone(world) for world in self.worlds]

    def _alone(self, world: World) -> Counter[bytes]:
        catalyst = self.query.catalyst
        plan = self._bound(self.query.plan, world, counted())
        shown = catalyst.logical.Project(catalyst.seq(list(self.query.columns)), plan)
        return _bag(whole(self.call, catalyst.data_frame(shown)))

    def _bound(self, plan: Plan, world: World, positions: Iterator[int]) -> Plan:
        catalyst = self.query.catalyst
        if scan_alias(plan) is not None:
            columns = output_of(plan)
            rows = self.pool.rows([world.numbers], next(positions), columns)
            relation = analysed(local_rows(catalyst.session, rows.select(range(len(columns)))))
            return catalyst.logical.Project(
                catalyst.seq(items(catalyst.as_columns(output_of(relation), columns))), relation
            )
        below = [self._bound(child, world, positions) for child in children(plan)]
        if simple_name(plan) == "Filter" and timed_filter(plan) is not None:
            return catalyst.logical.Filter(at_watermark(catalyst, plan, world.watermark_us).condition(), below[0])
        return with_children(catalyst, plan, below) if below else plan


def _bag(rows: pa.Table) -> Counter[bytes]:
    if not rows.num_rows:
        return Counter()
    return Counter(row_bytes([one_array(column) for column in rows.columns]).to_pylist())


def worlds_of(case: GeneralCase, lab: Lab, chance: Random, *, net: bool = False, count: int = 6) -> Worlds:
    """Sets of records of a case: none, all twice, all but one, and some by chance.

    Withdrawals would leave few rows, so all records add theirs, unless `net`.
    """
    derivative = derivative_of(case, inputs_of(case, lab), lab, "worlds", case.sizes)
    request = derivative.request(case.cuts[-1])
    call = derivative.call
    tables = input_tables([(one.query_alias, one.vocabulary, one.data_schema) for one in request.inputs])
    query = plan_of(request.transform, tables, call, keyed=False)
    past = PastRows(request.inputs, tables, query.catalyst, call, rows_max=1_000_000)
    known = {one.query_alias: past.known(one.query_alias, range(one.offsets.end)) for one in request.inputs}
    if not net:
        known = {alias: replace(each, operations=np.zeros_like(each.operations)) for alias, each in known.items()}
    uses = {at: (alias, np.ones(len(known[alias].offsets), dtype=bool)) for at, alias in enumerate(query.uses)}
    pool = Pool(tuple(known), known, uses)
    nothing = [ConsumedInterval(offsets=one.offsets, steps_before=0) for one in request.inputs]
    mark = states_of(request.inputs, nothing, by_steps=False)[-1].watermark_us
    every = np.arange(pool.count)
    sets = [every[:0], every, every, np.delete(every, chance.sample(range(pool.count), min(1, pool.count)))]
    for at in range(count):
        size = chance.randint(1, 4) if at % 2 else pool.count // 2
        sets.append(np.sort(np.array(chance.sample(range(pool.count), min(size, pool.count)), np.int64)))
    return Worlds(query, pool, [World(numbers, mark) for numbers in sets], call)
