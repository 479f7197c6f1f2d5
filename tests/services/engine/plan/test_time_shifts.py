"""How much later than a time an expression always is, read from its form."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from odfabric_engine_spark.plan.time.time_shifts import shift_us
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, analysed, expressions_of, items, without_alias
from odfabric_engine_spark.spark.session import SparkProcess
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, input_schema

pytestmark = pytest.mark.spark

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
SHIFTS = {
    "t": 0,
    "timestampadd(HOUR, -2, t)": -2 * HOUR_US,
    "dateadd(WEEK, 1, t)": 7 * DAY_US,
    "d": 0,
    "d + 3": 3 * DAY_US,
    "date_sub(d, 2)": -2 * DAY_US,
    "d - interval '1' day": -DAY_US,
    "cast(d as timestamp)": 0,
    "d + interval 2 hours": 2 * HOUR_US,
    "cast(t as timestamp_ntz)": 0,
}
NO_SHIFTS = [
    "from_utc_timestamp(t, 'Europe/Berlin')",
    "case when t < timestamp'2020-01-01' then t else t + interval 2 hours end",
    "least(t, timestamp'2024-06-01')",
    "t + interval '1' year",
    "d + interval '12' month",
    "timestampadd(YEAR, 1, t)",
    "t + make_interval(0, 12)",
    "date_trunc('hour', t)",
    "cast(t as date)",
    "d + cast(unix_date(d) / 20000 as int)",
    "t + (t - timestamp'2000-01-01')",
    "t + cast(null as interval day)",
    "t + make_dt_interval(1 / 0)",
]


def _shift(spark: SparkProcess, text: str) -> int | None:
    session = spark.session.newSession()
    session.sql("SELECT timestamp'2000-01-01' t, date'2000-01-01' d FROM range(1)").createOrReplaceTempView("a")
    (named,) = expressions_of(analysed(session.sql(f"SELECT {text} AS shifted FROM a")))
    expression = without_alias(named)
    time = items(expression.references().toSeq())[0]
    return shift_us(Catalyst(session), expression, time)


@pytest.mark.parametrize("text", SHIFTS)
def test_constants_are_added_to_a_time(spark: SparkProcess, text: str) -> None:
    assert _shift(spark, text) == SHIFTS[text]


@pytest.mark.parametrize("text", NO_SHIFTS)
def test_what_is_not_as_much_for_each_time_says_nothing(spark: SparkProcess, text: str) -> None:
    assert _shift(spark, text) is None


def test_a_partner_in_summer_is_not_missed(engine_call: EngineCall, tmp_path: Path) -> None:
    """A partner in summer time is not missed.

    In Berlin it is one hour later than in Greenwich on most days that one may look at, and two on others.
    """
    schema = input_schema(pa.field("k", pa.string()))
    orders, payments = (Input(tmp_path, alias, schema, number) for number, alias in enumerate(("o", "p"), 1))
    derivative = Derivative(
        "select o.event_time, o.k, p.k as paid from o left join p on o.k = p.k"
        " and p.event_time between o.event_time and from_utc_timestamp(o.event_time, 'Europe/Berlin')",
        [orders, payments],
        engine_call,
    )
    summer = 20_181 * 24 * HOUR
    orders.add([(A, summer, "x")], watermark=summer + 9 * HOUR, at=1)
    payments.add([], watermark=summer + HOUR // 2, at=2)
    assert [record[0] for record in derivative.pull().records] == [A], "nothing is known of when it ends"
    payments.add([(A, summer + HOUR + HOUR // 2, "x")], watermark=summer + 9 * HOUR, at=3)
    assert [(record[0], record[3]) for record in derivative.pull().records] == [(CF, None), (CT, "x")]
