"""Rows that come too late.

Owns by when the rows of each input are final, and which of them are dropped. A row is dropped if all windows it belongs to,
and all it waits for, closed longer ago than the lateness, by what its own input had announced before. Invariant: whether a row
is dropped depends on the row and on the earlier blocks of its input, never on where transactions begin. A leaf from which
nothing waits for the watermark drops nothing. Source: rulings on steps and on lateness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.catalyst import Catalyst, Expression, Plan, children, expr_id, simple_name
from odfabric_engine_spark.incremental.exact import Longs
from odfabric_engine_spark.incremental.group_sums import ALWAYS, NEVER
from odfabric_engine_spark.incremental.input_table import leaf_alias
from odfabric_engine_spark.incremental.slots import Mask
from odfabric_engine_spark.incremental.trace import leaves_of, substitute
from odfabric_engine_spark.normalise.event_times import WINDOW_END, sources_of
from odfabric_engine_spark.stages.query import GroupStage, RowsStage, Stage
from odfabric_engine_spark.stages.row_expressions import RowExpressions, micros_of
from odfabric_engine_spark.stages.timed import timed_filter
from odfabric_engine_spark.stages.values import Island, StageLeaf, references


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late rows may come. `closes`: for each leaf of an input that drops rows, the instants at which its rows are final.

    `forgetful` are the numbers of stages whose rows of closed times nothing can need again.
    """

    limit_us: int
    closes: Mapping[StageLeaf, RowExpressions]
    forgetful: frozenset[int]

    @classmethod
    def of(
        cls, catalyst: Catalyst, plan: Plan, inputs: Sequence[StageLeaf], stages: Sequence[Stage], limit_us: int
    ) -> Lateness:
        """Of a plan with the given uses of inputs, from left to right."""
        found: dict[StageLeaf, list[Expression]] = defaultdict(list)
        for number, instant in _closings(catalyst, plan, 0):
            known = found[inputs[number]]
            known += [] if any(each.semanticEquals(instant) for each in known) else [instant]
        closes = {leaf: RowExpressions.of(catalyst, leaf.columns, instants) for leaf, instants in found.items()}
        forgetful = frozenset(number for number, stage in enumerate(stages) if _is_forgetful(stage, found))
        return cls(limit_us, closes, forgetful)

    def bound_us(self, announced_us: int | None) -> int:
        """Rows that close then or before are too late, once an input has announced an instant."""
        return ALWAYS if announced_us is None else announced_us - self.limit_us

    def late(self, leaf: StageLeaf, rows: pa.Table, bounds_us: Longs) -> Mask:
        """Which rows of a leaf are dropped; `bounds_us` has for each row the bound that its input had when it came."""
        values = self.closes.get(leaf)
        if values is None:
            return np.zeros(rows.num_rows, dtype=bool)
        ends = [micros_of(column).fill_null(NEVER).to_numpy() for column in values.evaluate(rows)]
        dropped: Mask = np.max(ends, axis=0) <= bounds_us
        return dropped


def _closings(catalyst: Catalyst, node: Plan, begin: int) -> Iterator[tuple[int, Expression]]:
    """For every filter that waits the instants that it asks for, over the leaves that have them; leaves are numbered from `begin`."""
    if leaf_alias(node) is not None:
        return
    timed = timed_filter(node) if simple_name(node) == "Filter" else None
    if timed is not None:
        yield from _at_leaves(catalyst, timed.instant, node.child(), begin)
    for child, first in _numbered(node, begin):
        yield from _closings(catalyst, child, first)


def _at_leaves(catalyst: Catalyst, instant: Expression, node: Plan, begin: int) -> Iterator[tuple[int, Expression]]:
    if leaf_alias(node) is not None:
        yield begin, instant
        return
    below = list(_numbered(node, begin))
    # An instant is made of one event time; one without is null.
    for column in references(instant):
        for value, at in sources_of(column, node):
            child, first = below[at]
            yield from _at_leaves(catalyst, substitute(catalyst, instant, {expr_id(column): value}), child, first)


def _numbered(node: Plan, begin: int) -> Iterator[tuple[Plan, int]]:
    """The children of a node, each with the number of its first leaf."""
    for child in children(node):
        yield child, begin
        begin += len(leaves_of(child))


def _is_forgetful(stage: Stage, closings: Mapping[StageLeaf, Sequence[Expression]]) -> bool:
    """Whether all rows of a key close at one instant, after which none can come for it."""
    if any(leaf.kind != "input" or len(closings.get(leaf, ())) != 1 for leaf in stage.leaves):
        return False
    if isinstance(stage, GroupStage):
        return stage.window is not None
    return isinstance(stage, RowsStage) and all(map(_closes_by_key, stage.islands))


def _closes_by_key(island: Island) -> bool:
    """Whether some part of the key is the instant at which its rows close, or the window that ends then."""
    if island.wholes or any(len(leaf.closes) != 1 for leaf in island.leaves):
        return False
    if island.components is None:
        return True  # each row is a key of its own
    return any(all(_is_end(leaf.closes[0], each[leaf]) for leaf in island.leaves) for each in island.components)


def _is_end(instant: Expression, key: Expression) -> bool:
    is_end = simple_name(instant) == "GetStructField" and instant.ordinal() == WINDOW_END
    return bool(instant.semanticEquals(key)) or (is_end and bool(instant.child().semanticEquals(key)))
