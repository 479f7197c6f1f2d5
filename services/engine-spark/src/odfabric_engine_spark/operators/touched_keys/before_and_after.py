"""A stage's plan over rows before and after a transaction, in one job.

Owns the two copies of a plan. Invariant: columns keep their ids, so the nodes of the plan are used as they are, and what does not
depend on the rows is made once per query: each call of the JVM costs as much as a thousand rows. Not here: which rows belong to
which copy (`extraction`). Source: docs/engine.md#before-and-after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.operators.row_wise.weighted_mapping import output_columns
from odfabric_engine_spark.operators.touched_keys.extraction import TAG
from odfabric_engine_spark.operators.touched_keys.hash_joins import HashedJoins, Size
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.plan.time.timed_filters import at_watermark, timed_filter
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    analysed,
    children,
    expr_id,
    items,
    output_of,
    simple_name,
)
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import arrow_of

_SIGN = "__odf_sign"


@dataclass(frozen=True, slots=True)
class Side:
    """One copy of the plan: the excluded tag, the sign of results, the watermark.

    Which tag its rows must not have, what its results count.
    """

    without: int
    sign: int
    watermark_us: int | None


def tagged(catalyst: Catalyst, rows: pa.Table) -> Plan:
    """Rows of a scan that are at hand, tags last, as `BoundPlan` takes them."""
    return analysed(local_rows(catalyst.session, rows))


def counted_rows(table: pa.Table) -> Delta:
    """The rows of such a frame."""
    signs = one_array(table.column(table.num_columns - 1)).to_numpy().astype(np.int64)
    return Delta.of(table.columns[:-1], signs)


def constant_rows(catalyst: Catalyst, scan: StageScan) -> pa.Table:
    """The rows that a query itself holds (VALUES, a SELECT without FROM)."""
    return arrow_of(catalyst.data_frame(scan.plan))


def _gives_what_it_reads(repeating: Plan) -> bool:
    """Whether EXCEPT ALL and INTERSECT ALL keep the column ids of repeated rows."""
    read = {expr_id(column) for column in output_of(children(repeating)[0])}
    return any(expr_id(column) in read for column in items(repeating.generatorOutput()))


def _with_own_columns(catalyst: Catalyst, repeating: Plan) -> Plan:
    """Repeated rows under column ids of their own, and the known ids above them.

    Spark puts a constant that a column below is known to be, as where one side has no rows, in its place here too, where there may be names only.
    """
    known = items(repeating.generatorOutput())
    own = [column.newInstance() for column in known]
    plan = catalyst.logical.Generate(
        repeating.generator(),
        repeating.unrequiredChildIndex(),
        repeating.outer(),
        repeating.qualifier(),
        catalyst.seq(own),
        children(repeating)[0],
    )
    named = [catalyst.named(new, str(old.name()), like=old) for new, old in zip(own, known, strict=True)]
    return catalyst.logical.Project(catalyst.seq(named), plan)


class BoundPlan:
    """A stage's plan into which rows of its scans are put, made once per query."""

    def __init__(self, catalyst: Catalyst, plan: Plan, output: Sequence[Attribute]) -> None:
        self._catalyst = catalyst
        self._output = tuple(output)
        self._scans: list[_Scan] = []
        self._root = self._node(plan)
        self._results: dict[int, Any] = {}
        self._hashed_joins = HashedJoins(catalyst)

    def changes(
        self, sources: Sequence[Plan], sides: Sequence[Side], *, in_one_task: bool, sizes: Sequence[Size] = ()
    ) -> DataFrame:
        """What the sides give, and in a last column what each row counts.

        `sources` are the rows of the scans, then tags; `sizes` say how large they are, where that is known. `in_one_task`: a side is
        one task, without shuffles, each of which takes longer than all the work of few rows.
        """
        relations = [scan.relation(source) for scan, source in zip(self._scans, sources, strict=True)]
        if in_one_task:
            relations = [self._in_one_task(each) for each in relations]
        parts = [self._side(_Bound(relations, in_one_task, sizes), side) for side in sides]
        union = self._catalyst.logical.Union
        whole = parts[0] if len(parts) == 1 else union(self._catalyst.seq(parts), False, False)
        return self._catalyst.data_frame(whole)

    def _node(self, plan: Plan) -> _Node:
        if scan_alias(plan) is not None:
            self._scans.append(_Scan(self._catalyst, plan))
            return _Node("InputScan", plan, (), len(self._scans) - 1, waits=False)
        name = simple_name(plan)
        if name == "Generate" and simple_name(plan.generator()) == "ReplicateRows" and _gives_what_it_reads(plan):
            return self._node(_with_own_columns(self._catalyst, plan))
        below = tuple(self._node(child) for child in children(plan))
        waits = name == "Filter" and timed_filter(plan) is not None
        return _Node(name, plan, below, below[0].rows_of if name in ("Project", "Filter") else None, waits)

    def _in_one_task(self, rows: Plan) -> Plan:
        return self._catalyst.logical.Repartition(1, False, rows)

    def _side(self, bound: _Bound, side: Side) -> Plan:
        if side.sign not in self._results:
            named = output_columns(self._catalyst, self._output)
            sign = self._catalyst.named(self._catalyst.parse_expression(f"{side.sign}L"), _SIGN)
            self._results[side.sign] = self._catalyst.seq([*named, sign])
        return self._catalyst.logical.Project(self._results[side.sign], self._with_rows(self._root, bound, side))

    def _with_rows(self, node: _Node, bound: _Bound, side: Side) -> Plan:
        if node.name == "InputScan":
            assert node.rows_of is not None
            return self._scans[node.rows_of].chosen(bound.relations[node.rows_of], side.without)
        if not node.below:
            return node.plan
        below = [self._with_rows(child, bound, side) for child in node.below]
        plan = node.plan.withNewChildren(self._catalyst.seq(below))
        if bound.in_one_task and node.name == "Union":
            plan = self._in_one_task(plan)
        if node.name == "Join":
            plan = self._hashed_joins.chosen(plan, *(bound.size_of(child) for child in node.below))
        return at_watermark(self._catalyst, plan, side.watermark_us) if node.waits else plan


