"""Records explained by the rows of their keys, or by a replay of their block.

Owns what is put together about one record. Source: docs/engine.md#provenance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from odfabric.errors import InvalidRequest
from odfabric.model.provenance import (
    ProvenanceEffort,
    ProvenanceKind,
    ProvenanceRequest,
    RecordProvenance,
    RowsRead,
)
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.provenance.answer import AnswerRows, listed
from odfabric_engine_spark.provenance.asked_records import AskedRecord, table_of
from odfabric_engine_spark.provenance.circuit.cells import Cells, cells_behind, inspected_cells
from odfabric_engine_spark.provenance.circuit.how import how_json
from odfabric_engine_spark.provenance.circuit.lineage import Lineage, lineage_of
from odfabric_engine_spark.provenance.circuit.terms import Leaf
from odfabric_engine_spark.provenance.conditions import Applied, Rules, applied, named_columns, rules_of, shown_by
from odfabric_engine_spark.provenance.equal_rows import places_of
from odfabric_engine_spark.provenance.evaluation import Evaluation, Search, World
from odfabric_engine_spark.provenance.explained_query import ExplainedQuery
from odfabric_engine_spark.provenance.input_history import Places
from odfabric_engine_spark.provenance.late_rows import late_rows
from odfabric_engine_spark.provenance.own_records import OwnRecords
from odfabric_engine_spark.provenance.past_rows import PastRows
from odfabric_engine_spark.provenance.row_wise import replayed
from odfabric_engine_spark.provenance.states import Pool, State, states_of
from odfabric_engine_spark.provenance.sufficient import checked
from odfabric_engine_spark.provenance.triggers import trigger_of
from odfabric_engine_spark.provenance.work import Work
from odfabric_engine_spark.rows.output_shape import OutputShape, as_output
from odfabric_engine_spark.spark.calls.call import EngineCall

NOT_FOUND = "the query gives no such row over these inputs: another engine or another version made the block, or an input withdraws rows that are not there"
_NUMBERS_AT_ONCE = 20_000_000
"""Records in the hands of searches that advance together: each may name all records of the pool."""
_COMPARED_MAX = 1000
"""Most derivations of equal rows among which the first ones are chosen."""
_ALTERNATIVES_MAX = 16
"""Most derivations of equal rows of which the answer file has the witnesses."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Records of a block, all added or all withdrawn, and what explains them."""

    request: ProvenanceRequest
    query: ExplainedQuery
    shape: OutputShape
    records: tuple[AskedRecord, ...]
    rows: AnswerRows
    work: Work
    call: EngineCall

    @property
    def added(self) -> bool:
        """Whether the records add their rows."""
        return self.records[0].added

    @property
    def aliases(self) -> tuple[str, ...]:
        """Inputs by position."""
        return tuple(one.query_alias for one in self.request.transaction.inputs)

    def asks(self, kind: ProvenanceKind) -> bool:
        """Whether the request asks for it."""
        return kind in self.request.kinds

    def past(self) -> PastRows:
        """Records of the inputs."""
        return PastRows(
            self.request.transaction.inputs,
            self.query.tables,
            self.query.catalyst,
            self.call,
            rows_max=self.work.rows_max,
        )

    def columns(self) -> dict[str, int]:
        """Ids of the output columns whose cells are asked for. Raises InvalidRequest."""
        known = named_columns(self.query)
        unknown = [name for name in self.request.columns if name not in known]
        if unknown:
            raise InvalidRequest(
                f"the query gives no column {unknown[0]}", hint=f"name some of these: {', '.join(known)}"
            )
        return {name: known[name] for name in self.request.columns} if self.request.columns else known


