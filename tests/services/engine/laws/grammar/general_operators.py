"""The operators of the grammar of random queries, and cases made of them.

Owns one function per operator: a relation in, a relation out, or None where its columns do not fit. Invariant: as in
`general_grammar`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from odfabric.model.metadata import TemporalTable
from tests.services.engine.laws.grammar.aggregate_calls import of_two_columns
from tests.services.engine.laws.grammar.dialects import END_OF_SESSION, either, final, step, then
from tests.services.engine.laws.grammar.general_cases import GeneralCase, GeneralQuery, Table, case_of
from tests.services.engine.laws.grammar.general_grammar import (
    LITERALS,
    NUMBERS,
    WHOLE,
    Column,
    Composer,
    Item,
    Operator,
    Relation,
    together,
)
from tests.services.engine.laws.grammar.subquery_operators import SUBQUERIES
from tests.services.engine.laws.grammar.window_operators import WINDOWS

EVENT_TIME_LAST = 0.25
"""Share of queries that name the event time after all other columns."""


def composed_case(number: int, history: int = 0) -> GeneralCase:
    """The case of a number; `history` chooses another changelog for the same query."""
    r = Random(number)
    tables = _tables(r)
    composer = Composer(r, tables, OPERATORS)
    made = composer.relation(r.choice([1, 2, 2, 3]))
    while not made.operators:
        made = composer.relation(2)
    used = [table for table in tables if table.alias in made.inputs]
    text = made.text[1:-1] if made.text.startswith("(") else f"SELECT * FROM {made.text}"
    if r.random() < 0.15 and made.text.startswith("("):
        text = f"WITH w0 AS {made.text} SELECT * FROM w0"
    elif Random(f"{number} event time").random() < EVENT_TIME_LAST:
        text = f"SELECT {', '.join([*(name for name, _ in made.columns), 'event_time'])} FROM {made.text} q"
    query = GeneralQuery(
        "composed",
        text,
        made.operators,
        steps=_used_steps(text, composer.steps),
        temporal=tuple(each for each in composer.temporal if each.name in made.inputs),
        identity=made.identity,
        one_row_each=made.identity is not None,
        final_only=made.final_only,
        row_wise=made.row_wise,
    )
    return case_of(Random(f"{number} {history}") if history else r, query, used)


def _used_steps(text: str, steps: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The statements that a text needs: operands that did not fit have left others."""
    kept: list[tuple[str, str]] = []
    for name, body in reversed(steps):
        if step(name) in text + "".join(later for _, later in kept):
            kept.insert(0, (name, body))
    return tuple(kept)


def _tables(r: Random) -> tuple[Table, ...]:
    """Three inputs with equal types of first columns, to be joined and united."""
    keys = r.choice(["int", "int", "string", "string", "bigint", "decimal", "double", "bool", "date"])
    others = r.choice(["string", "int", "date", "timestamp", "double"])
    values = r.choice(["int", "int", "bigint", "decimal", "double"])
    rest = r.choice([None, None, "array", "struct", "double", "bool"])
    times = r.choice(["timestamp"] * 7 + ["date"])
    found = []
    for alias in "abc":
        kinds = [keys, others, values, *([rest] if rest and r.random() < 0.7 else [])]
        kinds = kinds[:2] if r.random() < 0.25 else kinds
        found.append(Table(alias, {f"c{i}": kind for i, kind in enumerate(kinds)}, times))
    return tuple(found)


# Row by row


def _filter(c: Composer, x: Relation, _: int) -> Relation:
    ordered = f"(SELECT o.* FROM {x.text} o ORDER BY o.event_time DESC)" if c.r.random() < 0.1 else x.text
    return replace(x, text=f"(SELECT {x.names} FROM {ordered} q WHERE {c.condition(x)})")


def _project(c: Composer, x: Relation, _: int) -> Relation:
    items = [c.value(x) for _ in range(c.r.choice([1, 2, 3]))]
    if c.r.random() < 0.7 or x.times == "date":
        return c.select(x, items, f"{x.text} q")
    unit = c.r.choice(["HOUR", "DAY"])
    return c.select(x, items, f"{x.text} q", event_time=f"date_trunc('{unit}', q.event_time)", is_event_time=False)


