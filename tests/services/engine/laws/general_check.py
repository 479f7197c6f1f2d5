"""The general engine's laws as a checker: raises LawBroken for the first broken.

Judged after every transaction: L1 by DuckDB where it can say the query, by plain Spark SQL where it cannot, by both at least
once; L3 and L4 on the records; the output watermark. In the end L2 against one transaction. L5 (`run_again`) is apart, so that it
can run under other settings of Spark. What `law_check` knows of rows is used; what it knows of two classes of queries is not.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb
import pyarrow as pa

from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric.model.instant import Instant
from odfabric_engine_spark.compile.compile_query import input_tables, judged_transform
from odfabric_engine_spark.compile.staged_query import StagedQuery
from odfabric_engine_spark.spark.frames.spark_types import spark_schema
from odfabric_engine_spark.sql import gate
from tests.services.engine.laws.grammar.dialects import Dialect
from tests.services.engine.laws.grammar.general_cases import GeneralCase, Table
from tests.services.engine.laws.law_check import Lab, LawBroken, Row, compare, exact, group_of, net_rows, well_formed
from tests.services.engine.transforming import CF, CT, A, Derivative, Input, R, Transaction, run

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass
class Tally:
    """What was checked, for the report of a long run."""

    cases: int = 0
    transactions: int = 0
    judged_by_duckdb: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    """Transactions by operator."""

    def __str__(self) -> str:
        by_operator = ", ".join(f"{name} {count}" for name, count in self.operators.most_common())
        return (
            f"{self.cases} cases, {self.transactions} transactions, of these {self.judged_by_duckdb} judged by DuckDB too; "
            f"transactions by operator: {by_operator}"
        )


def check_general(case: GeneralCase, lab: Lab, tally: Tally, *, thorough: bool = True) -> Derivative:
    """Runs a case and returns its derivative.

    `thorough`: both judges judge every transaction. Raises LawBroken.
    """
    inputs = inputs_of(case, lab)
    sliced = derivative_of(case, inputs, lab, "sliced", case.sizes)
    records: list[Row] = []
    watermarks: list[Instant | None] = [None]
    tally.cases += 1
    for cut in case.cuts:
        found = sliced.pull(cut)
        _account(case, tally)
        if case.well_formed:
            well_formed(records, found.records)
            _minimal(case, found, sliced)
        records += found.records
        _watermark(case, found, sliced, watermarks)
        is_last = cut == case.cuts[-1]
        if case.well_formed or is_last:
            _judge(case, sliced, records, lab, tally, by_both=thorough or is_last)
    if len(case.cuts) > 1:
        _same_outcome(case, records, derivative_of(case, inputs, lab, "whole", {}).pull(), sliced)
    return sliced


def run_again(sliced: Derivative, lab: Lab, sizes: Mapping[str, int]) -> None:
    """L5: the last request again, with other sizes and surroundings.

    Raises LawBroken.
    """
    first = sliced.transactions[-1]
    request = replace(first.request, new_data_path="again-data", new_checkpoint_path="again-checkpoint")
    again = run(request, replace(lab.call, settings=replace(lab.call.settings, **sizes)))
    hashes = [logical_hash_of_parquet(each.slice_path).multihash for each in (first, again)]
    if hashes[0] != hashes[1]:
        raise LawBroken(f"L5: {first.records} and again {again.records}")
    if first.checkpoint_path.read_bytes() != again.checkpoint_path.read_bytes():
        raise LawBroken("L5: the same transaction left two states")
    if first.result != again.result:
        raise LawBroken(f"L5: {first.result} and again {again.result}")


def _account(case: GeneralCase, tally: Tally) -> None:
    tally.transactions += 1
    tally.operators.update(case.query.operators)


def inputs_of(case: GeneralCase, lab: Lab) -> list[Input]:
    inputs = []
    for number, (table, blocks) in enumerate(zip(case.tables, case.blocks, strict=True)):
        one = Input(lab.folder, table.alias, table.schema, number + 1)
        for block in blocks:
            one.add(block.rows, watermark=block.watermark, at=block.at)
        inputs.append(one)
    return inputs


def derivative_of(
    case: GeneralCase, inputs: Sequence[Input], lab: Lab, name: str, sizes: Mapping[str, int]
) -> Derivative:
    return Derivative(
        case.query.statements, inputs, lab.call, name=name, settings=sizes, temporal_tables=case.query.temporal
    )


# L3 and L4


def _minimal(case: GeneralCase, found: Transaction, sliced: Derivative) -> None:
    """L4: nothing for unchanged rows; one out and one in of an identity is a pair."""
    each_block = case.query.timed and _blocks_of_last(sliced) > 1 and _goes_by_blocks(sliced)
    if each_block or case.query.row_wise:
        return  # these say what each block, or each record, changes
    added = {exact(row) for op, *row in found.records if op in (A, CT)}
    withdrawn = {exact(row) for op, *row in found.records if op in (R, CF)}
    if added & withdrawn:
        raise LawBroken(f"L4: withdrawn and added again: {list(added & withdrawn)[:2]}")
    if case.query.identity is None:
        return
    names = [name for name in found.table.column_names if name not in ("offset", "system_time")]
    places = [names.index(name) for name in case.query.identity]
    operations: dict[Row, list[int]] = {}
    for record in found.records:
        operations.setdefault(group_of([record[place] for place in places]), []).append(record[0])
    for key, kinds in operations.items():
        _check_identity(key, kinds, one_row_each=case.query.one_row_each)


def _check_identity(key: Row, kinds: Sequence[int], *, one_row_each: bool) -> None:
    out, into = sum(op in (R, CF) for op in kinds), sum(op in (A, CT) for op in kinds)
    wanted = [CF, CT] if out == into == 1 else [A] * into + [R] * out
    if sorted(kinds) != wanted or (one_row_each and max(out, into) > 1):
        raise LawBroken(f"L4: {key} has the operations {list(kinds)}")


def _goes_by_blocks(sliced: Derivative) -> bool:
    """Whether a timed query's records are emitted block by block.

    Of one input, and of one aggregate over several.
    """
    request = sliced.transactions[-1].request
    if len(request.inputs) == 1:
        return True
    tables = input_tables([(one.query_alias, one.vocabulary, one.data_schema) for one in request.inputs])
    judged = judged_transform(sliced.call, request.transform, tables, request.vocabulary)
    return isinstance(judged.query, StagedQuery) and judged.query.streamed is not None


def _blocks_of_last(sliced: Derivative) -> int:
    return sum(len(one.steps) for one in sliced.transactions[-1].request.inputs)


# The output watermark


def _watermark(case: GeneralCase, found: Transaction, sliced: Derivative, before: list[Instant | None]) -> None:
    """Never lower, not above the inputs' least.

    What is final is not joined later by anything below it.
    """
    known, now = before[-1], found.result.watermark
    least = _closed_us(sliced)
    if known is not None and (now is None or now < known):
        raise LawBroken(f"watermark: {now} after {known}")
    if now is not None and (least is None or now.epoch_ns // 1000 > least):
        raise LawBroken(f"watermark: {now} while the inputs have {least}")
    if known is not None and case.punctual and case.well_formed and case.query.final_only:
        for op, event_time, *_ in found.records:
            if op == A and event_time is not None and _micros(event_time) < known.epoch_ns // 1000:
                raise LawBroken(f"watermark: {event_time} is added after the watermark {known}")
    before.append(now)


def _micros(event_time: dt.datetime | dt.date) -> int:
    if not isinstance(event_time, dt.datetime):
        event_time = dt.datetime(event_time.year, event_time.month, event_time.day, tzinfo=dt.UTC)
    return (event_time - _EPOCH) // dt.timedelta(microseconds=1)


def _closed_us(sliced: Derivative) -> int | None:
    """The least watermark of the inputs, in microseconds."""
    marks = []
    for one, taken in zip(sliced.inputs, sliced.taken, strict=True):
        known = [step.watermark.epoch_ns // 1000 for step in one.steps[:taken] if step.watermark is not None]
        marks.append(max(known, default=None))
    return None if None in marks else min(marks)


# L1


def _judge(
    case: GeneralCase, sliced: Derivative, records: Sequence[Row], lab: Lab, tally: Tally, *, by_both: bool
) -> None:
    closed_us = _closed_us(sliced)
    tables = {
        table.alias: _net(table, one, taken)
        for table, one, taken in zip(case.tables, sliced.inputs, sliced.taken, strict=True)
    }
    text = case.query.judged(Dialect.DUCK, closed_us)
    if text is not None:
        tally.judged_by_duckdb += 1
        compare("DuckDB", text, rows_of_duckdb(text, tables), records)
        if not by_both:
            return
    text = case.query.judged(Dialect.SPARK, closed_us)
    assert text is not None
    compare("Spark", text, rows_of_spark(text, tables, lab), records)


def _net(table: Table, one: Input, taken: int) -> pa.Table:
    """The rows of an input that are there."""
    end = next((step.last_offset for step in reversed(one.steps[:taken]) if step.last_offset is not None), -1)
    weights: Counter[Row] = Counter()
    sample: dict[Row, Row] = {}
    for _, op, _, *row in one.rows[: end + 1]:
        weights[exact(row)] += 1 if op in (A, CT) else -1
        sample[exact(row)] = tuple(row)
    schema = pa.schema(list(table.schema)[3:])
    rows = [sample[key] for key in weights.elements()]
    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in schema]
    arrays = [pa.array(list(values), each.type) for values, each in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def rows_of_duckdb(text: str, tables: Mapping[str, pa.Table]) -> list[Row]:
    """What DuckDB makes of a query."""
    with duckdb.connect() as judge:
        judge.execute("SET TimeZone = 'UTC'")
        judge.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        judge.execute("SET threads = 1")
        for alias, table in tables.items():
            judge.register(alias, _with_times(table, pa.timestamp("us")))
        rows = judge.execute(text).fetchall()
        return _as_stored([name for name, *_ in judge.description or ()], rows)


def rows_of_spark(text: str, tables: Mapping[str, pa.Table], lab: Lab) -> list[Row]:
    """What Spark makes of a query over whole relations."""
    session = lab.call.session.newSession()
    for name, value in gate.GATE_CONF.items():
        session.conf.set(name, value)
    for alias, table in tables.items():
        frame = session.createDataFrame(_with_times(table, pa.timestamp("us", "UTC")))
        frame.to(spark_schema(table.schema)).createTempView(alias)
    found = session.sql(text).toArrow()
    return _as_stored(found.column_names, list(zip(*(column.to_pylist() for column in found.columns), strict=True)))


def _as_stored(names: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """Rows with the event time first, as in datasets, wherever a query names it."""
    at = names.index("event_time")
    return [(row[at], *row[:at], *row[at + 1 :]) for row in rows]


def _with_times(table: pa.Table, times: pa.DataType) -> pa.Table:
    """A table with another type of timestamps."""
    columns = [column.cast(times) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


# L2


def _same_outcome(case: GeneralCase, records: Sequence[Row], together: Transaction, sliced: Derivative) -> None:
    """The net output, for final rows of one input the sequence, and the watermark."""
    more, less = net_rows(records) - net_rows(together.records), net_rows(together.records) - net_rows(records)
    if case.well_formed and (more or less):
        raise LawBroken(f"L2: cut {more} more, {less} less than whole")
    if case.query.final_only and len(case.tables) == 1 and case.well_formed:
        one, other = [(op, exact(row)) for op, *row in records], [(op, exact(row)) for op, *row in together.records]
        if one != other:
            raise LawBroken(f"L2: sequences differ: {one} and {other}")
    last, whole = sliced.transactions[-1].result.watermark, together.result.watermark
    # A late row, or one that another row shows later, can open a session again, below a watermark that was given before.
    sessions = any("session_window" in text for _, text in case.query.statements)
    reopened = sessions and not (case.punctual and case.query.final_only)
    if last != whole and not (reopened and last is not None and (whole is None or whole < last)):
        raise LawBroken(f"L2: watermarks differ: {last} and {whole}")
