"""Cases for the general engine's laws: odd inputs, a query, and transactions.

A case is a function of its number: `make_case` takes a random composition of operators (`general_grammar`), `shape_case` one
of the named shapes (`general_shapes`). Changelogs are well-formed, but for those that say otherwise: there rows are withdrawn
before they come, and in the end nothing is unmatched.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from odfabric.model.metadata import TemporalTable
from tests.services.engine.laws.grammar.dialects import Dialect, rendered
from tests.services.engine.transforming import CF, CT, HOUR, MILLIS, A, R, input_schema

START = -2 * HOUR
"""Event times begin before 1970 and cross it."""

DAY = 24 * HOUR

ARROW: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "decimal": pa.decimal128(12, 3),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": MILLIS,
    "array": pa.list_(pa.int32()),
    "struct": pa.struct([pa.field("n", pa.int32(), nullable=False), pa.field("s", pa.string(), nullable=False)]),
}
VALUES: dict[str, list[Any]] = {
    "int": [1, 0, 2, -3, 5],
    "bigint": [1, 0, -7, 3, 2**40],
    "string": ["x", "y", "", "X", "xy"],
    "decimal": [Decimal("1.000"), Decimal("-1.250"), Decimal("0.001"), Decimal("99.999")],
    "double": [0.5, -0.0, 0.0, float("nan"), -2.25, 0.1, float("inf"), 3e5],
    "bool": [True, False],
    "date": [dt.date(1969, 12, 31), dt.date(1970, 1, 2), dt.date(1970, 1, 1)],
    "timestamp": [START, 0, HOUR, START + 1],
    "array": [[1], [], [1, 1], [2, None, 3]],
    "struct": [{"n": 1, "s": "x"}, {"n": 2, "s": ""}],
}
"""By type; the first two are all that dense data has."""

CROWD = 1_100
"""How often a row of a crowded input comes: more than 2^10, so that a float of 53 bits times that needs more than 64."""

CROWDED_SHARE = float(os.environ.get("ODF_LAW_CROWDED", "0.03"))
"""Share of the cases that have such an input."""

TIMELESS_SHARE = float(os.environ.get("ODF_LAW_TIMELESS", "0.05"))
"""Share of the cases in which rows of inputs may lack the event time, as those of derivative datasets may."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """An input: its columns beside the event time, by name and type."""

    alias: str
    columns: Mapping[str, str]
    times: str = "timestamp"
    """The type of its event time."""
    timeless: bool = False
    """Whether rows may lack it."""

    @property
    def schema(self) -> pa.Schema:
        event_time = pa.field("event_time", ARROW[self.times], nullable=self.timeless)
        return input_schema(
            *(pa.field(name, ARROW[kind]) for name, kind in self.columns.items()), event_time=event_time
        )


@dataclass(frozen=True)
class GeneralQuery:
    """A query with marks.

    `identity`: columns that tell its rows apart, None if it has none that is known.

    `final_only`: it emits a row once, when it is final, so that the sequence of records does not depend on slicing.
    `row_wise`: each record is made of one record of an input, also where one takes back another.
    """

    name: str
    text: str
    operators: tuple[str, ...]
    steps: tuple[tuple[str, str], ...] = ()
    temporal: tuple[TemporalTable, ...] = ()
    identity: tuple[str, ...] | None = None
    one_row_each: bool = False
    """At most one row of an identity is there at a time."""
    final_only: bool = False
    row_wise: bool = False

    @property
    def timed(self) -> bool:
        """Whether anything in it waits for the watermark."""
        return any("[[final|" in text for text in (self.text, *(text for _, text in self.steps)))

    @property
    def statements(self) -> list[tuple[str | None, str]]:
        """As the engine gets them."""
        steps: list[tuple[str | None, str]] = [*self.steps, (None, self.text)]
        return [(name, self._rendered(text, Dialect.ENGINE, None) or "") for name, text in steps]

    def judged(self, dialect: Dialect, closed_us: int | None) -> str | None:
        """As a judge gets it; None if it cannot."""
        return self._rendered(self.text, dialect, closed_us)

    def _rendered(self, text: str, dialect: Dialect, closed_us: int | None) -> str | None:
        return rendered(text, dialect, closed_us=closed_us, steps=dict(self.steps))


@dataclass(frozen=True)
class Block:
    rows: tuple[Row, ...]
    watermark: int | None
    at: int
    """Its system time."""


@dataclass(frozen=True)
class GeneralCase:
    """A case; `cuts` are its transactions: each input's number of blocks by then."""

    query: GeneralQuery
    tables: tuple[Table, ...]
    blocks: tuple[tuple[Block, ...], ...]
    cuts: tuple[tuple[int, ...], ...]
    well_formed: bool
    punctual: bool
    """No row is below the watermark that its input had announced."""
    sizes: Mapping[str, int]
    """Settings of the engine, small enough that work is done in parts."""

    def __str__(self) -> str:
        lines = [f"{name or 'output'}: {text}" for name, text in self.query.statements]
        for table, blocks in zip(self.tables, self.blocks, strict=True):
            lines.append(f"input {table.alias} event_time {table.times} {dict(table.columns)}")
            lines += [f"  block at {b.at} watermark {b.watermark}: {list(b.rows)}" for b in blocks]
        return "\n".join([*lines, f"transactions: {self.cuts}, settings {dict(self.sizes)}"])


