"""The laws of provenance as a checker over derivatives of the engine's law shapes.

FOUND: a record is among the rows that the query gives at its state. SUFFICIENT: the query over its witnesses alone gives it. COPIED: a copied
cell equals the output cell. WHERE: where a cell in no role changes, the row stays as it is; one in roles of other columns only leaves a column.
TRIGGER: the state before the block with the trigger alone makes the change. RESTRICTED: rows of keys give the witnesses that all rows
give. The judges are DuckDB and plain Spark, which know nothing of circuits and keys.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from odfabric.model.provenance import CellRole, RecordProvenance
from tests.services.engine.laws.general_check import derivative_of, inputs_of, rows_of_duckdb, rows_of_spark
from tests.services.engine.laws.grammar.dialects import Dialect
from tests.services.engine.laws.grammar.general_cases import GeneralCase
from tests.services.engine.laws.law_check import Lab, Row, _close, _plain, exact
from tests.services.engine.provenance.explaining import Answer, Witness, explained
from tests.services.engine.transforming import CF, CT, A, Derivative, Input

CELLS_TRIED = 3
"""Cells of a record's witnesses that are changed to see what follows."""


@dataclass
class Tally:
    """How often each law was judged and how often it held, and what broke it."""

    judged: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def note(self, law: str, holds: bool, about: object) -> None:
        """One judgement."""
        self.judged[law] += 1
        self.held[law] += holds
        if not holds:
            self.problems.append(f"{law}: {about}")

    def __str__(self) -> str:
        return ", ".join(f"{law} {self.held[law]} of {count}" for law, count in sorted(self.judged.items()))


@dataclass(frozen=True)
class Checked:
    """A case that was run, its answers by transaction."""

    case: GeneralCase
    lab: Lab
    inputs: Sequence[Input]
    derivative: Derivative


def run_case(case: GeneralCase, lab: Lab) -> Checked:
    """Runs all transactions of a case."""
    inputs = inputs_of(case, lab)
    derivative = derivative_of(case, inputs, lab, "explained", case.sizes)
    for cut in case.cuts:
        derivative.pull(cut)
    return Checked(case, lab, inputs, derivative)


def sampled(checked: Checked, chance: Random, count: int) -> list[tuple[int, int, int, Row]]:
    """Records as (transaction, offset, op, row), of each operation in turn."""
    by_op: dict[int, list[tuple[int, int, int, Row]]] = {}
    for number, done in enumerate(checked.derivative.transactions):
        for offset, (op, *row) in zip(done.table.column("offset").to_pylist(), done.records, strict=True):
            by_op.setdefault(op, []).append((number, offset, op, tuple(row)))
    pools = [chance.sample(each, len(each)) for each in by_op.values()]
    found: list[tuple[int, int, int, Row]] = []
    while any(pools) and len(found) < count:
        found += [pool.pop() for pool in pools if pool]
    return found[:count]


def check_laws(checked: Checked, tally: Tally, chance: Random, *, count: int) -> None:
    """Judges the answers about some records of a case."""
    chosen = sampled(checked, chance, count)
    for number in sorted({each[0] for each in chosen}):
        own = [each for each in chosen if each[0] == number]
        answer = explained(checked.derivative, number, [offset for _, offset, _, _ in own])
        for _, offset, op, row in own:
            judgement = _Judgement(checked, answer, number, offset, op, row)
            judgement.all_laws(tally, chance)


