"""What is known of a relation while keys are inferred: which leaves make its rows, and by what they can be told apart.

Owns the abstract values of the interpretation in `key_inference` and the tracing of expressions through them. A plan distributes
over a tuple of keys, one function of the row per leaf, if it is the bag union over all key values of itself over the rows with
that value, and empty over nothing. Invariant: a component that this module finds is such a key, so fewer components are always
safe. Not here: which nodes give which values (`key_inference`). Source: incremental method, section 2.
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
    expr_id,
    is_attribute,
    references,
    without_alias,
)
from odfabric_engine_spark.spark.frames.local_rows import loose


@dataclass(eq=False)
class StageLeaf:
    """One place of a stage at which rows come in. Leaves are told apart by identity: columns of copies may share ids.

    `kind` is `input` (rows of the input `source`), `stage` (changes of the stage number `source`) or `constant`. `closes` is
    the instant at which a row becomes final, if the stage waits for it; `final` is that of a row which nothing waits for, under a
    finite lateness. `whole`: all its rows meet every key. `linear`: on the way to the result each of its rows is mapped alone.
    `looks_up`: leaves of which its rows meet only what is not later than they close, with the time of their rows. `looked_up`: of such a leaf, how.
    """

    kind: str
    source: str | int
    plan: Plan
    columns: tuple[Attribute, ...]
    closes: list[Expression] = field(default_factory=list)
    final: Expression | None = None
    whole: bool = False
    linear: bool = True
    looks_up: dict[StageLeaf, Expression] = field(default_factory=dict)
    looked_up: LookedUp | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """Its rows as they go from stage to stage."""
        return stage_schema(self.columns)

    @property
    def ends(self) -> list[Expression]:
        """The instant that a state keeps with its rows, if any."""
        return self.closes or ([] if self.final is None else [self.final])


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Versions: rows of the leaves `by` meet the last one of the same `keys` that is not later than they close, and nothing else reads them.

    `keys` and `time` are over the row of a version; `conditions` are what one has to pass to be found.
    """

    by: tuple[StageLeaf, ...]
    keys: tuple[Expression, ...]
    time: Expression
    conditions: tuple[Expression, ...]


Component = dict[StageLeaf, Expression]
"""A key as an expression over the row of each leaf of an island."""


@dataclass(slots=True)
class Island:
    """Leaves that share keys. `components` None: every function of a row is a key, for each row is mapped alone.

    `wholes` are leaves whose rows meet all keys. `always`: over nothing there is still a row. `matched` are positions of components by which
    rows are matched only: a row in which one of them is null meets no row of these leaves.
    """

    leaves: list[StageLeaf]
    components: list[Component] | None
    wholes: list[StageLeaf] = field(default_factory=list)
    always: bool = False
    matched: tuple[int, ...] = ()


@dataclass(slots=True)
class Node:
    """A plan node with its children, cut at leaves; `core` is what it brings together by times of single rows."""

    plan: Plan
    children: list[Node]
    leaf: StageLeaf | None = None
    core: Core | None = None

    def leaves(self) -> list[StageLeaf]:
        """From left to right."""
        if self.leaf is not None:
            return [self.leaf]
        return [leaf for child in self.children for leaf in child.leaves()]


@dataclass(slots=True)
class Value:
    """A relation: its islands, and where the values of its columns come from.

    `columns`: for a column id the expression over each contributing leaf's row, for columns that are never made null by an
    outer join. `partly`: the same for those that one makes null in rows without a partner. `carried`: expressions over the
    relation's columns whose value is a component.
    """

    islands: list[Island]
    columns: dict[int, Component]
    carried: list[tuple[Expression, Component]] = field(default_factory=list)
    partly: dict[int, Component] = field(default_factory=dict)

    @property
    def leaves(self) -> list[StageLeaf]:
        """Leaves that have keys."""
        return [leaf for island in self.islands for leaf in island.leaves]

    @property
    def all_leaves(self) -> tuple[StageLeaf, ...]:
        """The same, and leaves whose rows meet all keys."""
        return tuple(leaf for island in self.islands for leaf in (*island.leaves, *island.wholes))

    @property
    def free(self) -> bool:
        """Whether every row is mapped alone."""
        return all(island.components is None and not island.wholes for island in self.islands)


