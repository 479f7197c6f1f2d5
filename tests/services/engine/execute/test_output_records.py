"""Records of staged queries: pairs, and rows withdrawn before they come."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.transforming import CF, CT, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark


def test_nulls_tell_groups_apart(engine_call: EngineCall) -> None:
    """Spark's hash passes over nulls: to it (1, null) and (null, true) are the same."""
    schema = input_schema(pa.field("d", pa.date32()), pa.field("b", pa.bool_()), pa.field("v", pa.int32()))
    day = dt.date(1970, 1, 2)
    one = Input(engine_call.exchange.root, "a", schema).add([(A, 0, day, None, 1)])
    query = "select max(event_time) as event_time, d, b, bit_xor(v) as x from a group by d, b"
    derivative = Derivative(query, [one], engine_call)
    assert [(op, *row[1:]) for op, *row in derivative.pull().records] == [(A, day, None, 1)]
    one.add([(A, 0, day, None, 2), (A, 0, None, True, 4)])
    found = [(op, *row[1:]) for op, *row in derivative.pull().records]
    assert sorted(found, key=str) == [(A, None, True, 4), (CF, day, None, 1), (CT, day, None, 3)]


@pytest.mark.parametrize("among", ["", " union all select max(event_time), 'all', count(*) from b"])
def test_rows_that_are_withdrawn_before_they_come_are_settled_in_the_end(engine_call: EngineCall, among: str) -> None:
    """Also in the first transaction, and beside a part that has a row over nothing."""
    schema = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64()))
    inputs = [Input(engine_call.exchange.root, alias, schema, number + 1) for number, alias in enumerate("ab")]
    inputs[0].add([(R, 0, "x", 1), (A, 0, "y", 2)])
    inputs[1].add([(A, 0, "y", 3)])
    query = (
        "select event_time, k, v from a union all select l.event_time, l.k, r.v from b l left join b r on l.v = r.v + 1"
    )
    derivative = Derivative(f"{query}{among}", inputs, engine_call)
    found = list(derivative.pull().records)
    inputs[0].add([(A, 0, "x", 1), (A, 0, "x", 1)])
    inputs[1].add([(A, 0, "z", 4)])
    found += derivative.pull().records
    net: dict[tuple[str, int | None], int] = {}
    for op, _, k, v in found:
        net[k, v] = net.get((k, v), 0) + (1 if op in (A, CT) else -1)
    counted = {("all", 2): 1} if among else {}
    assert {row: count for row, count in net.items() if count} == {
        ("x", 1): 1,
        ("y", 2): 1,
        ("y", None): 1,
        ("z", 3): 1,
        **counted,
    }