@dataclass(frozen=True)
class _Judgement:
    checked: Checked
    answer: Answer
    number: int
    offset: int
    op: int
    row: Row

    def all_laws(self, tally: Tally, chance: Random) -> None:
        record = self.answer.record(self.offset)
        about = (self.checked.case.query.statements[-1][1], self.number, self.offset, self.op, self.row, record)
        if not self.checked.case.well_formed and not record.found:
            return
        tally.note("FOUND", record.found, about)
        if not record.found:
            return
        marks = self._watermarks()
        witnesses = self.answer.witnesses(self.offset)
        sufficient = any(self._gives(self._rows(witnesses), mark, self.row) for mark in marks)
        tally.note("SUFFICIENT", sufficient, (about, witnesses))
        tally.note("VERIFIED", record.verified, about)
        for name, holds, what in self._copied():
            tally.note(name, holds, (about, what))
        if sufficient:
            self._where(tally, chance, witnesses, about)
        self._trigger(tally, record, about)

    def _names(self) -> list[str]:
        table = self.checked.derivative.transactions[self.number].table
        return [name for name in table.column_names if name not in ("offset", "op", "system_time")]

    def _watermarks(self) -> list[int | None]:
        """Watermarks at the states around the block, that after it first."""
        taken = self._taken()
        marks: list[int | None] = []
        for blocks in reversed(taken):
            known = [
                max((step.watermark.epoch_ns // 1000 for step in one.steps[:count] if step.watermark), default=None)
                for one, count in zip(self.checked.inputs, blocks, strict=True)
            ]
            mark = None if None in known else min(each for each in known if each is not None)
            if mark not in marks:
                marks.append(mark)
        return marks

    def _taken(self) -> list[list[int]]:
        """How many blocks of each input were taken before, between and after."""
        cuts = self.checked.case.cuts
        before = list(cuts[self.number - 1]) if self.number else [0 for _ in self.checked.inputs]
        after = list(cuts[self.number])
        if len(after) > 1:
            return [before, after]
        return [[blocks] for blocks in range(before[0], after[0] + 1)]

    def _rows(self, witnesses: Iterable[Witness]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {one.alias: [] for one in self.checked.inputs}
        for alias, offset in sorted(witnesses):
            one = next(each for each in self.checked.inputs if each.alias == alias)
            found[alias].append(tuple(one.rows[offset][3:]))
        return found

    def _judged(self, rows: Mapping[str, Sequence[Row]], mark: int | None) -> list[Row]:
        tables = {}
        for one in self.checked.inputs:
            schema = pa.schema(list(one.schema)[3:])
            columns = list(zip(*rows[one.alias], strict=True)) if rows[one.alias] else [[] for _ in schema]
            arrays = [pa.array(list(values), each.type) for values, each in zip(columns, schema, strict=True)]
            tables[one.alias] = pa.Table.from_arrays(arrays, schema=schema)
        query = self.checked.case.query
        text = query.judged(Dialect.DUCK, mark)
        if text is not None:
            try:
                return [_plain(row) for row in rows_of_duckdb(text, tables)]
            except duckdb.Error:
                pass
        text = query.judged(Dialect.SPARK, mark)
        assert text is not None
        return [_plain(row) for row in rows_of_spark(text, tables, self.checked.lab)]

    def _gives(self, rows: Mapping[str, Sequence[Row]], mark: int | None, row: Row) -> int:
        wanted = _plain(row)
        return sum(_close(wanted, each) for each in self._judged(rows, mark))

    def _copied(self) -> Iterable[tuple[str, bool, object]]:
        for at, name in enumerate(self._names()):
            for (alias, offset, column), role in self.answer.cells(self.offset, name).items():
                if role is CellRole.COPIED:
                    value = self._cell(alias, offset, column)
                    yield (
                        "COPIED",
                        _close(_plain((value,))[0], _plain((self.row[at],))[0]),
                        (name, alias, offset, column),
                    )

    def _cell(self, alias: str, offset: int, column: str) -> Any:
        one = next(each for each in self.checked.inputs if each.alias == alias)
        at = one.schema.get_field_index(column)
        return pa.array([one.rows[offset][at]], one.schema.field(at).type).to_pylist()[0]

    def _where(self, tally: Tally, chance: Random, witnesses: set[Witness], about: object) -> None:
        inspected = self.answer.cells(self.offset, None)
        roles = [self.answer.cells(self.offset, name) for name in self._names()]
        free = [
            (alias, offset, each.name)
            for alias, offset in sorted(witnesses)
            for each in list(next(one for one in self.checked.inputs if one.alias == alias).schema)[3:]
            if (alias, offset, each.name) not in inspected
        ]
        for cell in chance.sample(free, min(len(free), CELLS_TRIED)):
            rows = self._with_other(witnesses, cell, chance)
            stays = [at for at, cells in enumerate(roles) if cell not in cells]
            wanted = _plain(self.row)
            holds = any(
                all(_close(wanted[at], got[at]) for at in stays)
                for mark in self._watermarks()
                for got in self._judged(rows, mark)
            )
            tally.note("WHERE", holds, (about, cell))

    def _with_other(self, witnesses: set[Witness], cell: tuple[str, int, str], chance: Random) -> dict[str, list[Row]]:
        alias, offset, column = cell
        rows = self._rows(witnesses - {(alias, offset)})
        one = next(each for each in self.checked.inputs if each.alias == alias)
        at = one.schema.get_field_index(column)
        changed = list(one.rows[offset])
        changed[at] = _another(changed[at], one.schema.field(at).type, chance)
        rows[alias] = [*rows[alias], tuple(changed[3:])]
        return rows

    def _trigger(self, tally: Tally, record: RecordProvenance, about: object) -> None:
        if any("not checked" in note for note in record.notes):
            tally.judged["TRIGGER of no net change"] += 1
            return
        trigger = self.answer.trigger(self.offset)
        if self.checked.case.query.row_wise:
            # Its row may come and go within the block: each record is the image of one that came, perhaps half of a correction.
            tally.note("TRIGGER", trigger == self._whole(self.answer.witnesses(self.offset)), (about, trigger))
            return
        states, marks = self._taken(), {}
        for blocks in states:
            known = [
                max((step.watermark.epoch_ns // 1000 for step in one.steps[:count] if step.watermark), default=None)
                for one, count in zip(self.checked.inputs, blocks, strict=True)
            ]
            marks[tuple(blocks)] = None if None in known else min(each for each in known if each is not None)
        pairs = [(states[0], states[-1]), *(itertools.pairwise(states) if self.checked.case.query.timed else ())]
        holds = trigger == self._whole(trigger) and any(self._changes(trigger, marks, *pair) for pair in pairs)
        tally.note("TRIGGER", holds, (about, trigger))

    def _whole(self, some: set[Witness]) -> set[Witness]:
        """Records with the other halves of corrections."""
        found = set(some)
        for alias, offset in some:
            op = next(one for one in self.checked.inputs if one.alias == alias).rows[offset][1]
            found |= {(alias, offset + 1)} if op == CF else {(alias, offset - 1)} if op == CT else set()
        return found

    def _changes(
        self, trigger: set[Witness], marks: Mapping[tuple[int, ...], int | None], before: list[int], after: list[int]
    ) -> bool:
        ends = {}
        for one, blocks in zip(self.checked.inputs, before, strict=True):
            last = one.steps[blocks - 1].last_offset if blocks else None
            ends[one.alias] = 0 if last is None else last + 1
        old = {(one.alias, at) for one in self.checked.inputs for at in range(ends[one.alias])}
        base = self._gives(self._net(old), marks[tuple(before)], self.row)
        now = self._gives(self._net(old | trigger), marks[tuple(after)], self.row)
        return now > base if self.op in (A, CT) else now < base

    def _net(self, taken: set[Witness]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for one in self.checked.inputs:
            weights: Counter[Row] = Counter()
            sample: dict[Row, Row] = {}
            for alias, offset in taken:
                if alias == one.alias:
                    _, op, _, *row = one.rows[offset]
                    weights[exact(row)] += 1 if op in (A, CT) else -1
                    sample[exact(row)] = tuple(row)
            found[one.alias] = [sample[key] for key in weights.elements()]
        return found


def _another(value: Any, kind: pa.DataType, chance: Random) -> Any:
    """Another value of a type, None where that is easier."""
    if pa.types.is_boolean(kind):
        return not value
    if pa.types.is_integer(kind):
        return (value or 0) + chance.choice([1, 3])
    if pa.types.is_floating(kind):
        return 17.25
    if pa.types.is_decimal(kind):
        return Decimal("7.125") if value is None else value + 1
    if pa.types.is_string(kind):
        return (value or "") + "q"
    if pa.types.is_timestamp(kind):
        return value + 1_000 if isinstance(value, int) else 1234
    if pa.types.is_date(kind):
        return value + dt.timedelta(days=1) if value else dt.date(1971, 1, 1)
    return None
