"""Operators over windows of rows: first rows, neighbours, and frames."""

from __future__ import annotations

from dataclasses import replace

from tests.services.engine.laws.grammar.dialects import either, then
from tests.services.engine.laws.grammar.general_grammar import NUMBERS, Composer, Item, Operator, Relation


def _rows_of(c: Composer, x: Relation) -> tuple[Relation, str] | None:
    """What can be ordered, and its columns to complete an order with."""
    if not x.firm:
        return None
    items = [(f"q.{name}", kind) for name, kind in x.firm]
    made = c.select(x, items, f"{x.text} q")
    return made, then("q.event_time", *(f"q.{name}" for name, _ in made.columns))


def _order(c: Composer, x: Relation) -> str:
    by = c.r.choice(["q.event_time", *(f"q.{name}" for name, _ in x.columns)])
    return by + c.r.choice(["", " DESC"])


def _partition(c: Composer, x: Relation) -> str:
    names = [f"q.{name}" for name, _ in c.r.sample(list(x.columns), min(len(x.columns), c.r.choice([1, 1, 2])))]
    return ", ".join(names)


def _top(c: Composer, x: Relation, _: int) -> Relation | None:
    found = _rows_of(c, x)
    if found is None:
        return None
    rows, rest = found
    number = f"row_number() OVER (PARTITION BY {_partition(c, rows)} ORDER BY {_order(c, rows)}{rest})"
    inner = f"(SELECT {', '.join(f'q.{name}' for name in rows.names.split(', '))}, {number} AS rn FROM {rows.text} q)"
    text = f"(SELECT {rows.names} FROM {inner} q WHERE rn <= {c.r.choice('12')})"
    return replace(rows, text=text, row_wise=False)


def _first_rows(c: Composer, x: Relation, _: int) -> Relation | None:
    """The first rows of all, or those behind them."""
    found = _rows_of(c, x)
    if found is None:
        return None
    rows, rest = found
    taken = c.r.choice(["LIMIT 1", "LIMIT 3", "LIMIT 2 OFFSET 1", "LIMIT 100"])
    named = ", ".join(f"q.{name}" for name in rows.names.split(", "))
    inner = f"(SELECT {named} FROM {rows.text} q ORDER BY {_order(c, rows)}{rest} {taken})"
    return replace(rows, text=f"(SELECT {rows.names} FROM {inner} q)", row_wise=False)


def _row_functions(c: Composer, x: Relation, _: int) -> Relation | None:
    """One or two window functions, of one partition or of two that conflict."""
    found = _rows_of(c, x)
    if found is None:
        return None
    rows, rest = found
    items = [_row_function(c, rows, rest) for _ in range(c.r.choice([1, 1, 2]))]
    kept = [(f"q.{name}", kind) for name, kind in rows.columns]
    # Which of two equal rows has which place is free in each window: what two windows say of one row means something of unlike rows only.
    source = rows.text if len(items) == 1 else f"(SELECT DISTINCT q.* FROM {rows.text} q)"
    return c.select(rows, [*kept, *items], f"{source} q", row_wise=False)


