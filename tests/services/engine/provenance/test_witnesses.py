"""Witnesses, cells, triggers and notes of operators, on small inputs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric.model.provenance import CellRole, ProvenanceKind, RowsRead
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.provenance.explaining import ALL_KINDS, Answer, explained
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R, input_schema

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

K, V = pa.field("k", pa.string()), pa.field("v", pa.int64())


def sales(call: EngineCall) -> Input:
    """Four sales in two blocks; the second corrects the first one."""
    one = Input(call.exchange.root, "sales", input_schema(K, V))
    one.add([(A, 1 * HOUR, "x", 5), (A, 2 * HOUR, "y", 7), (A, 3 * HOUR, "x", 9)], watermark=HOUR)
    return one.add([(CF, 1 * HOUR, "x", 5), (CT, 1 * HOUR, "x", 6), (A, 4 * HOUR, "x", 1)], watermark=4 * HOUR)


def stores(call: EngineCall) -> Input:
    """Two stores."""
    one = Input(call.exchange.root, "stores", input_schema(K, pa.field("region", pa.string())), 2)
    return one.add([(A, 0, "x", "north"), (A, 0, "y", "south")], watermark=9 * HOUR)


def answers(call: EngineCall, query: str, *inputs: Input) -> tuple[Derivative, Answer, Answer | None]:
    """Two transactions and answers about all of their records."""
    derivative = Derivative(query, inputs, call)
    derivative.pull([1] * len(inputs))
    derivative.pull()
    without_trigger = ALL_KINDS - {ProvenanceKind.TRIGGER}
    first = explained(derivative, 0, kinds=without_trigger)
    return derivative, first, explained(derivative, 1) if derivative.transactions[1].table.num_rows else None


def test_row_wise(engine_call: EngineCall) -> None:
    """Each record is the image of one input record."""
    _, first, second = answers(engine_call, "SELECT event_time, v + 1 AS w FROM sales", sales(engine_call))
    assert second is not None
    assert [first.witnesses(at) for at in range(3)] == [{("sales", at)} for at in range(3)]
    assert [second.witnesses(at) for at in range(3, 6)] == [{("sales", at)} for at in range(3, 6)]
    assert first.cells(0, "w") == {("sales", 0, "v"): CellRole.COMPUTED}
    assert first.cells(0, "event_time") == {("sales", 0, "event_time"): CellRole.COPIED}
    assert first.result.cost.read is RowsRead.ROW_WISE
    assert all(each.verified and each.minimal for each in first.result.records)


def test_group(engine_call: EngineCall) -> None:
    """A group is made of its rows; a correction withdraws what was there before."""
    query = "SELECT max(event_time) AS event_time, k, sum(v) AS s, max(v) AS m FROM sales GROUP BY k"
    derivative, first, second = answers(engine_call, query, sales(engine_call))
    assert second is not None
    rows = derivative.transactions[0].table.to_pylist()
    x = next(row["offset"] for row in rows if row["k"] == "x")
    assert first.witnesses(x) == {("sales", 0), ("sales", 2)}
    assert first.cells(x, "s") == {("sales", 0, "v"): CellRole.COMPUTED, ("sales", 2, "v"): CellRole.COMPUTED}
    assert first.cells(x, "m") == {("sales", 0, "v"): CellRole.COMPARED, ("sales", 2, "v"): CellRole.COPIED}
    assert first.cells(x, None) == {("sales", at, "k"): CellRole.INSPECTED for at in (0, 2)}
    old, new = (row["offset"] for row in derivative.transactions[1].table.to_pylist())
    assert second.witnesses(old) == {("sales", 0), ("sales", 2)}
    assert second.witnesses(new) == {("sales", 2), ("sales", 4), ("sales", 5)}
    assert second.trigger(new) == {("sales", 3), ("sales", 4), ("sales", 5)}
    assert second.result.cost.read is RowsRead.KEYS
    assert all(each.verified for each in (*first.result.records, *second.result.records))


def test_a_correction_is_one_cause(engine_call: EngineCall) -> None:
    """Both halves of it.

    Also where one of them has another key, or does not come through the query.
    """
    one = Input(engine_call.exchange.root, "sales", input_schema(K, V))
    one.add([(A, HOUR, "x", 5), (A, HOUR, "y", 7)], watermark=HOUR)
    one.add([(CF, HOUR, "x", 5), (CT, HOUR, "y", 5), (A, HOUR, "z", 1)], watermark=HOUR)
    whole = {("sales", 2), ("sales", 3)}
    query = "SELECT max(event_time) AS event_time, k, sum(v) AS s FROM sales GROUP BY k"
    derivative, _, second = answers(engine_call, query, one)
    assert second is not None
    rows = {(row["op"], row["k"]): row["offset"] for row in derivative.transactions[1].table.to_pylist()}
    assert [second.trigger(rows[op, k]) for op, k in ((R, "x"), (CF, "y"), (CT, "y"))] == [whole] * 3
    assert second.trigger(rows[A, "z"]) == {("sales", 4)}
    _, _, kept = answers(engine_call, "SELECT event_time, v FROM sales WHERE k = 'x'", one)
    assert kept is not None
    (record,) = kept.result.records
    assert (record.op, kept.witnesses(record.offset), kept.trigger(record.offset)) == (R, {("sales", 2)}, whole)


def test_join(engine_call: EngineCall) -> None:
    """A joined row is made of one row of each side."""
    query = "SELECT s.event_time, s.k, t.region, s.v FROM sales s JOIN stores t ON s.k = t.k"
    derivative, first, _ = answers(engine_call, query, sales(engine_call), stores(engine_call))
    rows = {row["v"]: row["offset"] for row in derivative.transactions[0].table.to_pylist()}
    assert first.witnesses(rows[7]) == {("sales", 1), ("stores", 1)}
    assert first.cells(rows[7], "region") == {("stores", 1, "region"): CellRole.COPIED}
    assert all(each.verified for each in first.result.records)


def test_left_join_says_that_nothing_matched(engine_call: EngineCall) -> None:
    """A row without a partner has a note instead of a witness."""
    other = Input(engine_call.exchange.root, "stores", input_schema(K, pa.field("region", pa.string())), 2)
    other.add([(A, 0, "y", "south")], watermark=9 * HOUR)
    query = "SELECT s.event_time, s.v, t.region FROM sales s LEFT JOIN stores t ON s.k = t.k"
    derivative, first, _ = answers(engine_call, query, sales(engine_call), other)
    rows = {row["v"]: row["offset"] for row in derivative.transactions[0].table.to_pylist()}
    assert first.witnesses(rows[5]) == {("sales", 0)}
    assert any("no row of the right side matched" in note for note in first.record(rows[5]).notes)
    assert first.witnesses(rows[7]) == {("sales", 1), ("stores", 0)}


def test_not_exists(engine_call: EngineCall) -> None:
    """An anti join has no partner to name."""
    other = Input(engine_call.exchange.root, "stores", input_schema(K, pa.field("region", pa.string())), 2)
    other.add([(A, 0, "y", "south")], watermark=9 * HOUR).add([(A, 0, "x", "north")], watermark=9 * HOUR)
    query = "SELECT s.event_time, s.k, s.v FROM sales s WHERE NOT EXISTS (SELECT 1 FROM stores t WHERE t.k = s.k)"
    derivative, first, second = answers(engine_call, query, sales(engine_call), other)
    assert second is not None
    rows = {row["v"]: row["offset"] for row in derivative.transactions[0].table.to_pylist()}
    assert first.witnesses(rows[9]) == {("sales", 2)}
    assert any("no row matched" in note for note in first.record(rows[9]).notes)
    gone = {row["v"]: row["offset"] for row in derivative.transactions[1].table.to_pylist() if row["op"] == R}
    assert second.witnesses(gone[9]) == {("sales", 2)}
    assert second.trigger(gone[9]) == {("stores", 1)}


def test_running_sum(engine_call: EngineCall) -> None:
    """A row over a frame is made of itself and the rows of the frame."""
    query = "SELECT event_time, k, v, sum(v) OVER (PARTITION BY k ORDER BY event_time ROWS UNBOUNDED PRECEDING) AS s FROM sales"
    derivative, first, second = answers(engine_call, query, sales(engine_call))
    assert second is not None
    rows = {row["v"]: row["offset"] for row in derivative.transactions[0].table.to_pylist()}
    assert first.witnesses(rows[5]) == {("sales", 0)}
    assert first.witnesses(rows[9]) == {("sales", 0), ("sales", 2)}
    assert first.cells(rows[9], "v") == {("sales", 2, "v"): CellRole.COPIED}
    assert first.cells(rows[9], None) == {}, "the row is there whatever its place is"
    assert "OVER (PARTITION BY sales.k ORDER BY sales.event_time" in first.record(rows[9]).how
    assert "#" not in first.record(rows[9]).how, "numbers of one compilation"
    assert {cell: role for cell, role in first.cells(rows[9], "s").items() if cell[2] == "v"} == {
        ("sales", 0, "v"): CellRole.COMPUTED,
        ("sales", 2, "v"): CellRole.COMPUTED,
    }


def test_closed_by_the_watermark(engine_call: EngineCall) -> None:
    """A window that a watermark closes has no record as its trigger."""
    one = Input(engine_call.exchange.root, "sales", input_schema(K, V))
    one.add([(A, 1 * HOUR, "x", 5)], watermark=HOUR).add([], watermark=4 * HOUR)
    query = "SELECT window.start AS event_time, sum(v) AS s FROM sales GROUP BY window(event_time, '1 hour')"
    derivative = Derivative(query, [one], engine_call)
    derivative.pull([1])
    derivative.pull()
    answer = explained(derivative, 1)
    (record,) = answer.result.records
    assert (record.by_watermark, record.verified, record.trigger) == (True, True, ())
    assert answer.witnesses(record.offset) == {("sales", 0)}


def test_keys_that_changed_are_found_through_a_join(engine_call: EngineCall) -> None:
    """A group shows nothing of its key: new records lead to what changed.

    They lead to the regions, and these to their rows.
    """
    places = Input(engine_call.exchange.root, "stores", input_schema(K, pa.field("region", pa.string())), 2)
    places.add([(A, 0, f"s{at}", "north" if at < 2 else "south") for at in range(20)], watermark=9 * HOUR)
    places.add([], watermark=9 * HOUR)
    sold = Input(engine_call.exchange.root, "sales", input_schema(K, V))
    sold.add([(A, at * HOUR, f"s{at % 20}", 1) for at in range(60)], watermark=HOUR)
    sold.add([(A, 99 * HOUR, "s1", 1)], watermark=HOUR)
    query = "SELECT max(s.event_time) AS event_time, count(*) AS n FROM sales s JOIN stores t ON s.k = t.k GROUP BY t.region"
    derivative, _, second = answers(engine_call, query, sold, places)
    assert second is not None
    new = next(row["offset"] for row in derivative.transactions[1].table.to_pylist() if row["n"] == 7)
    north = {("sales", at) for at in range(60) if at % 20 < 2} | {("sales", 60), ("stores", 0), ("stores", 1)}
    assert second.witnesses(new) == north
    assert second.trigger(new) == {("sales", 60)}
    assert (second.result.cost.read, second.result.cost.rows_bound) == (RowsRead.TOUCHED, 2 * len(north)), (
        "before and after"
    )
    assert all(each.verified for each in second.result.records)
