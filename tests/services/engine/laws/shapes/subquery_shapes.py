"""Named shapes: subqueries, LATERAL, QUALIFY, lists over windows.

As in `general_shapes`.
"""

from __future__ import annotations

from tests.services.engine.laws.grammar.dialects import either, then
from tests.services.engine.laws.shapes.named_shape import LAST, Shape, groups

SUBQUERIES = {
    "in": Shape("ab", "SELECT event_time, k, v FROM a WHERE k IN (SELECT k FROM b WHERE w > 0)"),
    "not in": Shape(
        "ab", "SELECT event_time, k, v FROM a WHERE coalesce(k, 7) NOT IN (SELECT coalesce(k, 0) FROM b WHERE w > 0)"
    ),
    "not in, correlated": Shape(
        "ab",
        "SELECT event_time, k, v FROM a WHERE coalesce(v, 7) NOT IN (SELECT coalesce(w, 0) FROM b WHERE b.k = a.k)",
    ),
    "not in, nulls": Shape("ab", "SELECT event_time, k, v FROM a WHERE v NOT IN (SELECT w FROM b WHERE z <> 'x')"),
    "not in, nulls by key": Shape(
        "ab", "SELECT event_time, k, v FROM a WHERE v NOT IN (SELECT w FROM b WHERE b.k = a.k) AND z IS NOT NULL"
    ),
    "not in a tuple": Shape(
        "ab", "SELECT event_time, k, v FROM a WHERE (coalesce(k, 7), v) NOT IN (SELECT coalesce(k, 0), w FROM b)"
    ),
    "not in, or": Shape(
        "abc",
        "SELECT event_time, k, z, v FROM a WHERE NOT (v IN (SELECT w FROM b WHERE z = 'x') AND k = 1) "
        "OR z NOT IN (SELECT z FROM c WHERE x > 0)",
    ),
    "not in as a column": Shape(
        "ab",
        "SELECT event_time, k, v, CASE WHEN v NOT IN (SELECT w FROM b WHERE z = 'x') THEN 1 WHEN v IN (SELECT w FROM b) THEN 2 END AS f "
        "FROM a",
    ),
    "in as a column": Shape(
        "ab", either("SELECT event_time, k, v, v IN (SELECT w FROM b WHERE z = 'x') AS f FROM a", None)
    ),
    "not in, counted": groups(
        "abc",
        "SELECT max(event_time) AS event_time, k, count(DISTINCT v) AS n FROM a WHERE v NOT IN (SELECT w FROM b WHERE z = 'x') "
        "AND z NOT IN (SELECT z FROM c WHERE x = 1) AND v >= (SELECT min(x) FROM c) GROUP BY k",
        "k",
    ),
    "in and not in, counted": groups(
        "ab",
        either(
            "SELECT max(event_time) AS event_time, k, count_if(v IN (SELECT w FROM b WHERE z = 'x')) AS n, "
            "count_if(z = 'x' AND v NOT IN (SELECT w FROM b WHERE w > 0)) AS m FROM a GROUP BY k",
            "SELECT max(event_time) AS event_time, k, count(*) FILTER (WHERE v IN (SELECT w FROM b WHERE z = 'x')) AS n, "
            "count(*) FILTER (WHERE z = 'x' AND v NOT IN (SELECT w FROM b WHERE w > 0)) AS m FROM a GROUP BY k",
        ),
        "k",
    ),
    "exists": Shape(
        "ab", "SELECT event_time, k, v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.w > a.v)"
    ),
    "not exists": Shape(
        "ab", "SELECT event_time, k, z, v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.z = a.z)"
    ),
    "exists or": Shape("ab", "SELECT event_time, k, v FROM a WHERE v = 1 OR EXISTS (SELECT 1 FROM b WHERE b.k = a.k)"),
    "exists in exists": Shape(
        "abc",
        "SELECT event_time, k, v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k "
        "AND EXISTS (SELECT 1 FROM c WHERE c.z = b.z))",
    ),
    "scalar": Shape("ab", "SELECT event_time, k, v, (SELECT max(w) FROM b WHERE b.k = a.k) AS m FROM a"),
    "scalar count": Shape("ab", "SELECT event_time, k, v, (SELECT count(*) FROM b WHERE b.k = a.k) AS m FROM a"),
    "scalar of a range": Shape(
        "ab",
        "SELECT event_time, k, v, (SELECT count(*) FROM b WHERE b.k = a.k AND b.w < a.v) AS n, "
        "(SELECT sum(b.w) FROM b WHERE a.k = b.k AND b.event_time >= a.event_time AND b.z <> a.z) AS s FROM a",
    ),
    "scalar of earlier rows": Shape(
        "a",
        "SELECT event_time, k, v FROM a WHERE v > (SELECT avg(o.v) FROM a o WHERE o.k = a.k AND o.event_time < a.event_time)",
    ),
    "lateral of a range": Shape(
        "ab",
        "SELECT a.event_time, a.k, a.v, n.n, n.m FROM a, LATERAL "
        "(SELECT count(*) AS n, max(w) AS m FROM b WHERE b.k = a.k AND b.w < a.v) n",
    ),
    "scalar second of rows in a set or not": Shape(
        "abc",
        "SELECT event_time, k, v FROM a WHERE v <= (SELECT w FROM (SELECT * FROM b WHERE w > 2 "
        "OR w NOT IN (SELECT x FROM c WHERE c.z = b.z)) q WHERE q.k = a.k ORDER BY w DESC LIMIT 1 OFFSET 1)",
    ),
    "scalar, uncorrelated": Shape("ab", "SELECT event_time, k, v FROM a WHERE v > (SELECT avg(w) FROM b)"),
    "value and partner": Shape(
        "abc",
        "SELECT event_time, k, v FROM a WHERE v >= (SELECT avg(w) FROM b) AND NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k) "
        "AND v <= (SELECT max(x) FROM c WHERE c.z = a.z)",
    ),
    "value or partner": Shape(
        "ab",
        "SELECT event_time, k, v FROM a WHERE v > (SELECT avg(w) FROM b) OR k IN (SELECT k FROM b WHERE w > 0)",
    ),
    "semi, then grouped": groups(
        "ab", f"SELECT {LAST}, z, count(DISTINCT v) AS n FROM a WHERE k IN (SELECT k FROM b) GROUP BY z", "z"
    ),
    "partners of a group": groups(
        "ab", f"SELECT {LAST}, k, EXISTS (SELECT 1 FROM b WHERE b.k = a.k) AS e, count(*) AS n FROM a GROUP BY k", "k"
    ),
    "members of a group": groups(
        "ab",
        f"SELECT {LAST}, k, z, k IN (SELECT k FROM b WHERE b.z = a.z AND b.k IS NOT NULL) AS e, sum(v) AS n FROM a "
        "WHERE k IS NOT NULL GROUP BY k, z",
        "k",
        "z",
    ),
    "except, counted for a row": Shape(
        "abc",
        "SELECT event_time, k, z, (SELECT count(*) FROM (SELECT w FROM b WHERE b.k = a.k EXCEPT SELECT x FROM c WHERE c.z = a.z) q) "
        "AS n FROM a",
    ),
    "intersect in exists": Shape(
        "abc",
        "SELECT event_time, k, z, v FROM a WHERE EXISTS "
        "(SELECT w FROM b WHERE b.k = a.k INTERSECT SELECT x FROM c WHERE c.z = a.z)",
    ),
    "except beside a row": Shape(
        "abc",
        "SELECT a.event_time, a.k, a.z, q.w FROM a JOIN LATERAL "
        "(SELECT w FROM b WHERE b.k = a.k EXCEPT SELECT x FROM c WHERE c.z = a.z) q ON TRUE",
    ),
    "all beside a row": Shape(
        "ab",
        "SELECT a.event_time, a.k, a.v, q.w, q.n FROM a JOIN LATERAL (SELECT w, z AS n FROM b WHERE b.k = a.k AND b.w <> a.v) q ON TRUE",
    ),
    "first beside a row": Shape(
        "ab",
        "SELECT a.event_time, a.k, q.z, q.w FROM a LEFT JOIN LATERAL (SELECT z, w FROM b WHERE b.k = a.k "
        f"ORDER BY w DESC NULLS LAST{then('b.z')} LIMIT 2) q ON TRUE",
    ),
    "earlier beside a row": Shape(
        "ab",
        "SELECT a.event_time, a.k, q.w FROM a JOIN LATERAL (SELECT w FROM b WHERE b.k = a.k AND b.event_time <= a.event_time "
        f"ORDER BY b.event_time DESC{then('b.w')} LIMIT 1) q ON TRUE",
    ),
    "counted beside a row": Shape(
        "ab",
        "SELECT a.event_time, a.k, a.v, q.n, q.m FROM a JOIN LATERAL (SELECT count(*) AS n, max(w) AS m FROM b WHERE b.w < a.v) q ON TRUE",
    ),
    "latest value": Shape(
        "ab",
        "SELECT event_time, k, v, (SELECT w FROM b WHERE b.k = a.k AND b.w IS NOT NULL "
        f"ORDER BY b.event_time DESC{then('b.w')} LIMIT 1) AS m FROM a",
    ),
    "second value": Shape(
        "ab",
        "SELECT event_time, k, v, (SELECT w FROM b WHERE b.k = a.k "
        f"ORDER BY b.event_time DESC{then('b.w')} LIMIT 1 OFFSET 1) AS m FROM a",
    ),
    "value of a group": Shape(
        "ab", "SELECT event_time, k, v, (SELECT count(*) FROM b WHERE b.k = a.k AND w > 0 GROUP BY b.k) AS m FROM a"
    ),
    "value of a row that has no second": Shape(
        "ab",
        "SELECT event_time, k, z, v, (SELECT n FROM (SELECT k, z, count(*) AS n FROM b GROUP BY k, z) q "
        "WHERE q.k = a.k AND q.z = a.z) AS n FROM a WHERE coalesce((SELECT m FROM (SELECT z, max(w) AS m FROM b GROUP BY z) q "
        "WHERE q.z = a.z), 1) >= (SELECT DISTINCT min(w) FROM b)",
    ),
    "first of all, together": groups(
        "a",
        "SELECT max(q.event_time) AS event_time, avg(q.v) AS m, count(*) AS n FROM "
        f"(SELECT event_time, v FROM a ORDER BY v DESC NULLS LAST{then('event_time')} LIMIT 3) q",
    ),
    "largest groups": Shape(
        "ab",
        "WITH g AS (SELECT k, count(*) AS n FROM b GROUP BY k ORDER BY count(*) DESC, k LIMIT 2 OFFSET 1) "
        "SELECT a.event_time, a.k, a.v, g.n FROM a JOIN g ON a.k = g.k",
    ),
    "among the first": Shape(
        "ab",
        f"SELECT event_time, k, z, v FROM a WHERE k IN (SELECT k FROM b ORDER BY event_time DESC{then('k')} LIMIT 3)",
    ),
    "order that says nothing": Shape(
        "a", "SELECT event_time, k, v FROM (SELECT * FROM a ORDER BY v DESC, k) q WHERE v > 0", row_wise=True
    ),
    "qualify": Shape(
        "a",
        f"SELECT event_time, k, z, v FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST{then('event_time', 'z')}) <= 2",
    ),
    "lists of windows in rows": Shape(
        "a",
        "SELECT event_time, k, z, "
        f"{either('size(collect_set(v) OVER (PARTITION BY z))', 'count(DISTINCT v) OVER (PARTITION BY z)')} AS n, "
        f"{either('sort_array(collect_list(v) OVER (PARTITION BY k))', None)} AS l FROM a",
    ),
    "lists of windows in groups": Shape(
        "a",
        either(
            "SELECT max(event_time) AS event_time, size(s) AS n, arrays_overlap(s, array(1, 2)) AS o, count(*) AS c FROM "
            "(SELECT event_time, collect_set(v) OVER (PARTITION BY k) AS s FROM a) GROUP BY size(s), arrays_overlap(s, array(1, 2))",
            None,
        ),
    ),
}
