"""Keys by which the inputs of a stage can be partitioned.

Owns the abstract values of the interpretation in `key_inference` and the tracing of expressions through them. A plan distributes
over a tuple of keys, one function of the row per scan, if it is the bag union over all key values of itself over the rows with
that value, and empty over nothing. Invariant: a component that this module finds is such a key, so fewer components are always
safe. Not here: which nodes give which values (`key_inference`). Source: docs/engine.md#keys-and-stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.group_keys import can_be_key
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    column_names,
    expr_id,
    is_attribute,
    references,
    without_alias,
)
from odfabric_engine_spark.spark.frames.local_rows import loose


@dataclass(eq=False)
class StageScan:
    """One place of a stage at which rows come in.

    Scans are distinguished by identity: columns of copies may share ids.

    `kind` is `input` (rows of the input `source`), `stage` (changes of the stage number `source`) or `constant`. `closes` is
    the instant at which a row becomes final, if the stage waits for it; `final` is that of a row which nothing waits for, under a
    finite lateness. `whole`: all its rows meet every key. `linear`: on the way to the result each of its rows is mapped alone.
    `joins_versions`: scans of which its rows meet only what is not later than they close, with the time of their rows. `version_side`: of such a scan, how.
    """

    kind: str
    source: str | int
    plan: Plan
    columns: tuple[Attribute, ...]
    closes: list[Expression] = field(default_factory=list)
    final: Expression | None = None
    whole: bool = False
    linear: bool = True
    joins_versions: dict[StageScan, Expression] = field(default_factory=dict)
    version_side: JoinedVersions | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """Its rows as they go from stage to stage."""
        return stage_schema(self.columns)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The names of its columns.

        The JVM is asked for them once: transactions read them.
        """
        return column_names(self.columns)

    @property
    def ends(self) -> list[Expression]:
        """The instant that a state keeps with its rows, if any."""
        return self.closes or ([] if self.final is None else [self.final])


@dataclass(frozen=True, slots=True)
class JoinedVersions:
    """Versions that rows of the scans `by`, and nothing else, look up.

    A row meets the last version of the same `keys` that is not later than the row closes.

    `keys` and `time` are over the row of a version; `conditions` are what one has to pass to be found.
    """

    by: tuple[StageScan, ...]
    keys: tuple[Expression, ...]
    time: Expression
    conditions: tuple[Expression, ...]


Component = dict[StageScan, Expression]
"""A key as an expression over the row of each scan of a subplan."""


@dataclass(slots=True)
class Subplan:
    """Scans that share keys.

    `components` None: every function of a row is a key, for each row is mapped alone.

    `wholes` are scans whose rows meet all keys. `always`: over nothing there is still a row. `matched` are positions of components by which
    rows are matched only: a row in which one of them is null meets no row of these scans.
    """

    scans: list[StageScan]
    components: list[Component] | None
    wholes: list[StageScan] = field(default_factory=list)
    always: bool = False
    matched: tuple[int, ...] = ()


@dataclass(slots=True)
class Node:
    """A plan node with its children, cut at scans.

    `bounded_part` is what it brings together by times of single rows.
    """

    plan: Plan
    children: list[Node]
    scan: StageScan | None = None
    bounded_part: TimeBoundedPart | None = None

    def scans(self) -> list[StageScan]:
        """From left to right."""
        if self.scan is not None:
            return [self.scan]
        return [scan for child in self.children for scan in child.scans()]


@dataclass(slots=True)
class Value:
    """A relation: its subplans, and where the values of its columns come from.

    `columns`: for a column id the expression over each contributing scan's row, for columns that are never made null by an
    outer join. `partly`: the same for those that one makes null in rows without a partner. `carried`: expressions over the
    relation's columns whose value is a component.
    """

    subplans: list[Subplan]
    columns: dict[int, Component]
    carried: list[tuple[Expression, Component]] = field(default_factory=list)
    partly: dict[int, Component] = field(default_factory=dict)

    @property
    def scans(self) -> list[StageScan]:
        """Scans that have keys."""
        return [scan for subplan in self.subplans for scan in subplan.scans]

    @property
    def all_scans(self) -> tuple[StageScan, ...]:
        """The same, and scans whose rows meet all keys."""
        return tuple(scan for subplan in self.subplans for scan in (*subplan.scans, *subplan.wholes))

    @property
    def free(self) -> bool:
        """Whether every row is mapped alone."""
        return all(subplan.components is None and not subplan.wholes for subplan in self.subplans)


