"""Aggregates by key: exact, retraction-correct, the same in memory and in Spark."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.result_rows import ResultTooLarge, collected, whole
from tests.services.engine.state.checkpoint_states import groups_of
from tests.services.engine.transforming import CF, CT, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

BY_SPARK = {"transform_rows_in_memory_max": 0, "aggregate_by_spark": True}
IN_PIECES = {"transform_rows_in_memory_max": 2}


def grouped(
    call: EngineCall, aggregates: str, column: pa.Field, *blocks: list[tuple[int, str | None, Any]], **sizes: int
) -> list[tuple[Any, ...]]:
    """Records (op, key, results) of aggregates of `v` by `k`; rows are (op, k, v).

    Each block is one transaction.
    """
    one = Input(call.exchange.root, "a", input_schema(pa.field("k", pa.string()), column.with_name("v")))
    derived = Derivative(
        f"select max(event_time) event_time, k, {aggregates} from a group by k", [one], call, settings=sizes
    )
    found: list[tuple[Any, ...]] = []
    for block in blocks:
        one.add([(op, 0, key, value) for op, key, value in block])
        found += [(op, *row[1:]) for op, *row in derived.pull().records]
    return found


INT, LONG, DOUBLE = (pa.field("v", t) for t in (pa.int32(), pa.int64(), pa.float64()))


def test_groups_are_emitted_at_once_and_corrected(engine_call: EngineCall) -> None:
    found = grouped(
        engine_call,
        "count(*) n, sum(v) s",
        INT,
        [(A, "y", 1), (A, "x", 2), (A, None, 5)],
        [(A, "x", 3), (R, "y", 1)],
        [(CF, "x", 3), (CT, "y", 3), (A, None, None)],
        [(R, None, None), (A, None, None)],
    )
    assert found == [
        (A, None, 1, 5), (A, "x", 1, 2), (A, "y", 1, 1),
        (CF, "x", 1, 2), (CT, "x", 2, 5), (R, "y", 1, 1),
        (CF, None, 1, 5), (CT, None, 2, 5), (CF, "x", 2, 5), (CT, "x", 1, 2), (A, "y", 1, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("below", ["a", "(select distinct event_time, k, v from a)"])
def test_groups_that_show_the_same_row_are_not_told_apart(engine_call: EngineCall, below: str) -> None:
    one = Input(engine_call.exchange.root, "a", input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32())))
    sql = f"select max(event_time) event_time, max(v) m from {below} q group by k"
    derived = Derivative(sql, [one], engine_call)
    one.add([(A, 0, "x", 1), (A, 0, "y", 2)])
    assert [(op, m) for op, _, m in derived.pull().records] == [(A, 1), (A, 2)]
    one.add([(R, 0, "x", 1), (A, 0, "z", 1), (CF, 0, "y", 2), (CT, 0, "y", 3)])
    assert [(op, m) for op, _, m in derived.pull().records] == [(CF, 2), (CT, 3)]


def test_several_blocks_of_one_transaction_are_one_change(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", input_schema(pa.field("k", pa.string()), INT))
    one.add([(A, 0, "x", 1)]).add([(A, 0, "x", 2), (A, 0, "y", 1)]).add([(R, 0, "y", 1)])
    found = Derivative("select max(event_time) event_time, k, sum(v) s from a group by k", [one], engine_call).pull()
    assert [(op, *row[1:]) for op, *row in found.records] == [(A, "x", 3)]


def test_extremes_survive_retractions(engine_call: EngineCall) -> None:
    found = grouped(
        engine_call,
        "min(v) lo, max(v) hi",
        INT,
        [(A, "x", 3), (A, "x", 1), (A, "x", 9), (A, "x", 9), (A, "x", None)],
        [(R, "x", 9), (R, "x", 1)],
        [(R, "x", 9), (R, "x", 3)],
    )
    assert found == [
        (A, "x", 1, 9), (CF, "x", 1, 9), (CT, "x", 3, 9), (CF, "x", 3, 9), (CT, "x", None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("sizes", [{}, BY_SPARK, IN_PIECES], ids=["in memory", "by Spark", "in pieces"])
def test_sums_of_floats_are_exact(engine_call: EngineCall, sizes: dict[str, int]) -> None:
    values = [1e16, 0.1, -1e16, 5e-324, 1e308, 1e308, -1e308, -1e308, 3.3]
    found = grouped(engine_call, "sum(v) s, avg(v) m", DOUBLE, [(A, "x", value) for value in values], **sizes)
    assert found == [(A, "x", math.fsum([0.1, 3.3, 5e-324]), math.fsum([0.1, 3.3]) / 9)]


def test_special_floats_come_and_go(engine_call: EngineCall) -> None:
    nan, infinity = float("nan"), float("inf")
    found = grouped(
        engine_call,
        "sum(v) s, max(v) hi",
        DOUBLE,
        [(A, "x", 1.5), (A, "x", infinity)],
        [(A, "x", -infinity)],
        [(R, "x", infinity), (A, "x", nan)],
        [(R, "x", nan), (R, "x", -infinity)],
    )
    shown = [str(row) for row in found]
    assert shown == [
        "(0, 'x', inf, inf)", "(2, 'x', inf, inf)", "(3, 'x', nan, inf)", "(2, 'x', nan, inf)", "(3, 'x', nan, nan)",
        "(2, 'x', nan, nan)", "(3, 'x', 1.5, 1.5)",
    ]  # fmt: skip


def test_a_sum_that_is_too_large_for_floats_is_infinite(engine_call: EngineCall) -> None:
    found = grouped(engine_call, "sum(v) s, avg(v) m", DOUBLE, [(A, "x", 1.7e308), (A, "x", 1.7e308)])
    assert found == [(A, "x", math.inf, 1.7e308)]


def test_overflow_is_judged_on_the_net_value(engine_call: EngineCall) -> None:
    largest = 2**63 - 1
    found = grouped(engine_call, "sum(v) s", LONG, [(A, "x", largest), (A, "x", largest), (R, "x", largest)])
    assert found == [(A, "x", largest)]
    with pytest.raises(InvalidData, match=r"sum\(v\) overflows bigint"):
        grouped(engine_call, "sum(v) s", LONG, [(A, "x", largest), (A, "x", 1)])


def test_try_sum_gives_null_where_sum_fails(engine_call: EngineCall) -> None:
    found = grouped(engine_call, "try_sum(v) s, avg(v) m", LONG, [(A, "x", 2**63 - 1), (A, "x", 1), (A, "y", 1)])
    assert found == [(A, "x", None, 2.0**62), (A, "y", 1, 1.0)]


def test_a_withdrawal_of_a_row_that_is_not_there_cancels_its_arrival(engine_call: EngineCall) -> None:
    found = grouped(engine_call, "count(*) n, sum(v) s, min(v) lo", INT, [(R, "x", 7)], [(A, "x", 7)], [(A, "x", 1)])
    assert found == [(A, "x", 1, 1, 1)]


def test_a_group_that_becomes_empty_leaves_no_state(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", input_schema(pa.field("k", pa.string()), DOUBLE))
    query = "select max(event_time) event_time, k, sum(v) s, min(v) lo, count(v) c from a group by k"
    derived = Derivative(query, [one], engine_call)
    one.add([(A, 0, "x", 0.1), (A, 0, "y", 0.2)]).add([(R, 0, "x", 0.1)])
    groups = groups_of(derived.pull().checkpoint_path)
    assert groups is not None
    assert groups.column("key0").to_pylist() == ["y"]


@pytest.mark.parametrize("sizes", [{}, BY_SPARK, IN_PIECES], ids=["in memory", "by Spark", "in pieces"])
def test_keys_are_grouped_as_spark_groups_them(engine_call: EngineCall, sizes: dict[str, int]) -> None:
    one = Input(engine_call.exchange.root, "a", input_schema(pa.field("d", pa.float64()), pa.field("s", pa.string())))
    values = [0.0, -0.0, float("nan"), None, -1.0, float("nan")]
    one.add([(A, 0, value, text) for value in values for text in ("", "\0", None)])
    query = "select max(event_time) event_time, d, s, count(*) n from a group by d, s"
    found = Derivative(query, [one], engine_call, settings=sizes).pull().records
    assert [(str(d), s, n) for _, _, d, s, n in found] == [
        (d, s, n) for d, n in (("None", 1), ("-1.0", 1), ("0.0", 2), ("nan", 2)) for s in (None, "", "\0")
    ]


def test_filters_count_only_what_they_admit(engine_call: EngineCall) -> None:
    aggregates = "count(*) filter (where v > 1) a, count(v) filter (where v < 9) b, sum(v) filter (where v > 1) s, "
    aggregates += (
        "count_if(v > 1) c, max(v) filter (where v > 100) hi, count(v, k) both, bool_and(v > 0) p, some(v > 2) q"
    )
    found = grouped(engine_call, aggregates, INT, [(A, "x", 1), (A, "x", 3), (A, "x", None), (A, "x", 9)])
    assert found == [(A, "x", 2, 2, 12, 2, None, 3, True, True)]


def test_having_and_projections_above(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", input_schema(pa.field("k", pa.string()), INT))
    query = (
        "select event_time, upper(k) || '!' as name, n * 100 / total as share from ("
        "select max(event_time) event_time, k, count(*) n, sum(v) total, max(v) top from a group by k having count(*) > 1"
        ") where top < 100"
    )
    derived = Derivative(query, [one], engine_call)
    one.add([(A, 0, "x", 1)])
    assert derived.pull().records == []
    one.add([(A, 0, "x", 4)])
    assert [row[2:] for row in derived.pull().records] == [("X!", 40.0)]
    one.add([(A, 0, "x", 1000)])
    assert [(row[0], *row[2:]) for row in derived.pull().records] == [(R, "X!", 40.0)]
    one.add([(R, 0, "x", 1000)])
    assert [(row[0], *row[2:]) for row in derived.pull().records] == [(A, "X!", 40.0)]


def test_distinct_rows_are_groups_without_functions(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", input_schema(pa.field("k", pa.string()), INT))
    derived = Derivative("select distinct event_time, k from a", [one], engine_call)
    one.add([(A, 0, "x", 1), (A, 0, "x", 2)])
    assert [row[2:] for row in derived.pull().records] == [("x",)]
    one.add([(R, 0, "x", 1), (CF, 0, "x", 2), (CT, 0, "y", 2)])
    assert [(row[0], *row[2:]) for row in derived.pull().records] == [(R, "x"), (A, "y")]


def test_records_are_ordered_by_event_time_then_key(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", input_schema(pa.field("k", pa.string()), INT))
    one.add([(A, 5, "b", 1), (A, 5, None, 1), (A, 1, "z", 1), (A, -5, "y", 1), (A, 5, "a", 1)])
    query = "select if(k = 'z', null, max(event_time)) event_time, k from a group by k"
    found = Derivative(query, [one], engine_call).pull().records
    assert [row[2] for row in found] == ["z", "y", None, "a", "b"]


DECIMALS = [(3, 1), (12, 3), (18, 18), (28, 10), (29, 0), (38, 0), (38, 18), (38, 37)]


@pytest.mark.parametrize(("precision", "scale"), DECIMALS)
def test_decimals_agree_with_spark_to_the_last_digit(engine_call: EngineCall, precision: int, scale: int) -> None:
    r = random.Random(precision * 100 + scale)
    data_type = pa.decimal128(precision, scale)
    bound = 10 ** (precision - 2)
    values = [Decimal(r.randint(-bound, bound)).scaleb(-scale) for _ in range(60)]
    rows = [(A, r.choice("xyz"), value) for value in values]
    plain = engine_call.session.createDataFrame(
        pa.table({"k": [row[1] for row in rows], "v": pa.array(values, data_type)})
    )
    plain.createOrReplaceTempView("plain")
    aggregates = "try_sum(v) s, try_avg(v) m, min(v) lo, max(v) hi"
    wanted = sorted(
        tuple(row) for row in engine_call.session.sql(f"select k, {aggregates} from plain group by k").collect()
    )
    for number, sizes in enumerate(({}, BY_SPARK, IN_PIECES)):
        folder = engine_call.exchange.root / str(number)
        folder.mkdir()
        found = grouped(engine_call, aggregates, pa.field("v", data_type), rows, **sizes)
        assert [row[1:] for row in found] == wanted


def test_results_have_sparks_types(engine_call: EngineCall) -> None:
    aggregates = "sum(v) a, avg(v) b, sum(cast(v as decimal(10,2))) c, avg(cast(v as decimal(10,2))) d, sum(cast(v as float)) e, "
    aggregates += "min(cast(v as tinyint)) f, count(*) g, max(v > 1) h"
    one = Input(engine_call.exchange.root, "a", input_schema(pa.field("k", pa.string()), INT)).add([(A, 0, "x", 1)])
    query = f"select max(event_time) event_time, k, {aggregates} from a group by k"
    table = Derivative(query, [one], engine_call).pull().table
    assert [str(field.type) for field in table.schema][5:] == [
        "int64", "double", "decimal128(20, 2)", "decimal128(14, 6)", "double", "int8", "int64", "bool",
    ]  # fmt: skip


def test_memory_and_spark_leave_the_same_bytes(engine_call: EngineCall, tmp_path: Path) -> None:
    schema = input_schema(
        pa.field("k", pa.string()),
        pa.field("l", pa.int64()),
        pa.field("d", pa.float64()),
        pa.field("f", pa.float32()),
        pa.field("m", pa.decimal128(38, 2)),
        pa.field("n", pa.decimal128(20, 4)),
        pa.field("y", pa.date32()),
        pa.field("b", pa.binary()),
    )
    r = random.Random(4)
    floats = [0.1, -0.0, 5e-324, -2.2e-308, 1.7e308, float("nan"), float("inf"), float("-inf"), 2.0**52 + 0.5, 1 / 3]
    rows = [
        (
            r.choice([A, A, A, R]),
            r.randrange(-10, 10),
            r.choice(["x", "y", None]),
            r.choice([2**63 - 1, -(2**63), 0, 5, None]),
            r.choice([*floats, None]),
            r.choice([0.5, 3.4e38, 1e-45, None]),
            r.choice([Decimal("9" * 36 + ".99"), Decimal("-0.01"), None]),
            r.choice([Decimal("1.5"), None]),
            r.choice([dt.date(1969, 1, 1), dt.date(2020, 1, 1), None]),
            r.choice([b"", b"\0", b"\xff", None]),
        )
        for _ in range(300)
    ]
    one = Input(tmp_path, "a", schema).add(rows[:200]).add(rows[200:])
    columns = ("l", "d", "f", "m", "n")
    sums = ", ".join(f"try_avg({c}) a{c}, min({c}) i{c}, max({c}) x{c}, count({c}) c{c}" for c in columns)
    query = f"select max(event_time) event_time, k, try_sum(d) sd, {sums}, min(y) iy, max(b) xb from a group by k"
    found = [
        Derivative(query, [one], engine_call, name=f"n{number}", settings=sizes).pull()
        for number, sizes in enumerate(({}, BY_SPARK, IN_PIECES))
    ]
    for other in found[1:]:
        assert found[0].checkpoint_path.read_bytes() == other.checkpoint_path.read_bytes()
        assert found[0].slice_path.read_bytes() == other.slice_path.read_bytes()
    assert found[0].result.offsets is not None


def test_sums_that_spark_does_not_collect_come_through_files(engine_call: EngineCall) -> None:
    megabyte, rows = 2**20, 2 * engine_call.settings.collected_bytes_max // 2**20 + 10
    large = engine_call.session.range(rows).selectExpr("id", f"repeat('x', {megabyte}) as text")
    with pytest.raises(ResultTooLarge):
        collected(large)
    found = whole(engine_call, large)
    assert sorted(found.column("id").to_pylist()) == list(range(rows))
    assert found.column("text")[0].as_py() == "x" * megabyte


@pytest.mark.parametrize("sizes", [{}, BY_SPARK, IN_PIECES])
def test_any_value_of_a_constant_is_that_constant_for_every_group(
    engine_call: EngineCall, sizes: dict[str, int]
) -> None:
    found = grouped(
        engine_call,
        "any_value(1) c, last('x') filter (where v > 1) f, first(null, true) is null e, count(*) n",
        INT,
        [(A, "x", 1), (A, "x", 2), (A, "y", None)],
        [(R, "x", 2), (A, "y", 5), (A, "z", 1)],
        [(R, "z", 1)],
        **sizes,
    )
    assert found == [
        (A, "x", 1, "x", True, 2), (A, "y", 1, None, True, 1),
        (CF, "x", 1, "x", True, 2), (CT, "x", 1, None, True, 1),
        (CF, "y", 1, None, True, 1), (CT, "y", 1, "x", True, 2), (A, "z", 1, None, True, 1),
        (R, "z", 1, None, True, 1),
    ]  # fmt: skip
