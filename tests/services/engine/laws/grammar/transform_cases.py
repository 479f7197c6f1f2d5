"""Random cases for the laws of transforms: odd changelogs, grammar queries.

A case is a function of its number. Hypothesis picks the numbers only: built from its own choices, most queries came out alike.

A query is text in two dialects, Spark's and DuckDB's (None where DuckDB means something else), with a place for the condition
that a window is closed, so that the judges can be asked for what is final.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.services.engine.transforming import CF, CT, HOUR, MILLIS, A, R, input_schema

START = -2 * HOUR
"""Event times begin before 1970 and cross it."""

TYPES: dict[str, pa.DataType] = {
    "k": pa.string(),
    "z": pa.int32(),
    "v": pa.int64(),
    "d": pa.float64(),
    "f": pa.float32(),
    "m": pa.decimal128(12, 3),
    "b": pa.bool_(),
    "y": pa.date32(),
    "t": MILLIS,
    "u": pa.uint8(),
    "arr": pa.list_(pa.int32()),
}
VALUES: dict[str, list[Any]] = {
    "k": ["x", "y", "", "X"],
    "z": [0, 1, 2, -3],
    "v": [0, 1, 7, -7, 2**40],
    "d": [0.1, 0.5, -2.25, 3e5, -0.0, 0.0, float("nan"), float("inf")],
    "f": [0.5, 1.25, -0.0],
    "m": [Decimal("0.001"), Decimal("-1.250"), Decimal("99.999")],
    "b": [True, False],
    "y": [dt.date(1969, 12, 31), dt.date(1970, 1, 2)],
    "t": [START, 0, HOUR],
    "u": [0, 200, 255],
    "arr": [[], [1], [1, 1], [2, None, 3]],
}
NUMBERS = ("z", "v", "u")
FLOATS = ("d", "f")


@dataclass(frozen=True)
class Sql:
    """Text in both dialects."""

    spark: str
    duck: str | None

    @classmethod
    def same(cls, text: str) -> Sql:
        return cls(text, text)


def sql(template: str, *parts: Sql, duck: str | None = "") -> Sql:
    """A template with parts filled in.

    `duck` is DuckDB's own template, None if it has none.
    """
    other = template if duck == "" else duck
    known = other is not None and all(part.duck is not None for part in parts)
    return Sql(
        template.format(*(part.spark for part in parts)),
        other.format(*(part.duck for part in parts)) if known and other is not None else None,
    )


@dataclass(frozen=True)
class Query:
    """A query; `closed` adds a condition on the window's end, for the judges."""

    steps: tuple[tuple[str | None, str], ...]
    judge: Callable[[int | None], Sql]
    kind: str
    key_count: int = 0


@dataclass(frozen=True)
class Block:
    rows: tuple[tuple[Any, ...], ...]
    watermark: int | None


@dataclass(frozen=True)
class Case:
    """A case: inputs with blocks, a query, its transactions, and engine sizes.

    `repeated` says how the last transaction is run again: with its sums made in memory, by Spark, or not at all.
    """

    columns: tuple[str, ...]
    inputs: tuple[tuple[Block, ...], ...]
    query: Query
    cuts: tuple[tuple[int, ...], ...]
    rows_in_memory: int
    piece_rows: int
    repeated: str | None

    @property
    def schema(self) -> pa.Schema:
        return input_schema(*(pa.field(name, TYPES[name]) for name in self.columns))


KINDS = ("linear", "keyed", "timed")


def make_case(number: int, kinds: Sequence[str] = KINDS) -> Case:
    """The case of a number."""
    r = Random(number)
    names = sorted(TYPES)
    columns = tuple(sorted({r.choice("kzkbu"), *r.sample(names, r.choice([1, 2, 3, 4]))}))
    query, used = _query(r, columns, r.choice(kinds))
    inputs = tuple(tuple(_blocks(r, columns)) for _ in range(used))
    count = max(len(one) for one in inputs)
    between = [cut for cut in range(1, count) if r.random() < 0.7]
    return Case(
        columns=columns,
        inputs=inputs,
        query=query,
        cuts=(*between[:2], count),
        rows_in_memory=r.choice([0, 3, *[1_000_000] * 6]),
        piece_rows=r.choice([1, 2, 1_000_000]),
        repeated=r.choice([None, None, "memory", "spark"]),
    )