class Tracer:
    """Traces expressions over a relation to expressions over the rows of its scans."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst

    def key(self, expression: Expression, value: Value) -> Component | None:
        """The expression as a component over all scans.

        Choosing rows of the relation by it chooses rows of each scan.
        """
        expression = without_alias(expression)
        if not expression.deterministic() or not can_be_key(expression):
            return None
        for known, component in value.carried:
            if expression.semanticEquals(known):
                return dict(component)
        found: Component = {}
        for subplan in value.subplans:
            own = self._key_of_subplan(expression, value, subplan)
            if own is None:
                return None
            found.update(own)
        return found

    def column(self, named: Expression, value: Value) -> Component | None:
        """Where a projected column's values come from, None if some have no origin."""
        if not named.deterministic():
            return None
        expression = without_alias(named)
        for known, component in value.carried:
            if expression.semanticEquals(known):
                return dict(component)
        if is_attribute(expression):
            return value.columns.get(expr_id(expression))
        found: Component = {}
        for subplan in value.subplans:
            domain = None if subplan.always else self._domain(expression, value, subplan)
            for scan in domain or ():
                over = self.over_scan(expression, value, scan)
                if over is None:
                    return None
                found[scan] = over
            if not domain:
                return None
        return found

    def over_scan(self, expression: Expression, value: Value, scan: StageScan) -> Expression | None:
        """The expression in terms of one scan's row."""
        if is_attribute(expression):
            return value.columns.get(expr_id(expression), {}).get(scan)
        below = children(expression)
        if not below:
            return expression
        replaced = [self.over_scan(child, value, scan) for child in below]
        if any(child is None for child in replaced):
            return None
        return expression.withNewChildren(self._catalyst.seq(replaced))

    def _key_of_subplan(self, expression: Expression, value: Value, subplan: Subplan) -> Component | None:
        found: Component = {}
        if subplan.components is None:
            for scan in subplan.scans:
                over = self.over_scan(expression, value, scan)
                if over is None:
                    return None
                found[scan] = over
            return found
        domain = None if subplan.always else self._domain(expression, value, subplan)
        if not domain:
            return None
        first = next(scan for scan in subplan.scans if scan in domain)
        over = self.over_scan(expression, value, first)
        if over is None:
            return None
        for scan in subplan.scans:
            rebuilt = self._rebuilt(over, subplan.components, first, scan)
            if rebuilt is None:
                return None
            found[scan] = rebuilt
        for scan in domain:
            own = self.over_scan(expression, value, scan)
            if own is None or not own.semanticEquals(found[scan]):
                return None
        return found

    def _domain(self, expression: Expression, value: Value, subplan: Subplan) -> set[StageScan] | None:
        """Scans of a subplan whose row suffices to compute the expression.

        They are the same ones for each of the expression's columns.
        """
        found: set[StageScan] | None = None
        whole = set(subplan.scans)
        for attribute in references(expression):
            component = value.columns.get(expr_id(attribute))
            own = set(component or ()) & whole
            if not own:
                return None
            if own == whole:
                continue
            if found is not None and found != own:
                return None
            found = own
        return whole if found is None else found

    def _rebuilt(
        self, expression: Expression, components: Sequence[Mapping[StageScan, Expression]], of: StageScan, to: StageScan
    ) -> Expression | None:
        """An expression over one scan that is made of components only, over another scan."""
        for component in components:
            if expression.semanticEquals(component[of]):
                return component[to]
        if is_attribute(expression):
            return None
        below = children(expression)
        if not below:
            return expression
        replaced = [self._rebuilt(child, components, of, to) for child in below]
        if any(child is None for child in replaced):
            return None
        return expression.withNewChildren(self._catalyst.seq(replaced))


def stage_schema(columns: Sequence[Attribute]) -> pa.Schema:
    """Columns of a relation between stages, known by position.

    What Spark gives back may be null where the query's plan says it is not.
    """
    return pa.schema([pa.field(f"c{index}", loose(arrow_type(column))) for index, column in enumerate(columns)])


@dataclass(frozen=True, slots=True)
class IntervalJoinRows:
    """Sides of a join.

    A row of the first has partners up to `waits_us[0]` later than itself, one of the second up to `waits_us[1]`.
    """

    sides: tuple[tuple[StageScan, ...], tuple[StageScan, ...]]
    waits_us: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SessionRows:
    """Rows cut into sessions, which end at most `gap_us` after their last row."""

    scans: tuple[StageScan, ...]
    gap_us: int


@dataclass(frozen=True, slots=True)
class VersionRows:
    """Rows that look up versions: of each key the last one before them.

    Versions that do not pass `conditions` are never found.
    """

    rows: tuple[StageScan, ...]
    versions: StageScan
    keys: tuple[Expression, ...]
    conditions: tuple[Expression, ...]


TimeBoundedPart = IntervalJoinRows | SessionRows | VersionRows


def note_finals(finals: Mapping[StageScan, Expression], scans: tuple[StageScan, ...]) -> bool:
    """Whether all scans have a final instant.

    Then each of them that nothing waits for knows it.
    """
    if any(scan not in finals or len(scan.closes) > 1 for scan in scans):
        return False
    for scan in scans:
        scan.final = finals[scan]
    return True
