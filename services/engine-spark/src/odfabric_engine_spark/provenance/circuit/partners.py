"""Semi and anti joins, and existence: whether a row has a partner.

Owns which partner is named: the first one of those that match. Where none matches there is nothing to name, and a note says so.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric.model.provenance import CellRole
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.provenance.circuit.builder import Builder, Numbered, Traced, columns_of, read_by, unique
from odfabric_engine_spark.provenance.circuit.row_operators import join as join_sides
from odfabric_engine_spark.provenance.circuit.terms import NOTHING, Segment
from odfabric_engine_spark.spark.catalyst.plan_nodes import Plan, children, expr_id

_PARTNER_KINDS = ("LeftSemi", "LeftAnti", "ExistenceJoin")


def join(builder: Builder, plan: Plan) -> Traced:
    """A join of any kind."""
    kind = str(plan.joinType()).split("(", maxsplit=1)[0]
    return _existence(builder, plan, kind) if kind in _PARTNER_KINDS else join_sides(builder, plan)


def _existence(builder: Builder, plan: Plan, kind: str) -> Traced:
    left, right = (builder.numbered(builder.of(child)) for child in children(plan))
    partner, count = _first_partners(builder, plan, left, right)
    matched = partner != NOTHING
    keep = {"LeftSemi": matched, "LeftAnti": ~matched}.get(kind, np.ones(len(matched), dtype=bool))
    kept = np.flatnonzero(keep)
    columns, arrays = list(left.columns), list(left.rows.take(pa.array(kept)).columns[: len(left.columns)])
    both = Traced(None, (), {**left.traced.origins, **right.traced.origins})
    condition = plan.condition().get() if plan.condition().isDefined() else None
    decides = () if condition is None else read_by(both, condition, CellRole.COMPARED, by="JOIN")
    origins = {expr_id(column): left.traced.origins.get(expr_id(column), ()) for column in columns}
    if kind == "ExistenceJoin":
        columns.append(plan.joinType().exists())
        arrays.append(pa.chunked_array([pa.array(matched[kept])]))
        computed = () if condition is None else read_by(both, condition, CellRole.COMPUTED, by="CONDITIONAL")
        origins[expr_id(columns[-1])] = computed
    source = builder.add(
        Segment(
            kind={"LeftSemi": "exists", "LeftAnti": "not exists"}.get(kind, "existence"),
            label="true" if condition is None else str(condition.sql()),
            sources=(*left.sources, *right.sources),
            ids=np.hstack([left.ids[kept], _rows_at(right.ids, partner[kept])]),
            begins=np.arange(len(kept), dtype=np.int64),
            ends=np.arange(1, len(kept) + 1, dtype=np.int64),
            origins=origins,
            control=unique([*left.traced.control, *right.traced.control, *decides]),
            absences=(*left.traced.absences, *right.traced.absences),
            one_of=count[kept],
            unmatched=~matched[kept],
        )
    )
    rows = pa.table(arrays, names=[f"c{at}" for at in range(len(arrays))]) if arrays else left.rows.take(pa.array(kept))
    bound = builder.bound(rows, columns, source)
    return Traced(bound.plan, bound.slots, columns_of(source, map(expr_id, columns), origins))


def _first_partners(builder: Builder, plan: Plan, left: Numbered, right: Numbered) -> tuple[Longs, Longs]:
    """For each row of the left its first partner, and how many it has."""
    catalyst = builder.catalyst
    own, other = (builder.bound(side.rows, side.columns, at) for at, side in enumerate((left, right)))
    row, partner = own.slots[0].column, other.slots[0].column
    inner = catalyst.companion("org.apache.spark.sql.catalyst.plans.Inner")
    pairs = catalyst.logical.Join(own.plan, other.plan, inner, plan.condition(), plan.hint())
    functions = catalyst.expressions.aggregate
    one = catalyst.seq([catalyst.parse_expression("1L")])
    results = [
        row,
        catalyst.named(builder.aggregate(functions.Min(partner)), "first"),
        catalyst.named(builder.aggregate(functions.Count(one)), "count"),
    ]
    none = catalyst.companion("scala.None")
    grouped = catalyst.logical.Aggregate(catalyst.seq([row]), catalyst.seq(results), pairs, none)
    found = builder.run(grouped, [each if each is row else each.toAttribute() for each in results])
    rows, firsts, counts = (one_array(column).to_numpy() for column in found.columns)
    partners = np.full(left.rows.num_rows, NOTHING, np.int64)
    how_many = np.zeros(left.rows.num_rows, np.int64)
    partners[rows], how_many[rows] = firsts, counts
    return partners, how_many


def _rows_at(ids: Longs, rows: Longs) -> Longs:
    """The numbers in some rows; nothing for no row."""
    padded = np.vstack([ids, np.full((1, ids.shape[1]), NOTHING, np.int64)])
    found: Longs = padded[rows]
    return found
