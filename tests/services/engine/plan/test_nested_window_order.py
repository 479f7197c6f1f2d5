"""Windows over windows: whose order an upper one goes on with."""

from __future__ import annotations

import pytest

from odfabric_engine_spark.spark.session import SparkProcess, interpret, request_session
from tests.services.engine.plan.normalising import Queries, random_rows

pytestmark = pytest.mark.spark

LOWER = "select event_time, k, z, v, row_number() over (partition by k order by event_time, v, z) as rn from a"


@pytest.fixture(scope="module")
def queries(spark: SparkProcess) -> Queries:
    session = request_session(spark.session)
    interpret(session)
    return Queries(session, spark.settings, random_rows(5))


@pytest.mark.parametrize(
    ("upper", "places"),
    [
        (f"select lead(rn) over (partition by k order by event_time) x from ({LOWER})", True),
        (
            f"select lead(rn) over (partition by g order by t) x from (select k as g, event_time as t, rn from ({LOWER}) where rn > 1)",
            True,
        ),
        (f"select lead(rn) over (partition by k order by event_time desc) x from ({LOWER})", False),
        (f"select lead(rn) over (partition by k order by v) x from ({LOWER})", False),
        (f"select lead(rn) over (partition by z order by event_time) x from ({LOWER})", False),
        (f"select max(rn) over (partition by k order by event_time) x from ({LOWER})", False),
        # The window between sorts again, after the lowest one.
        (
            "select lead(rn) over (partition by k order by event_time) x, c from (select *, "
            f"count(*) over (partition by k order by event_time, z desc) c from ({LOWER}))",
            False,
        ),
        (
            "select lead(rn) over (partition by k order by event_time) x, c from (select *, "
            f"count(*) over (partition by k order by event_time, v) c from ({LOWER}))",
            True,
        ),
    ],
)
def test_places_are_those_of_the_window_that_sorted_last(queries: Queries, upper: str, places: bool) -> None:
    plan = str(queries.normal(upper).plan.toString())
    assert ("AS place#" in plan) == places, plan
