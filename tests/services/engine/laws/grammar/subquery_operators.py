"""Random queries' operators that ask another relation for each row.

Semi joins, subqueries, LATERAL.

Owns one function per operator, as `general_operators` does.
"""

from __future__ import annotations

from dataclasses import replace

from tests.services.engine.laws.grammar.dialects import either, then
from tests.services.engine.laws.grammar.general_grammar import (
    LITERALS,
    NUMBERS,
    Composer,
    Item,
    Operator,
    Relation,
    together,
)


def _left_columns(c: Composer, x: Relation, source: str, **new: object) -> Relation:
    return c.select(x, [(f"l.{name}", kind) for name, kind in x.columns], source, event_time="l.event_time", **new)


def _semi(c: Composer, x: Relation, depth: int) -> Relation | None:
    """Semi and anti joins, IN, EXISTS and NOT EXISTS, also under OR."""
    y = c.other(x, depth)
    on = c.equal(x, y, near=False)
    if on is None:
        return None
    joins = [either("LEFT SEMI JOIN", "SEMI JOIN"), either("LEFT ANTI JOIN", "ANTI JOIN")]
    forms = [f"{x.text} l {join} {y.text} r ON {on}" for join in joins]
    forms += [f"{x.text} l WHERE {asked}" for asked in _null_aware_joins(c, x, y, on)]
    return _left_columns(c, x, c.r.choice(forms), **together(x, y))


def _null_aware_joins(c: Composer, x: Relation, y: Relation, on: str) -> list[str]:
    """Conditions of a row `l` of one relation which ask for rows of another."""
    exists = f"EXISTS (SELECT 1 FROM {y.text} r WHERE {on})"
    found = [exists, f"NOT {exists}", f"({exists} OR {c.condition(x, 'l.')})"]
    pairs = [(a, b, kind) for a, kind in x.firm for b, other in y.firm if kind == other]
    if pairs:
        a, b, kind = c.r.choice(pairs)
        members = f"IN (SELECT r.{b} FROM {y.text} r WHERE {c.condition(y, 'r.')}"
        found.append(f"l.{a} {members})")
        found += [f"l.{a} NOT {members})", f"NOT (l.{a} {members}) AND {c.condition(x, 'l.')})"]
        found.append(f"l.{a} NOT {members} AND {on})")
        if kind in LITERALS:
            default = LITERALS[kind][0]
            found.append(f"coalesce(l.{a}, {default}) NOT IN (SELECT coalesce(r.{b}, {default}) FROM {y.text} r)")
    return found


def _several(c: Composer, x: Relation, depth: int) -> Relation | None:
    """Several subqueries in one condition."""
    y, z = c.other(x, depth), c.other(x, depth)
    on, below = c.equal(x, y, near=False), c.some(x.of(*NUMBERS))
    if on is None or below is None:
        return None
    value, _ = _value_of(c, x, z)
    asked = c.r.choice(_null_aware_joins(c, x, y, on))
    condition = f"l.{below} <= {value} {c.r.choice(['AND', 'AND', 'OR'])} {asked}"
    return _left_columns(c, x, f"{x.text} l WHERE {condition}", **together(replace(x, **together(x, y)), z))  # type: ignore[arg-type]


def _value_of(c: Composer, x: Relation, y: Relation) -> Item:
    """A value that a row `l` of one relation has from rows of another."""
    r = c.r
    comparable = y.of(*NUMBERS)
    call, kind = ("count(*)", "bigint")
    if comparable and r.random() < 0.7:
        name = r.choice(comparable)
        call, kind = f"{r.choice(['max', 'min'])}(r.{name})", dict(y.columns)[name]
    pairs = [(a, b) for a, k in x.firm for b, other in y.firm if k == other]
    if pairs and r.random() < 0.7:
        a, b = r.choice(pairs)
        if comparable and r.random() < 0.25:
            name = r.choice(comparable)
            kind = dict(y.columns)[name]
            order = then("r.event_time", *(f"r.{each}" for each, _ in y.firm))
            first = r.choice(["LIMIT 1", "LIMIT 1", "LIMIT 1 OFFSET 1"])
            return f"(SELECT r.{name} FROM {y.text} r WHERE r.{b} = l.{a} ORDER BY r.{name} DESC{order} {first})", kind
        form = r.choice(["all", "all", "group", "row"])
        if form == "row":
            rows = f"(SELECT r.{b} AS b, {call} AS m FROM {y.text} r GROUP BY r.{b})"
            return f"(SELECT q.m FROM {rows} q WHERE q.b = l.{a})", kind
        group = f" GROUP BY r.{b}" if form == "group" else ""
        return f"(SELECT {call} FROM {y.text} r WHERE r.{b} = l.{a}{group})", kind
    return f"(SELECT {call} FROM {y.text} r)", kind


def _scalar(c: Composer, x: Relation, depth: int) -> Relation | None:
    """A scalar subquery, correlated or not, as a column or in a condition."""
    y = c.other(x, depth)
    subquery, kind = _value_of(c, x, y)
    below = x.of(*NUMBERS)
    if below and c.r.random() < 0.5:
        return _left_columns(c, x, f"{x.text} l WHERE l.{c.r.choice(below)} <= {subquery}", **together(x, y))
    items = [*((f"l.{name}", k) for name, k in x.columns), (subquery, kind)]
    return c.select(x, items, f"{x.text} l", event_time="l.event_time", **together(x, y))


def _beside(c: Composer, x: Relation, depth: int) -> Relation | None:
    """Rows of another relation for each row: all that match, the first, or a total."""
    y = c.other(x, depth)
    on, plain = c.equal(x, y, near=False), c.equal(x, y, near=False, computed=False)
    if on is None or plain is None or not y.firm:
        return None
    name, kind = c.r.choice(y.firm)
    order = then("r.event_time", *(f"r.{each}" for each, _ in y.firm))
    call = f"SELECT count(*) AS n, max(r.{name}) AS m FROM {y.text} r WHERE {on}"
    row = f"SELECT r.{name} AS m, r.event_time AS n FROM {y.text} r WHERE"
    rows = f"{row} {on}"
    # Plain Spark takes the first rows of all, not of each row, where one side of an equality is computed.
    first = f"{row} {plain} ORDER BY r.{c.r.choice(y.firm)[0]}{order} LIMIT {c.r.choice('12')}"
    join, end = c.r.choice([("JOIN", "ON TRUE"), ("LEFT JOIN", "ON TRUE"), ("CROSS JOIN", "")])
    text, counts = c.r.choice([(call, True), (rows, False), (first, False), (first, False)])
    if text == first:
        if y.inputs & {one.name for one in c.temporal}:
            return None
        c.limited |= y.inputs
    found = [("q.n", "bigint")] if counts else []
    items = [*((f"l.{each}", k) for each, k in x.columns), ("q.m", kind), *found]
    source = f"{x.text} l {join} LATERAL ({text}) q {end}"
    return c.select(x, items, source, event_time="l.event_time", **together(x, y))


SUBQUERIES: tuple[tuple[str, Operator], ...] = (
    ("semi", _semi),
    ("semi", _semi),
    ("scalar", _scalar),
    ("several", _several),
    ("beside", _beside),
)
