"""Outer joins over two event times, transaction by transaction.

What waits, what comes with the watermark, what is corrected.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.model.instant import Instant
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()))
ORDERS = (
    "select o.event_time, o.k, p.event_time as paid from orders o left join payments p"
    " on o.k = p.k and p.event_time between o.event_time and o.event_time + interval '1' hour"
)
UNPAID = (
    "select event_time, k from orders o where not exists (select 1 from payments p"
    " where p.k = o.k and p.event_time between o.event_time and o.event_time + interval '1' hour)"
)


@pytest.fixture
def orders(tmp_path: Path) -> Input:
    return Input(tmp_path, "orders", SCHEMA)


@pytest.fixture
def payments(tmp_path: Path) -> Input:
    return Input(tmp_path, "payments", SCHEMA, 2)


def at(hours: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=hours)


def pull(derivative: Derivative) -> list[tuple[Any, ...]]:
    return [tuple(record) for record in derivative.pull().records]


def test_a_row_without_a_partner_comes_when_none_can(engine_call: EngineCall, orders: Input, payments: Input) -> None:
    derivative = Derivative(ORDERS, [orders, payments], engine_call)
    orders.add([(A, 0, "x"), (A, 0, "y"), (A, HOUR, "z")], watermark=HOUR, at=1)
    payments.add([(A, HOUR // 2, "x")], watermark=HOUR // 2, at=2)
    first = derivative.pull()
    assert [tuple(record) for record in first.records] == [(A, at(0), "x", at(0.5))]
    assert first.result.watermark == Instant.from_millis(-HOUR // 2), "an order of this time could still come out"
    payments.add([], watermark=HOUR, at=3)
    assert pull(derivative) == [(A, at(0), "y", None)]
    orders.add([], watermark=5 * HOUR, at=4)
    payments.add([], watermark=5 * HOUR, at=5)
    assert pull(derivative) == [(A, at(1), "z", None)]
    assert pull(derivative) == []


def test_late_partners_correct_what_came_without_one(engine_call: EngineCall, orders: Input, payments: Input) -> None:
    derivative = Derivative(ORDERS, [orders, payments], engine_call)
    orders.add([(A, 0, "x")], watermark=5 * HOUR, at=1)
    payments.add([], watermark=5 * HOUR, at=2)
    assert pull(derivative) == [(A, at(0), "x", None)]
    payments.add([(A, HOUR, "x")], watermark=5 * HOUR, at=3)
    assert pull(derivative) == [(CF, at(0), "x", None), (CT, at(0), "x", at(1))]
    payments.add([(R, HOUR, "x")], watermark=5 * HOUR, at=4)
    assert pull(derivative) == [(CF, at(0), "x", at(1)), (CT, at(0), "x", None)]


def test_what_is_missing_is_told_when_it_is_sure(engine_call: EngineCall, orders: Input, payments: Input) -> None:
    derivative = Derivative(UNPAID, [orders, payments], engine_call)
    orders.add([(A, 0, "x"), (A, 0, "y")], watermark=9 * HOUR, at=1)
    payments.add([(A, 0, "y")], watermark=HOUR - 1, at=2)
    assert pull(derivative) == []
    payments.add([], watermark=HOUR, at=3)
    assert pull(derivative) == [(A, at(0), "x")]
    payments.add([(A, 0, "x")], watermark=9 * HOUR, at=4)
    assert pull(derivative) == [(R, at(0), "x")]
