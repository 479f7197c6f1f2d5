"""Linear queries: each record is mapped alone, correction pairs stay lawful."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from odfabric.errors import IncompatibleSchema, InvalidData
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.instant import Instant
from odfabric.model.offsets import OffsetRange
from odfabric_engine_spark.operators.row_wise import record_mapping
from odfabric_engine_spark.rows.row_binding import Bound
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan
from tests.services.engine.transforming import CF, CT, HOUR, MILLIS, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

PLAIN = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))


def at(millis: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=millis)


def records(
    call: EngineCall, query: str, *blocks: list[tuple[Any, ...]], schema: pa.Schema = PLAIN
) -> list[tuple[Any, ...]]:
    one = Input(call.exchange.root, "a", schema)
    for block in blocks:
        one.add(block)
    return [(op, *row[1:]) for op, *row in Derivative(query, [one], call).pull().records]


def test_the_operation_goes_with_the_row_without_being_selected(engine_call: EngineCall) -> None:
    rows = [(A, 0, "x", 1), (A, 1, "y", 2), (R, 0, "x", 1), (CF, 1, "y", 2), (CT, 1, "y", 3)]
    found = records(engine_call, "select event_time, k, v * 10 as w from a", rows)
    assert found == [(A, "x", 10), (A, "y", 20), (R, "x", 10), (CF, "y", 20), (CT, "y", 30)]


def test_a_filter_that_keeps_half_of_a_pair_leaves_a_whole_record(engine_call: EngineCall) -> None:
    rows = [(A, 0, "x", 10), (A, 0, "y", 1), (CF, 0, "x", 10), (CT, 0, "x", 3), (CF, 0, "y", 1), (CT, 0, "y", 30)]
    found = records(engine_call, "select event_time, k, v from a where v > 5", rows)
    assert found == [(A, "x", 10), (R, "x", 10), (A, "y", 30)]


def test_a_correction_of_what_is_not_selected_is_nothing(engine_call: EngineCall) -> None:
    found = records(engine_call, "select event_time, k from a", [(A, 0, "x", 1), (CF, 0, "x", 1), (CT, 0, "x", 2)])
    assert found == [(A, "x")]


def test_zeros_of_two_signs_are_different_rows(engine_call: EngineCall) -> None:
    schema = input_schema(pa.field("d", pa.float64()))
    rows = [
        (A, 0, 0.0),
        (CF, 0, 0.0),
        (CT, 0, -0.0),
        (A, 0, float("nan")),
        (CF, 0, float("nan")),
        (CT, 0, float("nan")),
    ]
    found = records(engine_call, "select event_time, d from a", rows, schema=schema)
    assert [(op, str(d)) for op, d in found] == [(A, "0.0"), (CF, "0.0"), (CT, "-0.0"), (A, "nan")]


def test_images_of_an_exploded_pair_are_compared_as_multisets(engine_call: EngineCall) -> None:
    schema = input_schema(pa.field("l", pa.list_(pa.int32())))
    query = "select event_time, e from a lateral view explode(l) x as e"
    assert records(engine_call, query, [(A, 0, [1, 2]), (CF, 0, [1, 2]), (CT, 0, [2, 3])], schema=schema) == [
        (A, 1), (A, 2), (CF, 1), (CT, 3),
    ]  # fmt: skip
    assert records(engine_call, query, [(A, 0, [1, 1]), (CF, 0, [1, 1]), (CT, 0, [1])], schema=schema) == [
        (A, 1), (A, 1), (R, 1),
    ]  # fmt: skip
    assert records(engine_call, query, [(A, 0, [1, 2]), (CF, 0, [1, 2]), (CT, 0, [3, 4])], schema=schema) == [
        (A, 1), (A, 2), (R, 1), (R, 2), (A, 3), (A, 4),
    ]  # fmt: skip


def test_branches_of_a_union_come_one_after_the_other(engine_call: EngineCall) -> None:
    rows = [(A, 0, "x", 1), (CF, 0, "x", 1), (CT, 0, "x", 2)]
    query = "select event_time, v from a union all select event_time, v * 10 as v from a where v > 1"
    assert records(engine_call, query, rows) == [(A, 1), (CF, 1), (CT, 2), (A, 20)]


@pytest.mark.parametrize("piece_rows", [1, 2, 3, 100])
def test_pieces_do_not_show(engine_call: EngineCall, piece_rows: int) -> None:
    one = Input(engine_call.exchange.root, "a", PLAIN)
    one.add([(A, 0, "x", 1), (A, 0, "y", 2)]).add([(CF, 0, "x", 1), (CT, 0, "x", 5), (CF, 0, "y", 2), (CT, 0, "y", 0)])
    query = "select event_time, k, v from a where v > 0 union all select event_time, k, -v as v from a"
    found = Derivative(query, [one], engine_call, settings={"transform_piece_rows": piece_rows}).pull().records
    assert [(op, *row[1:]) for op, *row in found] == [
        (A, "x", 1), (A, "y", 2), (CF, "x", 1), (CT, "x", 5), (R, "y", 2),
        (A, "x", -1), (A, "y", -2), (CF, "x", -1), (CT, "x", -5), (CF, "y", -2), (CT, "y", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("source", ["a", "b"])
def test_branches_without_rows_are_left_out(
    engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Whichever they are, columns keep their names and types.

    The first branch gives both.
    """
    inputs = [Input(engine_call.exchange.root, alias, PLAIN) for alias in ("a", "b")]
    branches: list[int] = []
    plain = record_mapping.bind

    def counting(catalyst: Catalyst, plan: Plan, frames: Sequence[DataFrame | None]) -> Bound:
        found = plain(catalyst, plan, frames)
        branches.append(str(found.plan).count("LocalRelation"))
        return found

    monkeypatch.setattr(record_mapping, "bind", counting)
    query = (
        "select event_time, upper(l) as l, s.w, each from (select event_time, k as l, named_struct('w', v) as s, array(v, 1L) as m from a"
        " union all (select event_time, null, named_struct('w', null), m from (select event_time, array(2L) as m from b"
        " union all select event_time, array(v, 3L) from a) where event_time is not null)) lateral view explode(m) as each"
    )
    derived = Derivative(query, inputs, engine_call, settings={"transform_piece_rows": 2})
    inputs["ab".index(source)].add([(A, 0, "x", 7), (A, 0, "y", 8), (R, 0, "x", 7)])
    of_a = [(A, "X", 7, 7), (A, "X", 7, 1), (A, "Y", 8, 8), (A, "Y", 8, 1), (R, "X", 7, 7), (R, "X", 7, 1)]
    again = [
        (A, None, None, 7),
        (A, None, None, 3),
        (A, None, None, 8),
        (A, None, None, 3),
        (R, None, None, 7),
        (R, None, None, 3),
    ]
    of_b = [(A, None, None, 2), (A, None, None, 2), (R, None, None, 2)]
    found = [(op, *row[1:]) for op, *row in derived.pull().records]
    assert found == ([*of_a, *again] if source == "a" else of_b)
    assert set(branches) == {1}