def case_of(r: Random, query: GeneralQuery, tables: Sequence[Table], *, dense: bool | None = None) -> GeneralCase:
    """A case for a query: random changelogs of its inputs, cut at random."""
    dense = r.random() < 0.6 if dense is None else dense
    timeless = Random(_next(r)).random() < TIMELESS_SHARE
    well_formed, punctual = r.random() < 0.92, r.random() < 0.35
    if timeless:
        # A row without a time is neither late nor in time.
        punctual, tables = False, [replace(each, timeless=True) for each in tables]
    # A row at the very end of a session still joins it, so one that is in time for that comes later.
    after_ms = int(any("session_window" in text for _, text in query.statements))
    maker = _Changelogs(r, dense=dense, well_formed=well_formed, punctual=punctual, after_ms=after_ms)
    blocks = [tuple(maker.blocks(table)) for table in tables]
    cuts = tuple(_cuts(r, [len(each) for each in blocks]))
    sizes = sizes_of(r)
    if r.random() < CROWDED_SHARE:
        at = r.randrange(len(tables))
        if not _meets_itself(query, tables[at].alias):
            blocks[at] = _crowded(r, blocks[at], withdrawn=not punctual)
    return GeneralCase(query, tuple(tables), tuple(blocks), cuts, well_formed, punctual, sizes)


def _next(r: Random) -> float:
    """The number that comes next, which still comes: cases keep their numbers."""
    state = r.getstate()
    found = r.random()
    r.setstate(state)
    return found


def _meets_itself(query: GeneralQuery, alias: str) -> bool:
    """Whether an input meets itself in a crowd: judges need minutes for its square."""
    texts = [query.text, *(text for _, text in query.steps)]
    return sum(len(re.findall(rf"(?i)(?:\bfrom|\bjoin|,)\s+{alias}\b", text)) for text in texts) > 1