class Tracer:
    """Traces expressions over a relation to expressions over the rows of its leaves."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst

    def key(self, expression: Expression, value: Value) -> Component | None:
        """The expression as a component over all leaves: choosing rows of the relation by it chooses rows of each leaf."""
        expression = without_alias(expression)
        if not expression.deterministic() or not can_be_key(expression):
            return None
        for known, component in value.carried:
            if expression.semanticEquals(known):
                return dict(component)
        found: Component = {}
        for island in value.islands:
            own = self._key_of_island(expression, value, island)
            if own is None:
                return None
            found.update(own)
        return found

    def column(self, named: Expression, value: Value) -> Component | None:
        """Where a projected column's values come from, None if some row has them from nowhere."""
        if not named.deterministic():
            return None
        expression = without_alias(named)
        for known, component in value.carried:
            if expression.semanticEquals(known):
                return dict(component)
        if is_attribute(expression):
            return value.columns.get(expr_id(expression))
        found: Component = {}
        for island in value.islands:
            domain = None if island.always else self._domain(expression, value, island)
            for leaf in domain or ():
                over = self.over_leaf(expression, value, leaf)
                if over is None:
                    return None
                found[leaf] = over
            if not domain:
                return None
        return found

    def over_leaf(self, expression: Expression, value: Value, leaf: StageLeaf) -> Expression | None:
        """The expression in terms of one leaf's row."""
        if is_attribute(expression):
            return value.columns.get(expr_id(expression), {}).get(leaf)
        below = children(expression)
        if not below:
            return expression
        replaced = [self.over_leaf(child, value, leaf) for child in below]
        if any(child is None for child in replaced):
            return None
        return expression.withNewChildren(self._catalyst.seq(replaced))

    def _key_of_island(self, expression: Expression, value: Value, island: Island) -> Component | None:
        found: Component = {}
        if island.components is None:
            for leaf in island.leaves:
                over = self.over_leaf(expression, value, leaf)
                if over is None:
                    return None
                found[leaf] = over
            return found
        domain = None if island.always else self._domain(expression, value, island)
        if not domain:
            return None
        first = next(leaf for leaf in island.leaves if leaf in domain)
        over = self.over_leaf(expression, value, first)
        if over is None:
            return None
        for leaf in island.leaves:
            rebuilt = self._rebuilt(over, island.components, first, leaf)
            if rebuilt is None:
                return None
            found[leaf] = rebuilt
        for leaf in domain:
            own = self.over_leaf(expression, value, leaf)
            if own is None or not own.semanticEquals(found[leaf]):
                return None
        return found

    def _domain(self, expression: Expression, value: Value, island: Island) -> set[StageLeaf] | None:
        """Leaves of an island from whose row the expression can be computed, the same ones for each of its columns."""
        found: set[StageLeaf] | None = None
        whole = set(island.leaves)
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
        self, expression: Expression, components: Sequence[Mapping[StageLeaf, Expression]], of: StageLeaf, to: StageLeaf
    ) -> Expression | None:
        """An expression over one leaf that is made of components only, over another leaf."""
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
    """Columns of a relation between stages, known by position. What Spark gives back may be null where the query's plan says it is not."""
    return pa.schema([pa.field(f"c{index}", loose(arrow_type(column))) for index, column in enumerate(columns)])


@dataclass(frozen=True, slots=True)
class PartnerRows:
    """Sides of a join. A row of the first has partners up to `waits_us[0]` later than itself, one of the second up to `waits_us[1]`."""

    sides: tuple[tuple[StageLeaf, ...], tuple[StageLeaf, ...]]
    waits_us: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SessionRows:
    """Rows that are cut into sessions, which end `gap_us` after their last row at most."""

    leaves: tuple[StageLeaf, ...]
    gap_us: int


@dataclass(frozen=True, slots=True)
class VersionRows:
    """Rows that look up versions: of each key the last one before them. Versions that do not pass `conditions` are never found."""

    rows: tuple[StageLeaf, ...]
    versions: StageLeaf
    keys: tuple[Expression, ...]
    conditions: tuple[Expression, ...]


Core = PartnerRows | SessionRows | VersionRows


def note_finals(finals: Mapping[StageLeaf, Expression], leaves: tuple[StageLeaf, ...]) -> bool:
    """Whether all leaves have a final instant; then each of them that nothing waits for knows it."""
    if any(leaf not in finals or len(leaf.closes) > 1 for leaf in leaves):
        return False
    for leaf in leaves:
        leaf.final = finals[leaf]
    return True
