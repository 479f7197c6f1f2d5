"""Window functions: a row is made of itself and of the rows of its frame.

Owns the frame of each row, closed to one range of places in its partition, which is contiguous where rows are sorted by partition and
place. So a frame is two numbers, whatever its length. Ties of the order are broken by the number of the row, as they are by the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric.model.provenance import CellRole
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.provenance.circuit.builder import Builder, Traced, columns_of, read_by, unique
from odfabric_engine_spark.provenance.circuit.terms import Origin, Segment
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Expression,
    Plan,
    children,
    expr_id,
    items,
    output_of,
    simple_name,
    walk_expression,
    without_alias,
)

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_RANKS = frozenset({"RowNumber", "Rank", "DenseRank"})
_OF_ALL = frozenset({"NTile", "PercentRank", "CumeDist"})
_SHIFTS = frozenset({"Lag", "Lead"})


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far a function sees.

    `kind` is `before`, `all`, `shift` by so many rows, or `frame` with this number.
    """

    kind: str
    value: int = 0


def window(builder: Builder, plan: Plan) -> Traced:
    """One job numbers the rows, one gives results, places and ends of frames."""
    below = builder.numbered(builder.of(children(plan)[0]))
    own = builder.bound(below.rows, below.columns, len(builder.sources))
    number = own.slots[0].column
    node, place, part, reaches, ends = _with_places(builder, plan, own.plan, number)
    columns = output_of(plan)
    table = builder.run(node, [*columns, number, place, part, *ends])
    numbers, places, parts, *frames = (one_array(each) for each in table.columns[len(columns) :])
    order = np.lexsort((places.to_numpy(), parts.to_numpy()))
    rows = table.select(range(len(columns))).take(pa.array(order))
    numbers, places, parts = (each.to_numpy()[order] for each in (numbers, places, parts))
    low, high = _frames(reaches, places, _sizes(parts), [each.take(pa.array(order)) for each in frames])
    starts = np.arange(len(order)) - (places - 1)
    origins = _origins(below.traced, plan, below.columns)
    source = builder.add(
        Segment(
            kind="window",
            label=", ".join(str(without_alias(each).sql()) for each in items(plan.windowExpressions())),
            sources=below.sources,
            ids=below.ids[numbers],
            begins=starts + low - 1,
            ends=starts + high,
            origins=origins,
            control=below.traced.control,
            own=np.arange(len(order), dtype=np.int64),
            passed=frozenset(expr_id(each) for each in below.columns),
            absences=below.traced.absences,
        )
    )
    bound = builder.bound(rows, columns, source)
    return Traced(bound.plan, bound.slots, columns_of(source, map(expr_id, columns), origins))


def _with_places(
    builder: Builder, plan: Plan, rows: Plan, number: Attribute
) -> tuple[Plan, Attribute, Attribute, list[_Reach], list[Attribute]]:
    """The window over numbered rows, with places, partitions, and ends of frames."""
    catalyst, expressions = builder.catalyst, builder.catalyst.expressions
    partition, functions = plan.partitionSpec(), builder.catalyst.expressions.aggregate
    ascending = catalyst.companion(f"{_EXPRESSIONS}.Ascending")
    sort = catalyst.companion(f"{_EXPRESSIONS}.SortOrder").apply(number, ascending, catalyst.seq([]))
    total = catalyst.seq([*items(plan.orderSpec()), sort])

    def over(function: Expression, order: object, end: str) -> Expression:
        frame = expressions.SpecifiedWindowFrame(
            catalyst.companion(f"{_EXPRESSIONS}.RowFrame"),
            catalyst.companion(f"{_EXPRESSIONS}.UnboundedPreceding"),
            catalyst.companion(f"{_EXPRESSIONS}.{end}"),
        )
        return expressions.WindowExpression(function, expressions.WindowSpecDefinition(partition, order, frame))

    place = catalyst.named(over(expressions.RowNumber(), total, "CurrentRow"), "__odf_place")
    placed = catalyst.logical.Window(catalyst.seq([place]), partition, total, rows, plan.hint())
    reaches: list[_Reach] = []
    ends: list[Expression] = []
    for call in _calls(plan):
        reach = _reach_of(call, len(ends))
        reaches.append(reach)
        if reach.kind == "frame":
            for function in (functions.Min, functions.Max):
                end = builder.aggregate(function(place.toAttribute()))
                ends.append(
                    catalyst.named(expressions.WindowExpression(end, call.windowSpec()), f"__odf_end{len(ends)}")
                )
    named = catalyst.seq([*items(plan.windowExpressions()), *ends])
    framed = catalyst.logical.Window(named, partition, plan.orderSpec(), placed, plan.hint())
    none = catalyst.seq([])
    first = over(builder.aggregate(functions.Min(number)), none, "UnboundedFollowing")
    part = catalyst.named(first, "__odf_part")
    whole = catalyst.logical.Window(catalyst.seq([part]), partition, none, framed, plan.hint())
    return whole, place.toAttribute(), part.toAttribute(), reaches, [each.toAttribute() for each in ends]