@dataclass(frozen=True, slots=True)
class _Bound:
    """The rows of the scans for a part of the keys."""

    relations: Sequence[Plan]
    in_one_task: bool
    sizes: Sequence[Size]

    def size_of(self, node: _Node) -> Size | None:
        """At most how many rows a node gives, if that is known."""
        return self.sizes[node.rows_of] if self.sizes and node.rows_of is not None else None


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a plan, by the name of its class, a scan as `InputScan`.

    `rows_of` is the number of the scan whose rows it gives, perhaps not all and not whole; `waits` marks a timed filter.
    """

    name: str
    plan: Plan
    below: tuple[_Node, ...]
    rows_of: int | None
    waits: bool


class _Scan:
    """One place of a plan at which rows come in."""

    def __init__(self, catalyst: Catalyst, plan: Plan) -> None:
        self._catalyst = catalyst
        self._own = output_of(plan)
        self._tag = catalyst.named(catalyst.parse_expression("0Y"), TAG).toAttribute()
        self._shown = plan.output()
        self._conditions: dict[int, Expression] = {}
        self._known: tuple[Any, Any] | None = None

    def relation(self, source: Plan) -> Plan:
        """The rows of a source under the ids of the scan.

        The source has the scan's columns and the tag.
        """
        if simple_name(source) != "LocalRelation":
            return self._catalyst.logical.Project(self._named(source), source)
        schema, known = source.schema(), self._known
        if known is None or not schema.equals(known[0]):
            # Several transactions may find that at once; each is right, and goes on with its own.
            known = self._known = (
                schema,
                self._catalyst.seq([each.toAttribute() for each in items(self._named(source))]),
            )
        return self._catalyst.local_relation(known[1], source.data())

    def chosen(self, relation: Plan, without: int) -> Plan:
        """The rows of one side."""
        if without not in self._conditions:
            unwanted = self._catalyst.expressions.EqualTo(self._tag, self._catalyst.parse_expression(f"{without}Y"))
            self._conditions[without] = self._catalyst.expressions.Not(unwanted)
        chosen = self._catalyst.logical.Filter(self._conditions[without], relation)
        return self._catalyst.logical.Project(self._shown, chosen)

    def _named(self, source: Plan) -> Any:
        return self._catalyst.as_columns(output_of(source), [*self._own, self._tag])