def test_a_query_that_selects_the_operation_is_taken_by_its_word(engine_call: EngineCall) -> None:
    rows = [(A, 0, "x", 10), (CF, 0, "x", 10), (CT, 0, "x", 3)]
    assert records(engine_call, "select event_time, op, k, v from a where v > 5", rows) == [(A, "x", 10), (CF, "x", 10)]
    assert records(engine_call, "select event_time, 0 as op, v from a", rows) == [(A, 10), (A, 10), (A, 3)]


def test_an_operation_that_is_none_is_refused(engine_call: EngineCall) -> None:
    with pytest.raises(InvalidData, match="4 as operation type"):
        records(engine_call, "select event_time, 4 as op, v from a", [(A, 0, "x", 1)])
    with pytest.raises(InvalidData, match="None as operation type"):
        records(engine_call, "select event_time, if(v > 1, 0, null) as op, v from a", [(A, 0, "x", 1)])


def test_the_published_example_of_a_snapshot_and_its_derivative(engine_call: EngineCall) -> None:
    first, second = 24 * HOUR, 48 * HOUR
    cities = Input(engine_call.exchange.root, "cities", PLAIN)
    derived = Derivative("select event_time, op, k, v * 10 as v10 from cities", [cities], engine_call)
    cities.add([(A, first, "A", 10), (A, first, "B", 20), (A, first, "C", 30)], watermark=first)
    round_1 = derived.pull()
    cities.add(
        [(R, first, "B", 20), (CF, first, "C", 30), (CT, second, "C", 35), (A, second, "D", 40), (A, second, "E", 50)],
        watermark=second,
    )
    round_2 = derived.pull()
    assert round_1.records == [(A, at(first), "A", 100), (A, at(first), "B", 200), (A, at(first), "C", 300)]
    assert round_2.records == [
        (R, at(first), "B", 200), (CF, at(first), "C", 300), (CT, at(second), "C", 350),
        (A, at(second), "D", 400), (A, at(second), "E", 500),
    ]  # fmt: skip
    assert (round_1.result.offsets, round_2.result.offsets) == (OffsetRange(0, 3), OffsetRange(3, 8))
    assert round_2.table.column("offset").to_pylist() == [3, 4, 5, 6, 7]
    assert round_2.result.watermark == Instant.from_millis(second)


