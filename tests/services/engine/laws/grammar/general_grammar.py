"""Random queries for the general engine's laws, of all incremental operators.

Owns the grammar. Every relation has an `event_time` and columns c0, c1, .. of known types, so that any operator can stand upon any other.
Invariant: the judges' text is determined: orders of windows are completed, and what depends on the order of float
additions ("approx") is never compared, grouped or joined by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from odfabric.model.metadata import TemporalTable
from tests.services.engine.laws.grammar.dialects import either, step
from tests.services.engine.laws.grammar.general_cases import Table

NUMBERS = ("int", "bigint", "decimal")
WHOLE = ("int", "bigint")
LITERALS = {"int": ["0", "1", "2"], "bigint": ["0", "1"], "decimal": ["0.5", "-1"], "string": ["'x'", "'y'", "''"]}

Column = tuple[str, str]
"""Name and type."""

Item = tuple[str, str]
"""Expression and type."""


@dataclass(frozen=True)
class Relation:
    """What can stand in FROM.

    `is_event_time`: whether its column `event_time` is one in the engine's sense, None if that can be disputed."""

    text: str
    columns: tuple[Column, ...]
    inputs: frozenset[str]
    times: str = "timestamp"
    is_event_time: bool | None = True
    operators: tuple[str, ...] = ()
    timed: bool = False
    identity: tuple[str, ...] | None = None
    row_wise: bool = True
    final_only: bool = False

    def of(self, *types: str) -> list[str]:
        return [name for name, kind in self.columns if kind in types]

    @property
    def firm(self) -> list[Column]:
        """Columns that can be compared."""
        return [column for column in self.columns if column[1] not in ("approx", "array", "struct")]

    @property
    def names(self) -> str:
        return ", ".join(["event_time", *(name for name, _ in self.columns)])


Operator = Callable[["Composer", Relation, int], Relation | None]


