"""Random nested, correlated subqueries: EXISTS, IN, values and LATERAL.

Owns the texts; what they mean is asked of Spark (`test_nested_subqueries`). They read the inputs of `normalising`. A statement may be
one that Spark, or a normal plan, cannot take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

_TABLES: Mapping[str, Mapping[str, str]] = {
    "a": {"k": "number", "z": "text", "v": "number", "n": "number"},
    "b": {"k": "number", "z": "text", "w": "number", "n": "number"},
    "c": {"z": "text", "x": "number"},
}
_LITERALS = {"number": ["0", "1", "2", "4", "7"], "text": ["'x'", "'y'"]}


@dataclass(frozen=True)
class _Relation:
    """A relation of FROM, and its qualified columns by kind."""

    text: str
    columns: Mapping[str, str]

    def of(self, kind: str) -> list[str]:
        return [name for name, each in self.columns.items() if each == kind]


class NestedSubqueries:
    """Makes statements; the same random numbers make the same ones."""

    def __init__(self, random: Random) -> None:
        self._r = random
        self._names = 0

    def statement(self) -> str:
        """A query over `a` which asks for other rows in one or two places."""
        relation, depth = self._relation(None, depth=self._r.choice([0, 0, 1, 2])), self._r.choice([2, 2, 3])
        items = [f"{column} c{index}" for index, column in enumerate(relation.columns)]
        if self._r.random() < 0.4:
            items.append(f"{self._value(relation, depth)} s")
        if self._r.random() < 0.2:
            items.append(f"{self._condition(relation, depth)} f")
        where = f" where {self._condition(relation, depth)}" if self._r.random() < 0.7 else ""
        return f"select {', '.join(items)} from {relation.text}{where}"

    def _named(self) -> str:
        self._names += 1
        return f"q{self._names}"

    def _relation(self, outer: _Relation | None, depth: int) -> _Relation:
        """A table, a query over one, or one with rows of another beside each of its rows."""
        chance = self._r.random()
        first = self._table() if chance < 0.5 or depth == 0 else self._derived(outer, depth)
        if depth < 2 or self._r.random() < 0.6:
            return first
        rows = self._rows(first, depth - 1)
        name = self._named()
        join, end = self._r.choice([("cross join", ""), ("left join", " on true"), ("join", " on true")])
        text = f"{first.text} {join} lateral ({rows.text}) {name}{end}"
        return _Relation(text, {**first.columns, **{f"{name}.{each}": kind for each, kind in rows.columns.items()}})

    def _table(self) -> _Relation:
        table, name = self._r.choice(list(_TABLES)), self._named()
        return _Relation(f"{table} {name}", {f"{name}.{each}": kind for each, kind in _TABLES[table].items()})

    def _derived(self, outer: _Relation | None, depth: int) -> _Relation:
        rows, name = self._rows(outer, depth - 1), self._named()
        return _Relation(f"({rows.text}) {name}", {f"{name}.{each}": kind for each, kind in rows.columns.items()})

    def _rows(self, outer: _Relation | None, depth: int) -> _Relation:
        """A query with two columns, which may read a row outside of it."""
        below = self._relation(outer, depth)
        where = self._where(below, outer, depth)
        number, text = self._number(below, outer, depth), self._r.choice(below.of("text") or ["'x'"])
        form = self._r.choice(["plain", "plain", "plain", "grouped", "distinct", "all", "both"])
        columns = {"u": "number", "t": "text"}
        if form == "all":
            call = self._r.choice(["count(*)", f"sum({number})", f"max({number})"])
            return _Relation(f"select {call} u, min({text}) t from {below.text}{where}", columns)
        if form == "grouped":
            call = self._r.choice(["count(*)", f"sum({number})", f"max({number})"])
            return _Relation(f"select {call} u, {text} t from {below.text}{where} group by {text}", columns)
        plain = f"select {number} u, {text} t from {below.text}{where}"
        if form == "both":
            other = self._table()
            more = f"select {self._r.choice(other.of('number'))}, {self._r.choice(other.of('text'))} from {other.text}"
            kind = self._r.choice(["union all", "union", "except", "intersect"])
            return _Relation(f"{plain} {kind} {more}{self._where(other, outer, 0)}", columns)
        return _Relation(plain.replace("select", "select distinct", 1) if form == "distinct" else plain, columns)

    def _number(self, below: _Relation, outer: _Relation | None, depth: int) -> str:
        own = self._r.choice(below.of("number"))
        if outer is not None and self._r.random() < 0.35:
            return f"{own} + {self._r.choice(outer.of('number'))}"
        if depth > 0 and self._r.random() < 0.2:
            return self._value(below, depth - 1)
        return own

    def _where(self, below: _Relation, outer: _Relation | None, depth: int) -> str:
        asked = [self._correlated(below, outer)] if outer is not None and self._r.random() < 0.85 else []
        if outer is not None and self._r.random() < 0.3:
            asked.append(self._correlated(below, outer))
        if depth > 0 and self._r.random() < 0.5:
            asked.append(self._condition(below, depth))
        if self._r.random() < 0.2:
            asked.append(self._simple(below))
        return f" where {' and '.join(asked)}" if asked else ""

    def _correlated(self, below: _Relation, outer: _Relation) -> str:
        kinds = [kind for kind in ("number", "text") if below.of(kind) and outer.of(kind)]
        kind = self._r.choice(kinds)
        sign = self._r.choice(["=", "=", "=", "=", "<", ">=", "<>", "<=>"])
        return f"{self._r.choice(below.of(kind))} {sign} {self._r.choice(outer.of(kind))}"

    def _simple(self, of: _Relation) -> str:
        column, kind = self._r.choice(list(of.columns.items()))
        test = self._r.choice(["is null", "is not null", f"= {self._r.choice(_LITERALS[kind])}"])
        return f"{column} {test}"

    def _condition(self, of: _Relation, depth: int) -> str:
        """What rows of a relation ask of rows of another."""
        form = self._r.choice(["exists", "exists", "not exists", "in", "not in", "value", "value", "or", "not"])
        if form in ("exists", "not exists"):
            return f"{form} ({self._rows(of, depth - 1).text})"
        if form in ("in", "not in"):
            rows = self._rows(of, depth - 1)
            return f"{self._r.choice(of.of('number'))} {form} (select u from ({rows.text}) {self._named()})"
        if form == "value":
            value = self._value(of, depth - 1)
            made = self._r.choice([f"coalesce({value}, 1)", value])
            return f"{self._r.choice(of.of('number'))} {self._r.choice(['<=', '=', '>'])} {made}"
        if form == "or":
            return f"({self._simple(of)} or {self._condition(of, depth - 1)})" if depth > 1 else self._simple(of)
        return f"not ({self._condition(of, depth - 1)})" if depth > 1 else f"not ({self._simple(of)})"

    def _value(self, of: _Relation, depth: int) -> str:
        """What rows that go with a row come to."""
        below = self._relation(of, max(depth - 1, 0))
        number = self._r.choice(below.of("number"))
        call = self._r.choice(["count(*)", f"sum({number})", f"max({number})", f"min({number})", f"count({number})"])
        return f"(select {call} from {below.text}{self._where(below, of, depth)})"