def _explode(c: Composer, x: Relation, _: int) -> Relation | None:
    arrays = x.of("array")
    if arrays:
        made, kind = f"q.{arrays[0]}", "int"
    else:
        pairs = [(a, b, k) for a, k in x.firm for b, other in x.firm if k == other and a != b]
        if not pairs:
            return None
        one, other, kind = c.r.choice(pairs)
        made = f"array(q.{one}, q.{other})"
    view = c.r.choice(["LATERAL VIEW", "LATERAL VIEW", "LATERAL VIEW OUTER"])
    kept = [(f"q.{name}", k) for name, k in x.columns if k != "array"][:2]
    # DuckDB loses rows where a condition is pushed below unnest.
    return c.select(x, [("piece", kind), *kept], either(f"{x.text} q {view} explode({made}) e AS piece", None))


# Aggregates


def calls(c: Composer, x: Relation) -> list[Item]:
    """One to three uses of aggregate functions."""
    r = c.r
    options: list[Item] = [("count(*)", "bigint")]
    for name, kind in x.columns:
        column = f"q.{name}"
        options.append((f"count({column})", "bigint"))
        if kind in (*NUMBERS, "double"):
            total = "approx" if kind == "double" else "decimal" if kind == "decimal" else "bigint"
            options += [(f"sum({column})", total), (f"avg({column})", "approx")]
        if kind in WHOLE:
            options.append((either(f"percentile({column}, 0.5)", f"quantile_cont({column}, 0.5)"), "approx"))
            options += [(f"bit_xor({column})", kind), (either(f"mode({column}, true)", None), kind)]
        if kind not in ("approx", "array", "struct"):
            options += [(f"min({column})", kind), (f"max({column})", kind), (f"count(DISTINCT {column})", "bigint")]
            all_of_them = either(f"size(sort_array(collect_set({column})))", f"count(DISTINCT {column})")
            options.append((all_of_them, "int"))
        if kind == "bool":
            options += [(f"bool_and({column})", "bool"), (f"bool_or({column})", "bool")]
    options += of_two_columns(c, x)
    found = [r.choice(options) for _ in range(r.choice([1, 1, 2, 3]))]
    if any("listagg" in call for call, _ in found):
        return [each for each in found if "DISTINCT" not in each[0]]  # beside several of these Spark fails
    if r.random() < 0.2 and "[[" not in found[0][0]:
        found[0] = (f"{found[0][0]} FILTER (WHERE {c.condition(x)})", found[0][1])
    return found


def _keys(c: Composer, x: Relation, *, times: bool = True) -> list[Item]:
    """One or two expressions to group by."""
    plain: list[Item] = [(f"q.{name}", kind) for name, kind in x.firm]
    options = [*plain, *plain, *plain]
    options += [(f"coalesce({name}, {LITERALS[kind][0]})", kind) for name, kind in plain if kind in LITERALS]
    options += [(f"({name} % 2)", kind) for name, kind in plain if kind in WHOLE]
    if times and x.times == "timestamp":
        options.append(("date_trunc('HOUR', q.event_time)", "timestamp"))
    found = [c.r.choice(options) for _ in range(c.r.choice([1, 1, 2]))] if options else []
    return list({expression: (expression, kind) for expression, kind in found}.values())


def _having(c: Composer) -> str:
    return c.r.choice(["", "", "", " HAVING count(*) > 1", " HAVING count(*) <> 2"])


def _aggregate(c: Composer, x: Relation, _: int) -> Relation | None:
    keys = _keys(c, x)
    if not keys:
        return None
    hidden = c.r.random() < 0.1
    made = c.select(
        x,
        [*([] if hidden else keys), *calls(c, x)],
        f"{x.text} q",
        event_time=c.r.choice(["max(q.event_time)", "min(q.event_time)"]),
        tail=f" GROUP BY {', '.join(key for key, _ in keys)}{_having(c)}",
        is_event_time=False,
        row_wise=False,
    )
    return made if hidden else replace(made, identity=tuple(f"c{i}" for i in range(len(keys))))


def _global(c: Composer, x: Relation, _: int) -> Relation | None:
    if c.r.random() < 0.5:
        return None
    made = c.select(x, calls(c, x), f"{x.text} q", event_time="max(q.event_time)", is_event_time=False, row_wise=False)
    return replace(made, identity=())