@dataclass
class Composer:
    """Puts operators upon relations at random."""

    r: Random
    tables: Sequence[Table]
    operators: Sequence[tuple[str, Operator]]
    steps: list[tuple[str, str]] = field(default_factory=list)
    temporal: list[TemporalTable] = field(default_factory=list)
    limited: set[str] = field(default_factory=set)
    """Inputs of which LATERAL takes the first rows: temporal tables are asked for versions only."""

    def relation(self, depth: int) -> Relation:
        if depth == 0 or self.r.random() < 0.08:
            return self.base()
        below = self.relation(depth - 1)
        for _ in range(12):
            name, operator = self.r.choice(self.operators)
            found = operator(self, below, depth)
            if found is not None:
                return self.hoisted(replace(found, operators=(*found.operators, name)))
        return below

    def base(self) -> Relation:
        table = self.r.choice(self.tables)
        columns = tuple(table.columns.items())
        names = ", ".join(["event_time", *table.columns])
        return Relation(f"(SELECT {names} FROM {table.alias})", columns, frozenset(table.alias), table.times)

    def other(self, below: Relation, depth: int) -> Relation:
        """A second operand: another relation, an input, or the same again."""
        chance = self.r.random()
        if chance < 0.2:
            return below
        return self.base() if chance < 0.7 else self.relation(depth - 1)

    def hoisted(self, made: Relation) -> Relation:
        """Now and then as a statement of its own."""
        if self.r.random() > 0.1 or not made.text.startswith("("):
            return made
        name = f"s{len(self.steps)}"
        self.steps.append((name, made.text[1:-1]))
        return replace(made, text=step(name))

    def some(self, options: Sequence[str]) -> str | None:
        return self.r.choice(options) if options else None

    def condition(self, of: Relation, prefix: str = "q.") -> str:
        """A predicate over columns."""
        r = self.r
        options = [f"{prefix}{name} IS NOT NULL" for name, _ in of.columns]
        for name in of.of(*WHOLE):
            options += [f"{prefix}{name} > {r.choice('01')}", f"{prefix}{name} <> 1", f"{prefix}{name} % 2 = 1"]
        options += [f"{prefix}{name} < 0.6" for name in of.of("decimal", "double")]
        options += [f"{prefix}{name} IN ('x', 'X')" for name in of.of("string")]
        options += [f"{prefix}{name} IS NOT TRUE" for name in of.of("bool")]
        options.append(f"{prefix}event_time >= {'DATE' if of.times == 'date' else 'TIMESTAMP'} '1970-01-01'")
        form = r.choice(["{0}", "{0}", "NOT ({0})", "({0} AND {1})", "({0} OR {1})"])
        return form.format(r.choice(options), r.choice(options))

    def value(self, of: Relation, prefix: str = "q.") -> Item:
        """Anything that can be a column."""
        plain = [(f"{prefix}{name}", kind) for name, kind in of.columns]
        options = [*plain, *plain, *plain]
        options += [(f"({prefix}{name} + 1)", kind) for name, kind in of.columns if kind in ("int", "decimal")]
        options += [(f"({prefix}{name} % 3)", kind) for name, kind in of.columns if kind in WHOLE]
        options += [(f"upper({prefix}{name})", "string") for name in of.of("string")]
        options += [
            (f"coalesce({prefix}{name}, {LITERALS[kind][0]})", kind) for name, kind in of.columns if kind in LITERALS
        ]
        options += [(f"{prefix}{name}.n", "int") for name in of.of("struct")]
        options += [("1", "int"), ("'x'", "string")]
        return self.r.choice(options)

    def equal(self, left: Relation, right: Relation, *, near: bool, computed: bool = True) -> str | None:
        """A condition of a join: an equality or two, and now and then more.

        `near`: whether it may bound one event time by the other. Then rows without a partner would wait, which named shapes judge.
        `computed`: whether a side may be more than a column.
        """
        r = self.r
        pairs = [(a, b, kind) for a, kind in left.firm for b, other in right.firm if kind == other]
        if not pairs:
            return None
        found = []
        for a, b, kind in r.sample(pairs, min(len(pairs), r.choice([1, 1, 1, 2]))):
            forms = [f"l.{a} = r.{b}"] * 4 + [f"l.{a} {either('<=>', 'IS NOT DISTINCT FROM')} r.{b}"]
            if kind in LITERALS and computed:
                forms.append(f"coalesce(l.{a}, {LITERALS[kind][0]}) = r.{b}")
            found.append(r.choice(forms))
        if r.random() < 0.12 and left.times == right.times and computed:
            found = [
                r.choice(
                    [
                        "l.event_time = r.event_time",
                        "date_trunc('HOUR', l.event_time) = date_trunc('HOUR', r.event_time)",
                    ]
                )
            ]
        if r.random() < 0.3:
            found.append(self.residual(left, right, near=near))
        return " AND ".join(found)

    def residual(self, left: Relation, right: Relation, *, near: bool) -> str:
        r = self.r
        options = [self.condition(left, "l."), self.condition(right, "r.")]
        if near and left.times == right.times == "timestamp":
            within = "r.event_time BETWEEN l.event_time - INTERVAL 1 HOUR AND l.event_time + INTERVAL 30 MINUTE"
            options += [within, "l.event_time < r.event_time"]
        options += [f"l.{a} <= r.{b}" for a in left.of(*NUMBERS) for b in right.of(*NUMBERS)]
        return r.choice(options)

    def select(
        self,
        below: Relation,
        items: Sequence[Item],
        source: str,
        *,
        event_time: str = "q.event_time",
        tail: str = "",
        **new: object,
    ) -> Relation:
        """A relation of these columns."""
        shown = [f"{event_time} AS event_time", *(f"{expression} AS c{i}" for i, (expression, _) in enumerate(items))]
        columns = tuple((f"c{i}", kind) for i, (_, kind) in enumerate(items))
        text = f"(SELECT {', '.join(shown)} FROM {source}{tail})"
        known: dict[str, object] = {"text": text, "columns": columns, "identity": None, "final_only": False}
        return replace(below, **{**known, **new})  # type: ignore[arg-type]


def together(one: Relation, other: Relation) -> dict[str, object]:
    """What a relation over two others has of both."""
    return {
        "inputs": one.inputs | other.inputs,
        "operators": (*one.operators, *other.operators),
        "timed": one.timed or other.timed,
        "row_wise": False,
    }
