"""Inputs that are stored in the order in which a query takes their rows.

Owns when that can be: keys and order of a window, or of what is like one, are columns of the only scan of a stage, and what stands between
maps each row to one. Invariant: rows of one key of the scan are those of one partition. Not here: what follows for the rows that have to be
looked at (`top_n_scan`, `bounded_frames`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odfabric.formats.slices.canonical_rows import has_integers_in_order
from odfabric_engine_spark.operators.touched_keys.partial_read import OrderColumn, is_ordered_here
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.group_keys import can_be_key
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan, Subplan
from odfabric_engine_spark.plan.partitioning.stages import RowsStage
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.sql.constants.never_failing import never_fails

_OF_FLOATS = frozenset({"KnownFloatingPointNormalized", "NormalizeNaNAndZero"})
_ORDER_MAX = 3
"""Columns of an order that are stored once more; rows that tie in them are looked at together."""


@dataclass(frozen=True, slots=True)
class By:
    """A part of an order."""

    column: Expression
    descends: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class ScanOrder:
    """How rows of a scan are ordered: key columns, stored order and direction.

    Positions of the columns of their key, the columns that they are stored by first, and which way round.
    """

    keys: tuple[int, ...]
    order: tuple[OrderColumn, ...]
    greatest: bool


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """Rows with one value in all `keys` are taken in an order.

    `hides_rows`: what is not looked at is not mapped, so nothing may fail there.
    """

    keys: Sequence[Expression]
    order: Sequence[By]
    hides_rows: bool

    def columns(self) -> list[Expression]:
        """What is read of the rows, as far as that is known here."""
        return [*self.keys, *(each.column for each in self.order)]

    def reads(self, places: Mapping[int, int]) -> bool:
        """Whether keys, and by what rows are ordered first, are columns at known places."""
        return positions(self.keys, places) is not None and order_columns(self.order, places) is not None

    @property
    def can_read(self) -> bool:
        """Whether they are columns of what is below."""
        return self.reads(places_of([each for each in self.columns() if is_attribute(each)]))

    def of_scan(
        self, catalyst: Catalyst, below: Sequence[Plan], scan: StageScan, subplan: Subplan, order_max: int = _ORDER_MAX
    ) -> ScanOrder | None:
        """How rows of a scan below some nodes, highest first, are ordered.

        None if they do not lie so.
        """
        places = places_below(catalyst, below, scan.columns, must_not_fail=self.hides_rows)
        if places is None:
            return None
        keys = positions(self.keys, places)
        hashed = positions([each[scan] for each in subplan.components or ()], places_of(scan.columns))
        found = order_columns(self.order[:order_max], places)
        # Where others have fewer keys, rows of several keys of this one are found together.
        if keys is None or hashed is None or set(keys) != set(hashed) or found is None:
            return None
        return ScanOrder(tuple(keys), *found)


def order_of(window: Plan) -> list[By]:
    """The order of a window."""
    return [
        By(
            each.child(),
            simple_name(each.direction()) == "Descending",
            simple_name(each.nullOrdering()) == "NullsFirst",
        )
        for each in items(window.orderSpec())
    ]


def order_by_numbers(window: Plan) -> list[By]:
    """The same, empty unless it begins with a column ordered by integers."""
    order = order_of(window)
    if not order or not is_attribute(order[0].column) or not can_be_key(order[0].column):
        return []
    return order if has_integers_in_order(arrow_type(order[0].column)) else []


def only_scan(stage: RowsStage) -> tuple[StageScan, Subplan, list[Plan]] | None:
    """The only scan of a stage, with the nodes above it, highest first.

    None if the stage needs more than rows of a key.
    """
    if len(stage.scans) != 1 or len(stage.subplans) != 1 or stage.scans[0].ends:
        return None
    (scan,), (subplan,) = stage.scans, stage.subplans
    if subplan.always or subplan.wholes or subplan.components is None:
        return None
    found: list[Plan] = []
    plan = stage.plan
    while scan_alias(plan) is None and len(children(plan)) == 1:
        found.append(plan)
        (plan,) = children(plan)
    return scan, subplan, found


def places_of(columns: Sequence[Attribute]) -> dict[int, int]:
    """The positions of columns by id."""
    return {expr_id(column): position for position, column in enumerate(columns)}


def places_below(
    catalyst: Catalyst, projects: Sequence[Plan], columns: Sequence[Attribute], *, must_not_fail: bool
) -> dict[int, int] | None:
    """Positions of a scan's columns by their ids above some selections.

    The selections are in order, highest first.

    None if a row may fail there where it must not, or is dropped, or becomes several.
    """
    places = places_of(columns)
    for project in reversed(projects):
        if simple_name(project) != "Project":
            return None
        found: dict[int, int] = {}
        for named in items(project.projectList()):
            value = without_alias(named)
            if must_not_fail and not never_fails(catalyst, value):
                return None
            if is_attribute(value) and expr_id(value) in places:
                found[expr_id(named)] = places[expr_id(value)]
        places = found
    return places


def order_columns(order: Sequence[By], places: Mapping[int, int]) -> tuple[tuple[OrderColumn, ...], bool] | None:
    """First columns of an order as stored, and whether the greatest comes first."""
    found: list[OrderColumn] = []
    greatest = bool(order) and order[0].descends
    for each in order[:_ORDER_MAX]:
        column, inverted = each.column, each.descends != greatest
        if not is_attribute(column) or expr_id(column) not in places or not _is_ordered(column, inverted=inverted):
            break
        marks_nulls = bool(column.nullable()) and each.nulls_first == greatest
        found.append(OrderColumn(places[expr_id(column)], inverted, marks_nulls))
    return (tuple(found), greatest) if found else None


def positions(columns: Sequence[Expression], places: Mapping[int, int]) -> list[int] | None:
    """Of the columns among the parts of a key; None if one is computed.

    Constants tell nothing apart.
    """
    columns = [each for each in columns if simple_name(each) != "Literal"]
    found = [places.get(expr_id(each)) if is_attribute(each) else None for each in columns]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def without_normal(value: Expression) -> Expression:
    """A float that is brought to one zero and one NaN: states have those anyway."""
    while simple_name(value) in _OF_FLOATS:
        (value,) = children(value)
    return value


def _is_ordered(column: Attribute, *, inverted: bool) -> bool:
    return can_be_key(column) and is_ordered_here(arrow_type(column), inverted=inverted)