def _distinct(c: Composer, x: Relation, _: int) -> Relation | None:
    items = [(f"q.{name}", kind) for name, kind in x.firm[: c.r.choice([1, 2, 3])]]
    unit = c.r.choice(["HOUR", "DAY"])
    event_time = "q.event_time" if x.times == "date" else f"date_trunc('{unit}', q.event_time)"
    made = c.select(x, items, f"{x.text} q", event_time=event_time, is_event_time=None, row_wise=False)
    return replace(made, text=made.text.replace("(SELECT ", "(SELECT DISTINCT ", 1)) if items else None


def _grouping_sets(c: Composer, x: Relation, _: int) -> Relation | None:
    if len(x.firm) < 2:
        return None
    (one, a), (two, b) = c.r.sample([(f"q.{name}", kind) for name, kind in x.firm], 2)
    form = c.r.choice(["ROLLUP ({0}, {1})", "CUBE ({0}, {1})", "GROUPING SETS (({0}, {1}), ({1}), ())"])
    level = either("CAST(grouping_id() AS INT)", f"CAST(grouping_id({one}, {two}) AS INT)")
    items = [(one, a), (two, b), (level, "int"), ("count(*)", "bigint"), *calls(c, x)[:1]]
    # Of no rows Spark makes no total; the standard and DuckDB make one.
    tail = f" GROUP BY {form.format(one, two)}" + either("", " HAVING count(*) > 0")
    return c.select(
        x, items, f"{x.text} q", event_time="max(q.event_time)", tail=tail, is_event_time=False, row_wise=False
    )


def _pivot(c: Composer, x: Relation, _: int) -> Relation | None:
    by = next(((name, kind) for name, kind in x.columns if kind in ("int", "string")), None)
    summed = next((name for name in x.of(*WHOLE) if by is not None and name != by[0]), None)
    rest = next((each for each in x.firm if by is not None and each[0] not in (by[0], summed)), None)
    if by is None or summed is None or rest is None:
        return None
    wanted = LITERALS[by[1]][:2]
    day = "event_time" if x.times == "date" else "date_trunc('DAY', event_time) AS event_time"
    inner = f"(SELECT {day}, {by[0]}, {summed}, {rest[0]} FROM {x.text} p)"
    spark = f"{inner} PIVOT (sum({summed}) FOR {by[0]} IN ({wanted[0]} AS p1, {wanted[1]} AS p2)) q"
    sums = [f"sum({summed}) FILTER (WHERE {by[0]} = {each}) AS p{i + 1}" for i, each in enumerate(wanted)]
    duck = f"(SELECT event_time, {rest[0]}, {', '.join(sums)} FROM {inner} p GROUP BY event_time, {rest[0]}) q"
    items = [(f"q.{rest[0]}", rest[1]), ("q.p1", "bigint"), ("q.p2", "bigint")]
    return c.select(x, items, either(spark, duck), is_event_time=None, row_wise=False)


# Windows of time


@dataclass(frozen=True)
class _TimeWindow:
    """How windows are written: `source` makes `w0` for DuckDB, which lacks them."""

    group: str
    source: str
    start: str
    end: str
    duck_end: str


def _fixed_window(x: Relation, width: str, slide: str, origin: str, hops: int) -> _TimeWindow:
    at = f"time_bucket(INTERVAL {slide}, CAST(h.event_time AS TIMESTAMP), TIMESTAMP '1970-01-01 00:{origin}:00')"
    steps = ", ".join(f"({n})" for n in range(hops))
    buckets = (
        f"(SELECT h.*, {at} - s.n * INTERVAL {slide} AS w0 FROM {x.text} h, (VALUES {steps}) s(n) "
        "WHERE h.event_time IS NOT NULL) q"
    )
    window = f"window(q.event_time, '{width}', '{slide}', '{origin} minutes')"
    return _TimeWindow(
        either(window, "q.w0"),
        either(f"{x.text} q", buckets),
        either("window.start", "q.w0"),
        either("window.end", f"q.w0 + INTERVAL {width}"),
        f"q.w0 + INTERVAL {width}",
    )


def _session_window(x: Relation, keys: Sequence[str]) -> _TimeWindow:
    partition = f"PARTITION BY {', '.join(keys)} ORDER BY q.event_time" if keys else "ORDER BY q.event_time"
    near = f"q.event_time - lag(q.event_time) OVER ({partition}) < INTERVAL 40 MINUTE"
    fresh = (
        f"(SELECT q.*, CASE WHEN {near} THEN 0 ELSE 1 END AS fresh FROM {x.text} q WHERE q.event_time IS NOT NULL) q"
    )
    last = "max(q.event_time) + INTERVAL 40 MINUTE"
    return _TimeWindow(
        either("session_window(q.event_time, '40 minutes')", "q.w0"),
        either(f"{x.text} q", f"(SELECT q.*, sum(q.fresh) OVER ({partition}) AS w0 FROM {fresh}) q"),
        either("session_window.start", "min(q.event_time)"),
        either("session_window.end", last),
        last,
    )