def explain_row_wise(asked: Explanation, linear: LinearQuery) -> list[RecordProvenance]:
    """Each record is the image of one input record."""
    work, past = asked.work, asked.past()
    work.note(RowsRead.ROW_WISE)
    sources = replayed(
        asked.request, asked.query, linear, asked.shape, asked.records, asked.call, rows_max=work.rows_max
    )
    work.jobs += 1
    uses = {each.use for each in sources if each is not None}
    places: dict[int, Places] = {
        use: np.unique([each.offset for each in sources if each is not None and each.use == use]) for use in uses
    }
    pool = _pool(asked, past, places)
    lineage = _lineage(asked, pool, None)
    rows = as_output(lineage.rows, asked.shape.rows)
    images = places_of(table_of(list(asked.records), asked.shape.rows), rows)
    found = []
    for record, source, equal in zip(asked.records, sources, images, strict=True):
        own = [] if source is None else [int(row) for row in equal if _is_image(lineage, int(row), source.offset)]
        if source is None or not own:
            found.append(RecordProvenance(offset=record.offset, op=record.op, found=False, notes=(NOT_FOUND,)))
            continue
        witness = [(asked.aliases.index(source.alias), np.array([source.offset], np.int64))]
        number = pool.numbers(source.alias, np.array([source.offset], np.int64))
        trigger = pool.whole_corrections(number) if asked.asks(ProvenanceKind.TRIGGER) else []
        _write(asked, record, ProvenanceKind.WITNESSES, witness)
        _write(asked, record, ProvenanceKind.TRIGGER, trigger)
        _write_cells(asked, record, lineage, own[0])
        found.append(
            RecordProvenance(
                offset=record.offset,
                op=record.op,
                found=True,
                verified=True,
                minimal=True,
                witnesses=listed(witness),
                trigger=listed(trigger),
                how=how_json(lineage.circuit, own[0]) if asked.asks(ProvenanceKind.HOW) else "",
            )
        )
    work.rows_read += past.rows_read + sum(len(each.offsets) for each in asked.request.intervals)
    return found


def _is_image(lineage: Lineage, row: int, offset: int) -> bool:
    leaves = dict(lineage.circuit.leaves)
    return any(offset in leaves[source].offsets[rows] for source, rows in lineage.circuit.witnesses(row).items())


def explain_by_rows(asked: Explanation) -> list[RecordProvenance]:
    """Records of any query, from the rows of their keys."""
    request, work, past = asked.request, asked.work, asked.past()
    inputs = request.transaction.inputs
    states = states_of(inputs, request.intervals, by_steps=asked.query.timed)
    wanted = table_of(list(asked.records), asked.shape.rows)
    asked.call.progress("find rows")
    new = {
        one.query_alias: range(interval.offsets.begin, one.offsets.end)
        for one, interval in zip(inputs, request.intervals, strict=True)
    }
    rules = rules_of(asked.query, asked.shape.rows.names)
    together = applied(rules, shown_by(rules, wanted), past, new)
    pool = _bound_pool(asked, past, rules, together)
    asked.call.progress("run")
    own = OwnRecords(rules, together, pool, past, wanted)
    found = _Records(asked, pool, states, wanted, own if len(asked.records) > 1 else None).found()
    missing = [record for record, each in zip(asked.records, found, strict=True) if not each.found]
    if missing and not rules.whole:
        found = _with_all_rows(replace(asked, records=tuple(missing)), past, states, found, rules, together)
    work.rows_read += past.rows_read
    return found


def _with_all_rows(
    asked: Explanation,
    past: PastRows,
    states: list[State],
    found: list[RecordProvenance],
    rules: Rules,
    together: Applied,
) -> list[RecordProvenance]:
    """Looks for records among all rows.

    A value that was cut when it was written chooses none of them.
    """
    if sum(one.offsets.end for one in asked.request.transaction.inputs) > asked.work.rows_max:
        return found
    pool = _bound_pool(asked, past, Rules(tuple(() for _ in asked.query.uses)), together)
    wanted = table_of(list(asked.records), asked.shape.rows)
    again = _Records(asked, pool, states, wanted, OwnRecords(rules, together, pool, past, wanted)).found()
    known = {each.offset: each for each in again}
    return [known.get(each.offset, each) for each in found]


def _bound_pool(asked: Explanation, past: PastRows, rules: Rules, together: Applied) -> Pool:
    leaves = asked.query.uses
    places = {at: past.matching(alias, together.conditions(rules.by_use[at])) for at, alias in enumerate(leaves)}
    asked.work.note(RowsRead.WHOLE if rules.whole and leaves else RowsRead.TOUCHED if rules.touched else RowsRead.KEYS)
    return _pool(asked, past, places)


