"""Groups: a row of an aggregate is the sum of the rows of its group.

Owns which rows a group has, and from which of them a result was taken: those with the greatest or least value. Source:
docs/engine.md#provenance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array
from odfabric.model.provenance import CellRole
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.plan.group_keys import has_bytes
from odfabric_engine_spark.provenance.circuit.builder import (
    Builder,
    Traced,
    columns_of,
    id_matrix,
    origins_of,
    read_by,
    unique,
)
from odfabric_engine_spark.provenance.circuit.terms import Origin, Segment
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    output_of,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.state.key_hash import key_bytes

_EXTREMES = frozenset({"Max", "Min"})
_EXTREMES_BY = {"MaxBy": "Max", "MinBy": "Min"}


@dataclass(slots=True)
class _Given:
    """Values of each member by which it is known whether a result was taken from it.

    `pairs` are positions (member value, group value) that have to be equal.
    """

    members: list[Expression] = field(default_factory=list)
    extra: list[Expression] = field(default_factory=list)
    pairs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


def aggregate(builder: Builder, plan: Plan) -> Traced:
    """One job gives the groups, their results, and the rows of each."""
    below = builder.of(children(plan)[0])
    catalyst = builder.catalyst
    grouping, named = items(plan.groupingExpressions()), items(plan.aggregateExpressions())
    given = _given_by(builder, named)
    extra = [catalyst.named(builder.aggregate(each), f"__odf_extreme{at}") for at, each in enumerate(given.extra)]
    numbers = [slot.column for slot in below.slots]
    member = catalyst.struct([*numbers, *given.members] or [catalyst.literal_true()])
    rows_of_group = catalyst.jvm.org.apache.spark.sql.catalyst.expressions.aggregate.CollectList(member, 0, 0, True)
    listed = catalyst.named(builder.aggregate(rows_of_group), "__odf_members")
    node = catalyst.logical.Aggregate(
        plan.groupingExpressions(), catalyst.seq([*named, *extra, listed]), below.plan, plan.hint()
    )
    columns = output_of(plan)
    table = builder.run(node, output_of(node))
    members, begins, ends = _flat(one_array(table.columns[-1]))
    values = [members.field(at) for at in range(len(numbers), len(numbers) + len(given.members))]
    origins = {expr_id(each): _origins(below, each) for each in named}
    segment = Segment(
        kind="group",
        label="group by " + (", ".join(str(each.sql()) for each in grouping) or "nothing"),
        sources=tuple(slot.source for slot in below.slots),
        ids=id_matrix([members.field(at) for at in range(len(numbers))], len(members)),
        begins=begins,
        ends=ends,
        origins=origins,
        control=unique(
            [
                *below.control,
                *(each for key in grouping for each in read_by(below, key, CellRole.COMPARED, by="GROUP_BY")),
            ]
        ),
        given={
            column: _taken(pairs, values, table.columns, np.repeat(np.arange(len(begins)), ends - begins))
            for column, pairs in given.pairs.items()
        },
        absences=below.absences,
    )
    source = builder.add(segment)
    bound = builder.bound(table.select(range(len(columns))), columns, source)
    return Traced(bound.plan, bound.slots, columns_of(source, map(expr_id, columns), origins))


def _flat(lists: pa.ListArray) -> tuple[pa.StructArray, Longs, Longs]:
    """Members of all groups, and where those of each begin and end."""
    bounds = lists.offsets.to_numpy().astype(np.int64)
    bounds = bounds - bounds[0]
    return lists.flatten(), bounds[:-1], bounds[1:]


def _given_by(builder: Builder, named: Sequence[Expression]) -> _Given:
    found = _Given()
    functions = builder.catalyst.expressions.aggregate
    for at, each in enumerate(named):
        call = without_alias(each)
        if simple_name(call) != "AggregateExpression" or call.filter().isDefined():
            continue
        function = call.aggregateFunction()
        name, arguments = simple_name(function), children(function)
        if name in _EXTREMES and has_bytes(arguments[0]):
            found.pairs[expr_id(each)] = [(len(found.members), at)]
            found.members.append(arguments[0])
        elif name in _EXTREMES_BY and all(map(has_bytes, arguments[:2])):
            value, order = arguments[:2]
            extreme = len(named) + len(found.extra)
            found.pairs[expr_id(each)] = [(len(found.members), at), (len(found.members) + 1, extreme)]
            found.members += [value, order]
            found.extra.append(getattr(functions, _EXTREMES_BY[name])(order))
    return found


def _taken(
    pairs: Sequence[tuple[int, int]], members: Sequence[pa.Array], results: Sequence[pa.ChunkedArray], groups: Longs
) -> Mask:
    """Members whose values are those of the group.

    The last pair must not be null: a null is never the greatest.
    """
    found = np.ones(len(groups), dtype=bool)
    for member, result in pairs:
        own, wanted = key_bytes([members[member]]), key_bytes([one_array(results[result])]).take(pa.array(groups))
        found &= pc.equal(own, wanted).to_numpy(zero_copy_only=False)
    valid: Mask = members[pairs[-1][0]].is_valid().to_numpy(zero_copy_only=False)
    return found & valid


def _origins(below: Traced, named: Expression) -> tuple[Origin, ...]:
    """What a result is made of: of a greatest value its rows' values as they are."""
    call = without_alias(named)
    if is_attribute(call):
        return origins_of(below, call)
    if simple_name(call) != "AggregateExpression":
        return read_by(below, call, CellRole.COMPUTED, by="AGGREGATION")
    function, filtered = call.aggregateFunction(), call.filter().isDefined()
    conditions = read_by(below, call.filter().get(), CellRole.COMPARED, by="CONDITIONAL") if filtered else ()
    name, arguments = simple_name(function), children(function)
    least = CellRole.COMPUTED if filtered else CellRole.COPIED
    if name in _EXTREMES:
        return unique([*origins_of(below, arguments[0], least=least), *conditions])
    if name in _EXTREMES_BY:
        order = read_by(below, arguments[1], CellRole.COMPARED, by="SORT")
        return unique([*origins_of(below, arguments[0], least=least), *order, *conditions])
    return unique([*read_by(below, function, CellRole.COMPUTED, by="AGGREGATION"), *conditions])