def _crowded(r: Random, blocks: tuple[Block, ...], *, withdrawn: bool) -> tuple[Block, ...]:
    """One of the rows comes very often; mostly some of them, or all, go again."""
    places = [(at, place) for at, each in enumerate(blocks) for place, row in enumerate(each.rows) if row[0] == A]
    if not places:
        return blocks
    at, place = r.choice(places)
    _, *row = blocks[at].rows[place]
    found = list(blocks)
    rows = found[at].rows
    found[at] = replace(found[at], rows=(*rows[:place], *[(A, *row)] * CROWD, *rows[place:]))
    if withdrawn and r.random() < 0.7:
        gone = r.choice([1, CROWD // 2, CROWD])
        at = r.randrange(at, len(blocks))
        found[at] = replace(found[at], rows=(*found[at].rows, *[(R, *row)] * gone))
    return tuple(found)


def sizes_of(r: Random) -> dict[str, int]:
    """Settings that change how the work is done and nothing that comes of it."""
    small = {
        "stage_rows_max": [2, 5],
        "stage_rows_each": [1, 3],
        "transform_rows_in_memory_max": [0, 3],
        "groups_max": [0, 1, 3],
        "aggregate_by_spark": [True],
        "transform_piece_rows": [1, 3],
        "transform_piece_bytes": [1, 200],
        "state_piece_rows": [1, 3],
        "state_added_bytes_max": [1],
    }
    chosen = {name: r.choice(sizes) for name, sizes in small.items() if r.random() < 0.15}
    return {**chosen, **BY_TASKS} if r.random() < 0.05 else chosen


BY_TASKS = {"stage_rows_max": 2, "stages_by_spark": True}
"""Settings by which nearly every transaction of a stage is large."""


def _cuts(r: Random, lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Two to four transactions, now and then an empty one first."""
    upto = [0] * len(lengths)
    found = [tuple(upto)] if r.random() < 0.1 else []
    for _ in range(r.choice([1, 2, 3])):
        upto = [min(one + r.choice([0, 1, 1, 1, 2]), length) for one, length in zip(upto, lengths, strict=True)]
        if any(upto) and tuple(upto) not in found and upto != list(lengths):
            found.append(tuple(upto))
    return [*found, tuple(lengths)]


class _Changelogs:
    """Makes the blocks of inputs."""

    def __init__(self, r: Random, *, dense: bool, well_formed: bool, punctual: bool, after_ms: int) -> None:
        """Punctual rows are at least `after_ms` later than the watermark."""
        self._r = r
        self._dense = dense
        self._well_formed = well_formed
        self._punctual = punctual
        self._after_ms = after_ms

    def blocks(self, table: Table) -> list[Block]:
        r = self._r
        present: list[Row] = []
        unmatched: list[Row] = []
        found: list[Block] = []
        watermark = START
        silent = r.random() < 0.08
        count = r.choice([2, 3, 4, 5])
        for index in range(count):
            rows: list[Row] = []
            for _ in range(r.choice([0, 2, 3, 4, 6])):
                rows += self._change(table, present, unmatched, watermark)
            if index == count - 1:
                rows += [(A, *row) for row in unmatched]
            moved = not silent and r.random() < 0.75
            watermark += r.choice([0, HOUR // 2, HOUR, 2 * HOUR]) if moved else 0
            at = 1000 * index + r.choice([0, 0, 500])
            found.append(Block(tuple(rows), watermark if moved else None, at))
        return found

    def _change(self, table: Table, present: list[Row], unmatched: list[Row], watermark: int) -> list[Row]:
        """One change: a new row, one withdrawn, or one corrected.

        Now and then the withdrawal of a row that comes later.
        """
        r, earliest = self._r, watermark + self._after_ms
        movable = [i for i, row in enumerate(present) if not self._punctual or _millis(row[0]) >= earliest]
        action = r.choice("aaaarccc") if movable else "a"
        new = self._row(table, earliest)
        if action == "a":
            if not self._well_formed and r.random() < 0.3:
                unmatched.append(new)
                return [(R, *new)]
            new = r.choice(present) if present and r.random() < 0.1 and not self._punctual else new
            present.append(new)
            return [(A, *new)]
        old = present.pop(r.choice(movable))
        if action == "r":
            return [(R, *old)]
        kept = r.randint(0, len(old))
        new = (*old[:kept], *new[kept:])
        present.append(new)
        return [(CF, *old), (CT, *new)]

    def _row(self, table: Table, earliest: int) -> Row:
        r = self._r
        moment = START + r.randrange(4 if self._dense else 9) * (HOUR // 2) + r.choice([0, 0, 0, 1])
        if table.timeless and r.random() < 0.2:
            return (None, *(self._value(kind) for kind in table.columns.values()))
        event_time: Any = max(moment, earliest) if self._punctual else moment
        if table.times == "date":
            days = -(-event_time // DAY) if self._punctual else event_time // HOUR
            event_time = dt.date(1970, 1, 1) + dt.timedelta(days=days)
        return (event_time, *(self._value(kind) for kind in table.columns.values()))

    def _value(self, kind: str) -> Any:
        options = VALUES[kind][:2] if self._dense else VALUES[kind]
        return self._r.choice([None, *options, *options])


def _millis(event_time: int | dt.date) -> int:
    return event_time if isinstance(event_time, int) else (event_time - dt.date(1970, 1, 1)).days * DAY
