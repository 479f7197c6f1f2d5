"""Branches of UNION that give no row are left out, and nothing else is."""

from __future__ import annotations

import pytest

from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.spark.catalyst.plan_nodes import walk_plan
from odfabric_engine_spark.spark.session import SparkProcess, request_session
from tests.services.engine.plan.normalising import Queries, random_rows

pytestmark = pytest.mark.spark

VIEW = """(SELECT event_time, k, v AS n, 'a' AS source FROM a UNION ALL SELECT event_time, k, w, 'b' FROM b
    UNION ALL SELECT event_time, x, 1, 'c' FROM c)"""
SUMS = """(SELECT max(event_time) AS event_time, k, sum(v) AS n, 1 AS source FROM a GROUP BY k
    UNION ALL SELECT max(event_time), k, sum(w), 2 FROM b GROUP BY k)"""
LEFT_OUT = {
    "all but one": (f"SELECT event_time, k, n FROM {VIEW} WHERE source = 'b'", "b"),
    "all but the first": (f"SELECT event_time, k, n, source FROM {VIEW} WHERE source = 'a'", "a"),
    "one of three": (f"SELECT event_time, k, n, source FROM {VIEW} WHERE source <> 'a'", "bc"),
    "by a list": (f"SELECT event_time, k, n FROM {VIEW} WHERE source IN ('a', 'c') AND n > 0", "ac"),
    "by a value that is null": (
        f"SELECT event_time, k, n FROM {VIEW} WHERE CASE WHEN source <> 'b' THEN source END = 'a'",
        "a",
    ),
    "below a group": (
        f"SELECT max(event_time) AS event_time, k, sum(n) AS n FROM {VIEW} WHERE source = 'a' GROUP BY k",
        "a",
    ),
    "above groups": (f"SELECT event_time, k, n FROM {SUMS} WHERE source = 2", "b"),
    "of groups that are joined": (
        f"WITH y AS {SUMS} SELECT y1.event_time, y1.k, y1.n, y2.n AS m FROM y y1 JOIN y y2 ON y1.k = y2.k"
        " WHERE y1.source = 1 AND y2.source = 2",
        "ab",
    ),
    "of a window": (
        f"SELECT event_time, k, n, count(*) OVER (PARTITION BY source, k ORDER BY n) AS c FROM {VIEW} WHERE source = 'c'",
        "c",
    ),
    "with a join in it": (
        "SELECT event_time, k FROM (SELECT a.event_time, a.k, 1 AS source FROM a JOIN c ON a.z = c.z"
        " UNION ALL SELECT event_time, k, 2 FROM b) WHERE source = 2",
        "b",
    ),
    "with a list in it": (
        "SELECT event_time, k FROM (SELECT event_time, each AS k, 1 AS source FROM a LATERAL VIEW explode(l) AS each"
        " UNION ALL SELECT event_time, k, 2 FROM b) WHERE source = 2",
        "b",
    ),
    "in a subquery": (
        f"SELECT event_time, v FROM a WHERE EXISTS (SELECT 1 FROM {VIEW} y WHERE y.k = a.k AND y.source = 'b')",
        "ab",
    ),
    "by a constant": ("SELECT event_time, k FROM a UNION ALL SELECT event_time, k FROM b WHERE 1 = 0", "a"),
    "of distinct rows": ("SELECT event_time, k FROM a WHERE false UNION SELECT event_time, k FROM b", "b"),
}
KEPT = {
    "a row over nothing": (
        "SELECT event_time, k FROM a UNION ALL SELECT max(event_time), CAST(count(*) AS INT) FROM b WHERE 1 = 0",
        "ab",
    ),
    "rows without a partner": (
        "SELECT a.event_time, y.k FROM a LEFT JOIN (SELECT k FROM b WHERE 1 = 0) y ON a.k = y.k"
        " UNION ALL SELECT event_time, x FROM c",
        "abc",
    ),
    "rows that must have none": (
        "SELECT a.event_time, a.k FROM a LEFT ANTI JOIN (SELECT k FROM b WHERE 1 = 0) y ON a.k = y.k"
        " UNION ALL SELECT event_time, x FROM c",
        "abc",
    ),
    "all, where all give nothing": (f"SELECT event_time, k FROM {VIEW} WHERE source = 'd'", "abc"),
    "what rows decide": (f"SELECT event_time, k FROM {VIEW} WHERE source = 'a' OR n > 0", "abc"),
    "what cannot be computed": (
        "SELECT event_time, k FROM a WHERE 0 > 1 UNION ALL SELECT event_time, k FROM b WHERE coalesce(k, 0) > 9 AND CAST(concat('x', 'y') AS INT) = 1",
        "b",
    ),
}


@pytest.fixture(scope="module")
def queries(spark: SparkProcess) -> Queries:
    return Queries(request_session(spark.session), spark.settings, random_rows(5))


@pytest.mark.parametrize("name", [*LEFT_OUT, *KEPT])
def test_only_living_branches_are_read(queries: Queries, name: str) -> None:
    sql, scans = {**LEFT_OUT, **KEPT}[name]
    normal = queries.normal(sql)
    read = {alias for node in walk_plan(normal.plan) if (alias := scan_alias(node))}
    assert read == set(scans)
    assert queries.rows_of(normal) == queries.plain(sql)