def _blocks(r: Random, columns: tuple[str, ...]) -> list[Block]:
    """Blocks of a well-formed changelog: withdrawals withdraw rows that are there."""
    present: list[tuple[Any, ...]] = []
    found: list[Block] = []
    watermark = START
    for _ in range(r.choice([1, 2, 3, 3, 4])):
        rows: list[tuple[Any, ...]] = []
        for _ in range(r.choice([0, 2, 3, 4, 5])):
            action = r.choice("aaaarcc") if present else "a"
            new = _row(r, columns)
            if action == "a":
                rows.append((A, *new))
                present.append(new)
                continue
            old = present.pop(r.randrange(len(present)))
            if action == "r":
                rows.append((R, *old))
                continue
            kept = r.randint(0, len(columns))
            new = (*old[:kept], *new[kept:])
            rows += [(CF, *old), (CT, *new)]
            present.append(new)
        moved = r.random() < 0.75
        watermark += r.choice([0, HOUR // 2, HOUR, 2 * HOUR]) if moved else 0
        found.append(Block(tuple(rows), watermark if moved else None))
    return found


def _row(r: Random, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """One row: event time, then columns, each of which may be null."""
    event_time = START + r.randrange(6) * (HOUR // 2)
    return (event_time, *(r.choice([None, *VALUES[name]]) for name in columns))


def has(columns: tuple[str, ...], *names: str) -> list[str]:
    return [name for name in names if name in columns]


def numbers(columns: tuple[str, ...]) -> list[Sql]:
    """Whole numbers, none of them constant."""
    plain = [Sql.same(name) for name in has(columns, *NUMBERS)]
    grown = [sql("({0} + 1)", each) for each in plain if each.spark != "u"]
    rests = [sql("({0} % 3)", each) for each in plain]
    lengths = [sql("length({0})", Sql.same("k"))] if "k" in columns else []
    return [*plain, *grown, *rests, *lengths]


def values(columns: tuple[str, ...]) -> list[Sql]:
    """Anything that can be a column of the output."""
    options = [*(Sql.same(name) for name in columns), *(Sql.same(name) for name in columns), *numbers(columns)]
    options.append(Sql.same("1"))
    if "k" in columns:
        options += [sql("upper({0})", Sql.same("k")), sql("concat(coalesce({0}, '?'), '!')", Sql.same("k"))]
    options += [sql("({0} * 2)", Sql.same(name)) for name in has(columns, *FLOATS)]
    if "m" in columns:
        options.append(sql("(-{0})", Sql.same("m")))
    return options


def condition(r: Random, columns: tuple[str, ...]) -> Sql:
    """A predicate."""
    options = [sql("{0} IS NOT NULL", Sql.same(name)) for name in columns]
    for number in numbers(columns):
        options += [sql("{0} > " + str(r.choice([0, 1])), number), sql("{0} <> 1", number)]
    if "k" in columns:
        options += [Sql.same("k IN ('x', 'X')"), Sql.same("k = 'x'")]
    if "b" in columns:
        options += [Sql.same("b"), Sql.same("b IS TRUE")]
    found = r.choice(options)
    form = r.choice(["{0}", "{0}", "NOT ({0})", "({0} AND {1})", "({0} OR {1})"])
    return sql(form, found, r.choice(options))


def _source(r: Random, columns: tuple[str, ...]) -> tuple[Sql, int, tuple[str, ...]]:
    """What stands after FROM, how many inputs it reads, and its columns."""
    shape = r.choice(["a", "a", "filtered", "union", "union-self", "explode"])
    names = ", ".join(["event_time", *columns])
    if shape == "filtered":
        return sql("(SELECT * FROM a WHERE {0}) q", condition(r, columns)), 1, columns
    if shape.startswith("union"):
        other = "b" if shape == "union" else "a"
        text = f"(SELECT {names} FROM a UNION ALL SELECT {names} FROM {other} WHERE {{0}}) q"
        return sql(text, condition(r, columns)), 2 if shape == "union" else 1, columns
    if shape == "explode" and "arr" in columns and "z" not in columns:
        rest = tuple(name for name in columns if name != "arr")
        shown = ", ".join(["event_time", *rest])
        spark = f"(SELECT {shown}, e AS z FROM (SELECT {shown}, arr FROM a) LATERAL VIEW explode(arr) x AS e) q"
        # DuckDB 2.0 loses rows where a condition is pushed below unnest, so it is no judge of these.
        return Sql(spark, None), 1, (*rest, "z")
    return Sql.same("a"), 1, columns


def _query(r: Random, columns: tuple[str, ...], kind: str) -> tuple[Query, int]:
    """A query of a kind, and how many inputs it reads."""
    source, used, found = _source(r, columns)
    where = condition(r, found) if r.random() < 0.4 else None
    tail = sql(" FROM {0}", source) if where is None else sql(" FROM {0} WHERE {1}", source, where)
    if kind == "linear":
        return _linear(r, found, tail), used
    return _aggregate(r, found, tail, timed=kind == "timed"), used


def _linear(r: Random, columns: tuple[str, ...], tail: Sql) -> Query:
    event_time = r.choice(["event_time", "date_trunc('DAY', event_time)"])
    shown = [r.choice(values(columns)) for _ in range(r.choice([1, 2, 3]))]
    head = f"SELECT {event_time} AS event_time, " + ", ".join(f"{{{i}}} AS c{i}" for i in range(len(shown)))
    whole = sql("SELECT *{0}", tail) if r.random() < 0.15 else sql("{0}{1}", sql(head, *shown), tail)
    return Query(_steps(r, whole), lambda _: whole, "linear")


def _aggregate(r: Random, columns: tuple[str, ...], tail: Sql, *, timed: bool) -> Query:
    options = _keys(columns)
    count = r.choice([0, 1, 1, 2] if timed else [1, 1, 2])
    keys = list({key.spark: key for key in (r.choice(options) for _ in range(count))}.values())
    calls = [_call(r, columns) for _ in range(r.choice([1, 2, 3, 4]))]
    window = _window(r) if timed else None
    event_times = [Sql.same("max(event_time)"), Sql.same("min(event_time)")]
    event_time = r.choice(event_times if window is None else [window.start, window.start, window.end, *event_times])
    groups = [*([window.key] if window is not None else []), *keys]
    names = ["event_time", *(f"g{i}" for i in range(len(keys))), *(f"c{i}" for i in range(len(calls)))]
    head = "SELECT " + ", ".join(f"{{{i}}} AS {name}" for i, name in enumerate(names))
    group = " GROUP BY " + ", ".join(f"{{{i}}}" for i in range(len(groups)))
    having = r.choice([None, None, Sql.same("count(*) > 1"), Sql.same("count(*) <> 2")])
    outer = r.choice(["", "", "again", "filter"])

    def text(closed_us: int | None, *, judged: bool) -> Sql:
        found = [having] if having is not None else []
        if judged and window is not None:
            found.append(Sql.same("false") if closed_us is None else window.closed(closed_us))
        last = sql(" HAVING " + " AND ".join(f"{{{i}}}" for i in range(len(found))), *found) if found else Sql.same("")
        inner = sql("{0}{1}{2}{3}", sql(head, event_time, *keys, *calls), tail, sql(group, *groups), last)
        if outer == "again":
            return sql("SELECT " + ", ".join(names) + ", c0 AS again FROM ({0}) w", inner)
        return sql("SELECT * FROM ({0}) w WHERE event_time IS NOT NULL", inner) if outer == "filter" else inner

    kind = "keyed" if window is None else "timed"
    return Query(_steps(r, text(None, judged=False)), lambda closed: text(closed, judged=True), kind, len(keys))


def _steps(r: Random, whole: Sql) -> tuple[tuple[str | None, str], ...]:
    """The query as one statement, as one with WITH, or as two."""
    form = r.choice(["one", "one", "with", "two"])
    if form == "two":
        return (("prepared", whole.spark), (None, "SELECT * FROM prepared"))
    return ((None, f"WITH w1 AS ({whole.spark}) SELECT * FROM w1" if form == "with" else whole.spark),)


def _keys(columns: tuple[str, ...]) -> list[Sql]:
    plain = [Sql.same(name) for name in columns if name != "arr"]
    return [*plain, *plain, *numbers(columns), Sql.same("date_trunc('HOUR', event_time)")]


def _call(r: Random, columns: tuple[str, ...]) -> Sql:
    options: list[Sql] = [Sql.same("count(*)"), Sql.same("max(event_time)"), Sql.same("min(event_time)")]
    for name in has(columns, *NUMBERS, *FLOATS, "m"):
        options += [Sql.same(f"sum({name})"), Sql.same(f"avg({name})")]
    for name in has(columns, *NUMBERS):
        options += [Sql(f"percentile({name}, 0.3)", f"quantile_cont({name}, 0.3)")]
    for name in has(columns, *FLOATS):
        options += [Sql(f"percentile_disc(0.4) WITHIN GROUP (ORDER BY {name})", f"quantile_disc({name}, 0.4)")]
    for name in columns:
        options.append(Sql.same(f"count({name})"))
        if name != "arr":
            options += [Sql.same(f"min({name})"), Sql.same(f"max({name})")]
    if "b" in columns:
        options += [Sql("every(b)", "bool_and(b)"), Sql("some(b)", "bool_or(b)"), Sql.same("bool_or(b)")]
    call = r.choice(options)
    form = r.choice(["{0}", "{0}", "{0}", "{0} FILTER (WHERE {1})", "count_if({1})"])
    # DuckDB counts NULL instead of 0 where the condition is NULL for all rows of a group.
    duck = "count(*) FILTER (WHERE {1})" if form.startswith("count_if") else form
    return sql(form, call, condition(r, columns), duck=duck)


@dataclass(frozen=True)
class Window:
    """A tumbling window as a key, its bounds, and the condition that it has closed."""

    key: Sql
    start: Sql
    end: Sql
    closing: Sql

    def closed(self, watermark_us: int) -> Sql:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=watermark_us)  # noqa: DTZ001 - text for SQL in UTC
        return sql(f"{{0}} <= TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}'", self.closing)


def _window(r: Random) -> Window:
    spark, origin = r.choice(
        [
            ("window(event_time, '1 hour')", "1970-01-01"),
            ("window(event_time, '1 hour', '1 hour', '15 minutes')", "1970-01-01 00:15:00"),
        ]
    )
    bucket = f"time_bucket(INTERVAL 1 HOUR, event_time, TIMESTAMP '{origin}')"
    # DuckDB takes `event_time` in HAVING for an output of that name: it cannot judge windows that are known by their end.
    closing = Sql("window.end", f"({bucket} + INTERVAL 1 HOUR)")
    return Window(Sql(spark, bucket), Sql("window.start", bucket), Sql("window.end", None), closing)
