"""A text with a time but no day is no timestamp; Spark would take today."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData, InvalidQuery
from odfabric.model.metadata import TransformSql
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.sql.gate import run_gated_steps
from odfabric_engine_spark.sql.parsed_plan_rules import Mode
from tests.services.engine.transforming import A, Derivative, Input, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.int32()), pa.field("s", pa.string()))
DATED = "2020-02-03 10:30:00"
TIME = datetime(2020, 2, 3, 10, 30, tzinfo=UTC)
TIMES_OF_DAY = ("10:30:00", "T10:30", " 9:05", "\t10:30:00.5", "T7", "10:30 Europe/Berlin", ":30")

STRICT = {
    "a cast": "select event_time, cast(s as timestamp) t from a",
    "a function": "select event_time, to_timestamp(s) t from a",
    "a comparison": "select event_time, k from a where s > timestamp '2020-01-01 00:00:00'",
    "a day": "select event_time, date_trunc('DAY', s) t from a",
    "a key": "select max(event_time) event_time, cast(s as timestamp) t, count(*) n from a group by cast(s as timestamp)",
    "a sum": "select max(event_time) event_time, k, max(cast(s as timestamp)) t from a group by k",
    "a join": "select l.event_time, l.k from a l join a r on cast(l.s as timestamp) = r.event_time",
    "a subquery": "select event_time, k from a where event_time < (select max(to_timestamp(s)) from a)",
    "a list": "select event_time, transform(array(s), x -> cast(x as timestamp)) t from a",
    "a condition of an aggregate": "select max(event_time) event_time, count_if(to_timestamp(s) > event_time) n, k from a group by k",
    "a cast of a guarded one": "select event_time, to_timestamp(cast(to_timestamp(s) as string)) t from a",
}
"""Statements that fail on a time of day, and not on a time."""
REFUSED = {
    "a constant": "select event_time, cast('10:30' as timestamp) t from a",
    "a constant of a function": "select event_time, to_timestamp('T10:30') t from a",
    "a constant to compare with": "select event_time, k from a where event_time > '10:30'",
    "a literal": "select event_time, timestamp '10:30' t from a",
    "a member of VALUES": "select a.event_time, v.t from a join (values (1, '10:30'::timestamp)) v(k, t) on v.k = a.k",
    "a text among times": (
        "select a.event_time, v.t from a"
        " join (values (1, timestamp '2020-01-01 00:00:00'), (2, '10:30')) v(k, t) on v.k = a.k"
    ),
    "texts of a list": "select event_time, cast(array(s) as array<timestamp>) t from a",
    "keys of a map": "select event_time, cast(map(s, k) as map<timestamp, int>) t from a",
    "members of a struct": "select event_time, cast(named_struct('x', k, 'y', s) as struct<x int, y timestamp>) t from a",
    "JSON": "select event_time, from_json(s, 't TIMESTAMP') t from a",
    "CSV": "select event_time, from_csv(s, 't TIMESTAMP') t from a",
    "a variant": "select event_time, variant_get(parse_json(s), '$.t', 'timestamp') t from a",
    "a cast of a variant": "select event_time, cast(parse_json(s) as timestamp) t from a",
}


def derivative(call: EngineCall, folder: Path, query: str, text: str) -> Derivative:
    one = Input(folder, "a", SCHEMA)
    one.add([(A, 0, 1, text)], watermark=10)
    return Derivative(query, [one], replace(call, exchange=ExchangeFolder.at(folder)))


def value(call: EngineCall, folder: Path, expression: str, text: str) -> Any:
    """What an expression over a text gives."""
    found = derivative(call, folder, f"select event_time, {expression} as t from a", text).pull([1])
    return found.table.column("t")[0].as_py()


@pytest.mark.parametrize("name", STRICT)
def test_a_time_of_day_fails_where_a_time_does_not(engine_call: EngineCall, tmp_path: Path, name: str) -> None:
    (tmp_path / "dated").mkdir()
    derivative(engine_call, tmp_path / "dated", STRICT[name], DATED).pull([1])
    with pytest.raises(InvalidData, match=r"without a day: 10:30"):
        derivative(engine_call, tmp_path, STRICT[name], "10:30").pull([1])


@pytest.mark.parametrize("text", TIMES_OF_DAY)
def test_no_form_of_a_time_of_day_has_a_day(engine_call: EngineCall, tmp_path: Path, text: str) -> None:
    for number, cast in enumerate(("try_cast(s as timestamp)", "try_to_timestamp(s)")):
        own = tmp_path / str(number)
        own.mkdir()
        assert value(engine_call, own, cast, text) is None


@pytest.mark.parametrize("text", [DATED, " 2020-02-03T10:30:00Z", "2020-02-03 12:30:00+02:00", "+2020-2-3 10:30"])
def test_a_time_with_a_day_is_as_in_spark(engine_call: EngineCall, tmp_path: Path, text: str) -> None:
    assert value(engine_call, tmp_path, "cast(s as timestamp)", text) == TIME


def test_functions_of_the_time_of_day_need_no_day(engine_call: EngineCall, tmp_path: Path) -> None:
    parts = "named_struct('h', hour(s), 'm', minute(s), 's', second(s), 'e', extract(hour from s))"
    assert value(engine_call, tmp_path, parts, "10:30:15") == {"h": 10, "m": 30, "s": 15, "e": 10}


def test_a_form_that_is_told_needs_no_day(engine_call: EngineCall, tmp_path: Path) -> None:
    assert value(engine_call, tmp_path, "to_timestamp(s, 'HH:mm')", "10:30") == datetime(1970, 1, 1, 10, 30, tzinfo=UTC)
    form = "map('timestampFormat', 'yyyy-MM-dd HH:mm:ss')"
    for number, (text, time) in enumerate((("10:30:00", None), (DATED, TIME))):
        own = tmp_path / str(number)
        own.mkdir()
        parsed = f"from_json(concat('{{\"t\":\"', s, '\"}}'), 't TIMESTAMP', {form}).t"
        assert value(engine_call, own, parsed, text) == time


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_take_the_day_of_the_run_is_refused(engine_call: EngineCall, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidQuery) as refused:
        derivative(engine_call, tmp_path, REFUSED[name], DATED).pull([1])
    assert refused.value.place.rule == "special-time"
    assert refused.value.place.line == 1
    assert refused.value.hint


def test_texts_of_values_stay_texts(engine_call: EngineCall, tmp_path: Path) -> None:
    query = "select a.event_time, v.t from a join (values (1, '10:30'), (2, null)) v(k, t) on v.k = a.k"
    assert derivative(engine_call, tmp_path, query, "").pull([1]).table.column("t").to_pylist() == ["10:30"]


@pytest.mark.parametrize("mode", [Mode.QUERY, Mode.PREPROCESS])
def test_the_same_holds_for_queries_and_for_what_is_pushed(engine_call: EngineCall, mode: Mode) -> None:
    table = engine_call.session.createDataFrame([("10:30",), (DATED,)], "s string")
    query = TransformSql(engine="spark", query="select try_cast(s as timestamp) t from a")
    found = run_gated_steps(engine_call.session, query, {"a": table}, mode=mode, settings=engine_call.settings)
    assert [row.t is None for row in found.collect()] == [True, False]