def _calls(plan: Plan) -> list[Expression]:
    parts = (part for each in items(plan.windowExpressions()) for part in walk_expression(without_alias(each)))
    return [part for part in parts if simple_name(part) == "WindowExpression"]


def _reach_of(call: Expression, frames: int) -> _Reach:
    function = call.windowFunction()
    if simple_name(function) == "AggregateExpression":
        function = function.aggregateFunction()
    name = simple_name(function)
    if name in _RANKS:
        return _Reach("before")
    if name in _OF_ALL or (name in _SHIFTS and function.ignoreNulls()):
        return _Reach("all")
    # The offset of a lag is negative already.
    return _Reach("shift", int(function.offset().eval(None))) if name in _SHIFTS else _Reach("frame", frames)


def _sizes(parts: Longs) -> Longs:
    """For each row, sorted by partition, the size of its partition."""
    _, inverse, counts = np.unique(parts, return_inverse=True, return_counts=True)
    sizes: Longs = counts[inverse]
    return sizes


def _frames(reaches: Sequence[_Reach], places: Longs, sizes: Longs, ends: Sequence[pa.Array]) -> tuple[Longs, Longs]:
    """The first and the last place that a row sees, itself included."""
    low, high = places.copy(), places.copy()
    for reach in reaches:
        match reach.kind:
            case "before":
                low = np.ones_like(low)
            case "all":
                low, high = np.ones_like(low), sizes.copy()
            case "shift":
                low = np.minimum(low, np.maximum(places + reach.value, 1))
                high = np.maximum(high, np.minimum(places + reach.value, sizes))
            case _:
                first, last = ends[reach.value], ends[reach.value + 1]
                seen = first.is_valid().to_numpy(zero_copy_only=False)
                low = np.where(seen, np.minimum(low, first.fill_null(1).to_numpy()), low)
                high = np.where(seen, np.maximum(high, last.fill_null(1).to_numpy()), high)
    return low.astype(np.int64), high.astype(np.int64)


def _origins(below: Traced, plan: Plan, columns: Sequence[Attribute]) -> dict[int, tuple[Origin, ...]]:
    """Where columns come from. What decides places decides values, and no row."""
    ordered = unique(
        origin
        for each in [*items(plan.orderSpec()), *items(plan.partitionSpec())]
        for origin in read_by(below, each, CellRole.COMPARED, by="WINDOW")
    )
    origins = {expr_id(column): below.origins.get(expr_id(column), ()) for column in columns}
    for named in items(plan.windowExpressions()):
        parts = walk_expression(without_alias(named))
        calls = [part.windowFunction() for part in parts if simple_name(part) == "WindowExpression"]
        computed = (origin for call in calls for origin in read_by(below, call, CellRole.COMPUTED, by="WINDOW"))
        origins[expr_id(named)] = unique([*computed, *ordered])
    return origins
