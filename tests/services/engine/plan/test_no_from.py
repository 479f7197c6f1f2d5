"""A query without FROM has one row, of which subqueries are asked as of any other."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric_engine_spark.spark.session import SparkProcess, request_session
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.plan.normalising import Queries, random_rows
from tests.services.engine.transforming import A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

SAME = [
    "SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM b WHERE w > 0)",
    "SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM b WHERE w > 100)",
    "SELECT 1 AS one WHERE NOT EXISTS (SELECT 1 FROM b WHERE w > 100)",
    "SELECT 1 AS one WHERE 1 IN (SELECT w FROM b) OR 1 NOT IN (SELECT n FROM b)",
    "SELECT (SELECT max(w) FROM b) AS m, EXISTS (SELECT 1 FROM a WHERE v > 0) AS e WHERE EXISTS (SELECT 1 FROM b)",
    "SELECT count(*) AS n WHERE EXISTS (SELECT 1 FROM b WHERE w > 100)",
    "SELECT k FROM a UNION ALL SELECT 9 WHERE EXISTS (SELECT 1 FROM b)",
    "SELECT a.k FROM a JOIN (SELECT 1 AS w WHERE EXISTS (SELECT 1 FROM b)) q ON q.w = a.k",
]


@pytest.fixture(scope="module")
def queries(spark: SparkProcess) -> Queries:
    return Queries(request_session(spark.session), spark.settings, random_rows(3))


@pytest.mark.parametrize("sql", SAME)
def test_the_one_row_asks_a_subquery(queries: Queries, sql: str) -> None:
    assert queries.rows_of(queries.normal(sql)) == queries.plain(sql)


def test_the_one_row_comes_and_goes_with_its_partners(lab: Lab) -> None:
    own = own_lab(lab)
    b = Input(own.folder, "b", input_schema(pa.field("w", pa.int32())))
    query = (
        "SELECT TIMESTAMP '2020-01-01 00:00:00' AS event_time, 7 AS n WHERE NOT EXISTS (SELECT 1 FROM b WHERE w > 0)"
    )
    derived = Derivative(query, [b], own.call)
    b.add([(A, 0, 0)])
    b.add([(A, 0, 1), (A, 0, 1)])
    b.add([(R, 0, 1)])
    b.add([(R, 0, 1)])
    told = [[op for op, *_ in derived.pull([block]).records] for block in range(1, 5)]
    assert told == [[A], [R], [], [A]]