def test_system_columns_can_be_named_but_are_not_in_the_star(engine_call: EngineCall) -> None:
    rows = [(A, 0, "x", 1), (R, 0, "x", 1)]
    assert records(engine_call, "select * from a", rows) == [(A, "x", 1), (R, "x", 1)]
    query = "select *, op, `offset` as source, system_time as seen from a where op = 1"
    assert records(engine_call, query, rows) == [(R, "x", 1, 1, at(0))]


@pytest.mark.parametrize("star", ["*", "a.*"])
def test_a_star_within_a_struct_is_all_columns_of_the_rows(engine_call: EngineCall, star: str) -> None:
    query = f"select event_time, to_json(struct({star})) as j from a"
    found = records(engine_call, query, [(A, 0, "x", 1), (CF, 0, "x", 1), (CT, 0, "x", None)])
    before, after = (
        '{"event_time":"1970-01-01T00:00:00.000Z","k":"x","v":1}',
        '{"event_time":"1970-01-01T00:00:00.000Z","k":"x"}',
    )
    assert found == [(A, before), (CF, before), (CT, after)]


def test_what_a_subquery_does_not_select_cannot_be_named(engine_call: EngineCall) -> None:
    from odfabric.errors import InvalidQuery

    with pytest.raises(InvalidQuery, match="unknown column `op`"):
        records(engine_call, "select event_time, op from (select event_time, k from a)", [(A, 0, "x", 1)])


def test_several_inputs_keep_their_order(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", PLAIN).add([(A, 0, "x", 1), (A, 0, "y", 2)])
    other = Input(tmp_path, "other.b", PLAIN, 2).add([(A, 0, "z", 3)])
    query = "select event_time, k from `other.b` union all select event_time, k from a"
    found = Derivative(query, [one, other], engine_call).pull().records
    assert [row[2] for row in found] == ["z", "x", "y"]


def test_no_rows_make_a_slice_that_carries_the_schema(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", PLAIN).add([], watermark=5)
    found = Derivative("select event_time, v + 1L as w from a", [one], engine_call).pull()
    assert (found.result.offsets, found.result.watermark, found.table.num_rows) == (None, Instant.from_millis(5), 0)
    assert found.table.schema.remove_metadata() == pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("op", pa.int32(), nullable=False),
            pa.field("system_time", MILLIS, nullable=False),
            pa.field("event_time", MILLIS, nullable=False),
            pa.field("w", pa.int64()),
        ]
    )
    assert found.result.data_schema == arrow_to_data_schema(found.table.schema)


def test_columns_passed_through_keep_their_types(engine_call: EngineCall) -> None:
    schema = input_schema(
        pa.field("u8", pa.uint8(), nullable=False),
        pa.field("u32", pa.uint32()),
        pa.field("fixed", pa.binary(2)),
        pa.field("pair", pa.list_(pa.int32(), 2)),
        pa.field("date", pa.date32()),
        pa.field("amount", pa.decimal128(38, 10)),
    )
    one = Input(engine_call.exchange.root, "a", schema)
    row = (A, 0, 255, 2**32 - 1, b"ab", [1, 2], dt.date(1969, 7, 20), None)
    query = "select event_time, u8, u32 as renamed, fixed, pair, date, amount, u8 + 1 as more from a"
    table = Derivative(query, [one.add([row])], engine_call).pull().table
    types = {field.name: field.type for field in table.schema}
    assert types["u8"] == pa.uint8()
    assert types["renamed"] == pa.uint32()
    assert types["fixed"] == pa.binary(2)
    assert types["pair"].equals(pa.list_(pa.int32(), 2))
    assert types["more"] == pa.int32()
    assert not table.schema.field("u8").nullable
    assert table.select(["u8", "renamed", "fixed", "pair", "more"]).to_pylist() == [
        {"u8": 255, "renamed": 2**32 - 1, "fixed": b"ab", "pair": [1, 2], "more": 256}
    ]


