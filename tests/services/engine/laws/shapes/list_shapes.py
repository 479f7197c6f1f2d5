"""Named shapes: lists of groups read elsewhere, lists of frames, filled gaps.

As in `general_shapes`.
"""

from __future__ import annotations

from tests.services.engine.laws.grammar.dialects import either
from tests.services.engine.laws.shapes.named_shape import LAST, Shape, groups

OF_LISTS = {
    "sets that HAVING looks at": groups(
        "a",
        f"SELECT {LAST}, k, z FROM a GROUP BY k, z HAVING {either('size(collect_set(v))', 'count(DISTINCT v)')} > 1",
        "k",
        "z",
    ),
    "sets of sets": groups(
        "a",
        either(
            f"SELECT {LAST}, k, max(size(s)) AS n, max(t) AS t FROM (SELECT {LAST}, k, z, collect_set(v) AS s, "
            f"sort_array(collect_list(v)) AS l, array_min(l) AS t FROM a GROUP BY k, z) a GROUP BY k",
            f"SELECT {LAST}, k, max(n) AS n, max(t) AS t FROM (SELECT {LAST}, k, z, count(DISTINCT v) AS n, "
            "min(v) AS t FROM a GROUP BY k, z) a GROUP BY k",
        ),
        "k",
    ),
    "sets of a relation that is read twice": Shape(
        "a",
        either(
            f"WITH q AS (SELECT {LAST}, k, z, collect_list(v) AS s FROM a GROUP BY k, z) "
            "SELECT x.event_time, x.k, x.z, size(x.s) AS n, sort_array(y.s) AS s FROM q x JOIN q y ON x.k = y.k AND x.z <> y.z",
            None,
        ),
        ("k",),
    ),
    "lists that are taken apart": Shape(
        "a",
        either(
            f"SELECT event_time, k, x FROM (SELECT {LAST}, k, collect_list(v) AS l FROM a GROUP BY k) q LATERAL VIEW explode(l) t AS x",
            "SELECT q.event_time, a.k, v AS x FROM a JOIN (SELECT max(event_time) AS event_time, k FROM a GROUP BY k) q "
            "ON q.k IS NOT DISTINCT FROM a.k WHERE v IS NOT NULL",
        ),
    ),
    "numbers that are missing": Shape(
        "a",
        either(
            "SELECT TIMESTAMP '2024-01-01 00:00:00' AS event_time, n FROM (SELECT explode(sequence(-1, (SELECT max(v) FROM a))) AS n) q "
            "WHERE NOT EXISTS (SELECT 1 FROM a b WHERE b.v = q.n)",
            None,
        ),
    ),
    "sets and moments of frames": Shape(
        "a",
        either(
            "SELECT event_time, k, z, v, size(collect_set(v) OVER w) AS n, sort_array(collect_list(z) OVER w) AS l, "
            "covar_pop(v, k) OVER w AS c, sort_array(collect_list(v) OVER (PARTITION BY z ORDER BY event_time)) AS r "
            "FROM a WINDOW w AS (PARTITION BY k ORDER BY event_time RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW)",
            None,
        ),
    ),
    "filled forward": Shape(
        "a",
        either(
            "SELECT event_time, k, z, v, last(v, true) OVER w AS l, nth_value(v, 2) OVER w AS s, collect_list(v) OVER w AS c, "
            "last_value(v) OVER w AS e FROM a WINDOW w AS (PARTITION BY k ORDER BY event_time, z, v)",
            "SELECT event_time, k, z, v, last_value(v IGNORE NULLS) OVER w AS l, nth_value(v, 2) OVER w AS s, "
            "coalesce(list(v) FILTER (WHERE v IS NOT NULL) OVER w, list_value()) AS c, last_value(v) OVER w AS e "
            "FROM a WINDOW w AS (PARTITION BY k ORDER BY event_time NULLS FIRST, z NULLS FIRST, v NULLS FIRST)",
        ),
    ),
}
