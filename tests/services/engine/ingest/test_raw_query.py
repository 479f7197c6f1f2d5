"""Query: read-only SQL over pinned slices, within limits."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from odfabric.errors import Determinate, InvalidData, InvalidQuery, LimitExceeded
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.engine import QueryInput, QueryRequest, QueryResult, SliceFile
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.usecases.queries.row_query import profile_query
from odfabric_engine_spark.ingest.raw_query import run_query
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.failures import as_odf_error
from odfabric_engine_spark.spark.frames.result_rows import batches_of
from tests.services.engine.transforming import CF, CT, A, Input, input_schema
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("u", pa.uint32()), pa.field("d", pa.float64()))


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[QueryInput, ...]:
    one = Input(tmp_path, "acc/data", SCHEMA)
    one.add([(A, -1, "x", 1, 0.5), (A, 0, "y", 2**32 - 1, None)]).add([(CF, -1, "x", 1, 0.5), (CT, -1, "x", 2, 0.5)])
    empty = QueryInput(alias="empty", vocabulary=DatasetVocabulary(), data_schema=None)
    return (as_query_input(one), empty)


def as_query_input(one: Input) -> QueryInput:
    return QueryInput(
        alias=one.alias, vocabulary=DatasetVocabulary(), data_schema=one.data_schema, slices=tuple(one.slices)
    )


def query(
    call: EngineCall, inputs: tuple[QueryInput, ...], sql: str, **changes: Any
) -> tuple[QueryResult, list[dict[str, Any]]]:
    request = QueryRequest(
        sql=sql, inputs=inputs, skip=0, limit=100, bytes_max=1 << 20, wall_ms_max=60_000, output_path="result"
    )
    result = run_query(replace(request, **changes), call)
    table = pa.ipc.open_stream(call.exchange.root / "result").read_all()
    assert table.num_rows == result.rows
    assert arrow_to_data_schema(table.schema) == result.data_schema
    return result, table.to_pylist()


def test_all_columns_are_seen_system_columns_too(engine_call: EngineCall, inputs: tuple[QueryInput, ...]) -> None:
    _, rows = query(engine_call, inputs, 'select * from "acc/data" order by "offset"')
    assert list(rows[0]) == ["offset", "op", "system_time", "event_time", "k", "u", "d"]
    assert [(row["offset"], row["op"], row["k"], row["u"]) for row in rows] == [
        (0, A, "x", 1), (1, A, "y", 2**32 - 1), (2, CF, "x", 1), (3, CT, "x", 2),
    ]  # fmt: skip
    assert rows[0]["event_time"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)


def test_the_profile_of_a_page_is_computed(engine_call: EngineCall, inputs: tuple[QueryInput, ...]) -> None:
    columns = [("k", "STRING"), ("u", "BIGINT"), ("d", "DOUBLE"), ("event_time", "TIMESTAMP")]
    _, [found] = query(engine_call, inputs, profile_query("acc/data", columns))
    assert (found["records"], found["nulls_2"], found["distinct_0"], found["min_0"], found["max_1"]) == (
        4, 1, 2, "x", str(2**32 - 1),
    )  # fmt: skip
    spread: Counter[float] = Counter()
    for each in json.loads(found["spread_1"]):
        spread[each["x"]] += each["y"]  # a value may have more than one bar
    assert spread == {1.0: 2.0, 2.0: 1.0, 2.0**32 - 1: 1.0}
    assert "spread_0" not in found
    assert "spread_3" not in found


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select k, count(*) n from `acc/data` group by k order by k", [("x", 3), ("y", 1)]),
        ('select k from "acc/data" d where u = (select max(u) from "acc/data")', [("y",)]),
        ("select sum(d) s, avg(d) m, collect_list(k) is null l from `acc/data`", [(1.5, 0.5, False)]),
        ("with x as (select 1 a) select a + 1 b from x", [(2,)]),
        ("select * from empty", []),
        ("select count(*) n from empty", [(0,)]),
        ("select 'it''s' as q", [("it's",)]),
    ],
)
def test_ordinary_queries(
    engine_call: EngineCall, inputs: tuple[QueryInput, ...], sql: str, expected: list[tuple[Any, ...]]
) -> None:
    assert [tuple(row.values()) for row in query(engine_call, inputs, sql)[1]] == expected


def test_statistics_of_slices_do_not_decide_about_floats(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "floats", SCHEMA)
    one.add([(A, at, "x", at, value) for at, value in enumerate((1.0, float("nan"), -0.0, -0.0))])
    for condition, count in (("d > 5", 1), ("d = 0.0D", 2), ("d = cast('NaN' as double)", 1)):
        _, rows = query(engine_call, (as_query_input(one),), f"select count(*) n from floats where {condition}")
        assert rows == [{"n": count}], condition


def test_skip_and_limit_page_through_the_result(engine_call: EngineCall, inputs: tuple[QueryInput, ...]) -> None:
    sql = 'select "offset" o from "acc/data" order by o desc'
    assert [row["o"] for row in query(engine_call, inputs, sql, skip=1, limit=2)[1]] == [2, 1]
    assert query(engine_call, inputs, sql, skip=9)[1] == []
    assert query(engine_call, inputs, sql, limit=0)[1] == []


def test_only_the_pinned_slices_are_read(engine_call: EngineCall, inputs: tuple[QueryInput, ...]) -> None:
    pinned = replace(inputs[0], slices=inputs[0].slices[:1])
    assert query(engine_call, (pinned,), 'select count(*) n from "acc/data"')[1] == [{"n": 2}]


def test_a_result_too_large_stops_the_work(engine_call: EngineCall, inputs: tuple[QueryInput, ...]) -> None:
    sql = "select id, repeat('x', 1000) as x from range(100000)"
    assert len(query(engine_call, inputs, sql, limit=50)[1]) == 50
    with pytest.raises(LimitExceeded) as caught:
        query(engine_call, inputs, sql, limit=100_000, bytes_max=1 << 20)
    assert (caught.value.limit, caught.value.maximum) == ("query_bytes_max", 1 << 20)
    tracker = engine_call.session.sparkContext.statusTracker()
    wait_until(lambda: not tracker.getActiveJobsIds(), what="the end of the jobs of a stopped query")


def test_rows_come_through_files_as_they_come_through_memory(engine_call: EngineCall) -> None:
    frame = engine_call.session.sql(
        "select id, cast(id as decimal(20, 3)) `a b(c)`, array(id, null) l, named_struct('x', 'it', 'y', id) s,"
        " timestamp_millis(id - 5) t, date_from_unix_date(cast(id as int) - 5) d, unhex('00ff') b, id % 3 = 0 f,"
        " if(id % 2 = 0, null, 'odd') r from range(5000) order by id desc"
    ).limit(3000)
    collected = list(batches_of(engine_call, lambda: frame, lambda: frame))
    written = list(batches_of(engine_call, None, lambda: frame))
    rows = [row for batch in written for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == list(range(4999, 1999, -1))
    assert rows == [row for batch in collected for row in batch.to_pylist()]


def test_one_result_may_be_written_while_another_is_read(engine_call: EngineCall) -> None:
    first, second = (
        batches_of(engine_call, None, lambda begin=begin: engine_call.session.range(begin, begin + 10, 1, 2))
        for begin in (0, 50)
    )
    one = next(first)
    assert next(second).column("id")[0].as_py() == 50
    rows = [*one.to_pylist(), *(row for batch in first for row in batch.to_pylist())]
    assert [row["id"] for row in rows] == list(range(10))
    assert sum(batch.num_rows for batch in second) == 5
    assert not list(engine_call.scratch.iterdir())


def test_a_result_that_spark_will_not_collect_comes_all_the_same(
    engine_call: EngineCall, inputs: tuple[QueryInput, ...]
) -> None:
    rows_max = 100_000
    request = QueryRequest(
        sql=f"select id, repeat('x', 3000) x from range({rows_max}) order by id desc",
        inputs=inputs, skip=0, limit=rows_max, bytes_max=1 << 30, wall_ms_max=60_000, output_path="result",
    )  # fmt: skip
    stages: list[str] = []
    call = replace(engine_call, listener=lambda told: stages.append(told.stage))
    assert run_query(request, call).rows == rows_max
    assert "sort" in stages, "it did not go through files"
    assert not list(engine_call.scratch.iterdir())
    with pa.ipc.open_stream(engine_call.exchange.root / "result") as stream:
        ids = [one for batch in stream for one in batch.column("id").to_pylist()]
    assert ids == list(range(rows_max - 1, -1, -1))


def test_a_call_that_must_end_ends(engine_call: EngineCall, inputs: tuple[QueryInput, ...]) -> None:
    engine_call.stop.set(Determinate("the caller is gone"))
    with pytest.raises(Determinate, match="the caller is gone"):
        query(engine_call, inputs, "select 1 x")


@pytest.mark.parametrize(
    ("sql", "rule", "column", "hint"),
    [
        ('select nope from "acc/data"', "unresolved-column", 8, "`op`"),
        ("select * from nothing", "relation", 15, "`acc/data`"),
        ("select k from 'acc/data'", "parse-syntax-error", 15, "SELECT"),
        ('select k, k from "acc/data"', "column-name", 1, "AS"),
        ('select k, upper(k) as k from "acc/data"', "column-name", 11, "AS"),
        ("select interval 1 day as x", "column-type", None, "cast"),
        ("select now() x", "function-clock", 8, "literal"),
        ('select "text" x from empty', "unresolved-column", 8, "`op`"),
    ],
)
def test_errors_name_the_place_and_what_to_do(
    engine_call: EngineCall, inputs: tuple[QueryInput, ...], sql: str, rule: str, column: int | None, hint: str
) -> None:
    with pytest.raises(InvalidQuery) as caught:
        query(engine_call, inputs, sql)
    assert (caught.value.place.rule, caught.value.place.column) == (rule, column)
    assert hint in str(caught.value.hint)


def test_a_row_that_an_expression_fails_on_is_told(engine_call: EngineCall, inputs: tuple[QueryInput, ...]) -> None:
    with pytest.raises(InvalidData, match="cannot be cast") as caught:
        query(engine_call, inputs, 'select op,\n cast(k as int) x from "acc/data"')
    assert (caught.value.place.line, caught.value.place.column) == (2, 2)


def test_a_value_that_reads_like_a_failing_machine_is_still_a_value(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "texts", SCHEMA)
    one.add([(A, 0, "MemoryError: No space left on device", 1, None)])
    with pytest.raises(InvalidData, match="cannot be cast") as caught:
        query(engine_call, (as_query_input(one),), "select cast(k as int) n from texts")
    assert isinstance(caught.value.__cause__, PySparkException)
    assert isinstance(as_odf_error(caught.value.__cause__), InvalidData)


def test_the_same_alias_twice_is_refused(engine_call: EngineCall, inputs: tuple[QueryInput, ...]) -> None:
    with pytest.raises(InvalidQuery):
        query(engine_call, (inputs[0], inputs[0]), "select 1 x")


def test_a_missing_file_is_the_coordinators_fault(engine_call: EngineCall, inputs: tuple[QueryInput, ...]) -> None:
    gone = replace(inputs[0], slices=(SliceFile(path="nowhere", offsets=inputs[0].slices[0].offsets),))
    with pytest.raises(Determinate):
        query(engine_call, (gone,), 'select 1 x from "acc/data"')


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("select make_date(2024, 13, 1) x from `acc/data`", 8),
        ("select cast('x' as int) x from `acc/data`", 8),
        ("select k from `acc/data` where u > 1 and element_at(array(1), 5) > 1", 42),
    ],
)
def test_a_constant_that_fails_has_its_place(
    engine_call: EngineCall, inputs: tuple[QueryInput, ...], sql: str, column: int
) -> None:
    with pytest.raises(InvalidData) as caught:
        query(engine_call, inputs, sql)
    assert (caught.value.place.line, caught.value.place.column) == (1, column)


def test_aliases_that_differ_in_case_are_one_name(engine_call: EngineCall, tmp_path: Path) -> None:
    tables = (Input(tmp_path, "a", SCHEMA), Input(tmp_path, "A", SCHEMA))
    with pytest.raises(InvalidQuery, match="two inputs have the alias A"):
        query(engine_call, tuple(map(as_query_input, tables)), "SELECT k FROM a")
