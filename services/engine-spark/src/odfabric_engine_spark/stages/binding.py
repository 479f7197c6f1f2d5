"""A stage's plan over the rows of a transaction: before it and after it, in one job.

Owns the two copies of a plan. Invariant: columns keep their ids, so the nodes of the plan are used as they are. Not here: which rows
belong to which copy (`extraction`). Source: incremental method, section 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from odfabric_engine_spark.catalyst import Attribute, Catalyst, Plan, analysed, children, items, simple_name
from odfabric_engine_spark.incremental.canonical import one_array
from odfabric_engine_spark.incremental.input_table import leaf_alias
from odfabric_engine_spark.local_rows import local_rows
from odfabric_engine_spark.result_rows import arrow_of
from odfabric_engine_spark.stages.delta import Delta
from odfabric_engine_spark.stages.extraction import BoundRows
from odfabric_engine_spark.stages.timed import at_watermark, timed_filter
from odfabric_engine_spark.stages.values import StageLeaf

_SIGN = "__odf_sign"


@dataclass(frozen=True, slots=True)
class Side:
    """One copy of the plan: which tag its rows must not have, what its results count, how far the watermark is."""

    without: int
    sign: int
    watermark_us: int | None


def tagged(catalyst: Catalyst, bound: BoundRows) -> Plan:
    """Rows of a leaf that are at hand, as `changes_of` takes them."""
    return analysed(local_rows(catalyst.session, bound.as_table()))


def changes_of(
    catalyst: Catalyst, plan: Plan, output: Sequence[Attribute], sources: Sequence[Plan], sides: Sequence[Side]
) -> DataFrame:
    """What the sides of a plan give, and in a last column what each row counts. `sources` are the rows of its leaves, then tags."""
    parts = [_side(catalyst, plan, output, sources, side) for side in sides]
    whole = parts[0] if len(parts) == 1 else catalyst.logical.Union(catalyst.seq(parts), False, False)
    return catalyst.data_frame(whole)


def counted_rows(table: pa.Table) -> Delta:
    """The rows of such a frame."""
    signs = one_array(table.column(table.num_columns - 1)).to_numpy().astype(np.int64)
    return Delta.of(table.columns[:-1], signs)


def constant_rows(catalyst: Catalyst, leaf: StageLeaf) -> pa.Table:
    """The rows that a query itself holds (VALUES, a SELECT without FROM)."""
    return arrow_of(catalyst.data_frame(leaf.plan))


def _side(catalyst: Catalyst, plan: Plan, output: Sequence[Attribute], sources: Sequence[Plan], side: Side) -> Plan:
    bound = _bound(catalyst, plan, iter(sources), side)
    named = [catalyst.named(column, f"c{index}") for index, column in enumerate(output)]
    sign = catalyst.named(catalyst.parse_expression(f"{side.sign}L"), _SIGN)
    return catalyst.logical.Project(catalyst.seq([*named, sign]), bound)


def _bound(catalyst: Catalyst, node: Plan, sources: Iterator[Plan], side: Side) -> Plan:
    if leaf_alias(node) is not None:
        return _leaf(catalyst, node, next(sources), side)
    below = children(node)
    if not below:
        return node
    node = node.withNewChildren(catalyst.seq([_bound(catalyst, child, sources, side) for child in below]))
    if simple_name(node) == "Filter" and timed_filter(node) is not None:
        return at_watermark(catalyst, node, side.watermark_us)
    return node


def _leaf(catalyst: Catalyst, leaf: Plan, source: Plan, side: Side) -> Plan:
    *have, tag = items(source.output())
    unwanted = catalyst.expressions.EqualTo(tag, catalyst.parse_expression(f"{side.without}Y"))
    chosen = catalyst.logical.Filter(catalyst.expressions.Not(unwanted), source)
    named = [
        catalyst.named(value, str(column.name()), like=column)
        for value, column in zip(have, items(leaf.output()), strict=True)
    ]
    return catalyst.logical.Project(catalyst.seq(named), chosen)
