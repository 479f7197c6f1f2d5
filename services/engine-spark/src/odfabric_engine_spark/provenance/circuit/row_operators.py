"""Row-wise operators and joins: numbers go through them as columns."""

from __future__ import annotations

from odfabric.model.provenance import CellRole
from odfabric_engine_spark.plan.time.timed_filters import at_watermark, timed_filter
from odfabric_engine_spark.provenance.circuit.builder import (
    Builder,
    Slot,
    Traced,
    origins_of,
    read_by,
    unique,
)
from odfabric_engine_spark.provenance.circuit.terms import Absence
from odfabric_engine_spark.spark.catalyst.plan_nodes import Plan, children, expr_id, items, output_of


def project(builder: Builder, plan: Plan) -> Traced:
    """Choose and compute columns."""
    below = builder.of(children(plan)[0])
    named = items(plan.projectList())
    origins = {expr_id(each): origins_of(below, each) for each in named}
    return Traced(builder.with_slots(named, below), below.slots, origins, below.control, below.absences)


def keep(builder: Builder, plan: Plan) -> Traced:
    """Filter; one that waits for the watermark is at that of the state."""
    below = builder.of(children(plan)[0])
    at = at_watermark(builder.catalyst, plan, builder.watermark_us) if timed_filter(plan) is not None else plan
    decides = read_by(below, plan.condition(), CellRole.COMPARED, by="FILTER")
    kept = builder.catalyst.logical.Filter(at.condition(), below.plan)
    return Traced(kept, below.slots, below.origins, unique([*below.control, *decides]), below.absences)


def generate(builder: Builder, plan: Plan) -> Traced:
    """Explode: rows that a row becomes have its number."""
    below = builder.of(children(plan)[0])
    made = read_by(below, plan.generator(), CellRole.COMPUTED, by="TRANSFORMATION")
    origins = {**below.origins, **{expr_id(column): made for column in items(plan.generatorOutput())}}
    node = plan.withNewChildren(builder.catalyst.seq([below.plan]))
    decides = read_by(below, plan.generator(), CellRole.COMPARED, by="FILTER")
    return Traced(node, below.slots, origins, unique([*below.control, *decides]), below.absences)


def expand(builder: Builder, plan: Plan) -> Traced:
    """Rollup, cube, hopping windows: several copies of a row, with some columns null."""
    below = builder.of(children(plan)[0])
    catalyst = builder.catalyst
    projections = [items(each) for each in items(plan.projections())]
    origins = {}
    for at, column in enumerate(output_of(plan)):
        same = all(each[at].semanticEquals(projections[0][at]) for each in projections)
        least = CellRole.COPIED if same else CellRole.COMPUTED
        origins[expr_id(column)] = unique(
            origin for each in projections for origin in origins_of(below, each[at], least=least)
        )
    numbers = [slot.column for slot in below.slots]
    fresh = [column.newInstance() for column in numbers]
    copies = catalyst.seq([catalyst.seq([*each, *numbers]) for each in projections])
    node = catalyst.logical.Expand(copies, catalyst.seq([*output_of(plan), *fresh]), below.plan)
    slots = tuple(Slot(column, slot.source) for column, slot in zip(fresh, below.slots, strict=True))
    return Traced(node, slots, origins, below.control, below.absences)


def union(builder: Builder, plan: Plan) -> Traced:
    """Branches; a row has numbers of its branch only."""
    catalyst = builder.catalyst
    branches = [(child, builder.of(child)) for child in children(plan)]
    slots = [slot for _, traced in branches for slot in traced.slots]
    plans = []
    for child, traced in branches:
        own = {id(slot) for slot in traced.slots}
        numbers = [
            catalyst.named(
                slot.column if id(slot) in own else catalyst.parse_expression("cast(null as bigint)"), f"__odf_row{at}"
            )
            for at, slot in enumerate(slots)
        ]
        values = [catalyst.named(column, str(column.name())) for column in output_of(child)]
        plans.append(catalyst.logical.Project(catalyst.seq([*values, *numbers]), traced.plan))
    columns = output_of(plan)
    united = catalyst.logical.Union(catalyst.seq(plans), False, False)
    have = output_of(united)
    named = [catalyst.named(column, f"__odf_row{at}") for at, column in enumerate(have[len(columns) :])]
    values = items(catalyst.as_columns(have[: len(columns)], columns)) if columns else []
    relation = catalyst.logical.Project(catalyst.seq([*values, *named]), united)
    origins = {
        expr_id(column): unique(
            origin for child, traced in branches for origin in traced.origins.get(expr_id(output_of(child)[at]), ())
        )
        for at, column in enumerate(columns)
    }
    return Traced(
        relation,
        tuple(Slot(each.toAttribute(), slot.source) for each, slot in zip(named, slots, strict=True)),
        origins,
        unique(origin for _, traced in branches for origin in traced.control),
        tuple(absence for _, traced in branches for absence in traced.absences),
    )


_KEPT = {"LeftOuter": ("left",), "RightOuter": ("right",), "FullOuter": ("left", "right")}


def join(builder: Builder, plan: Plan) -> Traced:
    """Inner and outer joins: a row has the numbers of both sides."""
    left, right = (builder.of(child) for child in children(plan))
    both = Traced(None, (*left.slots, *right.slots), {**left.origins, **right.origins})
    condition = plan.condition().get() if plan.condition().isDefined() else None
    decides = () if condition is None else read_by(both, condition, CellRole.COMPARED, by="JOIN")
    node = builder.catalyst.logical.Join(left.plan, right.plan, plan.joinType(), plan.condition(), plan.hint())
    text = "true" if condition is None else str(condition.sql())
    sides = {"left": left, "right": right}
    absences = []
    for kept in _KEPT.get(str(plan.joinType()), ()):
        other = "right" if kept == "left" else "left"
        present, absent = (tuple(slot.source for slot in sides[side].slots) for side in (kept, other))
        if absent:
            absences.append(Absence(present, absent, f"no row of the {other} side matched: {text}"))
    return Traced(
        node,
        both.slots,
        both.origins,
        unique([*left.control, *right.control, *decides]),
        (*left.absences, *right.absences, *absences),
    )