def _windows(c: Composer, x: Relation, kind: str) -> Relation | None:
    """Groups of windows. A window over what is no event time is a key like another."""
    if x.is_event_time is None or (x.times == "date" and kind == "session"):
        return None
    keys = _keys(c, x, times=False) if c.r.random() < 0.6 else []
    if kind == "session":
        made = _session_window(x, [key for key, _ in keys])
    elif kind == "hopping":
        made = _fixed_window(x, "2 hours", "1 hour", "00", 2)
    else:
        width = c.r.choice(["1 hour", "1 hour", "30 minutes"])
        made = _fixed_window(x, width, width, c.r.choice(["00", "00", "15"]), 1)
    having = _having(c)
    if x.is_event_time:
        end = END_OF_SESSION if kind == "session" else "window.end"
        having += final(" AND" if having else " HAVING", end, made.duck_end)
    shown = c.r.choice([made.start, made.start, made.end])
    found = c.select(
        x,
        [*keys, *calls(c, x)],
        made.source,
        event_time=shown,
        tail=f" GROUP BY {', '.join([made.group, *(key for key, _ in keys)])}{having}",
        times="timestamp",
        timed=x.timed or bool(x.is_event_time),
        final_only=bool(x.is_event_time) and x.row_wise and "set operation" not in x.operators,
        row_wise=False,
    )
    identity = ("event_time", *(f"c{i}" for i in range(len(keys))))
    return replace(found, identity=None if kind == "session" else identity)


def _tumbling(c: Composer, x: Relation, _: int) -> Relation | None:
    return _windows(c, x, "tumbling")


def _hopping(c: Composer, x: Relation, _: int) -> Relation | None:
    return _windows(c, x, "hopping")


def _session(c: Composer, x: Relation, _: int) -> Relation | None:
    return _windows(c, x, "session")


# Two relations


def _common(x: Relation, y: Relation) -> list[tuple[Column, Column]]:
    """Columns of both that have one type, each taken once."""
    rest = list(y.firm)
    found = []
    for column in x.firm:
        match = next((other for other in rest if other[1] == column[1]), None)
        if match is not None:
            rest.remove(match)
            found.append((column, match))
    return found


def _set_operation(c: Composer, x: Relation, depth: int) -> Relation | None:
    y = c.other(x, depth)
    pairs = _common(x, y)
    if not pairs or x.times != y.times:
        return None
    word = c.r.choice(["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"])
    all_of_both = word == "UNION ALL"
    event_time = "q.event_time" if x.times == "date" or all_of_both else "date_trunc('DAY', q.event_time)"
    left = c.select(x, [(f"q.{a[0]}", a[1]) for a, _ in pairs], f"{x.text} q", event_time=event_time)
    right = c.select(y, [(f"q.{b[0]}", b[1]) for _, b in pairs], f"{y.text} q", event_time=event_time)
    known = x.is_event_time if all_of_both and x.is_event_time == y.is_event_time else None
    text = f"({left.text[1:-1]} {word} {right.text[1:-1]})"
    row_wise = all_of_both and x.row_wise and y.row_wise
    return replace(left, text=text, is_event_time=known, **{**together(x, y), "row_wise": row_wise})  # type: ignore[arg-type]


def _join(c: Composer, x: Relation, depth: int) -> Relation | None:
    r = c.r
    y = c.other(x, depth)
    kind = r.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", ","])
    on = c.equal(x, y, near=kind in ("JOIN", ","))
    if on is None or x.times != y.times:
        return None
    source = f"{x.text} l, {y.text} r WHERE {on}" if kind == "," else f"{x.text} l {kind} {y.text} r ON {on}"
    both = [(f"l.{name}", k) for name, k in x.columns] + [(f"r.{name}", k) for name, k in y.columns]
    both += [(f"coalesce(l.{a[0]}, r.{b[0]})", a[1]) for a, b in _common(x, y)]
    items = r.sample(both, min(len(both), r.choice([2, 3, 4])))
    inner = kind in ("JOIN", ",")
    times = {"l.event_time": inner or kind == "LEFT JOIN", "r.event_time": inner or kind == "RIGHT JOIN"}
    chosen = r.choice(["l.event_time", "r.event_time", "coalesce(l.event_time, r.event_time)"])
    known = None
    if times.get(chosen):
        known = (x if chosen[0] == "l" else y).is_event_time
    return c.select(x, items, source, event_time=chosen, is_event_time=known, **together(x, y))


