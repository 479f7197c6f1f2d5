"""Bind rows to the scans of a plan, with hidden columns carried along.

Owns the rewriting of row-wise plans so that hidden columns of each scan's rows (where a row stands, what its weight is) come
out beside the query's own. Invariant: the query's columns keep their ids, so nodes above need no change. Not here: which plans
are row-wise (`compile.row_wise_query`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    analysed,
    children,
    items,
    output_of,
    simple_name,
)


@dataclass(frozen=True, slots=True)
class Bound:
    """A plan with rows, and its hidden columns in the order of the scans."""

    plan: Plan
    hidden: list[Attribute]


def bind(catalyst: Catalyst, plan: Plan, frames: Sequence[DataFrame | None]) -> Bound:
    """Binds one frame to each scan, from left to right.

    A frame has the scan's columns in order, then the hidden ones, which are the same for all scans. None: a scan has no rows, so a branch of
    a UNION that reads it alone is left out. Some scan has rows.
    """
    rows = iter(frames)
    bound = _bind(catalyst, plan, rows)
    if next(rows, rows) is not rows or bound is None:
        raise ValueError("there are more frames than scans, or there is none")
    return bound


def projection(catalyst: Catalyst, bound: Bound, named: Sequence[Expression]) -> DataFrame:
    """Expressions over a bound plan, then its hidden columns."""
    return catalyst.data_frame(catalyst.logical.Project(catalyst.seq([*named, *bound.hidden]), bound.plan))


def _bind(catalyst: Catalyst, node: Plan, rows: Iterator[DataFrame | None]) -> Bound | None:
    """None if no scan has rows."""
    if scan_alias(node) is not None:
        frame = next(rows)
        return None if frame is None else _attach(catalyst, node, frame)
    if not children(node):
        raise ValueError(f"{simple_name(node)} is no scan of ours")
    found = [_bind(catalyst, child, rows) for child in children(node)]
    below = [each for each in found if each is not None]
    if not below:
        return None
    match simple_name(node):
        case "Project":
            named = [*items(node.projectList()), *below[0].hidden]
            return Bound(catalyst.logical.Project(catalyst.seq(named), below[0].plan), below[0].hidden)
        case "Union":
            return _union(catalyst, node, found)
        case "Expand":
            return _expand(catalyst, node, below[0])
        case "Filter" | "Generate":
            return Bound(node.withNewChildren(catalyst.seq([below[0].plan])), below[0].hidden)
        case name:
            raise ValueError(f"rows cannot be carried through {name}")


def _union(catalyst: Catalyst, node: Plan, below: Sequence[Bound | None]) -> Bound:
    """The branches that have rows."""
    aligned: list[Plan] = []
    hidden = 0
    for child, bound in zip(children(node), below, strict=True):
        if bound is not None:
            # A UNION has the column ids of its first branch.
            own = output_of(child) if aligned or below[0] is not None else _as_first(catalyst, child, node)
            aligned.append(catalyst.logical.Project(catalyst.seq([*own, *bound.hidden]), bound.plan))
            hidden = len(bound.hidden)
    union = aligned[0] if len(aligned) == 1 else node.withNewChildren(catalyst.seq(aligned))
    return Bound(union, output_of(union)[-hidden:])


def _as_first(catalyst: Catalyst, branch: Plan, union: Plan) -> list[Expression]:
    """The columns of another branch under the ids of the first one."""
    pairs = zip(output_of(branch), output_of(union), strict=True)
    return [catalyst.named(column, str(first.name()), like=first) for column, first in pairs]


def _expand(catalyst: Catalyst, node: Plan, below: Bound) -> Bound:
    """Expanded rows keep their row's hidden columns, under new ids."""
    rows = [catalyst.seq([*items(projection), *below.hidden]) for projection in items(node.projections())]
    hidden = [column.newInstance() for column in below.hidden]
    output = catalyst.seq([*output_of(node), *hidden])
    return Bound(catalyst.logical.Expand(catalyst.seq(rows), output, below.plan), hidden)


def _attach(catalyst: Catalyst, scan: Plan, frame: DataFrame) -> Bound:
    source = analysed(frame)
    have, want = output_of(source), output_of(scan)
    hidden = have[len(want) :]
    named = items(catalyst.as_columns(have[: len(want)], want))
    return Bound(catalyst.logical.Project(catalyst.seq([*named, *hidden]), source), hidden)