def test_a_union_of_two_types_takes_the_wider(engine_call: EngineCall) -> None:
    schema = input_schema(pa.field("u", pa.uint8()), pa.field("i", pa.int32()))
    query = "select event_time, u as x from a union all select event_time, i as x from a"
    assert records(engine_call, query, [(A, 0, 1, 1000)], schema=schema) == [(A, 1), (A, 1000)]


def test_times_before_1970_are_cut_too_and_not_rounded_up(engine_call: EngineCall) -> None:
    query = (
        "select event_time, timestamp_micros(v) as t, array(timestamp_micros(v)) as l,"
        " array(array(timestamp_micros(v))) as n, named_struct('t', timestamp_micros(v)) as s from a"
    )
    ((_, plain, items, nested, member),) = records(engine_call, query, [(A, 0, "x", -600)])
    assert (plain, items, nested, member) == (at(-1), [at(-1)], [[at(-1)]], {"t": at(-1)})


def test_times_are_cut_to_milliseconds(engine_call: EngineCall) -> None:
    query = "select event_time, event_time + interval '0.0019' second as t from a"
    assert records(engine_call, query, [(A, 5, "x", 1)]) == [(A, at(6))]


def test_event_times_may_be_dates(engine_call: EngineCall) -> None:
    schema = input_schema(pa.field("v", pa.int32()), event_time=pa.field("event_time", pa.date32(), nullable=False))
    one = Input(engine_call.exchange.root, "a", schema).add([(A, dt.date(1969, 12, 31), 1)], watermark=-HOUR)
    found = Derivative("select event_time, v from a", [one], engine_call).pull()
    assert found.records == [(A, dt.date(1969, 12, 31), 1)]
    assert found.result.watermark == Instant.from_millis(-HOUR)


def test_a_row_that_fails_but_is_taken_back_in_the_same_interval_does_no_harm(engine_call: EngineCall) -> None:
    query = "select event_time, cast(k as int) as n from a"
    taken_back = [[(A, 0, "1", 1), (A, 0, "oops", 1)], [(CF, 0, "oops", 1), (CT, 0, "2", 1)]]
    assert records(engine_call, query, *taken_back) == [(A, 1), (A, 2)]
    with pytest.raises(InvalidData, match="cannot be cast") as caught:
        records(engine_call, query, [(A, 0, "1", 1), (A, 0, "oops", 1)])
    assert (caught.value.place.line, caught.value.place.column) == (1, 20)


def test_rows_with_any_column_can_be_taken_back(engine_call: EngineCall) -> None:
    schema = input_schema(pa.field("k", pa.string()), pa.field("m", pa.map_(pa.string(), pa.int32())))
    kept, wrong = ("1", [("x", 1), ("y", None)]), ("oops", [("x", 1)])
    query = "select event_time, cast(k as int) as n, m['x'] as x from a"
    rows = [(A, 0, *kept), (A, 0, *wrong), (R, 0, *wrong)]
    assert records(engine_call, query, rows, schema=schema) == [(A, 1, 1)]
    with pytest.raises(InvalidData, match="cannot be cast"):
        records(engine_call, query, rows[:2], schema=schema)


def test_only_what_a_later_interval_takes_back_fails(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", PLAIN).add([(A, 0, "oops", 1)]).add([(R, 0, "oops", 1)])
    query = "select event_time, cast(k as int) as n from a"
    with pytest.raises(InvalidData):
        Derivative(query, [one], engine_call).pull([1])
    assert Derivative(query, [one], engine_call).pull([2]).records == []


def test_an_output_that_does_not_fit_the_dataset_is_refused(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", PLAIN).add([(A, 0, "x", 1)])
    derived = Derivative("select event_time, v from a", [one], engine_call)
    derived.pull()
    one.add([(A, 0, "y", 2)])
    changed = Derivative("select event_time, cast(v as string) v from a", [one], engine_call, name="changed")
    changed.transactions, changed.taken = derived.transactions, [1]
    with pytest.raises(IncompatibleSchema, match="v"):
        changed.pull()


def test_a_missing_row_of_an_input_is_told(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", PLAIN).add([(A, 0, "x", 1)]).add([(A, 0, "y", 2)])
    del one.slices[0]
    with pytest.raises(InvalidData, match="offset"):
        Derivative("select event_time, v from a", [one], engine_call).pull()