def _pool(asked: Explanation, past: PastRows, places: Mapping[int, Places]) -> Pool:
    """The known records of all inputs; `places` say by use which can matter."""
    uses = asked.query.uses
    known = {}
    for alias in asked.aliases:
        known[alias] = past.known(alias, _together([own for at, own in places.items() if uses[at] == alias]))
    in_use = {at: (alias, _among(known[alias].offsets, places.get(at, range(0)))) for at, alias in enumerate(uses)}
    late = late_rows(asked.query, asked.request.transaction.inputs, known)
    pool = Pool(asked.aliases, known, in_use, late)
    asked.work.bind(pool.count, sum(each.rows.nbytes for each in known.values()))
    return pool


def _together(parts: Sequence[Places]) -> Places:
    """All offsets of some."""
    if len(parts) == 1:
        return parts[0]
    found: Longs = np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))
    return found


def _among(offsets: Longs, places: Places) -> Mask:
    """Which offsets are among others."""
    if isinstance(places, range):
        return (offsets >= places.start) & (offsets < places.stop)
    return np.isin(offsets, places)


def _lineage(asked: Explanation, pool: Pool, state: State | None) -> Lineage:
    """The query over the rows of a state; without one over all records as they are."""
    taken = np.ones(pool.count, dtype=bool) if state is None else pool.came(state.ends)
    lineage = lineage_of(
        asked.query.catalyst,
        asked.query.plan,
        lambda position, _, columns: pool.leaf_rows(taken, position, columns, net=state is not None),
        None if state is None else state.watermark_us,
        asked.call,
    )
    asked.work.jobs += lineage.jobs
    return lineage


