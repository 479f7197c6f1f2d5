"""Event-time windows: emitted once the watermark passes, corrected after."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.model.instant import Instant
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.state.checkpoint_states import groups_of
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R, Transaction, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))
HOURLY = "select window.start as event_time, k, sum(v) s from a group by window(event_time, '1 hour'), k"
LATE = HOURLY.replace("select", "select /*+ lateness('1 hour') */", 1)


def hour(number: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=number)


@pytest.fixture
def hits(tmp_path: Path) -> Input:
    return Input(tmp_path, "a", SCHEMA)


def seen(transaction: Transaction) -> list[tuple[Any, ...]]:
    return transaction.records


def test_a_window_is_emitted_when_the_watermark_reaches_its_end(engine_call: EngineCall, hits: Input) -> None:
    derived = Derivative(HOURLY, [hits], engine_call)
    hits.add([(A, 0, "x", 1), (A, HOUR - 1, "x", 2), (A, HOUR, "x", 4)], watermark=HOUR - 1)
    assert seen(derived.pull()) == []
    hits.add([], watermark=HOUR)
    assert seen(derived.pull()) == [(A, hour(0), "x", 3)]
    hits.add([(A, HOUR + 5, "x", 8)], watermark=HOUR)
    assert seen(derived.pull()) == []
    hits.add([], watermark=5 * HOUR)
    assert seen(derived.pull()) == [(A, hour(1), "x", 12)]


def test_a_session_waits_for_the_end_of_its_last_row(engine_call: EngineCall, hits: Input) -> None:
    """Its first row alone would be over when the watermark passes the hour."""
    query = "select session_window.start as event_time, k, count(*) n from a group by session_window(event_time, '40 minutes'), k"
    derived = Derivative(query, [hits], engine_call)
    hits.add([(A, 0, "x", 1), (A, HOUR // 2, "x", 2)], watermark=HOUR)
    assert seen(derived.pull()) == []
    hits.add([], watermark=2 * HOUR)
    assert seen(derived.pull()) == [(A, hour(0), "x", 2)]


def test_a_session_that_a_row_at_its_very_end_keeps_open_holds_the_watermark_back(
    engine_call: EngineCall, hits: Input
) -> None:
    query = "select session_window.start as event_time, k, count(*) n from a group by session_window(event_time, '1 hour'), k"
    derived = Derivative(query, [hits], engine_call)
    hits.add([(A, 0, "x", 1), (A, HOUR, "x", 2)], watermark=3 * HOUR // 2)
    first = derived.pull()
    assert seen(first) == []
    assert first.result.watermark == Instant.from_millis(0)
    hits.add([], watermark=2 * HOUR)
    assert seen(derived.pull()) == [(A, hour(0), "x", 2)]


def test_rows_of_the_block_that_closes_a_window_are_in_it(engine_call: EngineCall, hits: Input) -> None:
    hits.add([(A, 0, "x", 1), (A, 5 * HOUR, "x", 2)], watermark=3 * HOUR)
    assert seen(Derivative(HOURLY, [hits], engine_call).pull()) == [(A, hour(0), "x", 1)]


def test_late_rows_correct_what_was_emitted(engine_call: EngineCall, hits: Input) -> None:
    derived = Derivative(HOURLY, [hits], engine_call)
    hits.add([(A, 0, "x", 1), (A, 0, "y", 1)], watermark=2 * HOUR)
    derived.pull()
    hits.add([(A, 1, "x", 5), (R, 0, "y", 1), (A, HOUR, "z", 7)])
    assert seen(derived.pull()) == [
        (CF, hour(0), "x", 1), (CT, hour(0), "x", 6), (R, hour(0), "y", 1), (A, hour(1), "z", 7),
    ]  # fmt: skip
    hits.add([(CF, 1, "x", 5), (CT, HOUR, "x", 5)])
    assert seen(derived.pull()) == [(CF, hour(0), "x", 6), (CT, hour(0), "x", 1), (A, hour(1), "x", 5)]


def test_blocks_of_one_transaction_are_steps_of_their_own(engine_call: EngineCall, hits: Input) -> None:
    hits.add([(A, 0, "x", 1)], watermark=HOUR).add([(A, 1, "x", 2)]).add(
        [(A, 2, "x", 3), (R, 0, "x", 1)], watermark=HOUR
    )
    assert seen(Derivative(HOURLY, [hits], engine_call).pull()) == [
        (A, hour(0), "x", 1), (CF, hour(0), "x", 1), (CT, hour(0), "x", 3), (CF, hour(0), "x", 3), (CT, hour(0), "x", 5),
    ]  # fmt: skip


@pytest.mark.parametrize("rows_in_memory", [0, 1, 2, 100])
def test_sizes_of_runs_do_not_show(engine_call: EngineCall, hits: Input, rows_in_memory: int) -> None:
    hits.add([(A, 0, "x", 1), (A, HOUR, "y", 2)], watermark=HOUR).add([(A, 0, "x", 2)], watermark=2 * HOUR)
    hits.add([(R, HOUR, "y", 2), (A, 3 * HOUR, "x", 9)]).add([(A, 0, "w", 1)], watermark=4 * HOUR)
    sizes = {"transform_rows_in_memory_max": rows_in_memory, "aggregate_by_spark": rows_in_memory == 0}
    assert seen(Derivative(HOURLY, [hits], engine_call, settings=sizes).pull()) == [
        (A, hour(0), "x", 1),
        (CF, hour(0), "x", 1), (CT, hour(0), "x", 3), (A, hour(1), "y", 2),
        (R, hour(1), "y", 2),
        (A, hour(0), "w", 1), (A, hour(3), "x", 9),
    ]  # fmt: skip


def test_windows_before_1970_and_shifted_ones(engine_call: EngineCall, hits: Input) -> None:
    query = (
        "select window.start as event_time, window.end as until, count(*) n from a "
        "group by window(event_time, '1 hour', '1 hour', '15 minutes')"
    )
    hits.add([(A, -1, "x", 1), (A, -50 * HOUR, "x", 1)], watermark=HOUR)
    assert seen(Derivative(query, [hits], engine_call).pull()) == [
        (A, hour(-50.75), hour(-49.75), 1), (A, hour(-0.75), hour(0.25), 1),
    ]  # fmt: skip


def test_the_slowest_input_decides_and_an_input_without_watermark_holds_all(
    engine_call: EngineCall, tmp_path: Path
) -> None:
    a, b = Input(tmp_path, "a", SCHEMA), Input(tmp_path, "b", SCHEMA, 2)
    both = "(select * from a union all select * from b)"
    query = f"select window.start as event_time, count(*) n from {both} group by window(event_time, '1 hour')"
    derived = Derivative(query, [a, b], engine_call)
    a.add([(A, 0, "x", 1)], watermark=9 * HOUR)
    b.add([(A, 0, "x", 1)])
    first = derived.pull()
    assert (first.records, first.result.watermark) == ([], None)
    b.add([(A, 1, "x", 1)], watermark=2 * HOUR)
    second = derived.pull()
    assert (second.records, second.result.watermark) == ([(A, hour(0), 3)], Instant.from_millis(2 * HOUR))


def test_steps_of_several_inputs_go_by_system_time(engine_call: EngineCall, tmp_path: Path) -> None:
    a, b = Input(tmp_path, "a", SCHEMA), Input(tmp_path, "b", SCHEMA, 2)
    both = "(select * from a union all select * from b)"
    query = f"select window.start as event_time, count(*) n from {both} group by window(event_time, '1 hour')"
    a.add([(A, 0, "x", 1)], watermark=HOUR, at=10).add([(A, 0, "x", 1)], at=30)
    b.add([(A, 0, "x", 1)], watermark=HOUR, at=20)
    assert [(op, n) for op, _, n in Derivative(query, [a, b], engine_call).pull().records] == [(A, 2), (CF, 2), (CT, 3)]


def test_lateness_drops_counts_and_expires(engine_call: EngineCall, hits: Input) -> None:
    derived = Derivative(LATE, [hits], engine_call)
    hits.add([(A, 0, "x", 1), (A, HOUR, "x", 2)], watermark=2 * HOUR - 1)
    assert seen(derived.pull()) == [(A, hour(0), "x", 1)]
    hits.add([(A, 1, "x", 5)], watermark=2 * HOUR)
    within = derived.pull()
    assert (seen(within), within.result.late_rows_dropped) == (
        [(CF, hour(0), "x", 1), (CT, hour(0), "x", 6), (A, hour(1), "x", 2)], 0,
    )  # fmt: skip
    groups = groups_of(within.checkpoint_path)
    assert groups is not None
    assert groups.column("key0_start").to_pylist() == [hour(1)]
    hits.add([(A, 2, "x", 7), (R, 0, "x", 1), (A, HOUR + 1, "x", 3)])
    late = derived.pull()
    assert (seen(late), late.result.late_rows_dropped) == ([(CF, hour(1), "x", 2), (CT, hour(1), "x", 5)], 2)


@pytest.mark.parametrize("rows_in_memory", [0, 1, 100])
def test_a_row_is_late_only_after_earlier_blocks_of_its_own_input(
    engine_call: EngineCall, tmp_path: Path, rows_in_memory: int
) -> None:
    a, b = Input(tmp_path, "a", SCHEMA), Input(tmp_path, "b", SCHEMA, 2)
    both = "(select * from a union all select * from b)"
    query = (
        f"select /*+ lateness('0 seconds') */ window.start as event_time, count(*) n from {both} "
        "group by window(event_time, '1 hour')"
    )
    a.add([(A, 0, "x", 1)], watermark=9 * HOUR, at=1).add([(A, 0, "x", 1), (A, 9 * HOUR, "x", 1)], at=2)
    b.add([(A, 0, "x", 1)], watermark=HOUR, at=3)
    sizes = {"transform_rows_in_memory_max": rows_in_memory, "aggregate_by_spark": rows_in_memory == 0}
    found = Derivative(query, [a, b], engine_call, settings=sizes).pull()
    assert ([(op, n) for op, _, n in found.records], found.result.late_rows_dropped) == ([(A, 2)], 1)


WATERMARKS = [
    ("window.start", 90, 60),
    ("window.end", 90, 90),
    ("max(event_time)", 90, 60),
    ("window.start - interval 1 day", 90, 60 - 24 * 60),
    ("window.end + interval 2 days", 90, 90),
    ("cast(window.start as date)", 90, 0),
    ("date_trunc('DAY', window.start)", 25 * 60 + 1, 24 * 60),
    ("window.start", 60, 60),
]


@pytest.mark.parametrize(("event_time", "minutes_in", "minutes_out"), WATERMARKS)
def test_the_output_watermark_waits_for_windows_that_are_open(
    engine_call: EngineCall, hits: Input, event_time: str, minutes_in: int, minutes_out: int
) -> None:
    hits.add([(A, 0, "x", 1)], watermark=minutes_in * 60_000)
    query = f"select {event_time} as event_time, count(*) n from a group by window(event_time, '1 hour')"
    found = Derivative(query, [hits], engine_call).pull()
    assert found.result.watermark == Instant.from_millis(minutes_out * 60_000)


def test_the_output_watermark_never_goes_back(engine_call: EngineCall, hits: Input) -> None:
    query = "select event_time, v from a"
    derived = Derivative(query, [hits], engine_call)
    hits.add([(A, 0, "x", 1)], watermark=5)
    assert derived.pull().result.watermark == Instant.from_millis(5)
    hits.add([(A, 0, "x", 1)])
    assert derived.pull().result.watermark == Instant.from_millis(5)
    hits.add([(A, 0, "x", 1)], watermark=3)
    assert derived.pull().result.watermark == Instant.from_millis(5)


def test_windows_over_dates(engine_call: EngineCall, tmp_path: Path) -> None:
    schema = input_schema(pa.field("v", pa.int32()), event_time=pa.field("event_time", pa.date32(), nullable=False))
    days = Input(tmp_path, "a", schema)
    query = "select cast(window.start as date) as event_time, sum(v) s from a group by window(event_time, '2 days')"
    derived = Derivative(query, [days], engine_call)
    first = dt.date(1970, 1, 1)
    days.add([(A, first, 1), (A, first + dt.timedelta(1), 2), (A, first + dt.timedelta(2), 4)], watermark=48 * HOUR)
    found = derived.pull()
    assert found.records == [(A, first, 3)]
    assert found.result.watermark == Instant.from_millis(48 * HOUR)


def test_rows_without_event_time_are_in_no_window(engine_call: EngineCall, tmp_path: Path) -> None:
    from tests.services.engine.transforming import MILLIS

    schema = input_schema(pa.field("v", pa.int32()), event_time=pa.field("event_time", MILLIS))
    one = Input(tmp_path, "a", schema).add([(A, None, 1), (A, 0, 2)], watermark=HOUR)
    query = "select window.start as event_time, sum(v) s from a group by window(event_time, '1 hour')"
    assert Derivative(query, [one], engine_call).pull().records == [(A, hour(0), 2)]


def test_a_window_over_another_column_is_an_ordinary_key(engine_call: EngineCall, tmp_path: Path) -> None:
    from tests.services.engine.transforming import MILLIS

    one = Input(tmp_path, "a", input_schema(pa.field("seen", MILLIS))).add([(A, 0, 5)])
    query = "select max(event_time) event_time, window.start as w, count(*) n from a group by window(seen, '1 hour')"
    assert Derivative(query, [one], engine_call).pull().records == [(A, hour(0), hour(0), 1)]


def test_having_can_take_a_window_back_and_give_it_again(engine_call: EngineCall, hits: Input) -> None:
    query = HOURLY + " having sum(v) < 10"
    derived = Derivative(query, [hits], engine_call)
    hits.add([(A, 0, "x", 1)], watermark=HOUR)
    assert seen(derived.pull()) == [(A, hour(0), "x", 1)]
    hits.add([(A, 0, "x", 50)])
    assert seen(derived.pull()) == [(R, hour(0), "x", 1)]
    hits.add([(CF, 0, "x", 50), (CT, 0, "x", 5)])
    assert seen(derived.pull()) == [(A, hour(0), "x", 6)]