def _row_function(c: Composer, x: Relation, rest: str) -> Item:
    r = c.r
    partition, order = _partition(c, x), _order(c, x)
    (name, kind) = r.choice([(f"q.{n}", k) for n, k in x.columns])
    complete = f"(PARTITION BY {partition} ORDER BY {order}{rest})"
    peers = f"(PARTITION BY {partition} ORDER BY {order})"
    frame = r.choice(
        ["UNBOUNDED PRECEDING AND CURRENT ROW", "1 PRECEDING AND 1 FOLLOWING", "2 PRECEDING AND 1 PRECEDING"]
    )
    framed = f"(PARTITION BY {partition} ORDER BY {order}{rest} ROWS BETWEEN {frame})"
    options: list[Item] = [
        (f"row_number() OVER {complete}", "int"),
        (f"ntile(2) OVER {complete}", "int"),
        (f"lag({name}) OVER {complete}", kind),
        (f"lead({name}, 2) OVER {complete}", kind),
        (f"first_value({name}) OVER {framed}", kind),
        (f"last_value({name}) OVER {framed}", kind),
        (f"count({name}) OVER {framed}", "bigint"),
        (f"max({name}) OVER {framed}", kind),
        (f"rank() OVER {peers}", "int"),
        (f"dense_rank() OVER {peers}", "int"),
        (f"cume_dist() OVER {peers}", "approx"),
        (f"percent_rank() OVER {peers}", "approx"),
        (f"count(*) OVER {peers}", "bigint"),
        (f"min({name}) OVER (PARTITION BY {partition})", kind),
        (either(f"max_by({name}, struct(q.event_time{then(name)})) OVER (PARTITION BY {partition})", None), kind),
    ]
    if kind == "int":
        distinct = f"count(DISTINCT {name}) OVER (PARTITION BY {partition})"
        options.append((either(f"collect_list({name}) OVER {framed}", None), "array"))
        options.append((either(f"sort_array(collect_list({name}) OVER (PARTITION BY {partition}))", None), "array"))
        options.append((either(f"size(collect_set({name}) OVER (PARTITION BY {partition}))", distinct), "int"))
    if kind in NUMBERS:
        total = "decimal" if kind == "decimal" else "bigint"
        options += [(f"sum({name}) OVER {where}", total) for where in (framed, peers, f"(PARTITION BY {partition})")]
    if x.times == "timestamp":
        near = "RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW"
        options.append((f"count({name}) OVER (PARTITION BY {partition} ORDER BY q.event_time {near})", "bigint"))
        if kind == "int":
            nearest = f"OVER (PARTITION BY {partition} ORDER BY q.event_time {near})"
            options.append((either(f"size(collect_set({name}) {nearest})", f"count(DISTINCT {name}) {nearest}"), "int"))
    return r.choice(options)


def _bounded_functions(c: Composer, x: Relation, _: int) -> Relation | None:
    """One to three functions over near or cumulative windows of one order."""
    found = _rows_of(c, x)
    if found is None:
        return None
    rows, rest = found
    peers = f"PARTITION BY {_partition(c, rows)} ORDER BY {_order(c, rows)}"
    kept = [(f"q.{name}", kind) for name, kind in rows.columns]
    made = [c.r.choice([_bounded_function, _cumulative_function]) for _ in range(c.r.choice([1, 2, 3]))]
    items = [function(c, rows, peers, peers + rest) for function in made]
    source = rows.text if len(items) == 1 else f"(SELECT DISTINCT q.* FROM {rows.text} q)"
    return c.select(rows, [*kept, *items], f"{source} q", row_wise=False)


def _bounded_function(c: Composer, x: Relation, _: str, order: str) -> Item:
    (name, kind) = c.r.choice([(f"q.{n}", k) for n, k in x.columns])
    frame = c.r.choice(["1 PRECEDING AND 1 FOLLOWING", "2 PRECEDING AND 1 PRECEDING", "CURRENT ROW AND 3 FOLLOWING"])
    framed = f"({order} ROWS BETWEEN {frame})"
    return c.r.choice(
        [
            (f"lag({name}) OVER ({order})", kind),
            (f"lead({name}, 2) OVER ({order})", kind),
            (f"first_value({name}) OVER {framed}", kind),
            (f"count({name}) OVER {framed}", "bigint"),
            (f"max({name}) OVER {framed}", kind),
        ]
    )


def _cumulative_function(c: Composer, x: Relation, peers: str, order: str) -> Item:
    (name, kind) = c.r.choice([(f"q.{n}", k) for n, k in x.columns])
    # What ties has one result but where rows are framed, and an order that is completed has no ties.
    framed = f"{order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    window, whole = c.r.choice([peers, framed]), c.r.choice([order, framed])
    outer = c.r.choice(["first_value", "last_value"])
    options: list[Item] = [
        (f"row_number() OVER ({order})", "int"),
        (f"rank() OVER ({peers})", "int"),
        (f"count(*) OVER ({window})", "bigint"),
        (f"count({name}) OVER ({window})", "bigint"),
        (f"{c.r.choice(['max', 'min'])}({name}) OVER ({window})", kind),
        (either(f"{outer}({name}) IGNORE NULLS OVER ({whole})", f"{outer}({name} IGNORE NULLS) OVER ({whole})"), kind),
    ]
    if kind in NUMBERS:
        options.append((f"sum({name}) OVER ({window})", "decimal" if kind == "decimal" else "bigint"))
    return c.r.choice(options)


WINDOWS: tuple[tuple[str, Operator], ...] = (
    ("top", _top),
    ("first rows", _first_rows),
    ("row functions", _row_functions),
    ("row functions", _row_functions),
    ("near functions", _bounded_functions),
)
