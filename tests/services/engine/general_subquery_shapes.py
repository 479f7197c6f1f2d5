"""Named shapes of queries with subqueries, LATERAL and QUALIFY. As in `general_shapes`."""

from __future__ import annotations

from tests.services.engine.general_dialects import then
from tests.services.engine.named_shape import LAST, Shape, groups

SUBQUERIES = {
    "in": Shape("ab", "SELECT event_time, k, v FROM a WHERE k IN (SELECT k FROM b WHERE w > 0)"),
    "not in": Shape(
        "ab", "SELECT event_time, k, v FROM a WHERE coalesce(k, 7) NOT IN (SELECT coalesce(k, 0) FROM b WHERE w > 0)"
    ),
    "not in, correlated": Shape(
        "ab",
        "SELECT event_time, k, v FROM a WHERE coalesce(v, 7) NOT IN (SELECT coalesce(w, 0) FROM b WHERE b.k = a.k)",
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
        f"ORDER BY b.event_time DESC{then('b.k', 'b.z', 'b.w')} LIMIT 1) q ON TRUE",
    ),
    "counted beside a row": Shape(
        "ab",
        "SELECT a.event_time, a.k, a.v, q.n, q.m FROM a JOIN LATERAL (SELECT count(*) AS n, max(w) AS m FROM b WHERE b.w < a.v) q ON TRUE",
    ),
    "latest value": Shape(
        "ab",
        "SELECT event_time, k, v, (SELECT w FROM b WHERE b.k = a.k AND b.w IS NOT NULL "
        f"ORDER BY b.event_time DESC{then('b.k', 'b.z', 'b.w')} LIMIT 1) AS m FROM a",
    ),
    "qualify": Shape(
        "a",
        f"SELECT event_time, k, z, v FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST{then('event_time', 'z')}) <= 2",
    ),
}