def _using(c: Composer, x: Relation, depth: int) -> Relation | None:
    y = c.other(x, depth)
    shared = [name for name, kind in x.firm if (name, kind) in y.firm]
    if not shared or x.times != y.times:
        return None
    key = c.r.choice(shared)
    kind = next(kind for name, kind in x.columns if name == key)
    join = c.r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    rest = [(f"l.{n}", k) for n, k in x.columns if n != key] + [(f"r.{n}", k) for n, k in y.columns if n != key]
    items = [(key, kind), *c.r.sample(rest, min(len(rest), 2))]
    source = f"{x.text} l {join} {y.text} r USING ({key})"
    event_time = "coalesce(l.event_time, r.event_time)"
    return c.select(x, items, source, event_time=event_time, is_event_time=None, **together(x, y))


def _constants(c: Composer, x: Relation, _: int) -> Relation | None:
    name = c.some(x.of("int", "string"))
    if name is None:
        return None
    kind = dict(x.columns)[name]
    rows = ", ".join(f"({literal})" for literal in LITERALS[kind])
    return c.select(
        x,
        [("v.n", kind), (f"count(q.{name})", "bigint")],
        f"(VALUES {rows}) v(n) LEFT JOIN {x.text} q ON v.n = q.{name}",
        event_time="max(q.event_time)",
        tail=" GROUP BY v.n",
        is_event_time=False,
        row_wise=False,
        identity=("c0",),
    )


def _temporal(c: Composer, x: Relation, _: int) -> Relation | None:
    """Each row with the version of another input that was valid at its event time."""
    versions = c.r.choice(c.tables)
    known = {one.name: one for one in c.temporal}
    columns = known[versions.alias].primary_key if versions.alias in known else tuple(versions.columns)[:1]
    key, kind = columns[0], versions.columns[columns[0]]
    mine = c.some([name for name, k in x.firm if k == kind])
    if (
        versions.alias in c.limited
        or mine is None
        or not x.is_event_time
        or x.times != versions.times
        or x.times == "date"
    ):
        return None
    if versions.alias not in known:
        c.temporal.append(TemporalTable(name=versions.alias, primary_key=columns))
    join, on = c.r.choice([("JOIN LATERAL", ""), ("LEFT JOIN LATERAL", " ON TRUE")])
    duck_on = " ON TRUE"
    order = f"v.event_time DESC{then(*(f'v.{name}' for name in versions.columns))} LIMIT 1"
    where = f"v.{key} = l.{mine} AND v.event_time <= l.event_time"
    duck = f"{x.text} l {join} (SELECT * FROM {versions.alias} v WHERE {where} ORDER BY {order}) v{duck_on}"
    engine = f"{x.text} l {join} (SELECT * FROM {versions.alias} v WHERE {where} ORDER BY {order}) v{on}"
    items = [*((f"l.{n}", k) for n, k in x.columns), *((f"v.{n}", k) for n, k in versions.columns.items() if n != key)]
    waits = final(" WHERE", "l.event_time")
    inputs = frozenset({*x.inputs, versions.alias})
    return c.select(
        x, items, either(engine, duck) + waits, event_time="l.event_time", inputs=inputs, timed=True, row_wise=False
    )


OPERATORS: tuple[tuple[str, Operator], ...] = (
    ("filter", _filter),
    ("project", _project),
    ("explode", _explode),
    ("aggregate", _aggregate),
    ("aggregate", _aggregate),
    ("aggregate", _aggregate),
    ("global", _global),
    ("distinct", _distinct),
    ("grouping sets", _grouping_sets),
    ("pivot", _pivot),
    ("tumbling", _tumbling),
    ("tumbling", _tumbling),
    ("hopping", _hopping),
    ("session", _session),
    ("set operation", _set_operation),
    ("set operation", _set_operation),
    ("join", _join),
    ("join", _join),
    ("join", _join),
    ("using", _using),
    *SUBQUERIES,
    ("constants", _constants),
    ("temporal", _temporal),
    *WINDOWS,
)