class _Records:
    """Finds records among the rows of the states, and explains them."""

    def __init__(
        self, asked: Explanation, pool: Pool, states: list[State], wanted: pa.Table, own: OwnRecords | None
    ) -> None:
        self._asked = asked
        self._pool = pool
        self._states = states
        self._wanted = wanted
        self._own = own
        self._evaluation = Evaluation(asked.query, asked.shape, pool, wanted, asked.work.budget, asked.call)

    def found(self) -> list[RecordProvenance]:
        """All records, in their order."""
        records = self._asked.records
        done: dict[int, RecordProvenance] = {}
        for at in self._order():
            if len(done) == len(records):
                break
            lineage = _lineage(self._asked, self._pool, self._states[at])
            places = places_of(self._wanted, as_output(lineage.rows, self._asked.shape.rows))
            found = [number for number, equal in enumerate(places) if len(equal) and number not in done]
            together = max(1, _NUMBERS_AT_ONCE // max(1, self._pool.count))
            for begin in range(0, len(found), together):
                searches = {
                    number: self._explained(number, lineage, places[number], at)
                    for number in found[begin : begin + together]
                }
                done |= self._evaluation.together(searches)
        self._asked.work.jobs += self._evaluation.runs
        return [
            done.get(number, RecordProvenance(offset=record.offset, op=record.op, found=False, notes=(NOT_FOUND,)))
            for number, record in enumerate(records)
        ]

    def _order(self) -> list[int]:
        """States in which a record is looked for, the likeliest first."""
        last = len(self._states) - 1
        return [last, *range(1, last)] if self._asked.added else [0, *range(last - 1, 0, -1)]

    def _explained(self, number: int, lineage: Lineage, equal: Longs, at: int) -> Search[RecordProvenance]:
        asked, pool, state = self._asked, self._pool, self._states[at]
        record = asked.records[number]
        leaves = dict(lineage.circuit.leaves)
        derivations = _in_order(
            [(_numbers(pool, leaves, lineage, int(each)), int(each)) for each in equal[:_COMPARED_MAX]]
        )
        row = derivations[0][1]
        notes = lineage.circuit.notes(row)
        numbers, verified, minimal = derivations[0][0], False, False
        own = np.ones(pool.count, dtype=bool) if self._own is None else self._own.mask(number)
        if not all(own[each].all() for each, _ in derivations):
            own[:] = True  # a value that was cut when it was written chooses no rows
        if asked.request.effort > ProvenanceEffort.LINEAGE:
            there = np.flatnonzero(pool.there(pool.came(state.ends) & own))
            minimal = asked.request.effort is ProvenanceEffort.MINIMAL
            outcome = yield from checked(numbers, there, lambda sets: _gives(sets, state), minimal=minimal)
            numbers, verified, minimal = outcome.numbers, outcome.verified, outcome.minimal
            notes += [] if outcome.note is None else [outcome.note]
        for term, other in enumerate([numbers, *(each for each, _ in derivations[1:])]):
            _write(asked, record, ProvenanceKind.WITNESSES, pool.offsets(other), term=term)
        triggers, by_watermark = yield from self._trigger(record, own, at, len(equal), notes)
        _write(asked, record, ProvenanceKind.TRIGGER, triggers)
        _write_cells(asked, record, lineage, row)
        return RecordProvenance(
            offset=record.offset,
            op=record.op,
            found=True,
            alternatives=len(equal),
            verified=verified,
            minimal=minimal,
            by_watermark=by_watermark,
            witnesses=listed(pool.offsets(numbers)),
            trigger=listed(triggers),
            notes=tuple(notes),
            how=how_json(lineage.circuit, row) if asked.asks(ProvenanceKind.HOW) else "",
        )

    def _trigger(
        self, record: AskedRecord, own: Mask, at: int, known: int, notes: list[str]
    ) -> Search[tuple[list[tuple[int, Longs]], bool]]:
        if not self._asked.asks(ProvenanceKind.TRIGGER):
            return [], False
        if self._asked.request.previous is not None:
            notes.append("a change of the query made the block write this record")
            return [], False
        last = len(self._states) - 1
        # Of a record that only states between have, the step that wrote it counts; else the whole block does.
        between = 0 < at < last
        first, second = ((at - 1, at) if record.added else (at, at + 1)) if between else (0, last)
        found = yield from trigger_of(
            self._pool,
            own,
            self._states[first],
            self._states[second],
            added=record.added,
            known=known,
            effort=self._asked.request.effort,
        )
        notes += [] if found.note is None else [found.note]
        return self._pool.whole_corrections(found.numbers), found.by_watermark


def _in_order(derivations: Sequence[tuple[Longs, int]]) -> list[tuple[Longs, int]]:
    """The derivations that are shown, in the same order on every node.

    Those of the earliest records come first.
    """
    return sorted(derivations, key=lambda one: one[0].tolist())[:_ALTERNATIVES_MAX]


def _gives(sets: Sequence[Longs], state: State) -> Search[list[bool]]:
    """Whether the query over sets of records gives the record at a state."""
    counts = yield [World(numbers, state.watermark_us) for numbers in sets]
    return [count > 0 for count in counts]


def _numbers(pool: Pool, leaves: Mapping[int, Leaf], lineage: Lineage, row: int) -> Longs:
    """Witnesses of a row of the result, by number in a pool."""
    parts = [
        pool.numbers(leaves[source].alias, leaves[source].offsets[rows])
        for source, rows in lineage.circuit.witnesses(row).items()
    ]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))


def _write(
    asked: Explanation,
    record: AskedRecord,
    kind: ProvenanceKind,
    found: list[tuple[int, Longs]],
    *,
    term: int = 0,
) -> None:
    for at, offsets in found:
        asked.rows.add(record.offset, kind, at, offsets, term=term)


def _write_cells(asked: Explanation, record: AskedRecord, lineage: Lineage, row: int) -> None:
    """Cells behind the asked columns, and those that decided that the row is there."""
    if not asked.asks(ProvenanceKind.CELLS):
        return
    leaves = dict(lineage.circuit.leaves)
    parts: list[tuple[str | None, Cells]] = [
        (name, cells)
        for name, column in asked.columns().items()
        for cells in cells_behind(lineage.circuit, row, column)
    ]
    parts += [(None, cells) for cells in inspected_cells(lineage.circuit, row)]
    for name, cells in parts:
        leaf = leaves[cells.leaf]
        asked.rows.add(
            record.offset,
            ProvenanceKind.CELLS,
            asked.aliases.index(leaf.alias),
            np.sort(leaf.offsets[cells.rows]),
            column=cells.column,
            output_column=name,
            role=cells.role,
        )
