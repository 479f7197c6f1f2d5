"""The laws of transforms as a checker: raises LawBroken for the first broken.

L1 correct, L2 slicing, L3 well-formed, L4 minimal, L5 idempotent. The judges are plain Spark SQL and DuckDB over the net rows
of the inputs; neither knows anything of increments.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.frames.spark_types import spark_schema
from tests.services.engine.laws.grammar.transform_cases import Case
from tests.services.engine.state.checkpoint_states import contents_of
from tests.services.engine.transforming import CF, CT, A, Derivative, Input, R, Transaction, run

Row = tuple[Any, ...]


_NUMBERS = itertools.count()


class LawBroken(AssertionError):
    """A law does not hold; the message begins with its name."""


@dataclass(frozen=True)
class Lab:
    """Where cases run: calls of an exchange folder, a Spark session for the judge."""

    call: EngineCall
    folder: Path


def own_lab(lab: Lab) -> Lab:
    """A folder and a session for each case: cases run side by side."""
    folder = lab.folder / f"case-{next(_NUMBERS)}"
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    session = lab.call.session.newSession()
    return Lab(replace(lab.call, session=session, exchange=ExchangeFolder.at(folder), scratch=scratch), folder)


def check(case: Case, lab: Lab, *, repeat: bool = True) -> None:
    """Runs a case. Raises LawBroken."""
    inputs = inputs_of(case, lab.folder)
    sizes = {
        "transform_rows_in_memory_max": case.rows_in_memory,
        "aggregate_by_spark": case.rows_in_memory == 0,
        "transform_piece_rows": case.piece_rows,
        "groups_max": case.piece_rows,
    }
    sliced = Derivative(case.query.steps, inputs, lab.call, name="sliced", settings=sizes)
    records: list[Row] = []
    for cut in case.cuts:
        found = sliced.pull([min(cut, len(one.steps)) for one in inputs])
        well_formed(records, found.records)
        if case.query.kind == "keyed":
            _minimal(found.records, case.query.key_count)
        records += found.records
        _judge_by_duckdb(case, inputs, sliced, records)
    _judge_by_spark(case, inputs, sliced, records, lab)
    whole = Derivative(case.query.steps, inputs, lab.call, name="whole")
    together = whole.pull()
    _same_outcome(case, records, together, sliced)
    if repeat and case.repeated is not None:
        _idempotent(case, sliced, lab)


def inputs_of(case: Case, folder: Path) -> list[Input]:
    """The inputs of a case with all of their blocks."""
    inputs = []
    for number, (alias, blocks) in enumerate(zip("ab", case.inputs, strict=False)):
        one = Input(folder, alias, case.schema, number + 1)
        for index, block in enumerate(blocks):
            one.add(block.rows, watermark=block.watermark, at=1000 * index)
        inputs.append(one)
    return inputs


def net_rows(records: Sequence[Row]) -> Counter[Row]:
    """Net rows of records (op first), floats distinguished by their bits."""
    found: Counter[Row] = Counter()
    for op, *row in records:
        found[exact(row)] += 1 if op in (A, CT) else -1
    return +found


def well_formed(before: Sequence[Row], records: Sequence[Row]) -> None:
    """L3, with what went before, and that corrections change something."""
    present = net_rows(before)
    previous: int | None = None
    withdrawn: Row = ()
    for op, *row in records:
        if (previous == CF) != (op == CT):
            raise LawBroken(f"L3: {previous} is followed by {op} at {row}")
        present[exact(row)] += 1 if op in (A, CT) else -1
        if present[exact(row)] < 0:
            raise LawBroken(f"L3: {row} is withdrawn and was not there")
        if op == CT and exact(row) == withdrawn:
            raise LawBroken(f"L4: {row} is corrected to itself")
        previous, withdrawn = op, exact(row)
    if previous == CF:
        raise LawBroken("L3: the last record is half a pair")


def _minimal(records: Sequence[Row], key_count: int) -> None:
    """L4 for groups: one change a key, of the right kind."""
    added = {exact(row) for op, *row in records if op in (A, CT)}
    withdrawn = {exact(row) for op, *row in records if op in (R, CF)}
    if added & withdrawn:
        raise LawBroken(f"L4: withdrawn and added again: {list(added & withdrawn)[:2]}")
    kinds: dict[Row, list[int]] = {}
    for op, *row in records:
        kinds.setdefault(group_of(row[1 : 1 + key_count]), []).append(op)
    for key, found in kinds.items():
        if found not in ([A], [R], [CF, CT]):
            raise LawBroken(f"L4: the group {key} has the operations {found}")


def _same_outcome(case: Case, records: Sequence[Row], together: Transaction, sliced: Derivative) -> None:
    """L2: equal net output and remaining state, and sequence if timed by one input."""
    if net_rows(records) != net_rows(together.records):
        raise LawBroken(
            f"L2: cut {net_rows(records) - net_rows(together.records)} more, "
            f"{net_rows(together.records) - net_rows(records)} less than whole"
        )
    one_branch = len(case.inputs) == 1 and "UNION ALL" not in case.query.steps[0][1]
    if one_branch and case.query.kind in ("timed", "linear"):
        one, other = [(op, exact(row)) for op, *row in records], [(op, exact(row)) for op, *row in together.records]
        if one != other:
            raise LawBroken(f"L2: sequences differ: {one} and {other}")
    last = sliced.transactions[-1]
    if exact(contents_of(last.checkpoint_path)) != exact(contents_of(together.checkpoint_path)):
        raise LawBroken("L2: the states differ")
    if last.result.watermark != together.result.watermark:
        raise LawBroken(f"L2: watermarks differ: {last.result.watermark} and {together.result.watermark}")


def _idempotent(case: Case, sliced: Derivative, lab: Lab) -> None:
    """L5: the last request again, with other sizes: other tasks, other partitions."""
    first = sliced.transactions[-1]
    by_spark = case.repeated == "spark"
    in_memory = 0 if by_spark else 1_000_000
    sizes = replace(
        lab.call.settings,
        transform_rows_in_memory_max=in_memory,
        aggregate_by_spark=by_spark,
        transform_piece_rows=3,
        groups_max=2,
    )
    call = replace(lab.call, settings=sizes)
    request = replace(first.request, new_data_path="again-data", new_checkpoint_path="again-checkpoint")
    again = run(request, call)
    hashes = [logical_hash_of_parquet(each.slice_path).multihash for each in (first, again)]
    if hashes[0] != hashes[1]:
        raise LawBroken(f"L5: {first.records} and again {again.records}")
    if first.checkpoint_path.read_bytes() != again.checkpoint_path.read_bytes():
        raise LawBroken("L5: the same transaction left two states")
    if first.result != replace(again.result):
        raise LawBroken(f"L5: {first.result} and again {again.result}")


def _closed_us(inputs: Sequence[Input], sliced: Derivative) -> int | None:
    """The least watermark of the inputs, in microseconds."""
    marks = []
    for one, taken in zip(inputs, sliced.taken, strict=True):
        known = [step.watermark.epoch_ns // 1000 for step in one.steps[:taken] if step.watermark is not None]
        marks.append(max(known, default=None))
    return None if None in marks else min(marks)


def _net_tables(case: Case, inputs: Sequence[Input], sliced: Derivative) -> Iterator[tuple[str, pa.Table]]:
    schema = pa.schema(list(case.schema)[3:])
    for one, taken in zip(inputs, sliced.taken, strict=True):
        end = next((step.last_offset for step in reversed(one.steps[:taken]) if step.last_offset is not None), -1)
        rows: list[Row] = []
        for _, op, _, *row in one.rows[: end + 1]:
            if op in (A, CT):
                rows.append(tuple(row))
            else:
                present = [exact(each) for each in rows]
                del rows[present.index(exact(row))]
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in schema]
        yield (
            one.alias,
            pa.Table.from_arrays(
                [pa.array(list(values), each.type) for values, each in zip(columns, schema, strict=True)], schema=schema
            ),
        )


def _judge_by_duckdb(case: Case, inputs: Sequence[Input], sliced: Derivative, records: Sequence[Row]) -> None:
    text = case.query.judge(_closed_us(inputs, sliced)).duck
    if text is None:
        return
    with duckdb.connect() as judge:
        judge.execute("SET TimeZone = 'UTC'")
        for alias, table in _net_tables(case, inputs, sliced):
            plain = [f.with_type(pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f for f in table.schema]
            judge.register(alias, table.cast(pa.schema(plain)))
        compare("DuckDB", text, judge.execute(text).fetchall(), records)


def _judge_by_spark(case: Case, inputs: Sequence[Input], sliced: Derivative, records: Sequence[Row], lab: Lab) -> None:
    session = lab.call.session.newSession()
    for alias, table in _net_tables(case, inputs, sliced):
        wide = spark_schema(table.schema)
        plain = [f.with_type(pa.int64()) if pa.types.is_unsigned_integer(f.type) else f for f in table.schema]
        times = [f.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(f.type) else f for f in plain]
        frame = session.createDataFrame(table.cast(pa.schema(times)))
        frame.to(wide).createTempView(alias)
    text = case.query.judge(_closed_us(inputs, sliced)).spark
    found = session.sql(text).toArrow()
    compare("Spark", text, list(zip(*(c.to_pylist() for c in found.columns), strict=True)), records)


def compare(who: str, text: str, wanted: Sequence[Row], records: Sequence[Row]) -> None:
    """L1: the judge's rows are the net output."""
    waiting = Counter(map(exact, map(_plain, wanted)))
    plain = {exact(row): row for row in map(_plain, wanted)}
    net: Counter[Row] = Counter()
    sample: dict[Row, Row] = {}
    for op, *row in records:
        net[exact(row)] += 1 if op in (A, CT) else -1
        sample[exact(row)] = tuple(row)
    # Most rows are exactly those of the judge, and there may be a thousand of one.
    missing: list[Row] = []
    for key, count in net.items():
        row = _plain(sample[key])
        same = max(min(count, waiting[exact(row)]), 0)
        waiting[exact(row)] -= same
        missing += [row] * (count - same)
    remaining = [plain[key] for key, count in waiting.items() for _ in range(count)]
    for row in missing:
        match = next((index for index, other in enumerate(remaining) if _close(row, other)), None)
        if match is None:
            raise LawBroken(f"L1: {who} does not have {row}; it has {remaining} left, by {text}")
        del remaining[match]
    if remaining:
        raise LawBroken(f"L1: {who} has more: {remaining}, by {text}")


def exact(value: Any) -> Any:
    """A value that can be a key and distinguishes floats by their bits."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value.hex())
    if isinstance(value, list | tuple):
        return tuple(exact(each) for each in value)
    if isinstance(value, dict):
        return tuple((name, exact(each)) for name, each in value.items())
    return value


def group_of(key: Sequence[Any]) -> Row:
    """A group's key: one zero, one NaN."""
    return tuple(("nan" if math.isnan(v) else v + 0.0) if isinstance(v, float) else exact(v) for v in key)


def _plain(row: Sequence[Any]) -> Row:
    """A row as judges compare it: times without zone, numbers of mixed kind as float."""
    return tuple(_plain_value(value) for value in row)


def _plain_value(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_plain_value(each) for each in value]
    if isinstance(value, dict):
        return tuple(_plain_value(each) for each in value.values())
    return value


def _close(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(_close(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        if not isinstance(one, int | float) or not isinstance(other, int | float):
            return False
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    if isinstance(one, dt.date) != isinstance(other, dt.date):
        return False
    return bool(one == other)
