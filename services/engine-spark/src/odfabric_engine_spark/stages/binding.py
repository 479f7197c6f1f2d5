"""A stage's plan over the rows of a transaction: before it and after it, in one job.

Owns the two copies of a plan and the tags that say which rows belong to which. Invariant: columns keep their ids, so the nodes of
the plan are used as they are. Source: incremental method, section 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric_engine_spark.catalyst import Attribute, Catalyst, Plan, analysed, children, items, simple_name
from odfabric_engine_spark.incremental.canonical import one_array
from odfabric_engine_spark.incremental.exact import Longs
from odfabric_engine_spark.incremental.input_table import leaf_alias
from odfabric_engine_spark.local_rows import local_rows
from odfabric_engine_spark.result_rows import arrow_of, collected
from odfabric_engine_spark.stages.delta import Delta
from odfabric_engine_spark.stages.timed import at_watermark, timed_filter
from odfabric_engine_spark.stages.values import StageLeaf

BEFORE, AFTER, BOTH = 0, 1, 2
_TAG = "__odf_tag"
_SIGN = "__odf_sign"

Tags = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class BoundRows:
    """Rows of one leaf; `tags` say whether they are there before the transaction, after it, or both."""

    rows: pa.Table
    tags: Tags


@dataclass(frozen=True, slots=True)
class Side:
    """One copy of the plan: which tag its rows must not have, what its results count, how far the watermark is."""

    without: int
    sign: int
    watermark_us: int | None


def counted(rows: pa.Table, before: Longs, after: Longs) -> BoundRows:
    """Rows as often as they are there; what is owed is not there."""
    before, after = np.maximum(before, 0), np.maximum(after, 0)
    if not before.any() and (after == 1).all():
        return BoundRows(rows, np.full(len(after), AFTER, dtype=np.int8))
    common = np.minimum(before, after)
    counts = np.concatenate([before - common, after - common, common])
    positions = np.repeat(np.tile(np.arange(len(before)), 3), counts)
    tags = np.repeat(np.repeat(np.array([BEFORE, AFTER, BOTH], dtype=np.int8), len(before)), counts)
    return BoundRows(rows.take(pa.array(positions)), tags)


def changes_of(
    catalyst: Catalyst, plan: Plan, output: Sequence[Attribute], leaves: Sequence[BoundRows], sides: Sequence[Side]
) -> Delta:
    """What the sides of a plan give, each result counted by its side.

    Raises ResultTooLarge; what else Spark raises passes through.
    """
    sources = [_source(catalyst, bound) for bound in leaves]
    parts = [_side(catalyst, plan, output, sources, side) for side in sides]
    whole = parts[0] if len(parts) == 1 else catalyst.logical.Union(catalyst.seq(parts), False, False)
    table = collected(catalyst.data_frame(whole))
    signs = one_array(table.column(table.num_columns - 1)).to_numpy().astype(np.int64)
    return Delta.of(table.columns[:-1], signs)


def constant_rows(catalyst: Catalyst, leaf: StageLeaf) -> pa.Table:
    """The rows that a query itself holds (VALUES, a SELECT without FROM)."""
    return arrow_of(catalyst.data_frame(leaf.plan))


def _source(catalyst: Catalyst, bound: BoundRows) -> Plan:
    tagged = bound.rows.append_column(_TAG, pa.array(bound.tags))
    return analysed(local_rows(catalyst.session, tagged))


def _side(catalyst: Catalyst, plan: Plan, output: Sequence[Attribute], sources: Sequence[Plan], side: Side) -> Plan:
    bound = _bound(catalyst, plan, iter(sources), side)
    named = [catalyst.named(column, f"c{index}") for index, column in enumerate(output)]
    sign = catalyst.named(catalyst.parse_expression(f"{side.sign}"), _SIGN)
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
