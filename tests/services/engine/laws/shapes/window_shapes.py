"""Named shapes of queries in which a window stands over another one.

As in `general_shapes`.

DuckDB sorts for each window by itself, so it cannot judge what equal rows are given by two of them.
"""

from __future__ import annotations

from tests.services.engine.laws.grammar.dialects import either
from tests.services.engine.laws.shapes.named_shape import Shape

_ALL = "PARTITION BY k ORDER BY event_time, z, v"

OVER_WINDOWS = {
    "sessions by two windows": Shape(
        "a",
        either(
            "WITH m AS (SELECT k AS g, event_time AS t, CASE WHEN event_time - lag(event_time) OVER (PARTITION BY k ORDER BY event_time) "
            "<= INTERVAL 1 HOUR THEN 0 ELSE 1 END AS new FROM a), s AS (SELECT g, t, sum(new) OVER (PARTITION BY g ORDER BY t "
            "ROWS UNBOUNDED PRECEDING) AS sid FROM m) SELECT min(t) AS event_time, g, sid, max(t) AS last, count(*) AS n "
            "FROM s GROUP BY g, sid",
            None,
        ),
        ("g", "sid"),
    ),
    "islands of equal values": Shape(
        "a",
        either(
            f"WITH m AS (SELECT event_time, k, z, v, CASE WHEN v <=> lag(v) OVER ({_ALL}) THEN 0 ELSE 1 END AS new FROM a), "
            f"s AS (SELECT event_time, k, v, sum(new) OVER ({_ALL} ROWS UNBOUNDED PRECEDING) AS island FROM m) "
            "SELECT max(event_time) AS event_time, k, island, min(v) AS v, count(*) AS n FROM s GROUP BY k, island",
            None,
        ),
        ("k", "island"),
    ),
    "a window that goes on with the order of another": Shape(
        "a",
        either(
            f"SELECT event_time, k, rn, nx, sum(nx - rn) OVER (PARTITION BY k ORDER BY event_time ROWS UNBOUNDED PRECEDING) AS s, "
            "rank() OVER (PARTITION BY k ORDER BY event_time) AS r FROM (SELECT event_time, k, rn, lead(rn) OVER (PARTITION BY k "
            f"ORDER BY event_time, z) AS nx FROM (SELECT *, row_number() OVER ({_ALL}) AS rn FROM a) b WHERE rn <> 2) c",
            None,
        ),
    ),
    "nothing beside nothing": Shape(
        "a",
        either(
            "SELECT event_time, k, v, c, m IS NULL AS n FROM (SELECT event_time, k, v, q, count(*) OVER (PARTITION BY k) AS c, "
            "max(NULL) OVER (PARTITION BY k) AS m FROM (SELECT event_time, k, v, NULL AS q FROM a) a) b WHERE q <=> NULL",
            None,
        ),
    ),
    "near rows and near values": Shape(
        "a",
        f"SELECT event_time, k, z, v, p, l, count(*) OVER (PARTITION BY k ORDER BY event_time RANGE BETWEEN INTERVAL 60 MINUTE PRECEDING"
        f" AND INTERVAL 30 MINUTE FOLLOWING) AS c FROM (SELECT event_time, k, z, v, lag(v) OVER ({_ALL}) AS p, max(z) OVER ({_ALL}"
        f" ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS l FROM a WHERE v IS NOT NULL OR z > '') q",
    ),
    "near values over near values": Shape(
        "a",
        "SELECT event_time, k, v, max(c) OVER (PARTITION BY k ORDER BY event_time RANGE BETWEEN CURRENT ROW AND INTERVAL 1 HOUR FOLLOWING)"
        " AS m FROM (SELECT event_time, k, v, count(v) OVER (PARTITION BY k ORDER BY event_time DESC RANGE BETWEEN INTERVAL 30 MINUTE"
        " PRECEDING AND CURRENT ROW) AS c FROM a) q",
    ),
}
